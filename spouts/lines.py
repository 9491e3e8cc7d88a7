"""Lines: the record that text sources emit, and how the bytes between two line ends become one.

Pure. Knows no file: where the bytes come from, and at which offset, is passed in.
"""

from collections.abc import Sequence

from topology.components import Message
from topology.records import Record


class Line(Record):
    """One line of text, without its line end (LF or CRLF); NULs and all else are kept.

    `raw` is None where the line's bytes were UTF-8. Where they were not, it holds them as they were, without the line
    end, and `text` has replacement characters (U+FFFD) in place of what could not be read.
    """

    text: str
    raw: bytes | None = None


def line_of(content: bytes) -> Line:
    """The line with these bytes, which have no line end."""
    try:
        return Line(content.decode())
    except UnicodeDecodeError:
        return Line(content.decode(errors="replace"), content)


def split(block: bytes) -> list[str] | list[bytes]:
    """The lines of a block that ends with a newline, each without its own. As text where all of it is ASCII: then a
    character is a byte, and one decode serves all lines. A carriage return at the end of a line is still there."""
    body = block[:-1]
    return body.decode("ascii").split("\n") if body.isascii() else body.split(b"\n")


def messages(lines: Sequence[str] | Sequence[bytes], offset: int, partition: str) -> tuple[list[Message[Line]], int]:
    """The messages of lines as `split` gives them, the first of which starts at `offset`; and the offset behind them.

    A message's id is the offset of its line's first byte.
    """
    made: list[Message[Line]] = []
    for line in lines:
        record = Line(line.removesuffix("\r")) if isinstance(line, str) else line_of(line.removesuffix(b"\r"))
        made.append(Message(record, offset, partition))
        offset += len(line) + 1
    return made, offset


def piece_end(block: bytes, longest: int) -> int:
    """Where to cut the first piece off a line that is longer than `longest` bytes: there, or up to three bytes before,
    so that no character of UTF-8 is cut in two. Never 0."""
    for end in range(longest, max(longest - 4, 0), -1):
        if block[end] & 0xC0 != 0x80:  # not a byte that continues a character
            return end
    return longest
