"""A SQLite database for one process and one connection, opened so that what a commit has said holds after a loss of
power, and each error told as what it means: no room, or nothing to trust any more.

Its own SQLite (apsw), without the bug of 3.7.0 to 3.51.2 that could damage a log. Must not know what is in the tables.
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
from topology.filesystem.files import AWAY, FULL, Files, Opened
from topology.storage.store import StoreBroken, StoreFull

APPLICATION: Final = 0x4B454447  # "KEDG", in the file's header: a database of ours
PAGE_BYTES: Final = 1_024  # a small commit is a page of each table that it changes
# Of the write-ahead log, counted in pages of this size, also where an older file has larger ones:
LOG_PAGES: Final = 4_000  # then what it has goes into the file, after a commit that was synced, and it begins anew
LOG_PAGES_LONG: Final = 32_000  # the same where commits are not synced, between two of them: nobody can commit then
LOG_PAGES_UNSYNCED: Final = 64_000  # and as a part of one, if nobody has seen to it
LOG_PAGES_FULL: Final = 128_000  # while it can't be done for want of room, nothing is committed beyond this
LOG_BYTES_MAX: Final = 1 << 30  # of a log that is looked through; more pages than that no commit of ours makes

_SETTINGS: Final = {
    "page_size": str(PAGE_BYTES),  # of a new file
    "journal_mode": "WAL",
    "synchronous": "FULL",  # a commit is durable when it returns; NORMAL syncs none, but what goes into the file
    "fullfsync": "ON",  # on macOS, where fsync alone is not enough
    "checkpoint_fullfsync": "ON",
    "wal_autocheckpoint": "0",  # SQLite's own passes over errors of fsync, which nobody may (F18)
    "cache_spill": "OFF",  # a page is in the log once a commit, which `log` counts by
    "mmap_size": "0",
    "temp_store": "MEMORY",
    "cell_size_check": "ON",
    "trusted_schema": "OFF",
}

logger = logging.getLogger("kedge")


class Damaged(Exception):
    """What is there is not what was written. The text says what was found."""


class Unusable(Exception):
    """The system does not give it: another process has it, it may not be written, or can't be read. The text says
    which."""


class InUse(Unusable):
    """Another process has it open."""


class Database:
    """One connection. `commit` and `rows` raise StoreFull and StoreBroken; after the latter nothing is tried again.

    Opening raises Damaged or Unusable. `checked`: the pages were looked through just before, and nobody had it since.
    """

    def __init__(self, files: Files, path: Path, *, new: bool = False, checked: bool = False) -> None:
        self.path = path
        self.broken = ""
        self.log = b""  # what it had when the file was opened, until somebody has looked through it
        self._lasting = True  # whether commits are synced
        self._files = files
        self._log: Opened | None = None  # the log, to be synced apart
        self._page_size = PAGE_BYTES
        self._log_pages = 0
        self._left_log = False  # behind the last commit in the log something may be left: of a process that was
        # killed, or of a commit that had no room
        self._connection: apsw.Connection | None = None
        try:
            if not new:
                self._check_before(files)
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=files.vfs or None)
            if self._connection.readonly("main"):  # SQLite would go on, until it has to write
                raise Unusable("it may only be read")
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # what has failed is not tried again
            self._connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            self._connection.pragma("locking_mode", "EXCLUSIVE")  # before the log is used: no memory is shared
            if not new:
                self._check_header()
            for name, value in _SETTINGS.items():
                self._connection.pragma(name, value)
            self._page_size = self.number("page_size")  # that of an older file stays
            self._connection.set_wal_hook(self._logged)
            if not new and not checked:
                self._check_pages()
        except (apsw.Error, OSError, StoreFull, StoreBroken) as error:
            told = self.while_opening(error)
            self.close()
            raise told from error
        except BaseException:
            self.close()
            raise
        logger.debug("%s is open with SQLite %s", path, apsw.sqlite_lib_version())

    def _check_before(self, files: Files) -> None:
        """SQLite would begin a new database in a file that is too short for one."""
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
        """A number of the header: `application_id`, `user_version`."""
        return int(self.rows(f"PRAGMA {pragma}")[0][0])

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query. Raises StoreBroken."""
        with self._told():
            return self._open().execute(sql, tuple(values)).fetchall()

    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query one by one. Raises StoreBroken."""
        with self._told():
            yield from self._open().execute(sql, tuple(values))

    @contextlib.contextmanager
    def transaction(self, *, lasting: bool = True) -> Iterator["Database"]:
        """All that is done within is durable at its end, or nothing of it is done; where it is not `lasting`, it
        survives the process at once, and a loss of power with the next one that is. Raises StoreFull, StoreBroken."""
        if self._left_log or self._log_pages >= LOG_PAGES_FULL:
            self.checkpoint()  # what was found in the log may not be durable, and what is behind it is of nothing
        with self._told():
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
        self._tidy(LOG_PAGES if lasting else LOG_PAGES_UNSYNCED)

    @property
    def is_short(self) -> bool:
        """Whether a commit that is not lasting is a write into the log and no more: the log is not put into the file
        with it, and nothing has to be before."""
        return not self._left_log and self._log_pages < LOG_PAGES_UNSYNCED - LOG_PAGES  # no such commit has so many

    @property
    def is_long(self) -> bool:
        """Whether the log should be put into the file soon."""
        return self._log_pages >= LOG_PAGES_LONG

    def open_log(self) -> None:
        """To be called once after a commit, before `sync`: the log stays one file, which is cut, and never replaced.
        Raises OSError."""
        self._log = self._files.open(self.path.with_name(f"{self.path.name}-wal"))

    def sync(self) -> None:
        """What was committed before this is durable, as if the commits had been lasting. The one method that another
        thread may call beside the others. Raises StoreBroken: what an fsync has not kept, nothing keeps (F18)."""
        try:
            if self._log is not None and not self.broken:
                self._log.sync()
        except OSError as error:
            self.broken = self._unknown(error)
            raise StoreBroken(self.broken) from error
        if self._log is None or self.broken:  # or what another thread has found out meanwhile
            raise StoreBroken(self.broken or f"{self.path} is closed")

    def shorten(self) -> None:
        """Puts a long log into the file; where there is no room, the log grows on. Raises StoreBroken."""
        self._tidy(LOG_PAGES_LONG)
        if not self._log_pages:  # the first commit of a log syncs its header: this one, and none of somebody who waits
            with contextlib.suppress(StoreFull), self.transaction(lasting=False):
                self.run(f"PRAGMA user_version = {self.number('user_version')}")

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Within a transaction."""
        self._open().execute(sql, tuple(values))

    def changed(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Within a transaction: how many rows this has changed."""
        self._open().execute(sql, tuple(values))
        return self._open().changes()

    def checkpoint(self) -> None:
        """What the log has goes into the file, durably, and the log is empty. Raises StoreFull, StoreBroken."""
        with self._told():
            self._open().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._log_pages = 0
            self._left_log = False

    def settle(self) -> None:
        """What the log had when the file was opened is durable. Raises StoreFull, StoreBroken."""
        if self._left_log:
            self.checkpoint()

    def close(self) -> None:
        """Gives the file back as it is. Does not raise. May be called twice."""
        if self._log is not None:
            self._log.close()
        if self._connection is not None:
            with contextlib.suppress(apsw.Error, OSError):
                self._connection.close()
            self._connection = None

    def _tidy(self, most: int) -> None:
        """Keeps the log short. The commit holds, whatever comes of it, unless nothing can be trusted any more."""
        if self._log_pages >= most:
            with contextlib.suppress(StoreFull):  # there is room for commits yet, or the next one says so
                self.checkpoint()

    def _logged(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """SQLite says, after each commit, how long the log is now."""
        self._log_pages = pages * self._page_size // PAGE_BYTES
        return apsw.SQLITE_OK

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreBroken(f"{self.path} is closed")
        return self._connection

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        if self.broken:
            raise StoreBroken(self.broken)
        try:
            yield
        except (apsw.Error, OSError) as error:
            told = self._meaning(error)
            if isinstance(told, StoreBroken):
                self.broken = str(told)
            raise told from error

    def while_opening(self, error: BaseException) -> Damaged | Unusable:
        """What an error means to who opens a file: nothing was written yet, so nothing is broken by it."""
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
        return f"what {self.path} has on the disk is not known any more: {error} ({STATE_DURABILITY_UNKNOWN})"


# Nothing of the commit was kept, and it may be tried again.
_NO_ROOM: Final = (apsw.FullError, apsw.ReadOnlyError, apsw.NoMemError, apsw.CantOpenError)
_WRITES: Final = {apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_TRUNCATE}  # nothing was synced that went wrong later
