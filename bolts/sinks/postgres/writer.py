"""Writes tuples to PostgreSQL: rows, one transaction per batch, bisection of bad rows, changing tables, errors by
cause.

Knows tables and the server; must not know the loop, collectors or acks. Every call blocks; one thread makes them.

A transaction inserts first. Then it checks the tables, which no other session can change any more, and the results of
the inserts; only then it commits. Rows go in the order of their keys. So of two writers of the same rows one waits for
the other, and they never wait for each other (F45).
"""

import logging
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeAlias

import psycopg

from bolts.sinks import rows as tables
from bolts.sinks.contract import BadRow, StoreAway, Written, stored_by_halves
from bolts.sinks.keys import PAIR_BYTES, WriteCounts
from bolts.sinks.postgres.connection import PRINTS, Rows, Server
from bolts.sinks.postgres.dsn import Dsn
from bolts.sinks.postgres.errors import Fault, fault_of, loses_connection
from bolts.sinks.postgres.table import PostgresTable, shown_row
from bolts.sinks.upsert import Upsert
from bolts.sinks.values import shown
from topology.codes.settings import POSTGRES_TABLE_CLASS_CONFLICT, POSTGRES_TABLE_MISMATCH
from topology.core.tuples import Tuple
from topology.errors import ConfigurationError
from topology.records import Record
from topology.secrets import Secret

BATCH_BYTES_MAX: Final = 64 * 1024 * 1024  # bytes of one statement's parameter; a larger batch is halved
# bytes of one row's parameter; the server's own limit would look like a fault of the server
ROW_BYTES_MAX: Final = 256 * 1024 * 1024
CHANGES_MAX: Final = 3  # times that tables may change during one write, before it is tried again later

log = logging.getLogger("kedge.bolts")


class TablesChanged(Exception):
    """The error for a table that changed since the last comparison; nothing was stored. The text is the server's
    message."""


Entry: TypeAlias = tables.SinkRow[PostgresTable]


class PostgresStore:
    """The store of `PostgresSink`; see `contract.SinkStore`. `open` checks the tables of `records`."""

    def __init__(
        self,
        dsn: str | Secret,
        *,
        schema: str | None,
        table: str | None,
        upsert: Upsert | None,
        records: Sequence[type[Record]],
        timeout_s: float,
        allow_fsync_off: bool,
    ) -> None:
        self._dsn, self._schema, self._table_name, self._upsert = dsn, schema, table, upsert
        self._records = records
        self._timeout_s, self._allow_fsync_off = timeout_s, allow_fsync_off
        self._server: Server | None = None
        self._tables: dict[type[Record], PostgresTable] = {}

    @property
    def tables(self) -> Sequence[PostgresTable]:
        """Return the tables of the classes in `records`, and of the classes that were written since."""
        return list(self._tables.values())

    @property
    def server(self) -> Server:
        assert self._server is not None, "open"
        return self._server

    # -- the Store

    def open(self) -> None:
        if self._server is None:
            dsn = Dsn(self._dsn)
            self._server = Server(dsn, timeout_s=self._timeout_s, allow_fsync_off=self._allow_fsync_off)
        try:
            self.server.connect()
            for cls in self._records:
                if problem := self._table(cls).problem:
                    raise ConfigurationError(f"PostgresSink: {problem}", code=POSTGRES_TABLE_MISMATCH)
        except psycopg.Error as error:
            raise self._away(error) from error

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        try:
            self.server.connect()
            written = Written(WriteCounts())
            groups = tables.entries_of(tuples, self._table, written)
            groups.sort(key=lambda group: group[0].table.sql)
            entries = [entry for group in groups for entry in sorted(group, key=attrgetter("key"))]
            self._store(entries, written)
        except psycopg.Error as error:
            raise self._away(error) from error
        except ConfigurationError as error:  # the server has come back with another configuration
            raise StoreAway(str(error)) from error
        tables.tell_refused(entries, written)
        return written

    def close(self) -> None:
        if self._server is not None:
            self._server.disconnect()

    def hurry(self, seconds: float) -> None:
        """Wait at most this many seconds for any answer of the server. May be called during another call."""
        if self._server is not None:
            self._server.hurry(seconds)

    def _away(self, error: psycopg.Error) -> StoreAway:
        """Return the exception for an error that has no cause in a row or a table. Close the connection if it is
        unusable."""
        if loses_connection(error):
            self.server.disconnect()
        return StoreAway(f"{self.server.dsn.where}: {self.server.dsn.said(error)}")

    # -- tables

    def _table(self, cls: type[Record]) -> PostgresTable:
        """Return the class's table; make it if there is none. Its `problem` is the reason why rows cannot be stored
        now."""
        table = self._tables.get(cls)
        if table is None:
            table = PostgresTable(cls, self._table_name, self._schema, self._upsert)
            other = next((known_table for known_table in self._tables.values() if known_table.sql == table.sql), None)
            tables.check_own_table("PostgresSink", table, other, POSTGRES_TABLE_CLASS_CONFLICT)
            self._check(table)
            self._tables[cls] = table
        return table

    def _check(self, table: PostgresTable) -> None:
        """Compare the table in the database with the class. A table that was never there is made."""
        found, seen = self.server.found(table.sql)
        if found is None and not table.made:
            try:
                self.server.make(table.sql, table.create)
            except psycopg.Error as error:
                if fault_of(error) is not Fault.TABLE:
                    raise
                table.problem = f"table {table.name!r} can't be made: {self.server.dsn.said(error)}"
            found, seen = self.server.found(table.sql)
            if found is None and table.problem:  # otherwise another task has made it meanwhile
                return
        if found is None:
            table.problem = f"table {table.name!r} was dropped while the sink was writing; to go on: {table.create}"
        else:
            said = table.differences(found)
            where = f"table {table.name!r} in {self.server.dsn.where} does not fit {table.cls.__name__}: "
            table.problem = where + "; ".join(said) if said else ""
        table.print = seen
        table.made = table.made or not table.problem

    # -- rows

    def _store(self, entries: list[Entry], written: Written) -> None:
        """Store the rows that their tables take. If a table has changed, compare it first."""
        for table in {entry.table.sql: entry.table for entry in entries if entry.table.problem}.values():
            self._check(table)  # an administrator may have repaired it
        said, settled = "", False
        for _ in range(CHANGES_MAX):
            for entry in entries:
                entry.refused = entry.table.problem
            fitting = [entry for entry in entries if not entry.refused]
            try:
                written.tally.add(stored_by_halves(fitting, partial(self._insert, settled=settled), tables.refuse))
                return
            except TablesChanged as error:
                said = f": {error}" if str(error) else ""
                settled = self._as_before() and bool(said)
        raise StoreAway(f"{self.server.dsn.where}: its tables are being changed{said}")

    def _as_before(self) -> bool:
        """Compare all tables again. Return True if none has changed since the last comparison."""
        before = [table.print for table in self._tables.values()]
        for table in self._tables.values():
            self._check(table)
        return before == [table.print for table in self._tables.values()]

    def _insert(self, entries: Sequence[Entry], *, settled: bool) -> WriteCounts:
        """Store the rows in one transaction.

        Raises BadRow, TablesChanged and psycopg.Error; nothing is stored then. If the connection was lost at the
        commit, the outcome is unknown. `settled`: no table has changed since a statement failed, so some row causes the
        error; for example a trigger's own statement may fail (C9).
        """
        tally = WriteCounts()
        groups = [(group[0].table, group) for _, g in groupby(entries, attrgetter("table.sql")) if (group := list(g))]
        groups = [(table, group if table.upsert is None else _newest(group, tally)) for table, group in groups]
        batches = [(table, group, table.batch(entry.row for entry in group)) for table, group in groups]
        size = sum(len(batch) for _, _, batch in batches)
        if size > (BATCH_BYTES_MAX if len(entries) > 1 else ROW_BYTES_MAX):
            raise BadRow(f"{entries[0].table.cls.__name__}: {size:,} bytes are too many for one statement")
        inserts = [(table.insert, [batch]) for table, _, batch in batches]
        prints = (PRINTS, [[table.sql for table, _, _ in batches]])
        try:
            with self.server.transaction([*inserts, prints]) as done:
                *fresh, seen = done.rows
                if any(table.print != found for (table, _), (found,) in zip(groups, seen, strict=True)):
                    raise TablesChanged
                for (table, group), rows in zip(groups, fresh, strict=True):
                    _count(table, group, rows, tally)
                done.word = tally.duplicates > 0
        except (psycopg.Error, UnicodeError) as error:
            fault = fault_of(error)
            if fault is Fault.TABLE and not settled:
                raise TablesChanged(self.server.dsn.said(error)) from error
            if fault is not Fault.AWAY:
                raise BadRow(self._said_of(entries[0], error)) from error
            raise
        return tally

    def _said_of(self, entry: Entry, error: BaseException) -> str:
        table, state = entry.table, getattr(error, "sqlstate", None) or type(error).__name__
        said = self.server.dsn.said(error)
        return f"{table.cls.__name__}: table {table.name!r} refuses the row ({state}: {said}); " + shown_row(
            table, entry.row
        )


def _newest(entries: Sequence[Entry], tally: WriteCounts) -> list[Entry]:
    """Return the row of each key with the highest revision: one statement may not touch a row twice.

    The other rows count as late if this one is stored. If it is refused, they go with other parts of the batch (C9).
    """
    newest: list[Entry] = []
    for entry in entries:  # sorted by key; those of one key in their order of arrival
        table, last = entry.table, newest[-1] if newest else None
        if last is None or last.key != entry.key:
            newest.append(entry)
            continue
        tally.duplicates += len(entry.places)
        if table.revision(entry.row) > table.revision(last.row):
            tally.duplicates += len(last.places) - len(entry.places)
            newest[-1] = entry
        elif table.revision(entry.row) == table.revision(last.row):
            tally.divergent.append(_named(entry))
    return newest


def _count(table: PostgresTable, entries: Sequence[Entry], rows: Rows, tally: WriteCounts) -> None:
    """Add a statement's results for these rows."""
    if table.upsert is not None:
        tally.divergent += [_named(entries[at - 1]) for (at,) in rows if at is not None]
        rows = [row for row in rows if row == (None,)]
    else:
        pairs: set[bytes] = set()
        known: dict[bytes, bool] = dict(rows)
        for entry in entries:
            if entry.key in known:
                pair = entry.key[:PAIR_BYTES]
                if known[entry.key] or pair in pairs:
                    tally.divergent.append(_named(entry))
                pairs.add(pair)
    tally.stored += len(rows)
    tally.duplicates += sum(len(entry.places) for entry in entries) - len(rows)


def _named(entry: Entry) -> str:
    """Return a row's name in a sentence, by its key."""
    table = entry.table
    if table.upsert is None:
        return f"{table.name} {entry.key.hex()}"
    return f"{table.name} {shown(table.key_values(entry.row))}"
