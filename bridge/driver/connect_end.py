"""The end of a bounded run for Spark Connect: a source that has one row, at the end of time, once the query's folder
says where its epoch ends.

A Connect client can't reach Spark's watermark, so a row has to move it: `withWatermark` of a streaming DataFrame sees
that row too, and it is filtered out right behind. No filter, join or function of the user's before that drops it, as it
comes in there; nothing after sees it. Runs in Python processes of Spark's, as `source` does.
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
END: Final = datetime(9999, 1, 1, tzinfo=UTC)  # later than any event
END_US: Final = 253_370_764_800_000_000
FIELD: Final = "at"

_folder: ContextVar[str] = ContextVar("_folder", default="")  # of the query that is being declared


class End(DataSource):
    """Option: `folder` of the query."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return StructType([StructField(FIELD, TimestampType())])

    def streamReader(self, schema: StructType) -> "EndReader":
        return EndReader(dict(self.options))


class EndReader(DataSourceStreamReader):
    """Its offset is {"closed": bool}. Where the epoch ends is settled in a batch that has read all before it, so the
    row is in a later batch than any record."""

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
    """Each `withWatermark` of a streaming DataFrame of Spark Connect within this sees that query's end."""
    given = _folder.set(str(folder))
    try:
        yield
    finally:
        _folder.reset(given)


def watermarks_see_ends() -> None:
    """Has `with_end` work in this process; once is enough."""
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
    """The type of this column; None where a row of ours has none to give for it."""
    kinds = [one.dataType for one in frame.schema if one.name == name]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], TimestampType | TimestampNTZType) else None


def _end_of(frame: DataFrame, name: str, folder: str) -> DataFrame:
    """One row, at the end of time, with nothing else in it; a stream as `frame` is."""
    row = frame.sparkSession.readStream.format(FORMAT).option("folder", folder).load()
    columns = [
        (f.col(FIELD) if one.name == name else f.lit(None)).cast(one.dataType).alias(one.name) for one in frame.schema
    ]
    return row.select(*columns)
