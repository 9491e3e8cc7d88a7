"""One open file that others append to: its next lines, and a check that it still has the content that was read.

Knows offsets, blocks and bytes. It must not know which file a path names at the moment, the name of a partition, nor
when to look again: `spout` does.

Offsets repeat when a file is truncated and grows again. So every read first compares two windows of the content that
was read before: the file's first 1,024 bytes, and the last 1,024 before the next line. The second window is part of the
same `pread` as the new block, so a truncation in between cannot put other content under it. A file that was seen to be
smaller than before has been truncated, even if the windows are equal. Other content with both windows equal, and never
seen smaller, cannot be detected.
"""

import enum
import os
import stat
from collections.abc import Sequence
from itertools import islice
from typing import Final

from spouts.lines import Line, line_of, messages, piece_end, split
from topology.codes.settings import SOURCE_NOT_REGULAR_FILE, UNREADABLE_SOURCE_FILE
from topology.components import Message
from topology.errors import ConfigurationError, NotYet, did_you_mean

BESIDE_MAX: Final = 10_000  # names in a folder that a wrong path is compared with
WINDOW_BYTES: Final = 1_024  # of the head, and before the next line; the content is recognized by them


class ReadResult(enum.Enum):
    """The result of a read."""

    LINES = "at least one line, to be taken"
    NOTHING = "no whole line behind the last one"
    OTHER_CONTENT = "the file was truncated: what was read is no longer in it"


def open_regular(path: str, *, awaited: bool = False) -> int:
    """Return a descriptor of the regular file that `path` names, through symlinks. Never blocks on a FIFO or a device,
    nor opens one.

    Raises ConfigurationError in one sentence if it is no regular file, is missing or may not be read; NotYet if it is
    missing and `awaited`.
    """
    try:
        _refuse_unless_regular(path, os.stat(path).st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise unreadable(path, error, awaited=awaited) from error
    try:
        _refuse_unless_regular(path, os.fstat(descriptor).st_mode)  # it may have been swapped since
        _refuse_unless_readable(path, descriptor)
    except ConfigurationError:
        os.close(descriptor)
        raise
    return descriptor


def unreadable(path: str, error: Exception, *, awaited: bool = False) -> ConfigurationError | NotYet:
    """Return the error for a file that the system does not open. If the file is missing, the error suggests a similar
    name; a missing file that is `awaited` gives NotYet."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if not isinstance(error, FileNotFoundError):
        return ConfigurationError(f"the file {path!r} can't be read: {reason}", code=UNREADABLE_SOURCE_FILE)
    folder, own = os.path.split(path)
    try:
        with os.scandir(folder or ".") as there:
            beside = [os.path.join(folder, entry.name) for entry in islice(there, BESIDE_MAX) if entry.name != own]
    except OSError:  # the folder is missing too
        beside = []
    place = "" if os.path.isabs(path) else f"; it is looked up from {os.getcwd()}"
    text = f"the file {path!r} can't be read: {reason}{did_you_mean(path, beside)}"
    kind = NotYet if awaited else ConfigurationError
    return kind(text, code=UNREADABLE_SOURCE_FILE, next=f"fix the path{place}")


def _refuse_unless_regular(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(mode), "a device")
        raise _not_regular(path, f"it is {kind}, and only regular files are")


def _refuse_unless_readable(path: str, descriptor: int) -> None:
    """Raise ConfigurationError for files of /proc that claim to be regular. Some cannot be read (/proc/self/mem).
    Others have a length of 0 despite their content, so that each look at them would find them truncated."""
    try:
        content = os.pread(descriptor, 1, 0)
        has_length = not content or os.fstat(descriptor).st_size > 0
    except OSError as error:
        raise unreadable(path, error) from error
    if not has_length:
        raise _not_regular(path, "it has content and no length, as files of /proc have")


def _not_regular(path: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"the file {path!r} can't be read: {why}", code=SOURCE_NOT_REGULAR_FILE)


def windows(descriptor: int, offset: int) -> tuple[bytes, bytes]:
    """Return the file's first bytes and the last ones before `offset`, up to 1,024 of each; shorter if the file
    ends."""
    width = min(offset, WINDOW_BYTES)
    return os.pread(descriptor, width, 0), os.pread(descriptor, width, offset - width)


class TailedFile:
    """The lines of one open file, in order, from `offset` on, at which a line must start. Owns the descriptor.

    A read holds at most one block, or one line of `max_line_bytes` + 2, in memory. A longer line comes in pieces of
    `max_line_bytes`, each with its own offset.
    """

    def __init__(self, descriptor: int, offset: int, block_bytes: int, max_line_bytes: int) -> None:
        self.descriptor = descriptor
        status = os.fstat(descriptor)
        self.key = (status.st_dev, status.st_ino)
        self.offset = offset  # everything before it has been read, and nothing behind it
        self.pieces = 0  # pieces of lines that were too long
        self.done = False  # after `finish`
        self._largest = status.st_size
        self._longest = max_line_bytes
        self._block = min(block_bytes, max_line_bytes + 2)  # so that no whole line within a block is too long
        self._head, self._tail = windows(descriptor, offset)
        self._lines: Sequence[str] | Sequence[bytes] = ()
        self._taken = 0  # number of lines taken from _lines
        self._incomplete = b""  # the bytes behind `offset`, if `read` has found no line
        self._unended: bytes | None = None  # a line to be taken without a line end behind it
        self._next = offset  # offset of the next line to be taken

    @property
    def has_lines(self) -> bool:
        """True if lines have been read and not taken."""
        return self._taken < len(self._lines) or self._unended is not None

    @property
    def seen(self) -> tuple[bytes, bytes]:
        """The two windows before `offset`."""
        return self._head, self._tail

    def take(self, limit: int, partition: str) -> list[Message[Line]]:
        """Return up to `limit` of the lines that have been read."""
        if self._unended is not None:
            content, self._unended = self._unended, None
            return [Message(line_of(content), self._next, partition)]
        lines = self._lines[self._taken : self._taken + limit]
        self._taken += len(lines)
        made, self._next = messages(lines, self._next, partition)
        return made

    def read(self) -> ReadResult:
        """Read the next block of lines. Call it when all lines before have been taken. Blocks for a few reads of the
        disk."""
        if self.done:
            return ReadResult.NOTHING
        size = os.fstat(self.descriptor).st_size
        if self.offset and (size < self._largest or os.pread(self.descriptor, len(self._head), 0) != self._head):
            return ReadResult.OTHER_CONTENT
        self._largest = size
        seen, wanted = len(self._tail), self._block
        while True:
            data = os.pread(self.descriptor, seen + wanted, self.offset - seen)
            if not data.startswith(self._tail):
                return ReadResult.OTHER_CONTENT
            if end := data.rfind(b"\n", seen) + 1:
                self._lines, self._taken = split(data[seen:end]), 0
                self._moved(data[:end])
                return ReadResult.LINES
            if len(data) < seen + wanted:
                self._incomplete = data[seen:]  # possibly a half-written line: it is read again when there is more
                return ReadResult.NOTHING
            if wanted == self._longest + 2:
                end = seen + piece_end(data[seen:], self._longest)
                self._unended = data[seen:end]
                self.pieces += 1
                self._moved(data[:end])
                return ReadResult.LINES
            wanted = min(wanted * 2, self._longest + 2)

    def finish(self) -> ReadResult:
        """Treat the file's end, as the last `read` found it, as the end of its last line. Nothing is read after this.

        Called when `read` has found nothing.
        """
        if self.done or not self._incomplete:
            self.done = True
            return ReadResult.NOTHING
        self.done = True
        self._unended = self._incomplete
        self._moved(self._tail + self._incomplete)
        return ReadResult.LINES

    def restart(self) -> None:
        """Begin again at the file's first byte."""
        self.offset = self._next = 0
        self._head = self._tail = b""
        self._largest = 0

    def close(self) -> None:
        """Close the descriptor. The file must not be used after this."""
        os.close(self.descriptor)

    def _moved(self, data: bytes) -> None:
        """Move behind the bytes that were read: `data` begins with the tail before them and ends where the next line
        starts."""
        if len(self._head) < WINDOW_BYTES:
            self._head = data[:WINDOW_BYTES]  # the tail was shorter than a window: `data` begins at the file's start
        self._next = self.offset
        self.offset += len(data) - len(self._tail)
        self._tail = data[-WINDOW_BYTES:]
