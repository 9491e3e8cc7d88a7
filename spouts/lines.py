"""Lines: the record that text sources emit, and its construction from the bytes between two line ends.

Pure. Knows no file: the bytes and their offset are passed in.
"""

from collections.abc import Sequence

from topology.components import Message
from topology.records import Record


class Line(Record):
    """One line of text, without its line end (LF or CRLF); NULs and all other characters are kept.

    `raw` is None if the line's bytes were valid UTF-8. Otherwise `raw` has the bytes, without the line end, and `text`
    has replacement characters (U+FFFD) for the invalid ones.
    """

    text: str
    raw: bytes | None = None


def line_of(content: bytes) -> Line:
    """Return the line with these bytes, which have no line end."""
    try:
        return Line(content.decode())
    except UnicodeDecodeError:
        return Line(content.decode(errors="replace"), content)


def split(block: bytes) -> list[str] | list[bytes]:
    """Return the lines of a block that ends with a newline, each without its newline. They are text if the whole block
    is ASCII: then a character is a byte, and one decode serves all lines. A carriage return at the end of a line is
    kept."""
    body = block[:-1]
    return body.decode("ascii").split("\n") if body.isascii() else body.split(b"\n")


def messages(lines: Sequence[str] | Sequence[bytes], offset: int, partition: str) -> tuple[list[Message[Line]], int]:
    """Return the messages of lines that `split` returned, and the offset behind them. The first line starts at
    `offset`.

    A message's id is the offset of its line's first byte.
    """
    made: list[Message[Line]] = []
    for line in lines:
        record = Line(line.removesuffix("\r")) if isinstance(line, str) else line_of(line.removesuffix(b"\r"))
        made.append(Message(record, offset, partition))
        offset += len(line) + 1
    return made, offset


def piece_end(block: bytes, longest: int) -> int:
    """Return the place to cut the first piece off a line that is longer than `longest` bytes: at `longest`, or up to
    three bytes before, so that no UTF-8 character is cut in two. Never 0."""
    for end in range(longest, max(longest - 4, 0), -1):
        if block[end] & 0xC0 != 0x80:  # not a byte that continues a character
            return end
    return longest
