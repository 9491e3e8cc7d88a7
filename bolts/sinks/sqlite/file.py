"""An SQLite file that one sink writes: the lock, the connection, its durability, and the cause of an error.

Knows SQLite and files; must not know tables, tuples, the loop or acks. Every call blocks; one thread makes them.

Every row that counts as stored must be durable. Rows that an earlier process wrote but never synced are visible after
its death. A replay would find its key and be dropped and acked, and a power loss would then take the row. So each new
connection first writes the log into the file again, as far as no reader holds it up, and commits a change of its own:
the syncs of these cover everything visible. This matters most after a failed fsync. The system then takes its pages for
clean, and the next fsync succeeds without having written anything (F18). A process that has seen a failed fsync tries
nothing again.
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bolts.sinks.contract import LOOK_BYTES_MAX, SinkStoreBroken, StoreAway
from bolts.sinks.files import PASSING, LockFile, checked_path, identity_of, lacking
from topology.codes.settings import SQLITE_LOCK_FAILED, SQLITE_NOT_DURABLE, SQLITE_TOO_OLD, SQLITE_UNUSABLE
from topology.errors import ConfigurationError

STRICT_SINCE: Final = (3, 37)
# A key is a hash, so each new row changes a page of the index of its own. With SQLite's 1,000 pages each second batch
# would write all those pages a second time, from the log into the file.
LOG_PAGES: Final = 8_000  # pages of 4 KiB in the log before they go into the file: 32 MB
CACHE_KIB: Final = 16 << 10  # KiB of pages that this process caches
EXTRA: Final = 3  # PRAGMA synchronous: as FULL, and also syncs the folder if there is no write-ahead log

# Primary result codes, except _SYNC_CODES, which are extended ones.
_BUSY_CODES: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
# no room, a quota, or an error of the disk
_WRITE_CODES: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})
_DAMAGED_CODES: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SYNC_CODES: Final = frozenset({sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC})

log = logging.getLogger("kedge.bolts")


class SqliteFile:
    """The file behind a `SinkStore`. All access is within `errors()`."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._given = path
        self._connection: sqlite3.Connection | None = None
        self._lock: LockFile | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the file when it was opened
        self._suspect = False  # True if an I/O error came since the file was last known to be durable

    @property
    def connection(self) -> sqlite3.Connection:
        assert self._connection is not None, "open"
        return self._connection

    def open(self) -> bool:
        """Take the lock and connect, unless that is done. Return True if the connection is new."""
        if sqlite3.sqlite_version_info < STRICT_SINCE:
            raise ConfigurationError(
                f"SqliteSink: SQLite {sqlite3.sqlite_version} is too old for STRICT tables; 3.37 or newer is needed",
                code=SQLITE_TOO_OLD,
            )
        log.debug("SQLite %s", sqlite3.sqlite_version)
        try:
            self.path = checked_path(self._given, "SqliteSink")
            self._lock = self._lock or LockFile(self.path)
        except OSError as error:
            if error.errno in PASSING:
                raise StoreAway(f"{self.path} can't be opened: {error.strerror}") from error
            text = f"SqliteSink: the lock file {self.path}-lock can't be made: {error}"
            raise ConfigurationError(text, code=SQLITE_LOCK_FAILED) from error
        with self.errors(opening=True):
            return self._connected("rwc")

    def ready(self) -> bool:
        """Check that the file is still ours, and connect if needed. Return True if the connection is new."""
        if not self._is_there():
            raise StoreAway(f"{self.path} was removed or replaced while the sink was writing, or can't be looked at")
        return self._connected("rw")

    def _is_there(self) -> bool:
        """Return True if the path names the file that was opened."""
        try:
            return self._file is not None and identity_of(self.path) == self._file
        except OSError:
            return False

    def close(self) -> None:
        """Close the connection and release the lock. Does not raise."""
        self._disconnect()
        if self._lock is not None:
            try:
                self._lock.release()
            except OSError as error:
                log.warning("the lock beside %s could not be removed: %s", self.path, error)
            self._lock = None

    def look_through(self) -> bool:
        """Check pages and their order by SQLite's quick_check; see `contract.LooksThrough`.

        It does not find a changed byte within a value, because SQLite keeps no checksums.
        """
        if not self._is_there():
            raise StoreAway(f"{self.path} was removed or replaced, or can't be looked at")
        try:
            if self.path.stat().st_size > LOOK_BYTES_MAX:
                return False
            if self._connection is not None:  # the log's content would hide the pages below it
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            # a new connection, with no page in memory
            reader = sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=1.0)
            try:
                (found,) = reader.execute("PRAGMA quick_check(1)").fetchone()
            finally:
                reader.close()
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code in _SYNC_CODES:
                raise SinkStoreBroken(f"{self.path} can't be relied on: {error}") from error
            if code & 0xFF in _DAMAGED_CODES:
                raise SinkStoreBroken(f"{self.path} is damaged: {error}", damaged=True) from error
            raise StoreAway(f"{self.path} can't be read: {error}") from error
        except OSError as error:
            raise StoreAway(f"{self.path} can't be read: {error.strerror}") from error
        if found != "ok":
            raise SinkStoreBroken(f"{self.path} is damaged: {' '.join(str(found).split())}", damaged=True)
        return True

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all or nothing, and durable at its end. It takes the lock first, so no lock is upgraded."""
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # some errors, and some triggers, have already rolled back
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def errors(self, *, opening: bool = False) -> Iterator[None]:
        """Turn an error of SQLite into one sentence.

        After any error but a wait for a lock, the next call opens the file again (D10).
        """
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is None:  # a bug of ours, which never came to SQLite
                self._disconnect()
                raise
            raise self._judged(error, code, opening) from error
        except (StoreAway, SinkStoreBroken, ConfigurationError):
            self._disconnect_unless_settled()
            raise
        except BaseException:
            self._disconnect()
            raise

    def _judged(self, error: sqlite3.Error, code: int, opening: bool) -> Exception:
        """Return the exception for an error of SQLite; close the connection if it is not to be used again."""
        primary, name = code & 0xFF, error.sqlite_errorname
        self._suspect = self._suspect or primary in _WRITE_CODES
        if primary in _BUSY_CODES:
            self._disconnect_unless_settled()
            return StoreAway(f"{self.path} is locked by another program ({name})")
        self._disconnect()
        if code in _SYNC_CODES or (primary in _DAMAGED_CODES and not opening):
            damaged = primary in _DAMAGED_CODES
            return SinkStoreBroken(f"{self.path} can't be relied on: {error} ({name})", damaged=damaged)
        if opening and primary == sqlite3.SQLITE_CANTOPEN and (why := lacking(self.path.parent)):
            return StoreAway(f"{self.path} can't be opened: {why} ({name})")
        if opening and primary not in _WRITE_CODES:
            text = f"SqliteSink: {self.path} can't be used as a store: {error} ({name})"
            return ConfigurationError(text, code=SQLITE_UNUSABLE)
        limits = "; see ulimit -f, quotas and dmesg" if primary == sqlite3.SQLITE_IOERR else ""
        return StoreAway(f"{self.path} can't be written: {error} ({name}{limits})")

    def _connected(self, mode: str) -> bool:
        if self._connection is not None:
            return False
        self._connect(mode)
        return True

    def _connect(self, mode: str) -> None:
        """Open the file and make sure of its durability (C11)."""
        uri = f"{self.path.as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        self._connection = connection  # before anything can raise, so that it is closed

        def pragma(setting: str) -> Any:
            found = connection.execute(f"PRAGMA {setting}").fetchone()
            return None if found is None else found[0]

        mode_found = pragma("journal_mode = WAL")  # readers do not stop the writer; other modes also work, but slower
        pragma(f"synchronous = {EXTRA}")
        pragma("fullfsync = 1")  # macOS: write through the disk's cache
        pragma("checkpoint_fullfsync = 1")
        pragma("mmap_size = 0")
        pragma(f"cache_size = -{CACHE_KIB}")
        pragma(f"wal_autocheckpoint = {LOG_PAGES}")
        if pragma("synchronous") != EXTRA or mode_found in ("memory", "off"):
            raise ConfigurationError(
                f"SqliteSink: {self.path} can't be made durable: journal_mode is {mode_found}, "
                f"synchronous is {pragma('synchronous')}",
                code=SQLITE_NOT_DURABLE,
            )
        busy = pragma(f"wal_checkpoint({'TRUNCATE' if self._suspect else 'PASSIVE'})")
        if busy and self._suspect:
            raise StoreAway(f"{self.path} is being read, and has to be written again after an I/O error")
        with self.transaction():
            connection.execute(f"PRAGMA user_version = {pragma('user_version')}")
        self._suspect = False
        self._file = identity_of(self.path)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error as error:
                log.warning("%s was not closed cleanly: %s", self.path, error)

    def _disconnect_unless_settled(self) -> None:
        """Close a connection that `_connect` has not finished, or that has lost its file."""
        if self._suspect or not self._is_there():
            self._disconnect()
