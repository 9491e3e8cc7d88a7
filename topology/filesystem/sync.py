"""Syncs files and folders to the disk, so that they survive a loss of power, on each system.

The one place that calls `fsync` and `fdatasync`. On macOS `fsync` alone leaves the bytes in the drive's cache, and
F_FULLFSYNC empties it. Must not know what is written, nor what a failure means for it.
"""

import errno
import os
import sys
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

# What a file system says that has no F_FULLFSYNC, as one over the network: then `fsync` is what there is.
_HAS_NONE: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY, errno.ENOSYS})


def sync_file(descriptor: int) -> None:
    """Waits until the file's bytes are on the disk. Blocks. After an OSError they are not, and asking again proves
    nothing (F18)."""
    if not _sync_in_full(descriptor):
        os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """As `sync_file`, without what is not needed to read the bytes again, such as the time of the last change. A file
    whose length stays the same needs no write of its inode."""
    if not _sync_in_full(descriptor):
        if sys.platform == "linux":
            os.fdatasync(descriptor)
        else:
            os.fsync(descriptor)


def _sync_in_full(descriptor: int) -> bool:
    """Empty the drive's cache too, where the system has a call for that. Return whether it has. Raises OSError."""
    full: int | None = None if sys.platform == "win32" else getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
            return True
        except OSError as error:
            if error.errno not in _HAS_NONE:  # a disk that has failed: a second try may seem to succeed
                raise
    return False


def sync_folder(path: Path) -> None:
    """Waits until the names in this folder are on the disk: a file that was made, renamed or removed there. Blocks.
    Raises OSError. Does nothing on Windows, which has no such call."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)
