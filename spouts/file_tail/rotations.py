"""Rotated files next to a log: the files of its folder that the path once named, oldest first.

Judges by names, as logrotate and similar tools assign them, and by the time of the last change. Must not know which of
them have been read: `identity` recognizes that by their content.
"""

import gzip
import logging
import os
import re
import tempfile
import zlib
from dataclasses import dataclass
from typing import Final

from spouts.file_tail.open_file import WINDOW_BYTES, open_regular
from topology.errors import ConfigurationError

BESIDE_MAX: Final = 100  # rotated files that are considered, the newest
UNPACKED_BYTES_MAX: Final = 8 << 30  # of one compressed file: a bomb must not fill the disk (S4)
_BLOCK: Final = 1 << 20

log = logging.getLogger("kedge.spouts")


@dataclass(frozen=True)
class RotatedFile:
    """A file whose name says that it was rotated."""

    path: str
    changed_ns: int
    key: tuple[int, int]  # device and inode

    @property
    def packed(self) -> bool:
        return self.path.endswith(".gz")


def rotated(path: str) -> list[RotatedFile]:
    """Return the rotated files of the log at `path`, oldest first, 100 at most: `auth.log.1`, `auth.log-20261121`,
    `auth.log.2.gz`, `app.1.log`. A folder that cannot be read has none."""
    folder, name = os.path.split(os.path.realpath(path))
    stem, ending = os.path.splitext(name)
    called = re.compile(
        rf"(?:{re.escape(name)}[.-]\d[\w.:-]*|{re.escape(stem)}[.-]\d[\w:-]*{re.escape(ending)}(?:\.gz)?)\Z"
    )
    found = []
    try:
        with os.scandir(folder) as there:
            for entry in there:
                if called.match(entry.name) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found.append(RotatedFile(entry.path, status.st_mtime_ns, (status.st_dev, status.st_ino)))
    except OSError as error:
        log.warning("rotated files beside %s can't be looked for: %s", path, error)
    found.sort(key=lambda one: (one.changed_ns, one.path))
    return found[-BESIDE_MAX:]


def opened(beside: RotatedFile) -> int | None:
    """Return a descriptor of its content, unpacked if it is compressed. None if it is gone, unreadable or damaged; the
    last two are logged as warnings. Blocks while it unpacks."""
    try:
        descriptor = open_regular(beside.path)
    except ConfigurationError as error:
        log.warning("%s", error)
        return None
    if not beside.packed:
        return descriptor
    try:
        with open(descriptor, "rb") as packed, gzip.open(packed, "rb") as content:
            return _unpacked(content)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        log.warning("%s can't be unpacked, and is not read: %s", beside.path, error)
        return None


def head_of(beside: RotatedFile) -> bytes | None:
    """Return the first 1,024 bytes of its content, without unpacking the rest; None if they cannot be read."""
    try:
        with open(open_regular(beside.path), "rb") as file:
            return gzip.open(file).read(WINDOW_BYTES) if beside.packed else file.read(WINDOW_BYTES)
    except (ConfigurationError, OSError, EOFError, zlib.error):
        return None


def _unpacked(content: gzip.GzipFile) -> int:
    """Return a descriptor of a file without a name that has this content. Raises ValueError if the content is too
    long."""
    with tempfile.TemporaryFile() as file:
        while block := content.read(_BLOCK):
            if file.tell() + len(block) > UNPACKED_BYTES_MAX:
                raise ValueError(f"it has more than {UNPACKED_BYTES_MAX:,} bytes")
            file.write(block)
        file.flush()
        return os.dup(file.fileno())
