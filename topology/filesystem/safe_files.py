"""Writes files where others may write, as in /tmp: nothing that a stranger has planted there is followed (S26).

A new file is made beside its place, under a secret random name, and renamed: what was there before is never
opened. A link at that place is followed only where it can be the user's own. Knows the operating system's calls, and
nothing of what is written. All calls block.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from topology.filesystem.sync import sync_file, sync_folder

LINKS_MAX: Final = 40  # that lead from one to the next, as in Linux
NAMED: Final = 50  # characters of the file's name in that of what is made beside it: 4 bytes each, and 255 at most
TRIES_MAX: Final = 8
NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def followed(path: str | os.PathLike[str]) -> Path:
    """The absolute path that this one leads to; the file itself need not be there. Raises OSError: ELOOP with a
    sentence for a link that is a stranger's, neither ours, nor root's, nor that of the folder's owner."""
    left = [*reversed(Path(os.path.abspath(path)).parts)]
    here = Path(left.pop())
    links = 0
    while left:
        name = left.pop()
        if name == os.pardir:
            here = here.parent
            continue
        at = here / name
        try:
            status = os.lstat(at)
        except FileNotFoundError:
            here = at
            continue
        if not stat.S_ISLNK(status.st_mode):
            here = at
            continue
        links += 1
        if links > LINKS_MAX:
            raise OSError(errno.ELOOP, "it is a link that leads to itself", str(path))
        if status.st_uid not in (0, _user(), os.stat(here).st_uid):
            text = f"{at} is a link that another user has put there, and is not followed"
            raise OSError(errno.ELOOP, text, str(path))
        target = Path(os.readlink(at))
        if target.is_absolute():
            here = Path(target.anchor)
        left += [part for part in reversed(target.parts) if part != target.anchor]
    return here


def write_anew(path: str | os.PathLike[str], chunks: Iterable[bytes], *, synced: bool = False) -> None:
    """Puts a whole file there, in place of what there was; or leaves that as it is, and raises OSError, or what
    `chunks` raises. `synced`: its bytes are on the disk before it has its name.

    A link of the user's own stays one. A file of the user's own keeps its mode; another one's does not, as that could
    let others write it. What is no regular file, /dev/stdout or a pipe, is written as it is.
    """
    real = followed(path)
    mode = None
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(path)  # /dev/stdout leads to what has no path
        if not stat.S_ISREG(status.st_mode):
            _write_into(path, chunks)
            return
        mode = stat.S_IMODE(status.st_mode) & 0o777 if status.st_uid == _user() else None
    beside = real.with_name(f".{real.name[:NAMED]}.{secrets.token_hex(8)}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o666)
        with open(descriptor, "wb") as file:
            file.writelines(chunks)
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.flush()
            if synced:
                sync_file(descriptor)
        rename_over(beside, real)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def rename_over(made: Path, path: Path, *, synced: bool = False) -> None:
    """Give a file that was made beside its place that place. Readers find the whole file, or the one before.

    `synced`: its name is on the disk when this returns; its bytes must be already. Raises OSError.
    """
    os.replace(made, path)
    if synced:
        sync_folder(path.parent)


def open_lock(path: Path, mode: int = 0o644) -> int:
    """A descriptor of a file that is only there to be locked, made where there is none. Raises OSError for a link, for
    what is no regular file, and for a file that has a second name: it may be a stranger's."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | NO_LINK, mode)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    text = "what is there is no lock of ours: it is no regular file, or has another name"
    raise OSError(errno.EEXIST, text, str(path))


def open_anew(path: Path, mode: int = 0o644) -> int:
    """A descriptor of a new, empty file of this name. What is there, left by a crash or planted, is removed, and never
    opened. Raises OSError."""
    for _ in range(TRIES_MAX):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with contextlib.suppress(FileExistsError):
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, mode)
    raise FileExistsError(errno.EEXIST, "another process makes this file again and again", str(path))


def _write_into(path: str | os.PathLike[str], chunks: Iterable[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "wb") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EEXIST, "it has become another file meanwhile", str(path))
        file.writelines(chunks)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0
