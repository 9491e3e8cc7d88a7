"""Files that sinks write: checked paths, and one writer a file.

Knows the operating system's calls, and nothing of records, tuples or stores. All calls block.
"""

import errno
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final

from topology.codes.settings import INVALID_SINK_PATH, SINK_FILE_LOCKED
from topology.errors import ConfigurationError
from topology.filesystem.safe_files import followed, open_lock

if sys.platform != "win32":
    import fcntl

# What may pass while a sink waits: no room, a limit, a failing disk, a network that is away. A missing right does not.
PASSING: Final = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EIO),
        *(errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH),
    }
)


def checked_path(path: str | os.PathLike[str], sink: str) -> Path:
    """The absolute path, with links followed, but for a stranger's (S26). Raises ConfigurationError where it
    can't be a sink's file, and OSError for what may pass."""
    resolved = Path(path)
    try:
        resolved = followed(path)
        mode = resolved.stat().st_mode
    except FileNotFoundError:
        if not resolved.parent.is_dir():
            raise ConfigurationError(
                f"{sink}: there is no folder {resolved.parent} to make {path} in", code=INVALID_SINK_PATH
            ) from None
        return resolved
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in PASSING:
            raise
        raise ConfigurationError(f"{sink}: {str(path)!r} can't be opened: {error}", code=INVALID_SINK_PATH) from error
    if stat.S_ISDIR(mode):
        raise ConfigurationError(f"{sink}: {path} is a folder, and a file is wanted", code=INVALID_SINK_PATH)
    if not stat.S_ISREG(mode):
        text = f"{sink}: {path} is not a regular file, so nothing stored in it would be durable"
        raise ConfigurationError(text, code=INVALID_SINK_PATH)
    return resolved


def identity_of(path: Path) -> tuple[int, int] | None:
    """Which file the name stands for now (device, inode), None where there is none: it changes when a file is moved
    away, removed or replaced, and what is written after that is not in the file that readers look at."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def lacking(folder: Path) -> str:
    """Why no file can be made in this folder now, if that may pass; empty where one can, or where it does not."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        return os.strerror(error.errno) if error.errno in PASSING else ""
    return ""


def lock(fd: int, path: Path) -> None:
    """Makes this process the file's one writer until the descriptor is closed, or says that another one is.

    Two sinks of one process exclude each other too. Raises ConfigurationError. Windows has no such lock: there it is
    left to the user.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise ConfigurationError(
                f"{path} is being written by another sink or process", code=SINK_FILE_LOCKED
            ) from error


class LockFile:
    """One writer for a file that is not ours to lock: SQLite's own locks would be lost with a descriptor closed.

    The lock is a file beside it, removed when given back. After a crash it stays, and does no harm.
    """

    def __init__(self, path: Path) -> None:
        """Takes the lock. Raises ConfigurationError where it is taken, OSError where it can't be made."""
        self._path = path.with_name(path.name + "-lock")
        while True:
            fd = open_lock(self._path)
            try:
                lock(fd, path)
            except BaseException:
                os.close(fd)
                raise
            if identity_of(self._path) == (os.fstat(fd).st_dev, os.fstat(fd).st_ino):
                self._fd = fd
                return
            os.close(fd)  # its last holder removed it between our open and our lock

    def release(self) -> None:
        """Gives the lock back. Called once."""
        if sys.platform != "win32":
            self._path.unlink(missing_ok=True)  # while it is held, so that nobody's new lock is removed
        os.close(self._fd)
