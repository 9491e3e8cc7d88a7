"""The few file operations that the state directory is made of, so that a disk can be passed in that forgets, tears or
runs full. All that is durable goes through them; SQLite's own go through the VFS that is named here.

Every path is the state directory's or below it. Must not know what is in the files.
"""

import contextlib
import errno
import os
import select
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal, Protocol

from topology.filesystem.locks import is_in_place, lock_now
from topology.filesystem.sync import sync_data, sync_file, sync_folder

# What the system says where there is no room, a quota is reached, or nothing may be written any more (F16, F17, F19).
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})

# Failures that pass by themselves, or once a descriptor or a right is given back. EIO is none of them: after it, the
# content of the disk is unknown.
AWAY: Final = FULL | {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM}

LOCK_AGAIN: Final = 10  # times that a lock is tried once more,
LOCK_AGAIN_S: Final = 0.05  # each so much later
COPY_BYTES: Final = 8 << 20  # that are copied at once
PARTS_MAX: Final = 1_024  # of one write: IOV_MAX of Linux and macOS
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")  # of Linux


@dataclass(frozen=True)
class FileStatus:
    """The file at a path; a link is not followed."""

    kind: Literal["file", "directory", "link", "other"]
    uid: int  # its owner
    ours: bool  # the owner is who runs this
    shared: bool  # anybody may write to it
    links: int  # names that a file has
    size: int  # bytes


class Lock(Protocol):
    def release(self) -> None:
        """Gives the lock back; may be called twice. It also goes with the process."""

    def is_in_place(self) -> bool:
        """Return False if the locked file was removed, or another one is at its path. Raises OSError."""
        ...


class Opened(Protocol):
    """A file that is open to be synced, however many others write to it."""

    def sync(self) -> None:
        """Make durable what any process has written to it until now. Raises OSError, also for a failure in the
        background since it was opened, or was synced last (F18)."""

    def close(self) -> None:
        """May be called twice."""


class WritableFile(Protocol):
    """A file that is open to be read and written at any place. All methods block, and all but `close` raise OSError.
    `sync` may be called from another thread, concurrently with the others."""

    def size(self) -> int:
        """The file's length in bytes."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes there: `length`, or those up to the file's end."""
        ...

    def write(self, offset: int, parts: Sequence[bytes]) -> None:
        """Write the parts, one behind the other, by one call of the system if there are up to PARTS_MAX. After an
        OSError the first bytes of them may have been written, and never all."""

    def allocate(self, size: int) -> None:
        """Take the room for a file of this many bytes, so that writes within it need none. New bytes are 0. A longer
        file stays as it is. After an OSError the file may have become longer, up to `size`."""

    def truncate(self, size: int) -> None:
        """Cut the file off at this length."""

    def sync(self) -> None:
        """Make durable what any process has written to the file until now, and the length that is needed to read it."""

    def close(self) -> None:
        """May be called twice. Does not raise."""


class Files(Protocol):
    """Operations that block. All raise OSError; nothing is durable before it is synced, by `create` for a file's
    content, and by `sync_directory` for its name."""

    @property
    def vfs(self) -> str:
        """The name of the apsw VFS that databases are opened with; empty: SQLite's own."""
        ...

    @property
    def boot(self) -> str:
        """A text that is another one after each start of the machine, which may have lost what was not synced; empty if
        the system has none."""
        ...

    def look(self, path: Path) -> FileStatus | None:
        """Return the status of the file there, or None if there is none."""
        ...

    def make_directory(self, path: Path, mode: int) -> None:
        """One directory, made with this mode. Raises FileExistsError."""

    def create(self, path: Path, content: bytes) -> None:
        """A new file of mode 0600 with this content, which is durable; its name is not yet. Raises FileExistsError."""

    def open(self, path: Path) -> Opened:
        """A file that is there."""
        ...

    def open_to_write(self, path: Path) -> WritableFile:
        """A plain file that is there; no link is followed. Raises FileNotFoundError."""
        ...

    def read(self, path: Path, bytes_max: int) -> bytes:
        """The content of a plain file; OSError (EFBIG) where it is longer than `bytes_max`."""
        ...

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory, in their order."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """At once, and in place of what is at `new`."""

    def remove(self, path: Path) -> None:
        """Raises FileNotFoundError."""

    def copy(self, source: Path, target: Path) -> None:
        """A new file of mode 0600 with the content of a plain file that does not change meanwhile. It is durable;
        its name is not yet. Raises FileExistsError. After another OSError a part of it may be there."""

    def remove_directory(self, path: Path) -> None:
        """Remove a directory that is empty. Raises FileNotFoundError."""

    def sync_directory(self, path: Path) -> None:
        """The names in it are durable, and what was removed stays removed."""

    def lock(self, path: Path) -> Lock:
        """Locks a file, which is made where it is not there. Raises BlockingIOError where another process, or another
        part of this one, has it for more than a moment."""
        ...


class DiskFiles:
    """The real ones."""

    @property
    def vfs(self) -> str:
        return ""

    @property
    def boot(self) -> str:
        try:
            return BOOT_ID.read_text("ascii").strip()
        except (OSError, ValueError):
            return ""

    def look(self, path: Path) -> FileStatus | None:
        try:
            found = path.lstat()
        except FileNotFoundError:
            return None
        kinds: dict[int, Literal["file", "directory", "link"]] = {
            stat.S_IFREG: "file",
            stat.S_IFDIR: "directory",
            stat.S_IFLNK: "link",
        }
        return FileStatus(
            kind=kinds.get(stat.S_IFMT(found.st_mode), "other"),
            uid=found.st_uid,
            ours=found.st_uid == os.geteuid(),
            shared=bool(found.st_mode & stat.S_IWOTH),
            links=found.st_nlink,
            size=found.st_size,
        )

    def make_directory(self, path: Path, mode: int) -> None:
        path.mkdir(mode=mode)

    def create(self, path: Path, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            sync_file(file.fileno())

    def open(self, path: Path) -> Opened:
        return _Open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))

    def open_to_write(self, path: Path) -> WritableFile:
        return _Writable(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))

    def read(self, path: Path, bytes_max: int) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "not a plain file", str(path))
            if found.st_size > bytes_max:
                raise OSError(errno.EFBIG, f"{found.st_size:,} bytes are too many", str(path))
            return file.read(bytes_max)

    def names(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def copy(self, source: Path, target: Path) -> None:
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a plain file", str(source))
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            with open(os.open(target, flags, 0o600), "wb") as new:
                _copy_content(file, new)
                new.flush()
                sync_file(new.fileno())

    def remove_directory(self, path: Path) -> None:
        os.rmdir(path)

    def sync_directory(self, path: Path) -> None:
        sync_folder(path)

    def lock(self, path: Path) -> Lock:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        held = _Locked(os.open(path, flags, 0o600), path)
        try:
            _lock_soon(held.descriptor)
        except BaseException:
            held.release()
            raise
        return held


def _copy_content(source: BinaryIO, target: BinaryIO) -> None:
    """Copy all bytes. The file system does it where it can, and may then share the blocks."""
    if (copy := getattr(os, "copy_file_range", None)) is not None:
        try:
            while copy(source.fileno(), target.fileno(), COPY_BYTES):
                pass
            if os.fstat(target.fileno()).st_size == os.fstat(source.fileno()).st_size:  # some file systems copy nothing
                return
        except OSError as error:
            if error.errno in FULL:
                raise
        source.seek(0)  # what was copied is the same again
        target.seek(0)
    shutil.copyfileobj(source, target, COPY_BYTES)


def _lock_soon(descriptor: int) -> None:
    """Waits a little for a command that only looks whether a run has it, or lists dead letters."""
    for _ in range(LOCK_AGAIN):
        with contextlib.suppress(BlockingIOError):
            lock_now(descriptor)
            return
        select.select([], [], [], LOCK_AGAIN_S)
    lock_now(descriptor)


class _Open:
    """A descriptor; a lock on it goes with it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def sync(self) -> None:
        sync_file(self.descriptor)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):  # the descriptor is free all the same, and what is synced is durable
                os.close(descriptor)

    release = close


class _Locked(_Open):
    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor)
        self._path = path

    def is_in_place(self) -> bool:
        return is_in_place(self.descriptor, self._path)


class _Writable(_Open):
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        parts = []
        while length > 0 and (part := os.pread(self.descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def write(self, offset: int, parts: Sequence[bytes]) -> None:
        while parts:
            batch, parts = parts[:PARTS_MAX], parts[PARTS_MAX:]
            written, length = os.pwritev(self.descriptor, batch, offset), sum(map(len, batch))
            while written < length:  # the disk is full, or a signal came
                written += os.pwrite(self.descriptor, b"".join(batch)[written:], offset + written)
            offset += length

    def allocate(self, size: int) -> None:
        if size <= self.size():
            return
        if (allocate := getattr(os, "posix_fallocate", None)) is not None:
            try:
                allocate(self.descriptor, 0, size)
                return
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    raise
        os.ftruncate(self.descriptor, size)  # there is no room taken: a write may fail

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)

    def sync(self) -> None:
        sync_data(self.descriptor)


def make_directories(files: Files, path: Path) -> None:
    """The directory, mode 0700, and those above it; each new name is durable in the directory that has it. Leaves what
    is there as it is."""
    if files.look(path) is not None:
        return
    missing = [path]
    while (above := missing[-1].parent) != missing[-1] and files.look(above) is None:
        missing.append(above)
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            files.make_directory(folder, 0o700 if folder == path else 0o777)
        files.sync_directory(folder.parent)


def replace(files: Files, path: Path, content: bytes) -> None:
    """The file has this content, durably, or what it had: a new file, synced, is renamed over it, and the directory is
    synced. Raises OSError; then either may be there."""
    beside = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        files.remove(beside)
    files.create(beside, content)
    files.rename(beside, path)
    files.sync_directory(path.parent)
