"""The run directory: where the sockets of one run are. Made for each run, gone with it, for its user only (S17, S18).

It is locked by its own descriptor, so the lock goes with the process that has made it, however that ends; a later run
sweeps away what such a process has left. Nothing but sockets with names of ours is ever removed: in a temporary
directory others have names that are like ours. Must not know what the sockets are for.
"""

import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from topology.codes.startup import NO_TEMP_DIR, SOCKET_DIR_NOT_CREATED
from topology.errors import StartError

PREFIX: Final = "kedge-"
TRIES_MAX: Final = 16  # of making one; each can only fail by another run's sweep at that very moment
ENTRIES_MAX: Final = 10_000  # of a temporary directory, that a sweep looks at
SWEPT_MAX: Final = 64  # directories that one sweep removes; the next run goes on
SOCKETS_MAX: Final = 1_000  # of one directory, that are removed
_NAME: Final = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as mkdtemp makes them
_SOCKET: Final = re.compile(r"\d+-\d+-[0-9a-f]{8}\.sock")
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def base() -> Path:
    """XDG_RUNTIME_DIR where it is a directory of ours, else the temporary directory. Raises StartError."""
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(named) and os.path.isdir(named) and os.stat(named).st_uid == os.geteuid():
        return Path(named)
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise StartError(f"no directory for a run's sockets: {error.strerror}", code=NO_TEMP_DIR) from error


def socket_path(directory: str, worker: int, incarnation: int, random: Random) -> str:
    """A path for the socket of one life of a worker, that no other has (binding would steal it). As long for each of
    them, so that one which fits into the system's limit once does so always."""
    return os.path.join(directory, f"{worker:05}-{incarnation % 10_000:04}-{random.getrandbits(32):08x}.sock")


def is_private(directory: str) -> bool:
    """Whether this is a directory of ours that nobody else may write to, and no link to one."""
    try:
        found = os.lstat(directory)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def leave(directory: str, own_socket: str) -> None:
    """For a worker whose supervisor is gone: removes its own socket, and the directory with the last one. `own_socket`
    is its path, or the address that it was bound to. Never raises."""
    with contextlib.suppress(OSError, ValueError):
        os.unlink(own_socket.removeprefix("ipc://"))
    with contextlib.suppress(OSError, ValueError):
        os.rmdir(directory)


class RunDir:
    """A new run directory under `parent` (`base()` unless given), of mode 0700, locked until `close`.

    Raises StartError, in one sentence, where it can't be made.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = base() if parent is None else parent
        for _ in range(TRIES_MAX):
            try:
                self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
                lock = _locked(self.path, made=True)
            except OSError as error:
                raise StartError(
                    f"no directory for the run's sockets can be made in {parent}: {error.strerror}",
                    code=SOCKET_DIR_NOT_CREATED,
                ) from error
            if lock is not None:
                self._lock = lock
                return
        raise StartError(f"the run directory in {parent} was taken away {TRIES_MAX} times", code=SOCKET_DIR_NOT_CREATED)

    def restore(self) -> None:
        """Makes the directory again where it was taken away, by who tidies up temporary files say; never raises. Where
        it can't be made yet, or somebody has taken the name, nothing is done."""
        if self._lock < 0 or os.path.lexists(self.path):
            return
        with contextlib.suppress(OSError):
            os.mkdir(self.path, 0o700)
            lock = _locked(self.path, made=True)
            if lock is not None:
                os.close(self._lock)
                self._lock = lock

    def close(self) -> None:
        """Removes the sockets and the directory, and gives the lock back. May be called twice; never raises."""
        if self._lock >= 0:
            _remove(self.path, self._lock)
            os.close(self._lock)
            self._lock = -1

    @staticmethod
    def sweep(parent: Path | None = None) -> int:
        """Removes run directories that are ours and that nobody has locked: left by runs that were killed. Follows no
        link, and leaves what holds anything else. Returns how many are gone; never raises but StartError of `base`."""
        swept = 0
        for path in _candidates(base() if parent is None else parent):
            try:
                lock = _locked(path)
            except OSError:
                continue
            if lock is not None:
                swept += _remove(path, lock)
                os.close(lock)
            if swept == SWEPT_MAX:
                break
        return swept


def _candidates(parent: Path) -> Iterator[Path]:
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in islice(entries, ENTRIES_MAX) if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    yield from (parent / name for name in names)


def _locked(path: Path, *, made: bool = False) -> int | None:
    """A descriptor of the directory, which holds its lock; None where it is not ours, in use, or gone by now. One that
    was just made, and that can't be locked for another reason, is removed."""
    try:
        lock = os.open(path, _OPEN)
    except FileNotFoundError:
        return None
    try:
        opened = os.fstat(lock)
        if opened.st_uid == os.geteuid() and opened.st_mode & 0o777 == 0o700:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.lstat(path)  # it may have been swept before it was locked
            if (there.st_dev, there.st_ino) == (opened.st_dev, opened.st_ino):
                return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(lock)
        if made:
            os.rmdir(path)
        raise
    os.close(lock)
    return None


def _remove(path: Path, lock: int) -> bool:
    """Removes our sockets in a directory that is locked, then the directory; whether it is gone."""
    with contextlib.suppress(OSError):  # listing takes a descriptor, and there may be none left (F15)
        for name in os.listdir(lock)[:SOCKETS_MAX]:
            if _SOCKET.fullmatch(name) and stat.S_ISSOCK(os.lstat(name, dir_fd=lock).st_mode):
                os.unlink(name, dir_fd=lock)
    with contextlib.suppress(OSError):
        os.rmdir(path)
        return True
    return False
