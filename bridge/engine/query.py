"""A topology as one streaming DataFrame: stage after stage, over rows that are deliveries.

A stage without state is `mapInArrow`, behind a repartitioning if it has keys. A stage with state is
`transformWithState`, per key. Sinks whose store any process may write come behind all stages. The functions here run in
Spark's Python processes, and are pickled by name.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyarrow.compute import invert, is_in  # pyright: ignore[reportAttributeAccessIssue]  # made at run time
from pyspark import AccumulatorParam, TaskContext
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bridge.engine.batch_clock import TIME
from bridge.engine.mapping import Mapped
from bridge.engine.python_process import Process, PythonProcess, process_of, reported_errors
from bridge.engine.rows import DDL, REJECTED, SCHEMA, EngineRow, batch_of, rows_of
from bridge.engine.sinks import OF
from bridge.engine.stage import LazyState, StageBolts
from topology.records import encode

STATE: Final = "content"
ROWS_AT_ONCE: Final = 10_000  # maximum number of rows that a stage yields at once

Counts = dict[tuple[str, str], int]


class CountsParam(AccumulatorParam[Counts]):
    """Adds counts per key."""

    def zero(self, value: Counts) -> Counts:
        return {}

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:
        for what, count in value2.items():
            value1[what] = value1.get(what, 0) + count
        return value1


def chained(
    frames: Sequence[DataFrame],
    mapped: Mapped,
    python_process: PythonProcess,
    partitions: int,
    counts: "Accumulator[Counts]",
) -> DataFrame:
    """Return the rows for the driver, made from the rows of all inputs. `partitions`: the number of partitions of rows
    that are grouped by keys."""
    frame = timed(reduce(DataFrame.unionAll, frames))
    frame = frame.mapInArrow(arriving(python_process, counts), DDL)
    for stage in mapped.stages[1:]:
        if stage.stateful:
            bolts = KeyedBolts(python_process, stage.number, counts)
            frame = frame.groupBy("group").transformWithState(bolts, DDL, "Append", "None")
        else:
            together = frame.repartition(partitions, "group").sortWithinPartitions("group", "position")
            frame = together.mapInArrow(passing(python_process, stage.number, counts), DDL)
    return frame


def timed(frame: DataFrame) -> DataFrame:
    """Return the rows with the start of their batch before each position (as `batch_clock.in_batch`). In a stream that
    is Spark's current time, which Spark logs before the batch, for all attempts at it."""
    digits = f.lpad(f.hex(f.unix_micros(f.current_timestamp())), 2 * TIME, "0")
    return frame.withColumn("position", f.concat(f.unhex(digits), f.col("position")))


Batches = Iterable[pa.RecordBatch]


def arriving(
    python_process: PythonProcess, counts: "Accumulator[Counts]"
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return the function of the first stage."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from in_stage(python_process, 0, counts, batches, StageBolts.arrive)

    return run


def passing(
    python_process: PythonProcess, stage: int, counts: "Accumulator[Counts]"
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return the function of a later stage without state."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from in_stage(python_process, stage, counts, batches, StageBolts.take)

    return run


def in_stage(
    python_process: PythonProcess,
    stage: int,
    counts: "Accumulator[Counts]",
    batches: Batches,
    work: Callable[..., Iterator[EngineRow]],
) -> Iterator[pa.RecordBatch]:
    """Pass batches of rows through the bolts of one stage in this process."""
    with reported_errors(python_process):
        part = process_of(python_process).part(stage, partition())
    for batch in batches:
        with reported_errors(python_process):
            given = [*work(part, rows_of(batch))]
        for begin in range(0, len(given), ROWS_AT_ONCE):
            yield batch_of(given[begin : begin + ROWS_AT_ONCE])
    tell(part, counts)


def storing(
    python_process: PythonProcess, counts: "Accumulator[Counts]"
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return the function behind all stages: it stores the rows for sinks that run in this process, durably before it
    asks for the next rows. It yields what the sinks reject, and all other rows."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with reported_errors(python_process):
                left = [*stored(process_of(python_process), batch, counts)]
            yield from left

    return run


def stored(process: Process, batch: pa.RecordBatch, counts: "Accumulator[Counts]") -> Iterator[pa.RecordBatch]:
    """Store the rows of this process's sinks, each as one task, and yield the rest."""
    subscriptions, shared = process.routing.subscriptions, process.mapped.shared
    numbers = [number for number, item in enumerate(subscriptions) if item.subscriber in shared]
    theirs = is_in(batch.column("to"), value_set=pa.array(numbers, pa.int32()))
    yield batch.filter(invert(theirs))
    rows = rows_of(batch.filter(theirs))
    if rows:
        sinks = process.sinks(partition())
        before = sinks.tally()
        executed, rejected = sinks.take(row._replace(task=0) for row in rows)
        classes = Counter(
            (subscriptions[row.to].subscriber, f"{OF}{subscriptions[row.to].cls.__name__}") for row in rows
        )
        counts.add({**executed, **classes, **(sinks.tally() - before)})
        yield batch_of(EngineRow(REJECTED, 0, b"", b"", 0, 0, rows[-1].position, encode(item)) for item in rejected)


def partition() -> int:
    """Return the number of the partition that is being computed."""
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def tell(part: StageBolts, counts: "Accumulator[Counts]") -> None:
    """Send a part's counts to the driver."""
    if part.counts:
        counts.add(dict(part.counts))
        part.counts = Counter()


class KeyedBolts(StatefulProcessor):
    """A stage with state: it gets the rows of one key at a time, in the order of their messages."""

    def __init__(self, python_process: PythonProcess, stage: int, counts: "Accumulator[Counts]") -> None:
        self._python_process, self._stage, self._counts = python_process, stage, counts

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState(STATE, f"{STATE} binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        taken = sorted(map(_row, rows), key=_position)
        held = LazyState(self._read)
        with reported_errors(self._python_process):
            part = process_of(self._python_process).part(self._stage, partition())
            given = [*part.take(taken, held)]
        for row in given:
            yield _spark_row(*row)
        if held.changed:
            if held.content:
                self._state.update((held.content,))
            else:
                self._state.clear()
        tell(part, self._counts)

    def close(self) -> None:
        """Do nothing: bolts stay open for as long as the process lives."""

    def _read(self) -> bytes:
        found = self._state.get()
        return bytes(found[0]) if found else b""


_spark_row: Final = SparkRow(*SCHEMA.names)


def _row(given: Any) -> EngineRow:
    row: Mapping[str, Any] = given.asDict()
    return EngineRow._make(
        bytes(value) if isinstance(value, bytearray) else value for value in map(row.__getitem__, SCHEMA.names)
    )


def _position(row: EngineRow) -> bytes:
    return row.position
