"""Text that data may have a say in, made safe for people (S11): in one line, with nothing in it that a terminal obeys.

Pure: knows characters, and no stream that they are written to.
"""

import io
import os
from typing import Final, TextIO


def write_line(stream: TextIO | None, line: str) -> None:
    """Writes a line and flushes; nothing where the stream is closed or there is none. Characters that its encoding
    lacks are escaped. Blocks as the stream does. Raises OSError where it can't be written: BrokenPipeError where its
    reader has gone."""
    if stream is None or stream.closed:
        return
    write_whole(stream, encoded(stream, line))


def write_whole(stream: TextIO, data: bytes) -> None:
    """Writes text that is encoded for this stream, all of it, and flushes. A stream without a buffer, as they are by
    PYTHONUNBUFFERED, would drop the rest of what a signal has come in the middle of. Blocks and raises as the stream
    does; one that does not block, and has no buffer, leaves out what it has no room for."""
    binary = getattr(stream, "buffer", None)
    if not isinstance(binary, io.RawIOBase):  # a buffer writes on by itself
        stream.write(data.decode(_encoding(stream)))
        stream.flush()
        return
    stream.flush()  # what user code has left in the text layer comes first
    rest = memoryview(data)
    while rest and (written := binary.write(rest)) is not None:
        rest = rest[written:]


def encoded(stream: TextIO, line: str) -> bytes:
    """The line with its end, as the stream has it."""
    return f"{line}\n".encode(_encoding(stream), "backslashreplace")


def _encoding(stream: TextIO) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def discard(stream: TextIO) -> None:
    """Points the descriptor at nothing, or the interpreter's last flush would complain of the same pipe at exit."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # a replaced stream, which has none
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def open_standard_streams() -> None:
    """Opens the null device where standard input, output or error are closed: else the next descriptor would have their
    number, and what a library writes to standard error would go into a socket of ours."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, and is inherited by nobody


LINE_MAX: Final = 2_000  # characters of one line that are shown


def escaped(text: str) -> str:
    """Line ends, escapes, direction marks and lone surrogates as their `\\x..` forms; the rest as it is."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable(text: str) -> str:
    """The text in one line that a terminal takes as text: escaped, and cut after LINE_MAX characters, which it says."""
    cut = len(text) - LINE_MAX
    return f"{escaped(text[:LINE_MAX])}… ({cut} more characters)" if cut > 0 else escaped(text)
