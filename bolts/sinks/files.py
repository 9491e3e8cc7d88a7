"""Files that sinks write: checked paths, and one writer per file.

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
from topology.filesystem.locks import lock_now
from topology.filesystem.safe_files import followed, open_lock

# What may pass while a sink waits: no room, a limit, a failing disk, a network that is away. A missing right does not.
PASSING: Final = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EIO),
        *(errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH),
    }
)


def checked_path(path: str | os.PathLike[str], sink: str) -> Path:
    """Return the absolute path, with links followed unless another user owns them (S26).

    Raises ConfigurationError if the path cannot be a sink's file, and OSError for an error that may pass.
    """
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
    """Return (device, inode) of the file that the name now stands for, None if there is none.

    It changes when a file is moved away, removed or replaced. Readers of the path then no longer see later writes.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def lacking(folder: Path) -> str:
    """Return the reason why no file can be made in this folder now, if it may pass; empty if one can, or if it does
    not."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        return os.strerror(error.errno) if error.errno in PASSING else ""
    return ""


def lock(fd: int, path: Path) -> None:
    """Make this process the only writer of the file until the descriptor is closed. Raises ConfigurationError if
    another is.

    Two sinks of one process exclude each other too. Windows has no such lock: there the user has to ensure it.
    """
    try:
        lock_now(fd)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        raise ConfigurationError(
            f"{path} is being written by another sink or process", code=SINK_FILE_LOCKED
        ) from error


class LockFile:
    """One writer for a file that we cannot lock itself: SQLite's own locks would be lost with a closed descriptor.

    The lock is a file next to it, removed when released. After a crash the lock file stays, and does no harm.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises ConfigurationError if it is taken, OSError if it cannot be made."""
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
            os.close(fd)  # the last holder removed the file between our open and our lock

    def release(self) -> None:
        """Release the lock. Called once."""
        if sys.platform != "win32":
            self._path.unlink(missing_ok=True)  # while it is held, so that no other holder's new lock is removed
        os.close(self._fd)
