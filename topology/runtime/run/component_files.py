"""The folder for files that components of a run keep themselves, beside the stores (`Task.folder`).

Made when somebody asks for it first: most runs have none. A temporary one is locked by a file of its own, so the lock
goes with the process that has made it, however that ends; who makes the next one removes what such a process has left.
Must not know what is in it.
"""

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from itertools import islice
from pathlib import Path
from typing import Final

from topology.codes.startup import COMPONENT_DIR_NOT_CREATED
from topology.errors import StartError

PREFIX: Final = "kedge-files-"  # of the temporary ones
TRIES_MAX: Final = 16  # of making one; each can only fail by another run's sweep at that very moment
ENTRIES_MAX: Final = 10_000  # of the temporary directory, that a sweep looks at
SWEPT_MAX: Final = 64  # folders that one sweep removes; the next one goes on
_NAME: Final = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as mkdtemp makes them
_LOCK: Final = "lock"
_FILES: Final = "files"  # what components are given, so that they find it empty


class ComponentFolder:
    """One for a whole run: at `path`, or a temporary one. Call it for the path; raises StartError."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._temporary: Path | None = None
        self._lock = -1

    def __call__(self) -> Path:
        try:
            if self._path is not None:
                self._path.mkdir(mode=0o700, exist_ok=True)
                return self._path
            if self._temporary is None:
                sweep()
                self._temporary, self._lock = _made()
            return self._temporary / _FILES
        except OSError as error:
            where = self._path or tempfile.gettempdir()
            text = f"no folder for files of components can be made at {where}: {error.strerror or error}"
            raise StartError(text, code=COMPONENT_DIR_NOT_CREATED) from error

    @property
    def place(self) -> Path:
        """Where it is, or will be made; a temporary one is made now."""
        return self._path or self()

    def close(self) -> None:
        """Removes a temporary one. Never raises."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            os.close(self._lock)
            self._temporary = None


def sweep() -> int:
    """Removes temporary folders that are ours and that nobody has locked: left by runs that were killed. Follows no
    link. Returns how many are gone; never raises."""
    swept, parent = 0, Path(tempfile.gettempdir())
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in islice(entries, ENTRIES_MAX) if _NAME.fullmatch(entry.name)]
    except OSError:
        return 0
    for name in names:
        with contextlib.suppress(OSError):
            if (lock := _locked(parent / name)) is not None:
                swept += _removed(parent / name)
                os.close(lock)
        if swept == SWEPT_MAX:
            break
    return swept


def _made() -> tuple[Path, int]:
    """A new one, and the descriptor that has it locked."""
    for _ in range(TRIES_MAX):
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        (path / _LOCK).touch()
        lock = _locked(path)
        if lock is not None:
            (path / _FILES).mkdir(mode=0o700)
            return path, lock
    raise OSError(f"it was taken away {TRIES_MAX} times")


def _locked(path: Path) -> int | None:
    """A descriptor that holds the folder's lock; None where it is not ours, in use, or gone by now. Raises OSError for
    whatever else keeps it from being locked."""
    try:
        there = os.lstat(path)
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.geteuid() or there.st_mode & 0o777 != 0o700:
            return None
        lock = os.open(path / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.lstat(path / _LOCK)  # it may have been swept before it was locked
        if (found.st_dev, found.st_ino) == ((opened := os.fstat(lock)).st_dev, opened.st_ino):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _removed(path: Path) -> bool:
    """Removes a folder that is locked, its lock last, so that one of which something is left is tried again; whether it
    is gone."""
    shutil.rmtree(path / _FILES, ignore_errors=True)
    if (path / _FILES).exists() or len(os.listdir(path)) > 1:
        return False
    os.unlink(path / _LOCK)
    os.rmdir(path)
    return True
