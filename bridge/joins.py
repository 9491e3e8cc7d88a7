"""`joined`: a stream joined with a table at rest, by Spark. The table is read again every so often, without a restart.

The join is made batch by batch with the table as it is then, so a result is that of its batch, whichever life of the
driver makes it: the first one counts. Must not know how a query runs. Imports pyspark only in the driver.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from bridge.query import spark_query
from bridge.schema import arrow_schema
from bridge.windows import SPAN, seconds_of
from topology.codes.given import K381
from topology.components import R
from topology.errors import ConfigurationError
from topology.graph import Stream, Topology

FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
HOWS: Final = ("inner", "left")
BROADCAST_ROWS: Final = 100_000  # a table with no more goes to each of Spark's processes as a whole
OPTIONS: Final = {"csv": {"header": "true", "inferSchema": "true"}}


class Table:
    """A table at rest: a file or a folder of Parquet, CSV with a header, or JSON Lines, by path or URL, which its name
    tells (`format` says it otherwise: one of Spark's); or a function that is given the SparkSession and returns a
    DataFrame, by JDBC say. `refresh`: after this long it is read again; "" reads it once a life of the driver.

    Raises ConfigurationError.
    """

    def __init__(
        self, source: "str | os.PathLike[str] | Callable[[Any], Any]", *, refresh: str = "", format: str = ""
    ) -> None:
        if refresh and not (isinstance(refresh, str) and SPAN.fullmatch(refresh)):
            raise _refused("Table", f'refresh={refresh!r:.80} is no span; "10 minutes" is one')
        self.refresh_s = seconds_of(refresh) if refresh else float("inf")
        self.function: Callable[[Any], Any] | None = None
        self.path = self.format = ""
        if callable(source):
            self.function = source
            return
        path = os.fspath(source)
        self.format = format or FORMATS.get(Path(path).suffix.lower(), "")
        if not self.format:
            raise _refused(
                "Table", f"what {path!r:.200} is can't be told: its name ends in none of {', '.join(FORMATS)}"
            )
        self.path = path if "://" in path else str(Path(path).absolute())

    def read(self, session: Any) -> Any:
        """A DataFrame. In the driver."""
        if self.function is not None:
            return self.function(session)
        return session.read.options(**OPTIONS.get(self.format, {})).format(self.format).load(self.path)


@dataclass
class Join:
    """The query. In the driver it keeps the table that it has read last."""

    table: Table
    on: tuple[str, ...]
    how: str
    output: tuple[str, ...]
    _read: Any = field(default=None, repr=False)
    _read_at: float = field(default=0.0, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """What one process has read is no other's."""
        return vars(self) | {"_read": None}

    @property
    def uses(self) -> tuple[Callable[[Any], Any], ...]:
        """Functions of the user's, which go to the driver with it."""
        return (self.table.function,) if self.table.function is not None else ()

    def __call__(self, frame: Any) -> Any:
        return frame

    def in_batch(self, frame: Any, say: Callable[[str], None]) -> Any:
        """The join of a batch with the table as it is now."""
        return join_of(frame, self._present(frame.sparkSession, say), self.on, self.how, self.output)

    def _present(self, session: Any, say: Callable[[str], None]) -> Any:
        if self._read is not None and time.monotonic() - self._read_at < self.table.refresh_s:
            return self._read
        before = self._read
        try:
            from pyspark.sql import functions as f

            read = self.table.read(session).localCheckpoint(eager=True)  # as it is now, whatever becomes of its files
            rows = read.count()
            read = f.broadcast(read) if rows <= BROADCAST_ROWS else read
        except Exception as error:
            if before is None:
                raise
            self._read_at = time.monotonic()  # not for each batch
            say(f"the table could not be read again, and stays as it was: {type(error).__name__}: {error!s:.300}")
            return before
        self._read, self._read_at = read, time.monotonic()
        if before is None:
            say(f"the table has {rows:,} rows")
        return read


def join_of(frame: Any, table: Any, on: Sequence[str], how: str, output: Sequence[str]) -> Any:
    """The join of two DataFrames by the columns `on`, with those of `output` that it has; where both have one that is
    no key, the first one's. In the driver. Raises ValueError where the table lacks a key."""
    missing = [name for name in on if name not in table.columns]
    if missing:
        raise ValueError(f"the table has no column {missing[0]!r}; it has {', '.join(table.columns)}")
    own = [name for name in table.columns if name in on or name not in frame.columns]
    made = frame.join(table.select(*own), list(on), how)
    return made.select(*[name for name in output if name in made.columns])


def joined(
    topology: Topology,
    name: str,
    stream: Stream[Any],
    *,
    table: Table,
    on: str | Sequence[str],
    output: type[R],
    how: Literal["inner", "left"] = "left",
    tasks: int = 1,
) -> Stream[R]:
    """A stream joined with a table at rest, by columns `on` that both have.

        known = joined(topology, "known", failures, table=Table("assets.parquet", refresh="10 minutes"),
                       on="source_ip", output=KnownFailure)

    The fields of `output` are the stream's and the table's columns by name; where both have one, the stream's. With
    how="left" what the table does not have is None there, with "inner" such records give nothing. A record with several
    rows in the table gives one result each. Results come some 100 ms after their records, in batches.

    Where the table can't be read again, it stays as it was, and that is told. Raises ConfigurationError.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    what = f"joined {name!r:.80}"
    if not isinstance(table, Table):
        raise _refused(what, f"table is a Table(path or function), not {table!r:.80}")
    if how not in HOWS:
        raise _refused(what, f"how={how!r:.80} is none of {', '.join(HOWS)}")
    if not keys:
        raise _refused(what, "on is the name of a column that both have, or several")
    given = stream.shuffle().cls if isinstance(stream, Stream) else None
    if given is not None:
        there = arrow_schema(given).names
        if missing := [one for one in keys if one not in there]:
            raise _refused(what, f"{given.__name__} has no field {missing[0]!r}; it has {', '.join(there)}")
    query = Join(table, keys, how, tuple(arrow_schema(output).names))
    return spark_query(topology, name, {"records": stream}, query, output=output, tasks=tasks)


def _refused(what: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{what}: {why}", code=K381)
