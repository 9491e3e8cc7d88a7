"""The driver of a topology that is on Spark: `python -m bridge.engine.driver`, a companion of the run.

It is told what to do on stdin, in JSON, and speaks as `bridge.driver.main` does. It ends with status 1 where starting
it again may help; Spark's checkpoint and the files beside it say where to go on."""

import json
import os
import secrets
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.driver.main import DriverVoice, ended_by, own_stdout
from bridge.engine.handover import QUERY
from bridge.handover.results import query_folder
from bridge.spark.errors import DriverDeaths, of_the_query
from topology.errors import KedgeError

if TYPE_CHECKING:
    from bridge.engine.user_errors import RaisedNotes


def main() -> int:
    """Runs until it is killed, or can't go on: 1."""
    voice = DriverVoice(own_stdout())
    told: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    try:
        import pyspark  # noqa: F401  # an extra
    except ImportError as error:
        voice.failed(f"Spark can't be imported ({error}): {sys.executable} -m pip install 'kedge-streams[spark]'")
        return 1
    if told["master"].startswith("sc://"):
        voice.failed("a topology as a whole does not run over Spark Connect: name a master, --spark spark://HOST:PORT")
        return 1
    return drive(told, voice)


def drive(told: dict[str, Any], voice: DriverVoice) -> int:
    """Starts Spark and the query, and waits until it can't go on."""
    from bridge.engine.python_process import PythonProcess
    from bridge.engine.run import EngineRunning, Settings
    from bridge.errors import UserError
    from bridge.spark.session import parallelism, start
    from bridge.spark.shared_folder import check

    folder, begun = Path(told["folder"]), time.monotonic()
    spark = query_folder(folder, "")
    voice.status("Spark starts")
    python_process, query, called = (
        PythonProcess(told["again"], str(folder), secrets.token_hex(4), 2),
        "",
        "the topology on Spark",
    )
    try:
        session = start("kedge", told["master"], spark, {"spark.ui.showConsoleProgress": "false", **told["settings"]})
        session.sparkContext.setLogLevel("ERROR")  # it warns of each key that has no state yet
        if not told["master"].startswith("local"):
            check(session, spark, parallelism(session))
        partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 2)
        python_process = PythonProcess(python_process.again, python_process.folder, python_process.life, partitions)
        DriverDeaths(spark).forget()
        query = QUERY
        settings = Settings(told["trigger"], partitions, told["run"])
        running = EngineRunning(session, python_process, settings, voice.status)
        called = f"the topology {running.mapped.plan.topology!r} on Spark"
        running.begin()
        voice.say("ready")
        running.run()
    except UserError as error:
        voice.failed(str(error))
    except Exception as error:
        if not isinstance(error, KedgeError):
            traceback.print_exception(error, file=sys.stderr)
        said, lines = to_mend(error, python_process.raised)
        for line in lines:
            voice.status(f"| {line}")
        if said:
            voice.failed(said)
        else:
            ended_by(error, query, spark, time.monotonic() - begun, voice, called=called)
    return 1


def to_mend(error: BaseException, raised: "RaisedNotes") -> tuple[str, list[str]]:
    """What a person has to mend that is no mistake of Spark's, as a sentence, and a traceback; empty for all else. What
    was raised in Spark's processes counts where the query has failed: it may be of a task that Spark has tried again,
    and that went well, where it is the JVM that is gone."""
    from bridge.engine.offsets import unreadable
    from bridge.engine.user_errors import told_of

    said, lines = told_of(error)
    if not said and of_the_query(error):
        said, lines = raised.read()
    return said or unreadable(error), lines


if __name__ == "__main__":
    sys.stdout.flush()
    status = main()
    os._exit(status)  # threads of Spark's may wait for a JVM that is gone
