"""Values to store, and disks that fail: the real operations, with a plan of what goes wrong at the n-th of them, and a
memory of what was on the disk before each, as a kill or a loss of power would leave it.
"""

import errno
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from topology.filesystem.files import DiskFiles, Opened, WritableFile
from topology.storage.sqlite.schema import create_store
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Begun, Letter, Mark, Span, Trial

AT = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
_names = itertools.count()


def mark(position: Any, task: int = 0, *, partition: str = "p", epoch: str = "e", done: tuple[Any, ...] = ()) -> Mark:
    return Mark("lines", task, partition, epoch, position, tuple(Span(*span) for span in done), position)


def begun(task: int = 0, tasks: int = 1) -> Begun:
    return Begun("lines", task, tasks)


def trial(id: Any, task: int = 0, deaths: int = 1) -> Trial:
    return Trial("lines", task, "p", "e", id, deaths, False)


def letter(name: str, task: int = 0, **changed: Any) -> Letter:
    return Letter(
        **{
            "name": name,
            "component": "lines",
            "task": task,
            "partition": "p",
            "epoch": "e",
            "id": 7,
            "at": AT,
            "origin": 2**64 - 1,
            "identity": 5,
            "record_class": "Line",
            "record": b"\x91\xa1x" * 10,
            "text": "Line('x')",
            "failed_in": "parse",
            "reason": "raised",
            "code": "K520",
            "problem": "ValueError: no",
            "traceback": "line 1\nline 2 \ud800",
            "attempts": 3,
            "deaths": 0,
            "died_at": AT,
            **changed,
        }
    )


def made(path: Path, number: int = 0) -> Path:
    """A new store's file."""
    create_store(DiskFiles(), path, id=bytes([number]) * 16, number=number)
    return path


@contextmanager
def store(
    path: Path, files: DiskFiles | None = None, *, lives: bool = False, checked: bool = False
) -> Iterator[SqliteStore]:
    """`lives`: a worker's life begins, of the same owner as the last one."""
    opened = SqliteStore(files or DiskFiles(), path, checked=checked)
    try:
        if lives:
            opened.begin_life(opened._own.owner or (opened.number, 1), has_log=opened.has_log)
        yield opened
    finally:
        opened.close()


class Died(Exception):
    """The process is no more."""


Fault = Callable[[str, str], None]  # an operation and the name of its file; raises what goes wrong


@dataclass
class Faults:
    """`fault` is called before the operations numbered from `at` on, 1 being the next, and up to `until`."""

    fault: Fault
    at: int = 1
    until: float = float("inf")


def full(operation: str, name: str) -> None:
    """No room: nothing grows, and the rest goes on."""
    if operation in ("write", "create"):
        raise apsw.FullError if operation == "write" else OSError(errno.ENOSPC, "No space left on device")


def sync_fails(operation: str, name: str) -> None:
    """What was written is lost, and nobody knows which part."""
    if operation in ("sync", "sync_directory"):
        if operation == "sync_directory":
            raise OSError(errno.EIO, "Input/output error")
        error = apsw.IOError("fsync")
        error.extendedresult = apsw.SQLITE_IOERR_FSYNC
        raise error


def write_fails(operation: str, name: str) -> None:
    if operation == "write":
        error = apsw.IOError("write")
        error.extendedresult = apsw.SQLITE_IOERR_WRITE
        raise error


def killed(operation: str, name: str) -> None:
    raise Died


@dataclass
class Moment:
    """What is on the disk before an operation: as another process would find it, and as it is after a loss of power."""

    operation: str
    files: dict[str, bytes]
    durable: dict[str, bytes]


@dataclass
class FaultyFiles(DiskFiles):
    """The real disk, of one directory, without waiting for it: what would be durable is remembered here. Counts
    operations; keeps a moment for each where `remember` is set."""

    directory: Path
    faults: Faults | None = None
    remember: bool = False
    count: int = 0
    moments: list[Moment] = field(default_factory=list)
    machine: str = "this start"  # of the machine

    def __post_init__(self) -> None:
        self._vfs = _Vfs(f"faulty-{next(_names)}", self)
        self._durable = self.contents()  # with the names that are durable
        self._contents = dict(self._durable)  # of files whose name may not be

    @property
    def vfs(self) -> str:
        return self._vfs.vfs_name

    @property
    def boot(self) -> str:
        return self.machine

    @property
    def durable(self) -> dict[str, bytes]:
        """What a loss of power would leave now."""
        return dict(self._durable)

    def fail(self, fault: Fault, at: int = 1, until: float = float("inf")) -> None:
        self.faults = Faults(fault, self.count + at, self.count + until)

    def before(self, operation: str, path: Path) -> None:
        self.count += 1
        if self.remember:
            self.moments.append(Moment(f"{operation} {path.name}", self.contents(), dict(self._durable)))
        if self.faults is not None and self.faults.at <= self.count <= self.faults.until:
            self.faults.fault(operation, path.name)

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self._there()}

    def synced(self, path: Path) -> None:
        """Its content is durable; and the name of a log, since SQLite syncs the directory of one that it has made."""
        self._contents[path.name] = path.read_bytes()
        if path.name in self._durable or path.name.endswith(("-wal", "-journal")):
            self._durable[path.name] = self._contents[path.name]

    def _there(self) -> list[Path]:
        return [path for path in self.directory.iterdir() if path.is_file() and path.name != "lock"]

    def create(self, path: Path, content: bytes) -> None:
        self.before("create", path)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(content)
        self._contents[path.name] = content

    def open(self, path: Path) -> Opened:
        return _Opened(self, path)

    def open_to_write(self, path: Path) -> WritableFile:
        return _Writable(self, path, super().open_to_write(path))

    def rename(self, old: Path, new: Path) -> None:
        self.before("rename", old)
        super().rename(old, new)
        self._contents[new.name] = self._contents.pop(old.name)

    def remove(self, path: Path) -> None:
        if path.exists():
            self.before("remove", path)
        super().remove(path)

    def sync_directory(self, path: Path) -> None:
        self.before("sync_directory", path)
        if path == self.directory:
            self._durable = {one.name: self._contents.get(one.name, b"") for one in self._there()}


class _Opened:
    def __init__(self, files: FaultyFiles, path: Path) -> None:
        self._files, self._path = files, path

    def sync(self) -> None:
        try:
            self._files.before("sync", self._path)
        except apsw.IOError as error:  # as SQLite would be told
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from error
        self._files.synced(self._path)

    def close(self) -> None:
        pass


class _Writable:
    def __init__(self, files: FaultyFiles, path: Path, file: WritableFile) -> None:
        self._files, self._path, self._file = files, path, file
        self.size, self.read, self.close = file.size, file.read, file.close

    def write(self, offset: int, parts: Sequence[bytes]) -> None:
        self._before("write")
        self._file.write(offset, parts)

    def allocate(self, size: int) -> None:
        if size > self.size():
            self._before("write")
            self._file.allocate(size)

    def truncate(self, size: int) -> None:
        self._before("truncate")
        self._file.truncate(size)

    def sync(self) -> None:
        self._before("sync")
        self._files.synced(self._path)

    def _before(self, operation: str) -> None:
        try:
            self._files.before(operation, self._path)
        except apsw.FullError as error:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        except apsw.IOError as error:
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from error


class _Vfs(apsw.VFS):
    def __init__(self, name: str, files: FaultyFiles) -> None:
        self.vfs_name = name
        self._files = files
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(name, flags, self._files)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._files.before("delete", Path(filename))
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], files: FaultyFiles) -> None:
        assert name is not None
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        self._files = files
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        self._files.before("write", self._path)
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._files.before("truncate", self._path)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._files.before("sync", self._path)
        self._files.synced(self._path)


def laid_out(directory: Path, files: dict[str, bytes]) -> Path:
    """A directory with these files."""
    directory.mkdir(mode=0o700)
    for name, content in files.items():
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o600)
    return directory
