"""The runtime's access to a `SimulatedDisk`: its file operations, and the VFS that SQLite uses.

One object stands for one machine, while it has power. A file that a dead process had opened stays open here, because
SQLite does not know of the death; operations on it then do nothing. Must not know what is in the files.
"""

import errno
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import apsw

from topology.filesystem.files import FileStatus, Lock, Opened, WritableFile
from topology.testing.simulator.disk import FileNode, SimulatedDisk

_numbers: Final = count()
_JOURNALS: Final = ("-wal", "-journal")


class SimulatedFiles:
    """`files.Files` of one machine. Call `end_process` for files that a dead process had open, `end_all` for all, and
    `close` when nothing is used any more."""

    def __init__(self, disk: SimulatedDisk, random: Random) -> None:
        self.disk = disk
        self.random = random
        self.opened: list[_File | _Writable] = []
        self._locks: dict[Path, _Held] = {}
        self._vfs = _Vfs(f"simulated-{next(_numbers)}", self)

    @property
    def vfs(self) -> str:
        return self._vfs.vfs_name

    @property
    def boot(self) -> str:
        return f"boot {self.disk.boots}"

    def end_process(self, store: Path) -> None:
        """Handle the death of the process that had this database open, and the log beside it. Its locks are gone with
        it."""
        its = f"{store.stem}."
        for file in self.opened:
            if file.path.name.startswith(its):
                file.dead = True
        for path in [path for path in self._locks if path.name.startswith(its)]:
            del self._locks[path]

    def end_all(self) -> None:
        """Handle the death of every process."""
        for file in self.opened:
            file.dead = True
        self._locks.clear()

    def close(self) -> None:
        self.end_all()
        self.opened.clear()
        self._vfs.unregister()

    # -- `files.Files`

    def look(self, path: Path) -> FileStatus | None:
        if self.disk.is_directory(path):
            return FileStatus("directory", os.geteuid(), ours=True, shared=False, links=1, size=0)
        node = self.disk.node(path)
        if node is None:
            return None
        return FileStatus("file", os.geteuid(), ours=True, shared=False, links=1, size=len(node.content))

    def make_directory(self, path: Path, mode: int) -> None:
        self.disk.make_directory(path)

    def create(self, path: Path, content: bytes) -> None:
        if self.look(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        node = FileNode()
        self.disk.change(path.parent, {path.name: node})
        self.disk.write(node, 0, content)
        self.disk.sync(node)

    def open(self, path: Path) -> Opened:
        return _Opened(self.disk, self._there(path))

    def open_to_write(self, path: Path) -> WritableFile:
        self.opened.append(file := _Writable(path, self._there(path), self))
        return file

    def read(self, path: Path, bytes_max: int) -> bytes:
        node = self._there(path)
        if len(node.content) > bytes_max:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return bytes(node.content)

    def names(self, path: Path) -> list[str]:
        return sorted([*self.disk.directory(path).names, *self.disk.directories_in(path)])

    def rename(self, old: Path, new: Path) -> None:
        assert old.parent == new.parent, "nothing of ours moves between directories"
        self.disk.change(old.parent, {new.name: self._there(old), old.name: None})

    def remove(self, path: Path) -> None:
        self._there(path)
        self.disk.change(path.parent, {path.name: None})

    def copy(self, source: Path, target: Path) -> None:
        self.create(target, bytes(self._there(source).content))

    def remove_directory(self, path: Path) -> None:
        self.disk.remove_directory(path)

    def sync_directory(self, path: Path) -> None:
        self.disk.sync_directory(path)

    def lock(self, path: Path) -> Lock:
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
        if self.disk.node(path) is None:
            self.disk.change(path.parent, {path.name: FileNode()})
        self._locks[path] = held = _Held(self._locks, path)
        return held

    def _there(self, path: Path) -> FileNode:
        node = self.disk.node(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return node


class _Opened:
    def __init__(self, disk: SimulatedDisk, node: FileNode) -> None:
        self._disk, self._node = disk, node

    def sync(self) -> None:
        self._disk.sync(self._node)

    def close(self) -> None:
        pass


class _Writable:
    """Operations on a `dead` file do nothing."""

    def __init__(self, path: Path, node: FileNode, files: SimulatedFiles) -> None:
        self.path = path
        self.dead = False
        self.node = node
        self._files = files
        self._disk = files.disk

    def size(self) -> int:
        return len(self.node.content)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self.node.content[offset : offset + length])

    def write(self, offset: int, parts: Sequence[bytes]) -> None:
        if not self.dead:
            self._disk.write(self.node, offset, b"".join(parts))

    def allocate(self, size: int) -> None:
        if not self.dead:
            self._disk.allocate(self.node, size)

    def truncate(self, size: int) -> None:
        if not self.dead:
            self._disk.truncate(self.node, size)

    def sync(self) -> None:
        if not self.dead:
            self._disk.sync(self.node)

    def close(self) -> None:
        self.dead = True
        if self in self._files.opened:
            self._files.opened.remove(self)


class _Held:
    def __init__(self, locks: dict[Path, "_Held"], path: Path) -> None:
        self._locks, self._path = locks, path

    def is_in_place(self) -> bool:
        return True  # no hazard removes the file

    def release(self) -> None:
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


class _Vfs(apsw.VFS):
    """A VFS that inherits only what concerns neither files nor randomness."""

    def __init__(self, name: str, files: SimulatedFiles) -> None:
        self.vfs_name = name
        self._files = files
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> Any:
        path = Path(str(name.filename() if isinstance(name, apsw.URIFilename) else name or ""))
        disk = self._files.disk
        node = FileNode() if name is None else disk.node(path)
        if node is None:
            if not flags[0] & apsw.SQLITE_OPEN_CREATE:
                raise apsw.CantOpenError(f"there is no {path}")
            if disk.full:
                raise apsw.FullError("no space left on device")
            disk.change(path.parent, {path.name: (node := FileNode())})
        flags[1] = flags[0]
        self._files.opened.append(file := _File(path, node, self._files))
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        path = Path(filename)
        if self._files.disk.node(path) is not None:
            self._files.disk.change(path.parent, {path.name: None})
            if syncdir:
                self._files.disk.sync_directory(path.parent)

    def xAccess(self, pathname: str, flags: int) -> bool:
        return self._files.disk.node(Path(pathname)) is not None

    def xFullPathname(self, name: str) -> str:
        return name

    def xRandomness(self, numbytes: int) -> bytes:
        return self._files.random.randbytes(numbytes)


class _File:
    """`apsw.VFSFile`, implemented here. Operations on a `dead` file do nothing."""

    def __init__(self, path: Path, node: FileNode, files: SimulatedFiles) -> None:
        self.path = path
        self.dead = False
        self._node = node
        self._files = files
        self._disk = files.disk
        self._lock = apsw.SQLITE_LOCK_NONE

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._node.content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.dead:
            return
        try:
            self._disk.write(self._node, offset, bytes(data))
        except OSError as error:
            raise apsw.FullError(str(error)) from error

    def xTruncate(self, newsize: int) -> None:
        if not self.dead:
            self._disk.truncate(self._node, newsize)

    def xSync(self, flags: int) -> None:
        if self.dead:
            return
        try:
            self._disk.sync(self._node)
        except OSError as error:
            failed = apsw.IOError(str(error))
            failed.extendedresult = apsw.SQLITE_IOERR_FSYNC  # type: ignore[attr-defined]  # apsw gives it to SQLite
            raise failed from error
        # as SQLite's own does: the name of a new log is durable with its first sync
        if self.path.name.endswith(_JOURNALS):
            self._disk.sync_directory(self.path.parent)

    def xFileSize(self) -> int:
        return len(self._node.content)

    def xLock(self, level: int) -> None:
        others = [file for file in self._same() if file is not self and not file.dead]
        if max((other._lock for other in others), default=0) >= apsw.SQLITE_LOCK_RESERVED and not self.dead:
            raise apsw.BusyError("another process has it")
        self._lock = max(self._lock, level)

    def xUnlock(self, level: int) -> None:
        self._lock = min(self._lock, level)

    def xCheckReservedLock(self) -> bool:
        return any(file._lock >= apsw.SQLITE_LOCK_RESERVED for file in self._same())

    def _same(self) -> list["_File"]:
        """All that have this database open."""
        return [file for file in self._files.opened if isinstance(file, _File) and file._node is self._node]

    def xClose(self) -> None:
        self.dead = True
        if self in self._files.opened:
            self._files.opened.remove(self)

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return 0
