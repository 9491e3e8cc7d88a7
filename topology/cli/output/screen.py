"""A few lines at the bottom of a terminal, drawn in place; all other output to the terminal goes above them.

Knows cursors and escape sequences, and not the content of the lines. No line wraps: wrapping is off while they are
drawn. A terminal that gets narrower rewraps the lines itself (except a few old terminals); the code allows for that.
"""

import codecs
import contextlib
import io
import logging
import os
import re
import select
import shutil
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final, TextIO

from rich.cells import cell_len

from topology.text import escaped, write_whole

BURST: Final = 50  # lines written above after which the frame is hidden until the next `draw`, to save time
PENDING_MAX: Final = 100_000  # characters of an unfinished line
ERASE_LINE: Final = "\x1b[K"
ERASE_BELOW: Final = "\x1b[J"
HIDE: Final = "\x1b[?25l"  # hides the cursor
SHOW: Final = "\x1b[?25h"
NO_WRAP: Final = "\x1b[?7l"
WRAP: Final = "\x1b[?7h"
STYLES: Final = re.compile(r"(\x1b\[[0-9;:]*m)")


class Screen:
    """The bottom of the terminal that `stream` writes to. Any thread may write above it. Blocks as the stream does.
    Raises OSError if the terminal is gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()  # a signal handler may write too
        self._frame: list[str] = []  # the lines drawn last, with their styles
        self._cells: list[int] = []  # the width of each of these lines
        self._drawn = False
        self._columns = 0  # columns of the terminal when the frame was drawn
        self._above = 0  # lines written above since the last `draw`
        self._foreground = self._in_foreground()  # False under `timeout`, where the frame is drawn too

    def size(self) -> tuple[int, int]:
        """Return the current columns and rows of the terminal."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            columns, rows = 0, 0
        fallback = shutil.get_terminal_size()
        return columns or fallback.columns, rows or fallback.lines

    def draw(self, frame: list[str], plain: list[str]) -> None:
        """Show these lines in place of the previous ones; `plain` has the same lines without styles. Writes nothing if
        the lines are unchanged, the terminal takes no data (Ctrl-S), or another job has the terminal (`bg`)."""
        if not self._takes():
            return
        columns, rows = self.size()
        with self._lock:
            self._above = 0
            if self._drawn and frame == self._frame and columns == self._columns:
                return
            begin = self._to_first_line(columns, rows) + ("" if self._drawn else HIDE)
            # If the terminal got narrower, the rewrapped old lines are erased. Otherwise each line is overwritten
            # without erasing it first, so that nothing flickers.
            narrower = self._drawn and columns < self._columns
            self._frame, self._cells, self._columns = frame, [cell_len(line) for line in plain], columns
            self._drawn = True  # set before the write: a signal handler may clear the frame during it
            self._write(begin + ERASE_BELOW * narrower + self._lines())

    def above(self, lines: list[str]) -> None:
        """Write lines above the frame. The lines have to be safe for a terminal."""
        with self._lock:
            self._above += len(lines)
            text = self._erasure() + "".join(f"{line}\n" for line in lines)
            again = bool(self._frame) and self._above <= BURST
            self._drawn = again
            self._write(text + (self._lines() if again else ""))

    def clear(self) -> None:
        """Remove the frame, and show the cursor."""
        with self._lock:
            text = self._erasure() + SHOW
            self._drawn = False
            self._frame = []
            self._write(text)

    def _lines(self) -> str:
        """Return the frame. It leaves the cursor at the start of its last line, where an echoed ^C does least harm."""
        return f"{NO_WRAP}{(ERASE_LINE + chr(10)).join(self._frame)}{ERASE_BELOW}{WRAP}\r"

    def _erasure(self) -> str:
        return self._to_first_line(*self.size()) + ERASE_BELOW if self._drawn else ""

    def _to_first_line(self, columns: int, rows: int) -> str:
        """Return the move of the cursor from the last line of the frame to the first."""
        if not self._drawn:
            return ""
        up = len(self._cells) - 1
        if columns < self._columns:
            up = sum(max(1, -(-cells // columns)) for cells in self._cells[:-1])
        return "\r" + f"\x1b[{min(up, rows - 1)}A" * bool(up)

    def _takes(self) -> bool:
        """Return True if a frame can be written without waiting for the terminal, and without disturbing another
        job."""
        if self._foreground and self._in_foreground() is False:
            return False
        try:
            return bool(select.select([], [self._stream.fileno()], [], 0)[1])
        except (OSError, ValueError):
            return True  # the write will raise the error

    def _in_foreground(self) -> bool | None:
        """Return True if this job has the terminal; None if it is not our controlling terminal, or there is none."""
        try:
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()
        except (OSError, ValueError):
            return None

    def _write(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        write_whole(self._stream, text.encode(encoding, "replace"))


class Above(io.TextIOBase):
    """Replaces stdout or stderr while a frame is shown. Complete lines go above the frame, with their colours, and with
    all other control characters escaped (S11). An unfinished line waits for its end. Of a line that is overwritten
    repeatedly, the last state counts."""

    def __init__(self, screen: Screen, stream: TextIO) -> None:
        self._screen = screen
        self._stream = stream
        self._pending: list[str] = []
        self._waiting = 0  # characters in `_pending`
        self._over = False
        self._bytes = _Bytes(self)
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with self._lock:
            if self._over:
                return self._stream.write(text)
            *lines, rest = text.split("\n")
            if lines:
                lines[0] = self._taken() + lines[0]
            if "\r" in rest[:-1]:  # the text before it is overwritten
                self._taken()
                rest = rest[rest.rfind("\r", 0, -1) :]
            self._wait(rest)
            if self._waiting > PENDING_MAX:
                whole = self._taken()
                last = whole[whole.rfind("\r", 0, -1) + 1 :]
                if len(last) < len(whole):
                    self._wait(last)
                else:
                    lines.append(whole)
        if lines:
            self._screen.above([shown(line) for line in lines])
        return len(text)

    def end(self) -> None:
        """Write an unfinished line. Later writes of code that has kept this stream pass through directly."""
        with self._lock:
            self._over = True
            pending = self._taken()
        if pending:
            self._screen.above([shown(pending)])

    def _wait(self, text: str) -> None:
        if text:
            self._pending.append(text)
            self._waiting += len(text)

    def _taken(self) -> str:
        pending, self._pending, self._waiting = "".join(self._pending), [], 0
        return pending

    def flush(self) -> None:
        """Flush the stream after `end`. Before, complete lines are written at once, and an unfinished line waits."""
        if self._over:
            self._stream.flush()

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    @property
    def buffer(self) -> io.RawIOBase:
        return self._bytes

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)  # all other attributes of the stream


class _Bytes(io.RawIOBase):
    """The `buffer` of an Above: bytes take the same way as text."""

    def __init__(self, above: Above) -> None:
        self._above = above
        self._decoder = codecs.getincrementaldecoder(above.encoding or "utf-8")("replace")

    def write(self, data: Any) -> int:
        octets = bytes(data)
        self._above.write(self._decoder.decode(octets))
        return len(octets)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._above.fileno()


def shown(line: str) -> str:
    """Return one line with its colours, and with all other control characters escaped."""
    line = line.rstrip("\r")
    line = line[line.rfind("\r") + 1 :].expandtabs()
    if line.isprintable():
        return line
    parts = STYLES.split(line)
    safe = "".join(part if index % 2 else escaped(part) for index, part in enumerate(parts))
    return safe + "\x1b[0m" if len(parts) > 1 else safe


@contextlib.contextmanager
def written_above(screen: Screen) -> Iterator[None]:
    """Make stderr, stdout if it is the same terminal, and log handlers on either of them write above the frame."""
    replaced: dict[str, tuple[TextIO, Above]] = {}
    for name in ("stderr", "stdout"):
        stream: TextIO = getattr(sys, name)
        if name == "stderr" or _same(stream, sys.__stderr__):
            above = Above(screen, stream)
            replaced[name] = stream, above
            setattr(sys, name, above)
    handlers = [
        (handler, stream, above)
        for handler in _handlers()
        for stream, above in replaced.values()
        if handler.stream is stream
    ]
    for handler, _, above in handlers:
        handler.setStream(above)
    try:
        yield
    finally:
        for handler, stream, above in handlers:
            if handler.stream is above:
                handler.setStream(stream)
        for name, (stream, above) in replaced.items():
            with contextlib.suppress(OSError):
                above.end()
            if getattr(sys, name) is above:
                setattr(sys, name, stream)


def _handlers() -> list["logging.StreamHandler[Any]"]:
    """Return the handlers of all loggers that write to a stream."""
    loggers = [logging.getLogger(), *(known for known in logging.Logger.manager.loggerDict.values())]
    found = (handler for known in loggers if isinstance(known, logging.Logger) for handler in known.handlers)
    return [known for known in found if isinstance(known, logging.StreamHandler)]


def _same(stream: TextIO | None, other: TextIO | None) -> bool:
    """Return True if both streams write to the same terminal."""
    if stream is None or other is None or stream.closed:
        return False
    try:
        return stream.isatty() and os.path.samestat(os.fstat(stream.fileno()), os.fstat(other.fileno()))
    except (OSError, ValueError):
        return False
