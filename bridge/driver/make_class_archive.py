"""Make an archive of the classes that Spark loads, by starting a Spark and letting it work.

    python -m bridge.driver.make_class_archive

makes the archive now, in about a minute, if there is none. Otherwise a run that lasts long enough makes it in the
background. Must not know what a query is for, except for the sample queries here, which show what Spark loads.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from bridge.spark.class_archive import MAKING_S, NEW, OPTIONS, archives


def make(say: Callable[[str], None]) -> Path | None:
    """Start Spark, run two small queries, and let Java write an archive of the loaded classes, which takes about a
    minute. Return None if that is impossible; `say` then gets the reason. Raises what Spark raises."""
    its = archives()
    made = its.begin() if its is not None else None
    if its is None or made is None:
        say("Java, PySpark or a writable cache is missing")
        return None
    folder = Path(tempfile.mkdtemp(prefix=NEW, dir=its.folder))  # if this process is killed, the next one removes it
    try:
        command = loaded(folder)
        made.unlink()
        written = subprocess.run(
            [*command, f"-XX:SharedArchiveFile={made}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=MAKING_S, check=False,
        )  # fmt: skip
        if written.returncode or not made.exists():
            last = written.stdout.decode(errors="replace").strip().splitlines()[-1:]
            say(f"Java wrote no archive: {last[0] if last else f'exit status {written.returncode}'}")
            return None
        return its.keep(made)
    finally:
        made.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def loaded(folder: Path) -> list[str]:
    """Start Spark, let it work, and end it. Return the command that writes an archive of the classes that it loaded."""
    from bridge.spark.session import start

    classes = folder / "classes"
    session = start("startup", "local[2]", folder, {OPTIONS: shlex.quote(f"-XX:DumpLoadedClassList={classes}")})
    try:
        work(session, folder)
        jvm: Any = session.sparkContext._jvm
        its = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
        arguments = [str(option) for option in its.getInputArguments() if "DumpLoadedClassList" not in option]
        java = str(jvm.java.lang.System.getProperty("java.home")) + "/bin/java"
        path = str(its.getClassPath())
    except Exception as error:  # get the error's text while Spark still runs
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    finally:
        end(session)
    whole, _, _ = classes.read_bytes().rpartition(b"\n")  # the last line may be cut off, as the process was killed
    classes.write_bytes(whole + b"\n")
    return [java, *arguments, "-cp", path, "-Xshare:dump", f"-XX:SharedClassListFile={classes}"]


def work(session: Any, folder: Path) -> None:
    """Run a window and a join with a table, from the first segment to the end of the stream."""
    from bridge.driver.source import SegmentSource
    from bridge.driver.stream_query import Running
    from bridge.queries.driver_spec import function_of

    session.dataSource.register(SegmentSource)
    running = []
    for query in sample(folder):
        spec = query.spec()
        _hand_over(folder / spec.name)
        query_run = Running(session, spec, function_of(spec.function), folder / spec.name, "life", lambda _: None)
        query_run.begin()
        running.append(query_run)
    until = time.monotonic() + MAKING_S
    while any(query_run.folder.ended() is None for query_run in running) and time.monotonic() < until:
        for query_run in running:
            query_run.look()
        time.sleep(0.05)


def sample(folder: Path) -> Sequence[Any]:
    """Return two queries as users declare them."""
    from bridge.queries.joins import joined
    from bridge.queries.query import Spark
    from bridge.queries.tables import Table
    from bridge.queries.windows import count, windowed
    from spouts import Items
    from topology.records import Record
    from topology.topology import Topology

    class Event(Record):
        at: datetime
        key: str

    class EventCount(Record):
        start: datetime
        key: str
        events: int

    class NamedKey(Record):
        key: str
        name: str | None

    topology = Topology("startup")
    events = topology.spout("events", Items([Event(_AT, "a")]))
    table = folder / "table.csv"
    table.write_text("key,name\na,b\n")
    counts = {"events": count()}
    windowed(topology, "window", events, at="at", by="key", every="1 hour", aggregates=counts, output=EventCount)
    joined(topology, "join", events, table=Table(table), on="key", output=NamedKey)
    (spark,) = topology.companions
    assert isinstance(spark, Spark)
    return spark.queries


_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)


def _hand_over(folder: Path) -> None:
    """Write what a task would hand over, and the end of its stream."""
    import pyarrow as pa

    from bridge.files.segments import Segments

    times = [_AT + timedelta(minutes=item) for item in range(100)]
    columns = [
        pa.array(times, pa.timestamp("us", "UTC")),
        pa.array([f"{item % 3}" for item in range(100)], pa.string()),
        pa.array([bytes(16)] * 100, pa.binary(16)),
    ]
    fields = [pa.field(name, item.type, False) for name, item in zip(("at", "key", "_id"), columns, strict=True)]
    task = folder / "stream" / "records" / "0"
    task.mkdir(parents=True)
    (task.parent / "tasks").write_text("1")
    Segments(task).write(0, pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
    Segments(task).end(1)


def end(session: Any) -> None:
    """End a session and its JVM."""
    from pyspark import SparkContext

    session.stop()
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()  # this ends the JVM in an orderly way, so that its files are whole
    try:
        gateway.proc.wait(10.0)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


def main() -> int:
    """Make an archive if there is none. Return 0 if there is one now, or 1 if none can be made; Spark then starts more
    slowly."""
    its = archives()
    if its is not None and its.found() is not None:
        print(f"the archive exists already: {its.found()}")
        return 0
    print("archiving Spark's classes so that it starts faster (once, about a minute) ...", file=sys.stderr, flush=True)
    try:
        made = make(lambda why: print(f"no archive was made: {why}", file=sys.stderr))
    except Exception as error:
        print(f"no archive was made: {type(error).__name__}: {error!s:.500}", file=sys.stderr)
        return 1
    if made is not None:
        print(f"made: {made}, {made.stat().st_size / 1e6:.0f} MB")
    return 0 if made is not None else 1


if __name__ == "__main__":
    sys.exit(main())
