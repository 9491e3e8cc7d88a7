"""The place where Spark runs, as given by `--spark`, a check that it answers, and the settings that hold everywhere.
Must not know a session."""

import socket
import time
from typing import Final
from urllib.parse import urlsplit

from bridge.errors import UserError

STREAMING: Final = "org.apache.spark.sql.execution.streaming."
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # the progress lines would fill the log
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",  # enough for one machine; a checkpoint keeps the number that it started with
    # Without native Hadoop, the default manager forks 20 processes per batch.
    "spark.sql.streaming.checkpointFileManagerClass": f"{STREAMING}checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.stateStore.providerClass": f"{STREAMING}state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "1",  # the format that the driver reads
    "spark.sql.streaming.pollingDelay": "20ms",  # between two checks for new segments
}
PORT: Final = 15002  # default port of a Spark Connect server
ANSWER_S: Final = 5.0  # seconds for one connection
ANSWERS_S: Final = 60.0  # seconds that the server may be away, for example during a restart
AGAIN_S: Final = 1.0  # seconds between two tries


def wait_for(master: str, within_s: float = ANSWERS_S) -> None:
    """Return once a server accepts connections at spark://HOST:PORT, at one of several such places, or at
    sc://HOST:PORT. Raises UserError if none does within `within_s` seconds; Spark itself would report that late and
    less clearly."""
    listed = master.partition("://")[2].partition("/")[0].partition(";")[0]
    places = [urlsplit(f"//{place}") for place in listed.split(",")]
    ends, why = time.monotonic() + within_s, ""
    while True:
        for place in places:
            try:
                socket.create_connection((place.hostname or "", place.port or PORT), timeout=ANSWER_S).close()
            except (OSError, ValueError) as error:  # ValueError: the port is invalid
                why = getattr(error, "strerror", None) or str(error)
            else:
                return
        if time.monotonic() > ends:
            what = "Spark Connect server" if master.startswith("sc://") else "Spark master"
            text = f"no {what} has answered at {listed} for {within_s:.0f} s ({why})"
            raise UserError(f"{text}: start one there, or name another with --spark")
        time.sleep(AGAIN_S)


def on_loopback(master: str) -> bool:
    """Return True if all of Spark runs on this machine, so that it needs only the loopback address."""
    if master.startswith("local"):
        return True
    hosts = [urlsplit(f"//{place}").hostname for place in master.partition("://")[2].split(",")]
    return master.startswith("spark://") and {*hosts} <= {"127.0.0.1", "localhost", "::1"}
