"""The driver of a JVM-only mode: `python -m bridge.compare.jvm.driver`. A log, a filter, an optional count by a key,
and a sink that records the time.

It reads its task on stdin, a line of JSON, and ends with stdin. On stdout it prints, as a companion does, `ready` once
the query has started, and `failed …` if it cannot continue; then it ends with status 1. Must not know what is measured.
"""

import json
import os
import re
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Final

from bridge.driver.main import DriverVoice, own_stdout
from bridge.spark.errors import first_line

SOURCE: Final = "kedge.compare.LogSource"
CLOCK_NS: Final = 50_000_000  # ns that the JVM's clock may seem to be off ours: it is read through a socket


class ClockError(Exception):
    """The JVM's clock is not ours, so latencies would be nonsense."""


def main() -> int:
    """Run until it is killed, its stdin ends, or the query ends; return 1."""
    voice = DriverVoice(own_stdout())
    request: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_until_alone, daemon=True, name="alone").start()
    try:
        run(request, voice)
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        voice.failed(first_line(str(error)) or type(error).__name__)
    return 1


def run(request: dict[str, Any], voice: DriverVoice) -> None:
    """Start Spark and the query, and wait for its end. Raises Spark's exceptions, and ClockError."""
    from bridge.spark.session import start

    folder = Path(request["folder"])
    session = start(
        "compare", request["master"], folder / "spark", {"spark.jars": request["jar"], **request["settings"]}
    )
    session.sparkContext.setLogLevel("ERROR")
    jvm: Any = session.sparkContext._jvm
    same_clock(lambda: int(jvm.java.lang.System.nanoTime()))
    reader = session.readStream.format(SOURCE).options(**request["source"])
    passing = passed(reader.load(), request["pattern"], request["python"])
    if request["key"]:
        passing = counted(passing, request["pattern"], request["key"])
    writer = passing.writeStream.outputMode(request["output"]).option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(**request["trigger"])
    arrivals = jvm.kedge.compare.Arrivals(request["arrivals"])
    writer._jwrite.foreach(arrivals)  # a sink in Java, which Python's DataStreamWriter.foreach does not take
    query = writer.start()
    voice.say("ready")
    query.awaitTermination()
    raise RuntimeError("the query has ended by itself")


def passed(frame: Any, pattern: str, in_python: bool) -> Any:
    """Return the rows whose text begins with a match of the pattern, or all if there is no pattern.

    Uses an expression of Spark's own, or a function in Python. The first row always passes: it shows that all is up.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType

    first, text = F.col("number") == 0, F.col("text")
    if in_python:
        begins = re.compile(pattern)
        return frame.where(first | F.udf(lambda said: begins.match(said) is not None, BooleanType())(text))
    return frame.where(first | text.rlike(javas(pattern))) if pattern else frame.where(first | text.isNotNull())


def counted(frame: Any, pattern: str, key: str) -> Any:
    """Return each row's number, and the count of its key so far; `key` is a group of the pattern."""
    from pyspark.sql import functions as F

    found = F.regexp_extract("text", javas(pattern), re.compile(pattern).groupindex[key])
    counts = frame.groupBy(found.alias("key")).agg(F.last("number").alias("number"), F.count("*").alias("count"))
    return counts.select("number", "key", "count")


def javas(pattern: str) -> str:
    """Return a Python pattern for `match` in Java's syntax: named groups and line ends differ."""
    return "(?d)^(?:" + pattern.replace("(?P<", "(?<") + ")"


def same_clock(theirs: Any) -> None:
    """Raises ClockError unless the JVM's clock is the monotonic clock of Python."""
    theirs()  # the first call takes long
    before, there, after = time.monotonic_ns(), theirs(), time.monotonic_ns()
    if not before - CLOCK_NS <= there <= after + CLOCK_NS:
        raise ClockError("the JVM's nanoTime is not the monotonic clock of Python on this system")


def _until_alone() -> None:
    """End this process, and so its JVM, once the parent process has ended."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    sys.stdout.flush()
    status = main()
    os._exit(status)  # threads of Spark's may wait for a JVM that is gone
