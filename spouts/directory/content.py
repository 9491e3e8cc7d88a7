"""One file of a directory that is being read: its lines, from an offset on. Unpacks what ends with `.gz`.

Knows blocks, offsets and bytes. Must not know which file is next, nor what becomes of one that is done.
"""

import contextlib
import gzip
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from xxhash import xxh3_64_hexdigest

from spouts.directory.listing import FoundFile
from spouts.file_tail.open_file import open_regular, windows
from spouts.incoming.cutter import LineCut, LineCutter
from topology.errors import ConfigurationError

BLOCK_BYTES: Final = 1 << 18  # of the content, that one read takes
PACKED: Final = ".gz"
CHANGED: Final = "it has changed while it was read"


@dataclass(frozen=True)
class ReadBlock:
    """The result of one read.

    ended    The file was read to its end.
    trouble  The reason why it can't be read further; empty if it can.
    lasting  The trouble is the content's: trying again would not help.
    """

    cuts: Sequence[LineCut]
    ended: bool = False
    trouble: str = ""
    lasting: bool = False

    @property
    def has_changed(self) -> bool:
        """True if the file is another one by now."""
        return self.trouble == CHANGED


class DirectoryFile:
    """One file. Its methods block, and are called one after another, in any thread.

    `epoch` names its content: the inode, the size, the time of the last change, and the first and last 1,024 bytes.
    """

    def __init__(self, found: FoundFile) -> None:
        self.found = found
        self.epoch = ""
        self._descriptor = -1
        self._cuts: LineCutter | None = None
        self._unpacked: gzip.GzipFile | None = None
        self._next = 0  # offset in the file, or in the unpacked content
        self._start = 0  # of what is wanted of the unpacked content

    @property
    def offset(self) -> int:
        """Return the offset behind the lines that were read."""
        assert self._cuts is not None, "begin"
        return self._cuts.offset

    def begin(self, offset_of: Callable[[str], int], cuts_at: Callable[[int], LineCutter]) -> ReadBlock:
        """Open it, and read the first block. `offset_of` returns the offset to begin at, for its epoch."""
        try:
            self._descriptor = open_regular(self.found.path)
        except ConfigurationError as error:
            return ReadBlock((), trouble=str(error))
        try:
            if not self.found.is_at(os.fstat(self._descriptor)):
                return ReadBlock((), trouble=CHANGED)
            facts = f"{self.found.inode} {self.found.size} {self.found.changed_ns} ".encode()
            head, tail = windows(self._descriptor, self.found.size)
            self.epoch = xxh3_64_hexdigest(facts + head + tail)
            self._start = offset_of(self.epoch)
            self._cuts = cuts_at(self._start)
            if self.found.path.endswith(PACKED):
                packed = os.fdopen(self._descriptor, "rb", closefd=False)
                self._unpacked = gzip.GzipFile(fileobj=packed, mode="rb")
            else:
                self._next = self._start
        except OSError as error:
            return ReadBlock((), trouble=_cannot_be_read(self.found, error))
        return self.read()

    def read(self) -> ReadBlock:
        """Read the next block."""
        assert self._cuts is not None, "begin"
        try:
            block = self._block() if self._unpacked is None else self._unpacked_block(self._unpacked)
            cuts = self._cuts.feed(block)
            if block and (self._unpacked is not None or self._next < self.found.size):
                return ReadBlock(cuts)
            trouble = "" if self.found.is_at(os.fstat(self._descriptor)) else CHANGED
            return ReadBlock([*cuts, *self._cuts.end()], ended=True, trouble=trouble)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            return ReadBlock((), trouble=f"{self.found.path!r} can't be unpacked: {error}", lasting=True)
        except OSError as error:
            return ReadBlock((), trouble=_cannot_be_read(self.found, error))

    def close(self) -> None:
        """Close it. May be called twice."""
        if self._unpacked is not None:
            with contextlib.suppress(OSError, zlib.error):
                self._unpacked.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._unpacked = -1, None

    def _block(self) -> bytes:
        block = os.pread(self._descriptor, min(BLOCK_BYTES, self.found.size - self._next), self._next)
        self._next += len(block)
        return block

    def _unpacked_block(self, unpacked: gzip.GzipFile) -> bytes:
        while block := unpacked.read(BLOCK_BYTES):
            before, self._next = self._next, self._next + len(block)
            if self._next > self._start:
                return block[max(0, self._start - before) :]
        return b""


def _cannot_be_read(found: FoundFile, error: OSError) -> str:
    return f"the file {found.path!r} can't be read: {error.strerror or error}"
