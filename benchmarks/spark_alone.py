"""The same queries by Spark alone, over the same records as Parquet files, read by its own streaming source.

Uses the bridge's settings, in a session that has run the query before. Nothing is synced, and results count as returned
once they are in the driver's Python: both are to Spark's advantage. Must not know a benchmark's bars.

    python -m benchmarks.spark_alone FOLDER RATE     writes stamped records into files, as they come due, until it ends
"""

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.alerts import percentile_ms
from benchmarks.handing_over import FIRST, KEYS, LOOK_S, Login
from benchmarks.rounds import ROOT
from benchmarks.through_spark import (
    MEASURED,
    RATE,
    RECORDS,
    UNTIL_S,
    WARM_UP,
    WARM_UP_BATCHES,
    Stamped,
    by_address,
    measured,
    passed,
    warming,
)
from bridge.arrow.schema import arrow_schema, to_table
from topology import Record

FILES: Final = 20  # number of files of a million records
FILES_EACH: Final = 3  # files per batch if Spark has to take them in several batches, as in a hand-over
EVERY_S: Final = 0.02  # seconds per file of stamped records: the hand-over gathers a segment as long
MASTER: Final = "local[2]"  # the default of runs


@contextlib.contextmanager
def session(folder: Path) -> Iterator[Any]:
    """Yield a session with a driver's settings."""
    from bridge.spark.session import start

    made = start("alone", MASTER, folder / "spark", {"spark.ui.showConsoleProgress": "false"})
    made.sparkContext.setLogLevel("ERROR")
    try:
        yield made
    finally:
        made.stop()


class Query:
    """A streaming query over the Parquet files of a folder.

    `takes` receives each batch of results, in the driver; with None the results are dropped.
    """

    def __init__(
        self,
        spark: Any,
        folder: Path,
        cls: type[Record],
        function: Callable[[Any], Any],
        takes: Callable[[pa.Table], None] | None,
        files_each: int = 0,
    ) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        self.folder = folder / "in"
        self.folder.mkdir(parents=True)
        self.beside = folder / "beside"
        self.beside.mkdir()
        reader = spark.readStream.schema(from_arrow_schema(arrow_schema(cls)))
        if files_each:
            reader = reader.option("maxFilesPerTrigger", files_each)
        given = reader.parquet(str(self.folder))
        writer = function(given).writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        if takes is None:
            writer = writer.format("noop")
        else:
            writer = writer.foreachBatch(lambda frame, batch: takes(frame.toArrow()))
        self.query = writer.start()

    def write(self, name: str, records: Sequence[Record], files: int = 1) -> list[Path]:
        """Make files beside the folder."""
        each = -(-len(records) // files)
        paths = []
        for number in range(files):
            table = pa.Table.from_batches([to_table(type(records[0]), records[number * each : (number + 1) * each])])
            paths.append(self.beside / f"{name}-{number:03d}.parquet")
            pq.write_table(table, paths[-1])
        return paths

    def give(self, paths: Sequence[Path]) -> None:
        """Move the files into the folder."""
        for path in paths:
            path.rename(self.folder / path.name)

    def until(self, condition: Callable[[], bool]) -> None:
        """Return once this holds. Raises RuntimeError if the query ends before, or after UNTIL_S."""
        ends = time.perf_counter() + UNTIL_S
        while not condition():
            if not self.query.isActive or time.perf_counter() > ends:
                raise RuntimeError(f"Spark alone has not come to its end: {self.query.exception()}")
            time.sleep(LOOK_S / 10)


def read_a_second(seconds: float, count: int = RECORDS, warm_up: int = WARM_UP) -> dict[str, float]:
    """Return `value`: records per second that it reads, without processing them."""
    with tempfile.TemporaryDirectory() as temporary, session(Path(temporary)) as spark:
        query = Query(spark, Path(temporary), Login, lambda given: given.where("number >= 0"), None)
        query.give(query.write("warm", warming(warm_up)))
        query.query.processAllAvailable()
        paths = query.write("measured", measured(count), FILES)
        started_at = time.perf_counter()
        query.give(paths)
        query.query.processAllAvailable()
        took = time.perf_counter() - started_at
        query.query.stop()
    return {"value": count / took, "took": took}


def windowed_a_second(
    seconds: float, count: int = RECORDS, warm_up: int = WARM_UP, files_each: int = 0
) -> dict[str, float]:
    """Return `value`: records per second from the arrival of the files to the last result of their window in Python.

    With `files_each`, Spark takes that many files per batch, and goes through its state once for each batch.
    """
    found: list[pa.Table] = []
    with tempfile.TemporaryDirectory() as temporary, session(Path(temporary)) as spark:
        query = Query(spark, Path(temporary), Login, by_address, found.append, files_each)
        query.give(query.write("warm", warming(warm_up)))
        query.until(lambda: _rows(found, FIRST)[0] == min(warm_up, KEYS))
        paths = query.write("measured", measured(count), FILES)
        started_at = time.perf_counter()
        query.give(paths)
        query.until(lambda: sum(row.num_rows for row in found) > min(warm_up, KEYS) + min(count, KEYS))
        took = time.perf_counter() - started_at
        query.query.stop()
    if (records := _rows(found, MEASURED)[1]) != count:
        raise RuntimeError(f"{records} records are in the results, and {count} were given")
    return {"value": count / took, "took": took}


def _rows(found: Sequence[pa.Table], start: Any) -> tuple[int, int]:
    """Return the results of one window, and the records in them."""
    rows = [row for batch_row in [*found] for row in batch_row.to_pylist() if row["start"] == start]
    return len(rows), sum(row["count"] for row in rows)


def round_trip(seconds: float, warm_up: int = WARM_UP_BATCHES) -> dict[str, float]:
    """Return milliseconds from when a record is due, at RATE, to when it is in the driver's Python: `value`, `p50`,
    `p99`.

    Another process writes the files.
    """
    batches: list[list[tuple[float, float]]] = []  # when each record was due, and its latency

    def takes(table: pa.Table) -> None:
        now = time.time()
        batches.append([(at, now - at) for at in table["at"].to_pylist()])

    with tempfile.TemporaryDirectory() as temporary, session(Path(temporary)) as spark:
        query = Query(spark, Path(temporary), Stamped, passed, takes)
        command = [sys.executable, "-m", "benchmarks.spark_alone", str(query.folder), str(RATE)]
        with subprocess.Popen(command, cwd=ROOT) as feeder:
            try:
                query.until(lambda: len(batches) >= warm_up)
                started_at = time.time()
                query.until(lambda: any(at > started_at + seconds for at, _ in batches[-1]))
            finally:
                feeder.kill()
        query.query.stop()
    took = [one for batch in batches for at, one in batch if started_at <= at < started_at + seconds]
    p50, p99 = (percentile_ms(took, percent) for percent in (50, 99))
    return {"value": p50, "p50": p50, "p99": p99}


def feed(folder: Path, rate: int) -> None:
    """Write each record when it is due, or up to EVERY_S later, into a file that gets its name once it is whole."""
    started_at, given, pause = time.time(), 0, threading.Event()
    while True:
        pause.wait(EVERY_S)
        due = int((time.time() - started_at) * rate)
        if due == given:
            continue
        records = [Stamped(number, started_at + number / rate) for number in range(given, due)]
        beside = folder / f".{given:09d}.parquet"  # Spark ignores this name
        pq.write_table(pa.Table.from_batches([to_table(Stamped, records)]), beside)
        beside.rename(folder / f"{given:09d}.parquet")
        given = due


if __name__ == "__main__":
    feed(Path(sys.argv[1]), int(sys.argv[2]))
