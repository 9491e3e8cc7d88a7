"""A few lines at the bottom of a terminal, drawn in place; whatever else is written to it goes above them.

Knows cursors and escape sequences, and nothing of what the lines say. No line wraps: wrapping is off while they are
drawn. When the terminal gets narrower it has rewrapped them itself (but for a few old ones), which is reckoned with.
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

BURST: Final = 50  # lines written above after which the frame stays away until it is drawn anew: it would cost too much
PENDING_MAX: Final = 100_000  # characters of a line that has no end yet
ERASE_LINE: Final = "\x1b[K"
ERASE_BELOW: Final = "\x1b[J"
HIDE: Final = "\x1b[?25l"  # the cursor
SHOW: Final = "\x1b[?25h"
NO_WRAP: Final = "\x1b[?7l"
WRAP: Final = "\x1b[?7h"
STYLES: Final = re.compile(r"(\x1b\[[0-9;:]*m)")


class Screen:
    """The bottom of the terminal that `stream` writes to. Any thread may write above; blocks as the stream does. Raises
    OSError where the terminal is gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()  # a signal's handler may write, too
        self._frame: list[str] = []  # what was drawn last, with its styles
        self._cells: list[int] = []  # how wide each line of it is
        self._drawn = False
        self._columns = 0  # of the terminal when it was drawn
        self._above = 0  # lines written above since then
        self._foreground = self._in_foreground()  # not so under `timeout`, which draws all the same

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal at this moment."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            columns, rows = 0, 0
        fallback = shutil.get_terminal_size()
        return columns or fallback.columns, rows or fallback.lines

    def draw(self, frame: list[str], plain: list[str]) -> None:
        """Shows these lines in place of those before; `plain` are the same without styles. Writes nothing where they
        stand there already, where the terminal takes nothing (Ctrl-S), or where it is another job's (`bg`)."""
        if not self._takes():
            return
        columns, rows = self.size()
        with self._lock:
            self._above = 0
            if self._drawn and frame == self._frame and columns == self._columns:
                return
            begin = self._to_first_line(columns, rows) + ("" if self._drawn else HIDE)
            # Narrower: what the terminal has made of the old lines must go. Else each line is written over, without
            # being erased first, so that nothing flickers.
            narrower = self._drawn and columns < self._columns
            self._frame, self._cells, self._columns = frame, [cell_len(line) for line in plain], columns
            self._drawn = True  # before it is: a handler of signals may clear meanwhile
            self._write(begin + ERASE_BELOW * narrower + self._lines())

    def above(self, lines: list[str]) -> None:
        """Writes lines above the frame; they are text that a terminal may be given."""
        with self._lock:
            self._above += len(lines)
            text = self._erasure() + "".join(f"{line}\n" for line in lines)
            again = bool(self._frame) and self._above <= BURST
            self._drawn = again
            self._write(text + (self._lines() if again else ""))

    def clear(self) -> None:
        """Takes the frame away, and gives the cursor back."""
        with self._lock:
            text = self._erasure() + SHOW
            self._drawn = False
            self._frame = []
            self._write(text)

    def _lines(self) -> str:
        """The frame; the cursor is at the start of its last line then, where an echoed ^C does least harm."""
        return f"{NO_WRAP}{(ERASE_LINE + chr(10)).join(self._frame)}{ERASE_BELOW}{WRAP}\r"

    def _erasure(self) -> str:
        return self._to_first_line(*self.size()) + ERASE_BELOW if self._drawn else ""

    def _to_first_line(self, columns: int, rows: int) -> str:
        """Moves the cursor there from the last line."""
        if not self._drawn:
            return ""
        up = len(self._cells) - 1
        if columns < self._columns:
            up = sum(max(1, -(-cells // columns)) for cells in self._cells[:-1])
        return "\r" + f"\x1b[{min(up, rows - 1)}A" * bool(up)

    def _takes(self) -> bool:
        """Whether a frame can be written without waiting for the terminal, and without a word into another job."""
        if self._foreground and self._in_foreground() is False:
            return False
        try:
            return bool(select.select([], [self._stream.fileno()], [], 0)[1])
        except (OSError, ValueError):
            return True  # writing tells

    def _in_foreground(self) -> bool | None:
        """Whether the terminal is this job's; None where it is not the one that controls us, or there is none."""
        try:
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()
        except (OSError, ValueError):
            return None

    def _write(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        write_whole(self._stream, text.encode(encoding, "replace"))


class Above(io.TextIOBase):
    """Stands in for stdout or stderr while a frame is shown: whole lines go above it, with their colours, and with all
    else that a terminal obeys escaped (S11). What has no end yet waits for it; of a line that is written over and over
    the last state counts."""

    def __init__(self, screen: Screen, stream: TextIO) -> None:
        self._screen = screen
        self._stream = stream
        self._pending: list[str] = []
        self._waiting = 0  # characters in it
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
            if "\r" in rest[:-1]:  # what was before it is written over
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
        """Writes what has no end; from now on all is written as it comes, for who has kept this stream."""
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
        """Whole lines are written at once, and what has no end yet waits for it."""
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
        return getattr(self._stream, name)  # whatever else a stream may have


class _Bytes(io.RawIOBase):
    """The `buffer` of an Above: bytes go the same way as text."""

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
    """One line with its colours, and nothing else in it that a terminal obeys."""
    line = line.rstrip("\r")
    line = line[line.rfind("\r") + 1 :].expandtabs()
    if line.isprintable():
        return line
    parts = STYLES.split(line)
    safe = "".join(part if index % 2 else escaped(part) for index, part in enumerate(parts))
    return safe + "\x1b[0m" if len(parts) > 1 else safe


@contextlib.contextmanager
def written_above(screen: Screen) -> Iterator[None]:
    """Has stderr, stdout where it is the same terminal, and handlers of the log that hold either, write above."""
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
    """Those of all loggers that write to a stream."""
    loggers = [logging.getLogger(), *(one for one in logging.Logger.manager.loggerDict.values())]
    found = (handler for one in loggers if isinstance(one, logging.Logger) for handler in one.handlers)
    return [one for one in found if isinstance(one, logging.StreamHandler)]


def _same(stream: TextIO | None, other: TextIO | None) -> bool:
    """Whether both write to one terminal."""
    if stream is None or other is None or stream.closed:
        return False
    try:
        return stream.isatty() and os.path.samestat(os.fstat(stream.fileno()), os.fstat(other.fileno()))
    except (OSError, ValueError):
        return False
