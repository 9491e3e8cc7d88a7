"""Spark's side of a history: a batch data source over the records of one input, between two numbers per task.

It runs in Python processes that Spark starts, and keeps nothing. Knows folders and Arrow; neither the topology nor
records.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bridge.driver.source import SegmentPartition
from bridge.files.history import Piece, pieces_between
from bridge.files.input import StreamInput
from bridge.files.query import QueryFolder
from bridge.files.segments import damaged, read_segment

FORMAT: Final = "kedge-history"  # the name under which the driver registers the source
PART_BYTES: Final = 32 * 2**20  # maximum size of the files that one task of Spark reads; a single file may be larger


class Histories(DataSource):
    """The data source of one input's history. Options: `folder` of the query, `input`, `begin` and `ends` (JSON: task →
    number). The caller gives the schema: the record's fields."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def reader(self, schema: StructType) -> "HistoryReader":
        return HistoryReader(dict(self.options), schema.fieldNames())


class HistoryReader(DataSourceReader):
    """The reader of one history. It returns the same rows each time, as long as nothing is forgotten between these
    numbers."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        folder, name = QueryFolder(Path(options["folder"])), options["input"]
        self.stream, self.folder = StreamInput(folder.input(name)), folder.history(name)
        self.begin: dict[str, int] = json.loads(options["begin"])
        self.ends: dict[str, int] = json.loads(options["ends"])
        self.columns = list(columns)

    def partitions(self) -> list[InputPartition]:
        """Return at least one partition, because Spark would otherwise make one of its own."""
        pieces = pieces_between(self.stream, self.folder, self.begin, self.ends)
        return [SegmentPartition([str(piece.path) for piece in part]) for part in parts_of(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these files, in their order."""
        assert isinstance(partition, SegmentPartition)
        for path in partition.paths:
            try:
                yield read_segment(Path(path)).select(self.columns)
            except FileNotFoundError:  # it existed when this job was planned, and no file is removed while a job runs
                raise damaged(Path(path), "is missing") from None


def parts_of(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Return the pieces in parts of about the same size; one empty part if there are no pieces."""
    parts: list[list[Piece]] = [[]]
    filled = 0
    for piece in pieces:
        if parts[-1] and filled + piece.bytes > PART_BYTES:
            parts.append([])
            filled = 0
        parts[-1].append(piece)
        filled += piece.bytes
    return parts
