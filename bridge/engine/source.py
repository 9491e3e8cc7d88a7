"""Spark's side of the spouts of a topology on Spark: segments of records as bytes become rows that have arrived.

A variant of `bridge.driver.source`, in the same Python processes of Spark. Must not know a topology.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from struct import iter_unpack
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bridge.driver.source import SegmentPartition, SegmentReader
from bridge.engine.handover import RECORD
from bridge.engine.rows import SCHEMA, position_of
from bridge.files.segments import damaged, read_segment

FORMAT: Final = "kedge-messages"
TASK: Final = "0"  # the only task that hands over
BATCH_BYTES: Final = 16 * 2**20  # approximate size of the segments in one batch


class EngineSource(DataSource):
    """The data source. Options as for `SegmentSource`, and `number`, the input's number, and `among`, whether its rows
    are sorted among those of other inputs."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> "MessageReader":
        return MessageReader(dict(self.options), schema.fieldNames())


class MessageReader(SegmentReader, SupportsTriggerAvailableNow):
    """Reads the segments of the one task that hands over, as rows in the order of their arrival."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        super().__init__(options, columns)
        self.number = int(options["number"])
        self.among = options["among"] == "yes"
        self._until: int | None = None  # with --trigger available-now: the segment at which this round ends

    def prepareForTriggerAvailableNow(self) -> None:
        segments = self.stream.of(TASK)
        self._until = segments.following(segments.done())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the offset behind all segments that exist, up to BATCH_BYTES: the rows of a batch are in the driver's
        memory, whether segments are small or large."""
        segments, number = self.stream.of(TASK), self._from(start, TASK)
        until, size, most = self._until, 0, 0
        while (until is None or number + most < until) and size < BATCH_BYTES:
            try:
                size += segments.path(number + most).stat().st_size
            except FileNotFoundError:
                break
            most += 1
        return super().latestOffset(start, ReadMaxFiles(most))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SegmentPartition)
        for path in map(Path, partition.paths):
            try:
                written_ns, batch = path.stat().st_mtime_ns if self.among else 0, read_segment(path)
            except FileNotFoundError:  # it existed when this batch was planned, and is kept until all have read it
                raise damaged(path, "is missing") from None
            yield rows_arrived(batch, self.number, written_ns, int(path.stem.rpartition("-")[2]))


def rows_arrived(batch: pa.RecordBatch, number: int, written_ns: int, segment: int) -> pa.RecordBatch:
    """Return the rows of a segment as the engine's rows, whose `to` is the number of their input."""
    count = batch.num_rows
    pairs: list[Any] = [*iter_unpack(">qq", b"".join(batch.column("_id").to_pylist()))]
    nothing = pa.array([b""] * count, pa.binary())
    arrays = {
        "to": pa.array([number] * count, pa.int32()),
        "task": pa.array([0] * count, pa.int32()),
        "group": nothing,
        "key": nothing,
        "origin": pa.array([pair[0] for pair in pairs], pa.int64()),
        "identity": pa.array([pair[1] for pair in pairs], pa.int64()),
        "position": pa.array([position_of(written_ns, number, segment, row) for row in range(count)], pa.binary()),
        "record": batch.column(RECORD),
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in SCHEMA.names], schema=SCHEMA)
