"""Tuples into an SQLite file: connection, durability, one transaction a batch, bisection of bad rows, recovery.

Knows SQLite, tables and files; must not know the loop, collectors or acks. Every call blocks; one thread makes them.

What is believed must be durable. Rows that an earlier process wrote, but never synced, are visible after its death: a
replay would find its key, be dropped and acked, and a power loss would take the row. So each connection's first act is
a commit of its own, whose sync covers them; and after an I/O error the log is written again into the file (an fsync
that failed once may succeed the next time without having written anything).
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from bolts.batching import StoreBusy, StoreError, Written
from bolts.files import LockFile, checked_path, identity_of
from bolts.keys import KEY_BYTES, PAIR_BYTES, Tally
from bolts.sqlite_table import Row, Table, data_problem, is_data_error, quoted
from bolts.values import BadValue
from topology.codes.given import K327, K328, K329, K330, K331, K336
from topology.components import Tuple
from topology.errors import ConfigurationError
from topology.records import Record

STRICT_SINCE: Final = (3, 37)
EXTRA: Final = 3  # PRAGMA synchronous: as FULL, and syncs the folder where there is no write-ahead log
_BUSY_CODES: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_SUFFIX: Final = KEY_BYTES - PAIR_BYTES
_LEAST, _MOST = bytes(_SUFFIX), b"\xff" * _SUFFIX

log = logging.getLogger("kedge.bolts")


@dataclass(slots=True)
class Entry:
    """A row to be stored, and where in the batch it came from: several places where the batch repeats it."""

    table: Table
    row: Row
    places: list[int]
    refused: str = ""


class SqliteStore:
    """See `batching.Store`. `records`: classes whose tables `open` makes and checks already."""

    def __init__(self, path: str, table: str | None, records: Sequence[type[Record]]) -> None:
        self._given, self._table_name, self._records = path, table, records
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._lock: LockFile | None = None
        self._file: tuple[int, int] | None = None  # which file the path named when it was opened
        self._suspect = False  # an I/O error came since the file was last known to be durable
        self._schema = -1  # PRAGMA schema_version when the tables were last checked
        self._tables: dict[type[Record], Table] = {}

    @property
    def file(self) -> Path:
        """The absolute path, once open."""
        return self._path

    @property
    def tables(self) -> Sequence[Table]:
        """Of the classes in `records`, and of those that were written since."""
        return list(self._tables.values())

    # -- the Store

    def open(self) -> None:
        if sqlite3.sqlite_version_info < STRICT_SINCE:
            raise ConfigurationError(
                f"SqliteSink: SQLite {sqlite3.sqlite_version} is too old for STRICT tables; 3.37 or newer is needed",
                code=K327,
            )
        log.debug("SQLite %s", sqlite3.sqlite_version)
        self._path = checked_path(self._given, "SqliteSink")
        try:
            self._lock = self._lock or LockFile(self._path)
        except OSError as error:
            text = f"SqliteSink: {self._path} can't be written beside: {error}"
            raise ConfigurationError(text, code=K328) from error
        with self._errors(partial(ConfigurationError, code=K331)):
            if self._connection is None:
                self._connect("rwc")
            for cls in self._records:
                if problem := self._table(cls).problem:
                    raise ConfigurationError(f"SqliteSink: {problem}", code=K329)

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        with self._errors(StoreError):
            if identity_of(self._path) != self._file:
                raise StoreError(f"{self._path} was removed or replaced while the sink was writing; start the run anew")
            if self._connection is None:
                self._connect("rw")
            written = Written(Tally())
            entries = self._entries(tuples, written)
            self._check_all()
            written.tally.add(self._store(entries))
            for entry in entries:
                if entry.refused:
                    written.refused.update(dict.fromkeys(entry.places, entry.refused))
            return written

    def close(self) -> None:
        self._disconnect()
        if self._lock is not None:
            try:
                self._lock.release()
            except OSError as error:
                log.warning("the lock beside %s could not be removed: %s", self._path, error)
            self._lock = None

    # -- the connection

    def _connect(self, mode: str) -> None:
        """Opens the file and makes sure of its durability (C11). Raises sqlite3.Error, StoreError."""
        uri = f"{self._path.as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        self._connection = connection  # before anything can raise, so that it is closed

        def pragma(setting: str) -> Any:
            found = connection.execute(f"PRAGMA {setting}").fetchone()
            return None if found is None else found[0]

        mode_found = pragma("journal_mode = WAL")  # readers don't stop the writer; other modes do as well, slower
        pragma(f"synchronous = {EXTRA}")
        pragma("fullfsync = 1")  # macOS: through the disk's cache
        pragma("checkpoint_fullfsync = 1")
        pragma("mmap_size = 0")
        if pragma("synchronous") != EXTRA or mode_found in ("memory", "off"):
            raise ConfigurationError(
                f"SqliteSink: {self._path} can't be made durable: journal_mode is {mode_found}, "
                f"synchronous is {pragma('synchronous')}",
                code=K330,
            )
        if self._suspect:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise StoreBusy(f"{self._path} is being read, and has to be written again after an I/O error")
        with self._transaction():
            connection.execute(f"PRAGMA user_version = {pragma('user_version')}")
        self._suspect = False
        self._file = identity_of(self._path)

    def _disconnect(self) -> None:
        connection, self._connection, self._schema = self._connection, None, -1
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error as error:
                log.warning("%s was not closed cleanly: %s", self._path, error)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and durable at its end. The lock is taken at its beginning, so that none is upgraded."""
        connection = self._connection
        assert connection is not None
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # some errors, and some triggers, have rolled back already
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self, kind: Callable[[str], Exception]) -> Iterator[None]:
        """Says what SQLite reports in one sentence. After anything but a wait, the file is opened anew (D10)."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            self._suspect = self._suspect or code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
            if code in _BUSY_CODES:
                self._disconnect_unless_settled()
                raise StoreBusy(f"{self._path} is locked by another program ({name})") from error
            self._disconnect()
            raise kind(f"{self._path} can't be used as a store: {error} ({name})") from error
        except (StoreBusy, StoreError, ConfigurationError):
            self._disconnect_unless_settled()
            raise
        except BaseException:
            self._disconnect()
            raise

    def _disconnect_unless_settled(self) -> None:
        """Closes a connection that `_connect` has not finished, or that has lost its file."""
        if self._suspect or self._file is None or identity_of(self._path) != self._file:
            self._disconnect()

    # -- tables

    def _table(self, cls: type[Record]) -> Table:
        """The class's table; made where there is none. Its `problem` says why rows can't be stored now."""
        table = self._tables.get(cls)
        if table is None:
            table = Table(cls, self._table_name)
            other = next((t for t in self._tables.values() if t.name.lower() == table.name.lower()), None)
            if other is not None:
                raise ConfigurationError(
                    f"SqliteSink: table {table.name!r} holds {other.cls.__module__}.{other.cls.__name__}, and can't "
                    f"hold {cls.__module__}.{cls.__name__} too",
                    code=K336,
                )
            self._check(table)
            self._tables[cls] = table
        return table

    def _check_all(self) -> None:
        """Checks the tables anew where the file's schema has changed; anybody may change it between two writes."""
        for _ in range(len(self._tables) + 2):  # making a table changes it too
            schema = self._schema_version()
            if schema == self._schema:
                return
            for table in self._tables.values():
                self._check(table)
            self._schema = schema

    def _schema_version(self) -> int:
        assert self._connection is not None
        (version,) = self._connection.execute("PRAGMA schema_version").fetchone()
        return int(version)

    def _check(self, table: Table) -> None:
        """Compares the table in the file with the class. One that was never there is made."""
        assert self._connection is not None
        found = self._connection.execute(
            "SELECT type FROM sqlite_schema WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')", (table.name,)
        ).fetchone()
        if found is None and not table.made:
            with self._transaction() as connection:
                connection.execute(table.create)
            table.problem = ""
        elif found is None:
            table.problem = f"table {table.name!r} was dropped while the sink was writing; to go on: {table.create}"
        else:
            columns = self._connection.execute(f"PRAGMA table_xinfo({quoted(table.name)})").fetchall()
            said = ["it is a view"] if found[0] == "view" else table.differences(columns)
            where = f"table {table.name!r} in {self._path} does not fit {table.cls.__name__}: "
            table.problem = where + "; ".join(said) if said else ""
        table.made = table.made or not table.problem

    # -- rows

    def _entries(self, tuples: Sequence[Tuple[Any]], written: Written) -> list[Entry]:
        """The batch's rows, each once (C9), by table; what has no row is refused."""
        entries: dict[tuple[str, bytes], Entry] = {}
        for place, tup in enumerate(tuples):
            try:
                table = self._tables.get(type(tup.record)) or self._table(type(tup.record))
                row = table.row(tup)
            except (BadValue, ConfigurationError) as error:
                written.refused[place] = str(error)
                continue
            entry = entries.get((table.name, row[-1]))
            if entry is None:
                entries[table.name, row[-1]] = Entry(table, row, [place])
            else:
                entry.places.append(place)
        return sorted(entries.values(), key=attrgetter("table.name"))

    def _store(self, entries: list[Entry]) -> Tally:
        """Stores all but the bad rows: a part with one is halved, until the bad row is alone."""
        if not entries:
            return Tally()
        try:
            return self._insert(entries)
        except Exception as error:
            if not is_data_error(error):
                raise
            if len(entries) == 1:
                entries[0].refused = data_problem(entries[0].table, entries[0].row, error)
                return Tally()
        half = len(entries) // 2
        tally = self._store(entries[:half])
        tally.add(self._store(entries[half:]))
        return tally

    def _insert(self, entries: list[Entry]) -> Tally:
        """One transaction. Raises sqlite3.Error, and then none is stored."""
        tally = Tally()
        with self._transaction() as connection:
            if self._schema_version() != self._schema:
                raise StoreBusy(f"the tables in {self._path} are being changed by another program")
            for _, group in groupby(entries, attrgetter("table.name")):
                self._insert_into(connection, list(group), tally)
        return tally

    def _insert_into(self, connection: sqlite3.Connection, entries: list[Entry], tally: Tally) -> None:
        table = entries[0].table
        if table.problem:
            for entry in entries:
                entry.refused = table.problem
            return
        fresh: list[Row] = []
        pairs: set[bytes] = set()
        execute, known = connection.execute, table.known
        for entry in entries:
            key = entry.row[-1]
            pair = key[:PAIR_BYTES]
            found = execute(known, (pair + _LEAST, pair + _MOST)).fetchall()
            tally.duplicates += len(entry.places) - 1
            if (key,) in found:
                tally.duplicates += 1
                continue
            if found or pair in pairs:
                tally.divergent.append(f"{table.name} {key.hex()}")
            pairs.add(pair)
            fresh.append(entry.row)
        connection.executemany(table.insert, fresh)
        tally.stored += len(fresh)
