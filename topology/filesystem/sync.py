"""Syncs files and folders to the disk, so that they survive a loss of power, on each system.

The one place that calls `fsync`. On macOS that alone leaves the bytes in the drive's cache, and F_FULLFSYNC empties it.
Must not know what is written, nor what a failure means for it.
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
    full: int | None = None if sys.platform == "win32" else getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
            return
        except OSError as error:
            if error.errno not in _HAS_NONE:  # a disk that has failed: a second try may seem to succeed
                raise
    os.fsync(descriptor)


def sync_folder(path: Path) -> None:
    """Waits until the names in this folder are on the disk: a file that was made, renamed or removed there. Blocks.
    Raises OSError. Does nothing on Windows, which has no such call."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)
