"""The folder of a comparison: made in the temporary directory, and removed at the end, or by the next comparison after
a kill.

A file in the folder is locked for as long as the comparison lives. Its processes wait for this lock and end with the
comparison, however it ends. A folder without a locked file belongs to no living comparison. Only folders with our
names, of this user, are ever removed. Must not know what is in the folder.
"""

import contextlib
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
from topology.filesystem.locks import lock_shared, open_locked

PREFIX: Final = "kedge-compare-"
ALIVE: Final = "alive"  # the file that is locked
TRIES_MAX: Final = 16  # attempts to make a folder; each can only fail by another comparison's sweep at that very moment
ENTRIES_MAX: Final = 10_000  # entries of a temporary directory that a sweep examines
SWEPT_MAX: Final = 16  # folders that one sweep removes; the next comparison removes more
ROOM_MIN: Final = 1_000_000  # bytes: with less, a mode has no room to write


class ComparisonFolder:
    """A new folder of mode 0700, locked until `close`. Raises StartError, with one sentence, if it cannot be made."""

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
        raise can_not_begin(f"the folder of the comparison in {parent} was removed {TRIES_MAX} times")

    def close(self) -> None:
        """Remove the folder with all its content, and release the lock. May be called twice; never raises."""
        if self._lock >= 0:
            _remove(self.path)
            os.close(self._lock)
            self._lock = -1


def sweep() -> int:
    """Remove the folders of killed comparisons. Follows no link. Return how many; never raises."""
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
    """Kill this process once the comparison of this folder is gone, however it ended.

    No other process would end it then. Costs a thread that waits for a lock. Does nothing in any other folder.
    """
    threading.Thread(target=_until_gone, args=(folder,), daemon=True, name="alive").start()


def can_not_begin(why: str) -> StartError:
    """Return the error for a comparison whose own files cannot be made."""
    return StartError(why, code=COMPARISON_FILES_NOT_WRITABLE)


def unmade(error: OSError) -> str:
    """Return the sentence for a failure of the comparison's own files, which no mode causes."""
    return f"the comparison could not create its files and processes: {error.strerror or error}"


def without_room(folder: Path) -> str:
    """Return a sentence if the folder's disk has no room left; else empty."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return ""
    return f"no space is left in {folder.parent}" if free < ROOM_MIN else ""


def _until_gone(folder: Path) -> None:
    try:
        file = os.open(folder / ALIVE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        lock_shared(file, wait=True)
    except FileNotFoundError:
        if folder.exists():
            return
    except OSError:
        return  # this file system has no locks
    os.kill(os.getpid(), signal.SIGKILL)


def _candidates(parent: str) -> Iterator[Path]:
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in islice(entries, ENTRIES_MAX) if entry.name.startswith(PREFIX)]
    except OSError:
        return
    yield from (Path(parent, name) for name in names)


def _new(folder: Path) -> int | None:
    """Return the lock of a folder that was just made; None if another comparison has taken it, and will remove it.

    Raises OSError; the folder is then gone.
    """
    try:
        return _locked(folder, os.O_CREAT | os.O_EXCL)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _locked(folder: Path, flags: int = 0) -> int | None:
    """Return a descriptor that holds the folder's lock; None if the folder is not ours, is in use, or is gone by
    now."""
    its = os.lstat(folder)
    if not stat.S_ISDIR(its.st_mode) or its.st_uid != os.geteuid() or its.st_mode & 0o777 != 0o700:
        return None
    return open_locked(folder / ALIVE, os.O_RDWR | flags)


def _remove(folder: Path) -> bool:
    """Remove the folder's content, the locked file last. Return True if the folder is gone."""
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
