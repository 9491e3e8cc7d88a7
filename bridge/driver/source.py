"""Spark's side of the hand-over: a streaming data source over the segments of one input.

It runs in Python processes that Spark starts: one plans, and some read. It therefore keeps nothing between calls except
how far it has looked. Knows folders and Arrow; neither the topology nor records.

An offset is {"input": name, "next": {task: number of the next segment}, "ended": ""}. Once every task has said that it
is at its end, "ended" is the driver's present life. That makes one more batch, without rows, in each life.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles
from pyspark.sql.types import StructType

from bridge.files.input import StreamInput
from bridge.files.lease import Lease
from bridge.files.query import QueryFolder
from bridge.files.segments import damaged, read_segment
from bridge.queries.late_records import COLUMN, drops_below
from bridge.spark.shared_folder import unseen

FORMAT: Final = "kedge"  # the name under which the driver registers the source
FILES_MAX: Final = 2_000  # maximum number of segments per batch; a backlog is split into several batches


class SegmentSource(DataSource):
    """The data source of one input. Its options:

    folder      The folder of the query.
    input       The name of the input.
    begin       JSON: task → the number of its first segment.
    life        The present life of the driver.
    parts       How many tasks of Spark read.
    leased      Not empty if the driver holds a lease.
    checkpoint  The checkpoint of this epoch, if `late_records.COLUMN` is wanted.

    The caller gives the schema: the record's fields, without identities, and that column if it is wanted.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> "SegmentReader":
        return SegmentReader(dict(self.options), schema.fieldNames())


class SegmentPartition(InputPartition):
    """Segments that one task of Spark reads, one after the other."""

    def __init__(self, paths: Sequence[str], watermark: int = 0) -> None:
        self.paths = list(paths)
        self.watermark = watermark  # in ms: `late_records.COLUMN` of each row


class SegmentReader(DataSourceStreamReader):
    """The reader of one input. Numbers have no gaps, so it finds new segments by looking for the next number, and lists
    no folder."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self.query = QueryFolder(Path(options["folder"]))
        self.input = options["input"]
        self.stream = StreamInput(self.query.input(self.input))
        self.begin: dict[str, int] = json.loads(options["begin"])
        self.life = options["life"]
        self.parts = int(options["parts"])
        self.columns = [name for name in columns if name != COLUMN]
        self.checkpoint = Path(options["checkpoint"]) if COLUMN in columns else None
        self.lease = Lease(self.query.folder) if options.get("leased") else None

    def initialOffset(self) -> dict[str, Any]:
        return self._offset(self.begin, "")

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(FILES_MAX)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the offset behind all segments that exist, up to `limit`, and not beyond the end of the epoch once
        that is settled."""
        if self.lease is not None:
            self.lease.check()
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        closing = (self.query.closing() or {}).get(self.input)
        begin = {task: self._from(start, task) for task in self.stream.tasks()}
        reached = self.stream.reached(begin, closing, most)
        over = self.stream.ended(reached) if closing is None else all(reached[to] == closing[to] for to in closing)
        return self._offset(reached, self.life if over else "")

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Deal the segments between both offsets one by one, so that each part has equally many."""
        paths = [
            str(self.stream.of(task).path(number))
            for task, until in end["next"].items()
            for number in range(self._from(start, task), until)
        ]
        watermark = 0 if self.checkpoint is None else drops_below(self.checkpoint)
        return [SegmentPartition(paths[part :: self.parts], watermark) for part in range(min(self.parts, len(paths)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these segments, in the order of their numbers."""
        assert isinstance(partition, SegmentPartition)
        for path in partition.paths:
            try:
                batch = read_segment(Path(path)).select(self.columns)
            except FileNotFoundError:  # it existed when this batch was planned, and is kept until all have read it
                here = self.query.folder.is_dir()
                raise (damaged(Path(path), "is missing") if here else unseen(self.query.folder)) from None
            yield batch if self.checkpoint is None else _with_watermark(batch, partition.watermark)

    def _from(self, start: Mapping[str, Any], task: str) -> int:
        number: int = start["next"].get(task, self.begin.get(task, 0))
        return number

    def _offset(self, numbers: Mapping[str, int], ended: str) -> dict[str, Any]:
        return {"input": self.input, "next": dict(sorted(numbers.items())), "ended": ended}


def _with_watermark(batch: pa.RecordBatch, watermark: int) -> pa.RecordBatch:
    marks = pa.repeat(pa.scalar(watermark, pa.int64()), batch.num_rows)
    schema = batch.schema.append(pa.field(COLUMN, pa.int64(), False))
    return pa.RecordBatch.from_arrays([*batch.columns, marks], schema=schema)
