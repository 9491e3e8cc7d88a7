"""Writes tuples to an SQLite file: tables, one transaction per batch, bisection of bad rows.

Knows tables, rows and an `SqliteFile`; must not know the loop, collectors or acks. Every call blocks; one thread makes
them.
"""

import sqlite3
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

from bolts.sinks import rows
from bolts.sinks.contract import BadRow, StoreAway, Written, stored_by_halves
from bolts.sinks.keys import KEY_BYTES, PAIR_BYTES, WriteCounts
from bolts.sinks.rows import Row
from bolts.sinks.sqlite.file import SqliteFile
from bolts.sinks.sqlite.table import SOUGHT_AT_ONCE, SqliteTable, data_problem, is_data_error, quoted
from bolts.sinks.upsert import Upsert
from bolts.sinks.values import shown
from topology.codes.settings import SQLITE_TABLE_CLASS_CONFLICT, SQLITE_TABLE_MISMATCH
from topology.core.tuples import Tuple
from topology.errors import ConfigurationError
from topology.records import Record

_SUFFIX: Final = KEY_BYTES - PAIR_BYTES
_LEAST, _MOST = bytes(_SUFFIX), b"\xff" * _SUFFIX


Entry: TypeAlias = rows.SinkRow[SqliteTable]


class SqliteWriter:
    """The store of `SqliteSink`; see `contract.SinkStore`. `open` checks the tables of `records`."""

    def __init__(
        self, path: str, table: str | None, records: Sequence[type[Record]], upsert: Upsert | None = None
    ) -> None:
        self._file = SqliteFile(path)
        self._upsert = upsert
        self._table_name, self._records = table, records
        self._schema = -1  # PRAGMA schema_version at the last check of the tables
        self._tables: dict[type[Record], SqliteTable] = {}

    @property
    def file(self) -> Path:
        """The file's absolute path, once open."""
        return self._file.path

    @property
    def tables(self) -> Sequence[SqliteTable]:
        """Return the tables of the classes in `records`, and of the classes that were written since."""
        return list(self._tables.values())

    # -- the Store

    def open(self) -> None:
        if self._file.open():
            self._schema = -1
        with self._file.errors(opening=True):
            for cls in self._records:
                if problem := self._table(cls).problem:
                    raise ConfigurationError(f"SqliteSink: {problem}", code=SQLITE_TABLE_MISMATCH)

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        with self._file.errors():
            if self._file.ready():
                self._schema = -1
            written = Written(WriteCounts())
            groups = rows.entries_of(tuples, self._table, written)
            entries = [entry for group in sorted(groups, key=lambda group: group[0].table.name) for entry in group]
            self._check_all()
            written.tally.add(stored_by_halves(entries, self._insert, rows.refuse))
            rows.tell_refused(entries, written)
            return written

    def close(self) -> None:
        self._file.close()

    def look_through(self) -> bool:
        return self._file.look_through()

    # -- tables

    def _table(self, cls: type[Record]) -> SqliteTable:
        """Return the class's table; make it if there is none. Its `problem` is the reason why rows cannot be stored
        now."""
        table = self._tables.get(cls)
        if table is None:
            table = SqliteTable(cls, self._table_name, self._upsert)
            other = next((t for t in self._tables.values() if t.name.lower() == table.name.lower()), None)
            rows.check_own_table("SqliteSink", table, other, SQLITE_TABLE_CLASS_CONFLICT)
            self._check(table)
            self._tables[cls] = table
        return table

    def _check_all(self) -> None:
        """Check the tables again if the file's schema has changed; another program may change it between two writes."""
        for _ in range(len(self._tables) + 2):  # making a table changes the schema too
            schema = self._schema_version()
            if schema == self._schema:
                return
            for table in self._tables.values():
                self._check(table)
            self._schema = schema

    def _schema_version(self) -> int:
        (version,) = self._file.connection.execute("PRAGMA schema_version").fetchone()
        return int(version)

    def _check(self, table: SqliteTable) -> None:
        """Compare the table in the file with the class. A table that was never there is made."""
        connection = self._file.connection
        found = connection.execute(
            "SELECT type FROM sqlite_schema WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')", (table.name,)
        ).fetchone()
        if found is None and not table.made:
            with self._file.transaction():
                connection.execute(table.create)
            table.problem = ""
        elif found is None:
            table.problem = f"table {table.name!r} was dropped while the sink was writing; to go on: {table.create}"
        else:
            columns = connection.execute(f"PRAGMA table_xinfo({quoted(table.name)})").fetchall()
            said = ["it is a view"] if found[0] == "view" else table.differences(columns)
            where = f"table {table.name!r} in {self.file} does not fit {table.cls.__name__}: "
            table.problem = where + "; ".join(said) if said else ""
        table.made = table.made or not table.problem

    # -- rows

    def _insert(self, entries: Sequence[Entry]) -> WriteCounts:
        """Store the rows in one transaction. Raises BadRow, sqlite3.Error and StoreAway; no row is stored then."""
        tally = WriteCounts()
        try:
            with self._file.transaction() as connection:
                if self._schema_version() != self._schema:
                    raise StoreAway(f"the tables in {self.file} are being changed by another program")
                for _, group in groupby(entries, attrgetter("table.name")):
                    self._insert_into(connection, list(group), tally)
        except Exception as error:
            if is_data_error(error):
                raise BadRow(data_problem(entries[0].table, entries[0].row, error)) from error
            raise
        return tally

    def _insert_into(self, connection: sqlite3.Connection, entries: list[Entry], tally: WriteCounts) -> None:
        table = entries[0].table
        if table.problem:
            for entry in entries:
                entry.refused = table.problem
            return
        tally.duplicates += sum(len(entry.places) - 1 for entry in entries)
        if table.key is None:
            _upsert_into(connection, table, entries, tally)
        else:
            _append_to(connection, table, entries, tally)


def _append_to(connection: sqlite3.Connection, table: SqliteTable, entries: list[Entry], tally: WriteCounts) -> None:
    """Store the rows whose keys are new. Another content under a known identity is also stored."""
    known = _stored_keys(connection, table, [entry.key for entry in entries])
    pairs = {key[:PAIR_BYTES] for key in known}
    fresh: list[Row] = []
    for entry in entries:
        if entry.key in known:
            tally.duplicates += 1
            continue
        pair = entry.key[:PAIR_BYTES]
        if pair in pairs:
            tally.divergent.append(f"{table.name} {entry.key.hex()}")
        pairs.add(pair)
        fresh.append(entry.row)
    connection.executemany(table.insert, fresh)
    tally.stored += len(fresh)


def _stored_keys(connection: sqlite3.Connection, table: SqliteTable, keys: list[bytes]) -> set[bytes]:
    """Return the stored keys that have the pair of one of these."""
    found: set[bytes] = set()
    at = 0
    while at < len(keys):  # the statement has one of two lengths, so that SQLite compiles it once
        count = SOUGHT_AT_ONCE if len(keys) - at >= SOUGHT_AT_ONCE else 1
        pairs = [key[:PAIR_BYTES] for key in keys[at : at + count]]
        bounds = [bound for pair in pairs for bound in (pair + _LEAST, pair + _MOST)]
        found.update(key for (key,) in connection.execute(table.find[count], bounds))
        at += count
    return found


def _upsert_into(connection: sqlite3.Connection, table: SqliteTable, entries: list[Entry], tally: WriteCounts) -> None:
    """Store each row whose revision is higher than that of the stored row of its key.

    Rows go one after the other. A batch may have several rows of one key, and a row may not be acked on account of a
    row that is then refused (C9).
    """
    for entry in entries:
        found = connection.execute(table.known, table.key_values(entry.row)).fetchone()
        if found is not None and table.revision(found) >= table.revision(entry.row):
            if table.revision(found) == table.revision(entry.row) and found != entry.row:
                tally.divergent.append(f"{table.name} {shown(table.key_values(entry.row))}")
            tally.duplicates += 1
            continue
        connection.execute(table.insert, entry.row)
        tally.stored += 1
