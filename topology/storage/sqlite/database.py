"""A SQLite database for one process and one connection. A finished commit survives a power failure, and each error is
translated to its meaning: no space, or nothing to trust any more.

Uses its own SQLite (apsw), without the bug of 3.7.0 to 3.51.2 that could damage a log. Must not know what is in the
tables.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from topology.codes.runtime import STATE_DURABILITY_UNKNOWN
from topology.filesystem.files import AWAY, FULL, Files
from topology.storage.store import StoreBroken, StoreFull

APPLICATION: Final = 0x4B454447  # "KEDG", in the file's header: a database of Kedge
PAGE_BYTES: Final = 1_024  # a small commit writes one page of each table that it changes
# Limits of the write-ahead log, in pages of PAGE_BYTES, even if an older file has larger pages:
LOG_PAGES: Final = 16_000  # from this on, a commit checkpoints the log into the file
LOG_PAGES_FULL: Final = 128_000  # no commit beyond this while a checkpoint fails for lack of space
COPIED_PAGES: Final = 10_000  # at a time
LOG_BYTES_MAX: Final = 1 << 30  # of a log that is read at a start; no commit of Kedge makes a longer one

_SETTINGS: Final = {
    "page_size": str(PAGE_BYTES),  # of a new file
    "journal_mode": "WAL",
    "synchronous": "FULL",  # a commit is durable on return; NORMAL syncs only the checkpoints
    "fullfsync": "ON",  # on macOS, where fsync alone is not enough
    "checkpoint_fullfsync": "ON",
    "wal_autocheckpoint": "0",  # SQLite's own checkpoints ignore errors of fsync, which is not allowed here (F18)
    "cache_spill": "OFF",  # a page is in the log once per commit; the log limits depend on that
    "mmap_size": "0",
    "temp_store": "MEMORY",
    "cell_size_check": "ON",
    "trusted_schema": "OFF",
}

logger = logging.getLogger("kedge")


class Damaged(Exception):
    """The content of the file is not what was written. The text says what was found."""


class Unusable(Exception):
    """The system does not open the file: another process has it open, it may not be written, or cannot be read. The
    text gives the reason."""


class InUse(Unusable):
    """Another process has it open."""


class Database:
    """One connection. `commit` and `rows` raise StoreFull and StoreBroken; after StoreBroken nothing is tried again.

    Opening raises Damaged or Unusable. `checked`: the pages were checked just before, and no other process has had the
    file since.
    """

    def __init__(self, files: Files, path: Path, *, new: bool = False, checked: bool = False) -> None:
        self.path = path
        self._files = files
        self.broken = ""
        self.log = b""  # the log's content when the file was opened, until it is checked
        self._lasting = True  # True if commits are synced
        self._page_size = PAGE_BYTES
        self._log_pages = 0
        # True if the log may have a tail behind its last commit: of a killed process, or of a commit without space
        self._left_log = False
        self._connection: apsw.Connection | None = None
        try:
            if not new:
                self._check_before(files)
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=files.vfs or None)
            if self._connection.readonly("main"):  # SQLite would continue until it has to write
                raise Unusable("it may only be read")
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # a failed checkpoint is not tried again
            self._connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            # set before the log is used, so that no shared memory is needed
            self._connection.pragma("locking_mode", "EXCLUSIVE")
            if not new:
                self._check_header()
            for name, value in _SETTINGS.items():
                self._connection.pragma(name, value)
            self._page_size = self.number("page_size")  # an older file keeps its page size
            self._connection.set_wal_hook(self._logged)
            if not new and not checked:
                self._check_pages()
        except (apsw.Error, OSError, StoreFull, StoreBroken) as error:
            meaning = self.while_opening(error)
            self.close()
            raise meaning from error
        except BaseException:
            self.close()
            raise
        logger.debug("%s is open with SQLite %s", path, apsw.sqlite_lib_version())

    def _check_before(self, files: Files) -> None:
        """Raise Damaged for a file that is too short: SQLite would begin a new database in it."""
        found = files.look(self.path)
        if found is not None and found.size < PAGE_BYTES:
            raise Damaged(f"it has {found.size} bytes")
        log = self.path.with_name(f"{self.path.name}-wal")
        self.log = files.read(log, LOG_BYTES_MAX) if files.look(log) is not None else b""
        self._left_log = bool(self.log)

    def _check_header(self) -> None:
        if (found := self.number("application_id")) != APPLICATION:
            raise Damaged(f"it is no database of Kedge's (application id {found})")
        if (mode := self.rows("PRAGMA journal_mode")[0][0]) != "wal":
            raise Damaged(f"its log is of another kind ({mode})")

    def _check_pages(self) -> None:
        found = str(self.rows("PRAGMA quick_check(1)")[0][0])
        if found != "ok":
            raise Damaged(found.splitlines()[-1])

    def number(self, pragma: str) -> int:
        """Return a number of the header: `application_id`, `user_version`."""
        return int(self.rows(f"PRAGMA {pragma}")[0][0])

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raises StoreBroken."""
        with self._sqlite_errors():
            return self._open().execute(sql, tuple(values)).fetchall()

    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query one by one. Raises StoreBroken."""
        with self._sqlite_errors():
            yield from self._open().execute(sql, tuple(values))

    @contextlib.contextmanager
    def transaction(self, *, lasting: bool = True) -> Iterator["Database"]:
        """Run a transaction: all of it is durable at its end, or nothing of it is done. If it is not `lasting`, it
        survives the process at once, and a power failure together with the next lasting one. Raises StoreFull,
        StoreBroken."""
        if self._left_log or self._log_pages >= LOG_PAGES_FULL:
            self.checkpoint()  # the log found at the start may not be durable, and its tail is invalid
        with self._sqlite_errors():
            connection = self._open()
            if lasting != self._lasting:
                connection.pragma("synchronous", "FULL" if lasting else "NORMAL")
                self._lasting = lasting
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield self
                connection.execute("COMMIT")
            except BaseException:
                self._left_log = True
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self._tidy()

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Execute a statement within a transaction."""
        self._open().execute(sql, tuple(values))

    def changed(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement within a transaction; return the number of rows that it has changed."""
        self._open().execute(sql, tuple(values))
        return self._open().changes()

    def checkpoint(self) -> None:
        """Move the log's content into the file, durably; the log is then empty. Raises StoreFull, StoreBroken."""
        with self._sqlite_errors():
            self._open().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._log_pages = 0
            self._left_log = False

    def copy_to(self, path: Path) -> None:
        """Copy the whole content to this path, durably; the name is not durable yet. Raises StoreFull if the copy
        fails, and then a part of it may be there; StoreBroken for this file itself.

        SQLite copies: a second descriptor of the file takes away the process's locks on it as it is closed (POSIX)."""
        self.checkpoint()
        try:
            if self._files.look(path) is not None:
                self._files.remove(path)  # a part, of a copy that was given up
            self._files.create(path, b"")
            self._copy_pages(path)
            file = self._files.open(path)
            try:
                file.sync()
            finally:
                file.close()
        except OSError as error:
            raise StoreFull(f"{path} can't be written: {error.strerror or error}") from error
        except (apsw.CorruptError, apsw.NotADBError) as error:  # this file itself
            self.broken = str(meaning := self._meaning(error))
            raise meaning from error
        except apsw.Error as error:
            raise StoreFull(f"{path} can't be written: {error}") from error

    def _copy_pages(self, path: Path) -> None:
        copy = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._files.vfs or None)
        try:
            copy.pragma("journal_mode", "OFF")
            copy.pragma("synchronous", "OFF")  # it is synced as a whole
            with copy.backup("main", self._open(), "main") as backup:
                while not backup.done:
                    backup.step(COPIED_PAGES)
        finally:
            copy.close()

    def settle(self) -> None:
        """Make the log that was found when the file was opened durable. Raises StoreFull, StoreBroken."""
        if self._left_log:
            self.checkpoint()

    def close(self) -> None:
        """Close the file as it is. Does not raise. May be called twice."""
        if self._connection is not None:
            with contextlib.suppress(apsw.Error, OSError):
                self._connection.close()
            self._connection = None

    def _tidy(self) -> None:
        """Keep the log short. The commit before it stays valid even if this fails, unless nothing can be trusted any
        more."""
        if self._log_pages >= LOG_PAGES:
            with contextlib.suppress(StoreFull):  # there is space for commits yet, or the next one reports it
                self.checkpoint()

    def _logged(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """Record the length of the log; SQLite calls this after each commit."""
        self._log_pages = pages * self._page_size // PAGE_BYTES
        return apsw.SQLITE_OK

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreBroken(f"{self.path} is closed")
        return self._connection

    @contextlib.contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        if self.broken:
            raise StoreBroken(self.broken)
        try:
            yield
        except (apsw.Error, OSError) as error:
            meaning = self._meaning(error)
            if isinstance(meaning, StoreBroken):
                self.broken = str(meaning)
            raise meaning from error

    def while_opening(self, error: BaseException) -> Damaged | Unusable:
        """Return the meaning of an error for a caller that opens a file: nothing was written yet, so nothing is broken
        by it."""
        if isinstance(error, StoreFull | StoreBroken):
            error = error.__cause__ or error
        if isinstance(error, apsw.BusyError):
            return InUse("another process has it open")
        if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.SQLError):
            return Damaged(str(error))
        if isinstance(error, OSError):
            return Unusable(error.strerror or str(error))
        number = self._connection.system_errno if self._connection is not None else 0
        return Unusable(f"{error}: {os.strerror(number)}" if number else str(error))

    def _meaning(self, error: apsw.Error | OSError) -> StoreFull | StoreBroken:
        if isinstance(error, OSError):
            number, failed = error.errno or 0, error.errno not in AWAY
        else:
            number = self._connection.system_errno if self._connection is not None else 0
            failed = not (
                isinstance(error, _NO_ROOM) or (getattr(error, "extendedresult", 0) in _WRITES and number in FULL)
            )
        if failed:
            return StoreBroken(
                self._unknown(error), self.path if isinstance(error, apsw.CorruptError | apsw.NotADBError) else None
            )
        number = errno.ENOSPC if isinstance(error, apsw.FullError) else number
        why = os.strerror(number) if number in AWAY else str(error) or type(error).__name__
        return StoreFull(f"{self.path} can't be written: {why}")

    def _unknown(self, error: Exception) -> str:
        return f"the content of {self.path} on the disk is unknown: {error} ({STATE_DURABILITY_UNKNOWN})"


# Nothing of the commit was kept, and it may be tried again.
_NO_ROOM: Final = (apsw.FullError, apsw.ReadOnlyError, apsw.NoMemError, apsw.CantOpenError)
_WRITES: Final = {apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_TRUNCATE}  # nothing was synced that failed later
