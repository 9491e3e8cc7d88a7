"""The driver of a topology on Spark: `python -m bridge.engine.driver`, a companion of the run.

It reads its task as JSON from stdin, and writes messages as `bridge.driver.main` does. It exits with status 1 if
starting it again may help. Spark's checkpoint and the files beside it say where to resume.
"""

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
    """Run until the process is killed. Return 1 if the driver cannot continue."""
    voice = DriverVoice(own_stdout())
    request: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    try:
        import pyspark  # noqa: F401  # an extra
    except ImportError as error:
        voice.failed(f"Spark cannot be imported ({error}): {sys.executable} -m pip install 'kedge-streams[spark]'")
        return 1
    if request["master"].startswith("sc://"):
        voice.failed("a whole topology cannot run over Spark Connect: pass a master with --spark spark://HOST:PORT")
        return 1
    return drive(request, voice)


def drive(request: dict[str, Any], voice: DriverVoice) -> int:
    """Start Spark and the query, and wait until the query cannot continue."""
    from bridge.engine.python_process import PythonProcess
    from bridge.engine.run import EngineRunning, Settings
    from bridge.errors import UserError
    from bridge.spark.session import parallelism, start
    from bridge.spark.shared_folder import check

    folder, started_at = Path(request["folder"]), time.monotonic()
    spark = query_folder(folder, "")
    voice.status("Spark starts")
    python_process, query, called = (
        PythonProcess(request["again"], str(folder), secrets.token_hex(4), 2),
        "",
        "the topology on Spark",
    )
    try:
        session = start(
            "kedge", request["master"], spark, {"spark.ui.showConsoleProgress": "false", **request["settings"]}
        )
        session.sparkContext.setLogLevel("ERROR")  # otherwise Spark warns about each key that has no state yet
        if not request["master"].startswith("local"):
            check(session, spark, parallelism(session))
        partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 2)
        python_process = PythonProcess(python_process.again, python_process.folder, python_process.life, partitions)
        DriverDeaths(spark).forget()
        query = QUERY
        settings = Settings(request["trigger"], partitions, request["run"])
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
        said, lines = error_to_fix(error, python_process.raised)
        for line in lines:
            voice.status(f"| {line}")
        if said:
            voice.failed(said)
        else:
            ended_by(error, query, spark, time.monotonic() - started_at, voice, called=called)
    return 1


def error_to_fix(error: BaseException, raised: "RaisedNotes") -> tuple[str, list[str]]:
    """Return a sentence about an error that a user has to fix and that is not an error of Spark, and its traceback.
    Both are empty for any other error. Notes of errors in Spark's processes count only if the query failed: if the JVM
    is gone, the note may be of a task that Spark tried again with success."""
    from bridge.engine.offsets import unreadable
    from bridge.engine.user_errors import error_lines

    said, lines = error_lines(error)
    if not said and of_the_query(error):
        said, lines = raised.read()
    return said or unreadable(error), lines


if __name__ == "__main__":
    sys.stdout.flush()
    status = main()
    os._exit(status)  # Spark's threads may wait for a JVM that is gone
