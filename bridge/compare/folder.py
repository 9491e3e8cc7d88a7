"""The folder of a comparison: made in the temporary directory, gone with it; the next one removes it after a kill.

A file in it is locked for as long as the comparison lives, however that ends: its processes wait for this lock and end
with it, and what nobody has locked is nobody's. Nothing but folders with names of ours, of this user, is ever removed.
Must not know what is in it.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from topology.codes.comparison import COMPARISON_FILES_NOT_WRITABLE
from topology.errors import StartError

PREFIX: Final = "kedge-compare-"
ALIVE: Final = "alive"  # the file that is locked
TRIES_MAX: Final = 16  # of making one; each can only fail by another comparison's sweep at that very moment
ENTRIES_MAX: Final = 10_000  # of a temporary directory, that a sweep looks at
SWEPT_MAX: Final = 16  # folders that one sweep removes; the next comparison goes on
ROOM_MIN: Final = 1_000_000  # bytes: less is no room for what a mode writes
_OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class ComparisonFolder:
    """A new one, of mode 0700, locked until `close`. Raises StartError, in one sentence, where it can't be made."""

    def __init__(self) -> None:
        try:
            parent = tempfile.gettempdir()
            for _ in range(TRIES_MAX):
                self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
                if (lock := _new(self.path)) is not None:
                    self._lock = lock
                    return
        except OSError as error:
            raise can_not_begin(unmade(error)) from error
        raise can_not_begin(f"the folder of the comparison in {parent} was taken away {TRIES_MAX} times")

    def close(self) -> None:
        """Removes it with all that is in it, and gives the lock back. May be called twice; never raises."""
        if self._lock >= 0:
            _remove(self.path)
            os.close(self._lock)
            self._lock = -1


def sweep() -> int:
    """Removes the folders of comparisons that were killed, and follows no link. Returns how many; never raises."""
    swept = 0
    for path in _candidates(tempfile.gettempdir()):
        try:
            lock = _locked(path)
        except OSError:
            continue
        if lock is not None:
            swept += _remove(path)
            os.close(lock)
        if swept == SWEPT_MAX:
            break
    return swept


@cache
def end_with(folder: Path) -> None:
    """Has this process killed once the comparison is gone that this folder is of, however it went: nobody is left who
    would end it. Costs a thread that waits for a lock. In a folder that is none of a comparison's it does nothing."""
    threading.Thread(target=_until_gone, args=(folder,), daemon=True, name="alive").start()


def can_not_begin(why: str) -> StartError:
    """The error of a comparison whose own files can't be made."""
    return StartError(why, code=COMPARISON_FILES_NOT_WRITABLE)


def unmade(error: OSError) -> str:
    """What is said where something of a comparison's own fails, which is no mode's fault."""
    return f"a file or process of the comparison's own can't be made: {error.strerror or error}"


def without_room(folder: Path) -> str:
    """A sentence, where there is no room left on its disk; else empty."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return ""
    return f"there is no room left in {folder.parent}" if free < ROOM_MIN else ""


def _until_gone(folder: Path) -> None:
    try:
        file = os.open(folder / ALIVE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        if folder.exists():
            return
    except OSError:
        return  # this file system knows no locks
    os.kill(os.getpid(), signal.SIGKILL)


def _candidates(parent: str) -> Iterator[Path]:
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in islice(entries, ENTRIES_MAX) if entry.name.startswith(PREFIX)]
    except OSError:
        return
    yield from (Path(parent, name) for name in names)


def _new(folder: Path) -> int | None:
    """Its lock, of one that was just made; None where another comparison has it, which takes it away. Raises OSError,
    and then it is gone."""
    try:
        return _locked(folder, os.O_CREAT | os.O_EXCL)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _locked(folder: Path, flags: int = 0) -> int | None:
    """A descriptor of its file, which holds the lock; None where it is not ours, in use, or gone by now."""
    its = os.lstat(folder)
    if not stat.S_ISDIR(its.st_mode) or its.st_uid != os.geteuid() or its.st_mode & 0o777 != 0o700:
        return None
    lock = os.open(folder / ALIVE, _OPEN | flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        opened, there = os.fstat(lock), os.lstat(folder / ALIVE)  # it may have been swept before it was locked
        if (there.st_dev, there.st_ino) == (opened.st_dev, opened.st_ino):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _remove(folder: Path) -> bool:
    """Removes what is in it, at last the file that is locked; whether it is gone."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            path = folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif name != ALIVE:
                path.unlink()
        if os.listdir(folder) == [ALIVE]:
            os.unlink(folder / ALIVE)
            os.rmdir(folder)
            return True
    return False
