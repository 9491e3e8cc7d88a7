"""`SqliteSink`: stores alerts and results in an SQLite file, each once, also after replays.

This is the class that a user declares; `batching` makes the batches, and `writer` and `file` store them.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from os import PathLike, fspath

from bolts.sinks.batching import BATCH, BatchingSink
from bolts.sinks.contract import SinkStore
from bolts.sinks.sqlite.table import SqliteTable, checked_table_name, row_lines
from bolts.sinks.sqlite.writer import SqliteWriter
from bolts.sinks.upsert import Mode, upsert_of
from topology.codes.settings import SHARED_SQLITE_TABLE, SQLITE_IN_MEMORY
from topology.errors import ConfigurationError
from topology.records import Record


class SqliteSink(BatchingSink):
    """Store records in one STRICT table per record class, made from its fields, and ack them when they are durable.

        topology.bolt("store", SqliteSink("alerts.db"), alerts)

    A table is called after its class (`brute_force` for `BruteForce`), or `table`, and then the sink takes one class.
    The sink makes the table, or compares an existing one, at the class's first record. For the classes in `records` it
    does so when it opens: mistakes show up early, and a run without results leaves an empty table.

    Columns: int INTEGER, float REAL, str TEXT, bytes BLOB, bool 0 or 1, datetime TEXT (ISO 8601 in UTC, one width, so
    it sorts), Decimal TEXT, enums and literals by value, all else JSON in TEXT; `X | None` may be NULL. After them the
    key: `key` BLOB (`_key` if a field has that name; see `bolts.sinks.keys`). A replay has its row's key and is
    dropped, also after a restart and in any later run on the same file. One emission that arrives by two subscriptions
    is one row (C5). Rows and keys are in one transaction.

    With `mode="upsert"` a table has one row for each value of the fields in `key`, its primary key, and no key column.
    A record replaces its row if its `revision`, an int or a datetime, is higher. A replay or a late attempt changes
    nothing (C8).

    A row that cannot be stored fails alone, with the reason: NaN and infinities, ints beyond 64 bits, lone surrogates,
    values that are not of the declared type, constraints and triggers of the user's. If a table was altered or dropped,
    its rows fail until it is repaired. If the disk is full, or the file is locked, moved or read-only, the sink waits
    and asks again until the file is usable, and nothing fails. If an fsync fails, the process ends.

    One task, one sink, one process writes a file, under a lock (`<path>-lock`). Any program may read meanwhile.

    batch      tuples per transaction, at most.
    within_ms  milliseconds that a tuple which comes during a commit waits at most for its batch to fill. A tuple that
               comes
               while no commit is under way does not wait.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        table: str | None = None,
        records: Sequence[type[Record]] = (),
        mode: Mode = "append",
        key: Sequence[str] = (),
        revision: str | None = None,
        batch: int = BATCH,
        within_ms: float = 5.0,
    ) -> None:
        """Raises ConfigurationError. Does no I/O: `open` does."""
        super().__init__(batch=batch, within_ms=within_ms)
        self.upsert = upsert_of("SqliteSink", mode, key, revision)
        self.path = fspath(path)
        if self.path in ("", ":memory:"):
            raise ConfigurationError("SqliteSink: a database in memory is not durable", code=SQLITE_IN_MEMORY)
        if table is not None:
            checked_table_name(table)
            if len(records) > 1:
                names = ", ".join(cls.__name__ for cls in records)
                text = f"SqliteSink: one table, {table!r}, can't hold several classes: {names}"
                raise ConfigurationError(text, code=SHARED_SQLITE_TABLE)
        self.table = table
        self.records = tuple(records)
        for cls in self.records:
            SqliteTable(cls, table, self.upsert)

    def summary(self) -> Iterable[str]:
        """Yield the counts, the newest rows, or the reason why the rows cannot be read."""
        yield f"{self.stored:,} stored, {self.duplicates:,} known already"
        try:
            yield from row_lines(self._rows.file, self.path, self._rows.tables)
        except sqlite3.Error as error:
            yield f"{self.path} can't be read any more: {error}"

    def _make_store(self) -> SinkStore:
        self._rows = SqliteWriter(self.path, self.table, self.records, self.upsert)
        return self._rows
