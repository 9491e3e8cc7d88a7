"""Where Spark runs, as `--spark` says it: who listens there; and settings that hold everywhere. Knows no session."""

import socket
import time
from typing import Final
from urllib.parse import urlsplit

from bridge.errors import UserError

STREAMING: Final = "org.apache.spark.sql.execution.streaming."
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # its lines would be all that is in the log
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",  # on one machine; a checkpoint keeps the number that it began with
    # Without native Hadoop the default one forks 20 processes a batch.
    "spark.sql.streaming.checkpointFileManagerClass": f"{STREAMING}checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.stateStore.providerClass": f"{STREAMING}state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "1",  # which the driver reads
    "spark.sql.streaming.pollingDelay": "20ms",  # between two looks for new segments
}
PORT: Final = 15002  # of a Spark Connect server, unless the master names one
ANSWER_S: Final = 5.0  # for one connection
ANSWERS_S: Final = 60.0  # how long who is to answer may be away: it is started again, say
AGAIN_S: Final = 1.0


def wait_for(master: str, within_s: float = ANSWERS_S) -> None:
    """Returns once somebody listens at spark://HOST:PORT, or at one of several, or at sc://HOST:PORT. Raises
    NeedsMending where nobody does within this time: Spark itself would say so late, and in other words."""
    listed = master.partition("://")[2].partition("/")[0].partition(";")[0]
    places = [urlsplit(f"//{one}") for one in listed.split(",")]
    ends, why = time.monotonic() + within_s, ""
    while True:
        for one in places:
            try:
                socket.create_connection((one.hostname or "", one.port or PORT), timeout=ANSWER_S).close()
            except (OSError, ValueError) as error:  # a port may be none at all
                why = getattr(error, "strerror", None) or str(error)
            else:
                return
        if time.monotonic() > ends:
            what = "Spark Connect server" if master.startswith("sc://") else "Master of Spark's"
            text = f"no {what} answers at {listed}, for {within_s:.0f} s now ({why})"
            raise UserError(f"{text}: start one there, or name another by --spark")
        time.sleep(AGAIN_S)


def on_loopback(master: str) -> bool:
    """Whether all of Spark is on this machine, and needs no other address."""
    if master.startswith("local"):
        return True
    hosts = [urlsplit(f"//{one}").hostname for one in master.partition("://")[2].split(",")]
    return master.startswith("spark://") and {*hosts} <= {"127.0.0.1", "localhost", "::1"}
