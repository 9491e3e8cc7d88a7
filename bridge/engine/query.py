"""A topology as one streaming DataFrame: stage after stage, over rows that are deliveries.

A stage without state is `mapInArrow`, behind a repartitioning where it has keys; one with state is
`transformWithState`, per key. Behind all of them come sinks whose store any process may write. Functions here run in
Spark's Python processes, and are pickled by their names.
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
from bridge.engine.python_process import Process, PythonProcess, process_of, told
from bridge.engine.rows import DDL, REJECTED, SCHEMA, EngineRow, batch_of, rows_of
from bridge.engine.sinks import OF
from bridge.engine.stage import LazyState, StageBolts
from topology.records import encode

STATE: Final = "content"
ROWS_AT_ONCE: Final = 10_000  # that a stage gives in one batch

Counts = dict[tuple[str, str], int]


class CountsParam(AccumulatorParam[Counts]):
    """Adds counts by what they are of."""

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
    """What comes out for the driver, of the rows of all inputs. `partitions`: of what is brought together by keys."""
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
    """The rows, with when their batch began before each position (`engine_clock.in_batch`): in a stream, that is what
    Spark takes for the current time, and it logs it before the batch, for all attempts at it."""
    digits = f.lpad(f.hex(f.unix_micros(f.current_timestamp())), 2 * TIME, "0")
    return frame.withColumn("position", f.concat(f.unhex(digits), f.col("position")))


Batches = Iterable[pa.RecordBatch]


def arriving(
    python_process: PythonProcess, counts: "Accumulator[Counts]"
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The first stage."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from in_stage(python_process, 0, counts, batches, StageBolts.arrive)

    return run


def passing(
    python_process: PythonProcess, stage: int, counts: "Accumulator[Counts]"
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """A further one, without state."""

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
    """Batches of rows through one stage's bolts in this process."""
    with told(python_process):
        part = process_of(python_process).part(stage, partition())
    for batch in batches:
        with told(python_process):
            given = [*work(part, rows_of(batch))]
        for begin in range(0, len(given), ROWS_AT_ONCE):
            yield batch_of(given[begin : begin + ROWS_AT_ONCE])
    tell(part, counts)


def storing(
    python_process: PythonProcess, counts: "Accumulator[Counts]"
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Behind all stages: what is for sinks that run in this process is stored there, durable before the next rows are
    asked for, and gives what they reject; all else passes."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with told(python_process):
                left = [*stored(process_of(python_process), batch, counts)]
            yield from left

    return run


def stored(process: Process, batch: pa.RecordBatch, counts: "Accumulator[Counts]") -> Iterator[pa.RecordBatch]:
    """Has this process' sinks store what is for them, all of it being their one task's here; what is left."""
    subscriptions, shared = process.routing.subscriptions, process.mapped.shared
    numbers = [number for number, one in enumerate(subscriptions) if one.subscriber in shared]
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
        yield batch_of(EngineRow(REJECTED, 0, b"", b"", 0, 0, rows[-1].position, encode(one)) for one in rejected)


def partition() -> int:
    """The number of the partition that is worked on."""
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def tell(part: StageBolts, counts: "Accumulator[Counts]") -> None:
    """What a part has counted goes to the driver."""
    if part.counts:
        counts.add(dict(part.counts))
        part.counts = Counter()


class KeyedBolts(StatefulProcessor):
    """A stage with state: the rows of one key at a time, in the order of their messages."""

    def __init__(self, python_process: PythonProcess, stage: int, counts: "Accumulator[Counts]") -> None:
        self._seat, self._stage, self._counts = python_process, stage, counts

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState(STATE, f"{STATE} binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        taken = sorted(map(_row, rows), key=_position)
        held = LazyState(self._read)
        with told(self._seat):
            part = process_of(self._seat).part(self._stage, partition())
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
        """Bolts stay open, as the process does."""

    def _read(self) -> bytes:
        found = self._state.get()
        return bytes(found[0]) if found else b""


_spark_row: Final = SparkRow(*SCHEMA.names)


def _row(given: Any) -> EngineRow:
    row: Mapping[str, Any] = given.asDict()
    return EngineRow._make(
        bytes(one) if isinstance(one, bytearray) else one for one in map(row.__getitem__, SCHEMA.names)
    )


def _position(row: EngineRow) -> bytes:
    return row.position
