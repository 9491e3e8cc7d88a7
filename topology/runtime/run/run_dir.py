"""The run directory: the sockets of one run. Made for each run, removed with it, for its user only (S17, S18).

Its own descriptor locks it, so the lock goes with the process that made it, however that process ends. A later run
removes what such a process left. Only sockets with names of ours are removed, because in a temporary directory other
programs may have similar names. Must not know what the sockets are for.
"""

import contextlib
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
from topology.filesystem.locks import lock_in_place

PREFIX: Final = "kedge-"
TRIES_MAX: Final = 16  # attempts to make one; an attempt fails only if another run sweeps at that very moment
ENTRIES_MAX: Final = 10_000  # entries of a temporary directory that a sweep looks at
SWEPT_MAX: Final = 64  # directories that one sweep removes; the next run removes the rest
SOCKETS_MAX: Final = 1_000  # sockets of one directory that are removed
_NAME: Final = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as mkdtemp makes them
_SOCKET: Final = re.compile(r"\d+-\d+-[0-9a-f]{8}\.sock")
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def base() -> Path:
    """Return XDG_RUNTIME_DIR if it is a directory of ours, else the temporary directory. Raises StartError."""
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(named) and os.path.isdir(named) and os.stat(named).st_uid == os.geteuid():
        return Path(named)
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise StartError(f"no directory for a run's sockets: {error.strerror}", code=NO_TEMP_DIR) from error


def socket_path(directory: str, worker: int, incarnation: int, random: Random) -> str:
    """Return a path for the socket of one life of a worker. It is unique, because binding an existing path would steal
    it. All paths are equally long, so that if one fits the system's limit, all do."""
    return os.path.join(directory, f"{worker:05}-{incarnation % 10_000:04}-{random.getrandbits(32):08x}.sock")


def is_private(directory: str) -> bool:
    """Return True if this is a directory of ours that no other user may write to, and not a link to one."""
    try:
        status = os.lstat(directory)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def leave(directory: str, own_socket: str) -> None:
    """Remove the own socket of a worker whose supervisor is gone, and the directory with the last socket. `own_socket`
    is its path, or the address that it was bound to. Never raises."""
    with contextlib.suppress(OSError, ValueError):
        os.unlink(own_socket.removeprefix("ipc://"))
    with contextlib.suppress(OSError, ValueError):
        os.rmdir(directory)


class RunDir:
    """A new run directory under `parent` (`base()` by default), with mode 0700, locked until `close`.

    Raises StartError, in one sentence, if it can't be made.
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
        raise StartError(f"the run directory in {parent} was removed {TRIES_MAX} times", code=SOCKET_DIR_NOT_CREATED)

    def restore(self) -> None:
        """Make the directory again if it was removed, for example by a cleaner of temporary files. Never raises. Does
        nothing if it can't be made yet, or the name is taken."""
        if self._lock < 0 or os.path.lexists(self.path):
            return
        with contextlib.suppress(OSError):
            os.mkdir(self.path, 0o700)
            lock = _locked(self.path, made=True)
            if lock is not None:
                os.close(self._lock)
                self._lock = lock

    def close(self) -> None:
        """Remove the sockets and the directory, and release the lock. May be called twice; never raises."""
        if self._lock >= 0:
            _remove(self.path, self._lock)
            os.close(self._lock)
            self._lock = -1

    @staticmethod
    def sweep(parent: Path | None = None) -> int:
        """Remove our run directories that no process has locked: killed runs left them. Follows no link, and keeps a
        directory that contains anything else. Return how many were removed. Raises only StartError, from `base`."""
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
    """Return a descriptor of the directory, which holds its lock; None if it is not ours, in use, or gone by now. A
    directory that was just made and can't be locked for another reason is removed."""
    try:
        lock = os.open(path, _OPEN)
    except FileNotFoundError:
        return None
    try:
        opened = os.fstat(lock)
        ours = opened.st_uid == os.geteuid() and opened.st_mode & 0o777 == 0o700
        if ours and lock_in_place(lock, path):  # it may have been swept before it was locked
            return lock
    except OSError:
        os.close(lock)
        if made:
            os.rmdir(path)
        raise
    os.close(lock)
    return None


def _remove(path: Path, lock: int) -> bool:
    """Remove our sockets in a locked directory, then the directory. Return True if it is gone."""
    with contextlib.suppress(OSError):  # listing takes a descriptor, and there may be none left (F15)
        for name in os.listdir(lock)[:SOCKETS_MAX]:
            if _SOCKET.fullmatch(name) and stat.S_ISSOCK(os.lstat(name, dir_fd=lock).st_mode):
                os.unlink(name, dir_fd=lock)
    with contextlib.suppress(OSError):
        os.rmdir(path)
        return True
    return False
