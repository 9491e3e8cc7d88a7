"""Locks on files that are open: they go with the descriptor, and so with the process.

On Windows, which has no such locks, nothing is locked. Must not know what a lock protects.
"""

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def lock_now(descriptor: int) -> None:
    """Lock the file for this descriptor alone, without waiting.

    Raises BlockingIOError if another descriptor has a lock on it, of this process too; OSError if it can't be locked.
    """
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_shared(descriptor: int, *, wait: bool = False) -> None:
    """Lock the file together with others that share the lock. `wait`: block until no other descriptor has it alone.

    Raises BlockingIOError if another descriptor has it alone and `wait` is False; OSError if it can't be locked.
    """
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))


def lock_in_place(descriptor: int, path: Path) -> bool:
    """Lock the open file as `lock_now` does, and return whether it is still the one at this path.

    Return False if another descriptor has a lock on it, or if it was removed or replaced before it was locked. Raises
    OSError if it can't be locked for another reason.
    """
    try:
        lock_now(descriptor)
    except BlockingIOError:
        return False
    return is_in_place(descriptor, path)


def is_in_place(descriptor: int, path: Path) -> bool:
    """Return whether the open file is the one at this path. Does not follow a link. Raises OSError."""
    try:
        there = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    opened = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (opened.st_dev, opened.st_ino)


def open_locked(path: Path, flags: int) -> int | None:
    """Open the file, and lock it as `lock_in_place` does. Return its descriptor, or None if it is locked already or was
    replaced before it was locked. Does not follow a link. Raises OSError if it can't be opened or locked."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if lock_in_place(descriptor, path):
            return descriptor
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
