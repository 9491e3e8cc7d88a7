"""The driver of a JVM-only mode: `python -m bridge.compare.jvm.driver`. A log, a filter, a count by a key maybe, and
a sink that tells the time.

It is told what to run on stdin, a line of JSON, and ends with stdin. It says on stdout, as a companion does, `ready`
once the query has started, and `failed …` where it can't go on; then it ends with status 1. Must not know what is
measured.
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
CLOCK_NS: Final = 50_000_000  # that the JVM's clock may seem to be off ours: it is asked through a socket


class ClockError(Exception):
    """The JVM's clock is not ours, so latencies would be nonsense."""


def main() -> int:
    """Runs until it is killed, or its stdin ends, or the query: 1."""
    voice = DriverVoice(own_stdout())
    told: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_until_alone, daemon=True, name="alone").start()
    try:
        run(told, voice)
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        voice.failed(first_line(str(error)) or type(error).__name__)
    return 1


def run(told: dict[str, Any], voice: DriverVoice) -> None:
    """Starts Spark and the query, and waits for its end. Raises what Spark does, and ClockError."""
    from bridge.spark.session import start

    folder = Path(told["folder"])
    session = start("compare", told["master"], folder / "spark", {"spark.jars": told["jar"], **told["settings"]})
    session.sparkContext.setLogLevel("ERROR")
    jvm: Any = session.sparkContext._jvm
    same_clock(lambda: int(jvm.java.lang.System.nanoTime()))
    reader = session.readStream.format(SOURCE).options(**told["source"])
    passing = passed(reader.load(), told["pattern"], told["python"])
    if told["key"]:
        passing = counted(passing, told["pattern"], told["key"])
    writer = passing.writeStream.outputMode(told["output"]).option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(**told["trigger"])
    arrivals = jvm.kedge.compare.Arrivals(told["arrivals"])
    writer._jwrite.foreach(arrivals)  # a sink in Java, which DataStreamWriter.foreach of Python does not take
    query = writer.start()
    voice.say("ready")
    query.awaitTermination()
    raise RuntimeError("the query has ended by itself")


def passed(frame: Any, pattern: str, in_python: bool) -> Any:
    """Rows whose text begins with what a pattern says, or all where it says nothing; by an expression of Spark's own,
    or by a function in Python. The first row passes always: it tells that all is up."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType

    first, text = F.col("number") == 0, F.col("text")
    if in_python:
        begins = re.compile(pattern)
        return frame.where(first | F.udf(lambda said: begins.match(said) is not None, BooleanType())(text))
    return frame.where(first | text.rlike(javas(pattern))) if pattern else frame.where(first | text.isNotNull())


def counted(frame: Any, pattern: str, key: str) -> Any:
    """Of each row its number, and how many of its key there were by then: `key` is a group of the pattern."""
    from pyspark.sql import functions as F

    found = F.regexp_extract("text", javas(pattern), re.compile(pattern).groupindex[key])
    counts = frame.groupBy(found.alias("key")).agg(F.last("number").alias("number"), F.count("*").alias("count"))
    return counts.select("number", "key", "count")


def javas(pattern: str) -> str:
    """A pattern of Python's, as `match` takes it, in Java's words: named groups, and where lines end."""
    return "(?d)^(?:" + pattern.replace("(?P<", "(?<") + ")"


def same_clock(theirs: Any) -> None:
    """Raises ClockError unless the JVM's clock is the monotonic clock of Python."""
    theirs()  # the first answer takes long
    before, there, after = time.monotonic_ns(), theirs(), time.monotonic_ns()
    if not before - CLOCK_NS <= there <= after + CLOCK_NS:
        raise ClockError("the JVM's nanoTime is not the monotonic clock of Python on this system")


def _until_alone() -> None:
    """Ends this process, and by that its JVM, with who has started it."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    sys.stdout.flush()
    status = main()
    os._exit(status)  # threads of Spark's may wait for a JVM that is gone
