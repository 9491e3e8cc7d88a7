"""Lines out of a stream of bytes that comes in blocks, and what becomes of a line that is too long.

Pure. Must not know where the bytes come from, nor what a line means.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from spouts.lines import piece_end


class LineCut(NamedTuple):
    """The content of one message, without its line end.

    offset   The place of its first byte in the stream.
    problem  Empty, or the reason why the content is not whole.
    """

    offset: int
    data: bytes
    problem: str = ""


class LineCuts(Protocol):
    """The cutting of one stream into the contents of messages."""

    def feed(self, block: bytes) -> Sequence[LineCut]:
        """Return what is whole now that this block has come."""
        ...

    def end(self) -> Sequence[LineCut]:
        """Return what is left at the end of the stream."""
        ...

    @property
    def held(self) -> int:
        """Return how many bytes of a message that is not whole have come."""
        ...


class LineCutter:
    """Cuts at newlines. A carriage return before a newline belongs to the line end.

    longest  Bytes of a line, at most; one more is let through, as it may be a carriage return. Little more than that is
             held between two calls.
    pieces   True: a longer line comes in pieces of `longest` bytes, cut between characters of UTF-8. False: its first
             `longest` bytes come with a problem, and the rest of the line is skipped.
    offset   The place in the stream of the first byte that will be fed.
    """

    def __init__(self, longest: int, *, pieces: bool, offset: int = 0) -> None:
        self.offset = offset  # of the first byte that is in no cut yet
        self._longest, self._pieces = longest, pieces
        self._rest = b""
        self._skips = False  # what comes up to the next newline

    @property
    def held(self) -> int:
        """Return how many bytes of a line that is not whole have come."""
        return len(self._rest)

    def feed(self, block: bytes) -> list[LineCut]:
        """Return the lines that end in this block, and the pieces of one that is too long to be held."""
        found: list[LineCut] = []
        *lines, rest = (self._rest + block if self._rest else block).split(b"\n")
        offset, fits = self.offset, self._longest + 1
        for line in lines:
            if self._skips:
                self._skips = False
            elif len(line) <= fits:
                found.append(LineCut(offset, line[:-1] if line.endswith(b"\r") else line))
            elif self._pieces:
                at = self._add_pieces(found, line, offset)
                found.append(LineCut(offset + at, line[at:].removesuffix(b"\r")))
            else:
                found.append(self._too_long(line, offset))
            offset += len(line) + 1
        taken = 0
        if self._skips:
            taken = len(rest)
        elif len(rest) > fits and self._pieces:
            taken = self._add_pieces(found, rest, offset)
        elif len(rest) > fits:
            found.append(self._too_long(rest, offset))
            taken, self._skips = len(rest), True
        self._rest, self.offset = rest[taken:], offset + taken
        return found

    def end(self) -> list[LineCut]:
        """Return the last line if no newline has ended it."""
        rest, self._rest = self._rest, b""
        offset, self.offset = self.offset, self.offset + len(rest)
        return [LineCut(offset, rest)] if rest else []

    def _add_pieces(self, found: list[LineCut], line: bytes, offset: int) -> int:
        """Add pieces of a line that is too long, until the rest of it is not. Return the place of that rest."""
        at, longest = 0, self._longest
        while len(line) - at > longest + 1:
            end = at + piece_end(line[at : at + longest + 1], longest)
            found.append(LineCut(offset + at, line[at:end]))
            at = end
        return at

    def _too_long(self, line: bytes, offset: int) -> LineCut:
        return LineCut(
            offset, line[: self._longest], f"the line has more than {self._longest:,} bytes (max_line_bytes)"
        )
