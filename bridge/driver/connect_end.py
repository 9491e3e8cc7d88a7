"""The end of a bounded run for Spark Connect: a source that emits one row, at the end of time, once the query's folder
says where its epoch ends.

A Connect client cannot reach Spark's watermark, so a row has to move it. `withWatermark` of a streaming DataFrame adds
that row, and it is filtered out directly behind. No filter, join or user's function before `withWatermark` can drop the
row, because it is added there; nothing after sees it. Runs in Spark's Python processes, like `source`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType, TimestampType

from bridge.files.query import QueryFolder

FORMAT: Final = "kedge-end"
END: Final = datetime(9999, 1, 1, tzinfo=UTC)  # later than any event; END_US is the same in microseconds
END_US: Final = 253_370_764_800_000_000
FIELD: Final = "at"

_folder: ContextVar[str] = ContextVar("_folder", default="")  # folder of the query that is being declared


class End(DataSource):
    """The data source of the end. Option: `folder`, of the query."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return StructType([StructField(FIELD, TimestampType())])

    def streamReader(self, schema: StructType) -> "EndReader":
        return EndReader(dict(self.options))


class EndReader(DataSourceStreamReader):
    """The reader of the end. Its offset is {"closed": bool}. The batch that settles where the epoch ends has read
    everything before it, so the row comes in a later batch than any record."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.query = QueryFolder(Path(options["folder"]))

    def initialOffset(self) -> dict[str, Any]:
        return {"closed": False}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"closed": self.query.closing() is not None}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(0)] if end["closed"] and not start["closed"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([END], pa.timestamp("us", "UTC"))], [FIELD])


@contextmanager
def with_end(folder: Path) -> Iterator[None]:
    """Make each `withWatermark` of a Spark Connect stream, within this context, see that query's end."""
    given = _folder.set(str(folder))
    try:
        yield
    finally:
        _folder.reset(given)


def watermarks_see_ends() -> None:
    """Make `with_end` work in this process. Calling it again does nothing."""
    from pyspark.sql.connect.dataframe import DataFrame as Remote

    before: Callable[..., DataFrame] = Remote.withWatermark
    if getattr(before, "sees_ends", False):
        return

    def with_watermark(self: Any, eventTime: str, delayThreshold: str) -> DataFrame:
        folder = _folder.get()
        kind = _event_time(self, eventTime) if folder and self.isStreaming else None
        if kind is None:
            return before(self, eventTime, delayThreshold)
        marked = before(self.unionAll(_end_of(self, eventTime, folder)), eventTime, delayThreshold)
        return marked.where(~f.col(eventTime).eqNullSafe(f.timestamp_micros(f.lit(END_US)).cast(kind)))

    with_watermark.sees_ends = True  # type: ignore[attr-defined]
    Remote.withWatermark = with_watermark  # type: ignore[method-assign]


def _event_time(frame: DataFrame, name: str) -> DataType | None:
    """Return the type of this column, or None if a row of ours has no value for it."""
    kinds = [field.dataType for field in frame.schema if field.name == name]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], TimestampType | TimestampNTZType) else None


def _end_of(frame: DataFrame, name: str, folder: str) -> DataFrame:
    """Return a streaming DataFrame, with the columns of `frame`, of one row that holds only the end of time."""
    row = frame.sparkSession.readStream.format(FORMAT).option("folder", folder).load()
    columns = [
        (f.col(FIELD) if field.name == name else f.lit(None)).cast(field.dataType).alias(field.name)
        for field in frame.schema
    ]
    return row.select(*columns)
