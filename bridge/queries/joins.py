"""`joined`: join a stream with a table at rest, in Spark. The table is read again at intervals, without a restart.

Each batch is joined with the table as it is at that moment. A batch's results count the first time that they are
computed, whichever life of the driver computes them. Must not know how a query runs. Imports pyspark only in the
driver.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bridge.arrow.schema import arrow_schema
from bridge.queries.query import spark_query
from bridge.queries.tables import HOWS, Table, Types, join_of, misfits, problem_of, refused, taken, types_of
from topology.components import R
from topology.graph import Stream
from topology.topology import Topology

BROADCAST_ROWS: Final = 100_000  # a table with at most this many rows is sent to each of Spark's processes


@dataclass
class JoinQuery:
    """The query. In the driver it holds the table that it read last."""

    table: Table
    on: tuple[str, ...]
    how: str
    output: tuple[str, ...]
    types: Types = field(default_factory=dict)
    _read: Any = field(default=None, repr=False)
    _read_at: float = field(default=0.0, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the table: each process reads its own."""
        return vars(self) | {"_read": None}

    @property
    def uses(self) -> tuple[Callable[[Any], Any], ...]:
        """Return the user's functions that are sent to the driver with the query."""
        return (self.table.function,) if self.table.function is not None else ()

    def __call__(self, frame: Any) -> Any:
        return frame

    def in_batch(self, frame: Any, say: Callable[[str], None]) -> Any:
        """Return the join of a batch with the table as it is now."""
        return join_of(frame, self._present(frame, say), self.on, self.how, self.output)

    def _present(self, frame: Any, say: Callable[[str], None]) -> Any:
        if self._read is not None and time.monotonic() - self._read_at < self.table.refresh_s:
            return self._read
        before = self._read
        try:
            from pyspark.sql import functions as f

            now = taken(self.table, frame, self.on, self.output, self.types)
            if before is not None and (wrong := misfits(now, before, self.on, self.types)):
                raise ValueError("; ".join(wrong))
            read = now.localCheckpoint(eager=True)  # a copy of the present rows, independent of the table's files
            rows = read.count()
            read = f.broadcast(read) if rows <= BROADCAST_ROWS else read
        except Exception as error:
            if before is None:
                raise
            self._read_at = time.monotonic()  # so that the next batch does not try again
            say(f"the table could not be read again and stays as it was: {type(error).__name__}: {error!s:.300}")
            return before
        self._read, self._read_at = read, time.monotonic()
        if before is None:
            say(f"the table has {rows:,} rows")
        return read


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
    """Join a stream with a table at rest, by the columns `on` that both sides have.

        known = joined(topology, "known", failures, table=Table("assets.parquet", refresh="10 minutes"),
                       on="source_ip", output=KnownFailure)

    The fields of `output` are the stream's and the table's columns by name; if both have one, the stream's is taken.
    With how="left", columns that the table lacks are None; with how="inner", records without a row in the table are
    dropped. A record with several rows in the table gives one result per row. Results come some 100 ms after their
    records, in batches.

    If the table cannot be read again, it stays as it was, and the run reports that. Raises ConfigurationError.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    what = f"joined {name!r:.80}"
    if not isinstance(table, Table):
        raise refused(what, f"table must be a Table(path or function), not {table!r:.80}")
    if how not in HOWS:
        raise refused(what, f"how={how!r:.80} must be one of {', '.join(HOWS)}")
    if not keys:
        raise refused(what, "on must name one or more columns that both sides have")
    names = tuple(arrow_schema(output).names)
    given = stream.shuffle().cls if isinstance(stream, Stream) else None
    if given is not None:
        there = arrow_schema(given).names
        if missing := [key for key in keys if key not in there]:
            raise refused(what, f"{given.__name__} has no field {missing[0]!r}; it has {', '.join(there)}")
        if problem := problem_of(given, keys, how, output, names, "the table"):
            raise refused(what, problem)
    query = JoinQuery(table, keys, how, names, types_of(given, keys, output) if given is not None else {})
    return spark_query(topology, name, {"records": stream}, query, output=output, tasks=tasks)
