"""Text that may contain untrusted data, made safe for people (S11): one line, without control sequences of a terminal.

Pure: knows characters, and no stream that they are written to.
"""

import io
import os
from typing import Final, TextIO


def write_line(stream: TextIO | None, line: str) -> None:
    """Write a line and flush; do nothing if the stream is closed or None.

    Characters that its encoding lacks are escaped. Blocks as the stream does. Raises OSError if the line cannot be
    written: BrokenPipeError if the reader has gone.
    """
    if stream is None or stream.closed:
        return
    write_whole(stream, encoded(stream, line))


def write_whole(stream: TextIO, data: bytes) -> None:
    """Write all of an encoded text to this stream, and flush.

    A stream without a buffer, as with PYTHONUNBUFFERED, would drop the rest if a signal arrived in the middle. Blocks
    and raises as the stream does. A non-blocking stream without a buffer loses the text that it has no room for.
    """
    binary = getattr(stream, "buffer", None)
    if not isinstance(binary, io.RawIOBase):  # a buffer continues by itself
        stream.write(data.decode(_encoding(stream)))
        stream.flush()
        return
    stream.flush()  # text that user code has left in the text layer comes first
    rest = memoryview(data)
    while rest and (written := binary.write(rest)) is not None:
        rest = rest[written:]


def encoded(stream: TextIO, line: str) -> bytes:
    """Return the line with its line end, in the stream's encoding."""
    return f"{line}\n".encode(_encoding(stream), "backslashreplace")


def _encoding(stream: TextIO) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def discard(stream: TextIO) -> None:
    """Redirect the descriptor to the null device. Otherwise the interpreter's last flush would report the same broken
    pipe at exit."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # a replaced stream, which has no descriptor
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def open_standard_streams() -> None:
    """Open the null device for each closed one of standard input, output and error. Otherwise the next descriptor would
    get its number, and a library that writes to standard error would write into a socket of Kedge."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, and is not inherited by child processes


LINE_MAX: Final = 2_000  # characters of one line that are shown


def escaped(text: str) -> str:
    """Return the text with line ends, escapes, direction marks and lone surrogates as their `\\x..` forms."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable(text: str) -> str:
    """Return the text as one line that is safe for a terminal: escaped, and cut after LINE_MAX characters with a
    remark."""
    cut = len(text) - LINE_MAX
    return f"{escaped(text[:LINE_MAX])}… ({cut} more characters)" if cut > 0 else escaped(text)
