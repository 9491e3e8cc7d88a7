"""The folder for files that components of a run keep themselves, beside the stores (`Task.folder`).

It is made on the first request, because most runs need none. A temporary folder is locked by a file of its own, so the
lock goes with the process that made it, however that process ends. The maker of the next one removes what such a
process left. Must not know the folder's content.
"""

import contextlib
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
from topology.filesystem.locks import open_locked

PREFIX: Final = "kedge-files-"  # of the temporary folders
TRIES_MAX: Final = 16  # attempts to make one; an attempt fails only if another run sweeps at that very moment
ENTRIES_MAX: Final = 10_000  # entries of the temporary directory that a sweep looks at
SWEPT_MAX: Final = 64  # folders that one sweep removes; the next sweep removes the rest
_NAME: Final = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as mkdtemp makes them
_LOCK: Final = "lock"
_FILES: Final = "files"  # the folder that components get, so that they find it empty


class ComponentFolder:
    """The folder of a whole run: at `path`, or temporary. Call it for the path; raises StartError."""

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
        """Return where the folder is or will be made. A temporary folder is made now."""
        return self._path or self()

    def close(self) -> None:
        """Remove a temporary folder. Never raises."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            os.close(self._lock)
            self._temporary = None


def sweep() -> int:
    """Remove our temporary folders that no process has locked: killed runs left them. Follows no link. Return how many
    were removed; never raises."""
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
    """Make a new folder. Return it and the descriptor that has it locked."""
    for _ in range(TRIES_MAX):
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        (path / _LOCK).touch()
        lock = _locked(path)
        if lock is not None:
            (path / _FILES).mkdir(mode=0o700)
            return path, lock
    raise OSError(f"it was removed {TRIES_MAX} times")


def _locked(path: Path) -> int | None:
    """Return a descriptor that holds the folder's lock. Return None if the folder is not ours, in use, or gone by now.
    Raises OSError if it can't be locked for another reason."""
    try:
        folder_status = os.lstat(path)
        if (
            not stat.S_ISDIR(folder_status.st_mode)
            or folder_status.st_uid != os.geteuid()
            or folder_status.st_mode & 0o777 != 0o700
        ):
            return None
        return open_locked(path / _LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return None


def _removed(path: Path) -> bool:
    """Remove a locked folder, its lock last, so that a partly removed folder is tried again. Return True if it is
    gone."""
    shutil.rmtree(path / _FILES, ignore_errors=True)
    if (path / _FILES).exists() or len(os.listdir(path)) > 1:
        return False
    os.unlink(path / _LOCK)
    os.rmdir(path)
    return True
