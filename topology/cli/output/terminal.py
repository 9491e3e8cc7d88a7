"""The two outputs of the command: stdout for results, stderr for everything else.

Knows streams and characters, and nothing of topologies. Data may contain escape sequences, line ends and forged log
lines (S11), so text for people goes through `topology.text.printable` or `block` first. If a reader closes the pipe
(`| head -1`), the command continues.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from topology.cli.output.buffer import OutputBuffer, may_be_slow
from topology.text import discard, encoded, printable, write_line

LAST_S: Final = 5.0  # seconds that the end of the command waits for a slow reader of stderr


def block(text: str) -> str:
    """Make text safe as `printable` does, but keep line ends. Indents further lines, so that none looks like an
    entry."""
    first, *others = text.expandtabs().split("\n")
    return "\n".join([printable(first), *(f"    {printable(line)}" for line in others)])


class TerminalVoice:
    """The settings of `say`. `as_event`: makes one line from a level, a text and its figures, if each line on stderr
    has to be an event of its own (`--log-format json`); None: texts are written unchanged."""

    as_event: Callable[[str, str, dict[str, Any]], str] | None = None
    outlet: OutputBuffer | None = None  # takes lines without room on stderr, while a run must not wait for stderr


VOICE: Final = TerminalVoice()


def say(text: str, *, level: str = "info", **figures: Any) -> None:
    """Print a text for people on stderr. `level` and `figures`, the numbers of the text, are for events. Never raises
    if stderr can't be written: no output is left for an error."""
    write(VOICE.as_event(level, text, figures) if VOICE.as_event is not None else text)


def write(lines: str) -> None:
    """Write lines to stderr unchanged; otherwise like `say`."""
    stream = sys.stderr
    if stream is None or stream.closed:
        return
    try:
        if VOICE.outlet is not None:
            data = encoded(stream, lines)
            if not VOICE.outlet.has_room(len(data)):
                VOICE.outlet.put(data)
                return
        write_line(stream, lines)
    except OSError:
        discard(stream)


@contextmanager
def unhurried() -> Iterator[None]:
    """Make `say` and `write` in this block never wait for the reader of stderr (F60). Lines without room are written
    later, or left out and counted. The end of the block waits at most LAST_S; lines that are unread by then are
    lost."""
    stream = sys.stderr
    try:
        slow = stream is not None and not stream.closed and may_be_slow(stream.fileno())
    except (OSError, ValueError):  # stderr is not a real stream
        slow = False
    if stream is None or not slow:
        yield
        return

    def left_out(count: int) -> bytes:
        text = f"{count:,} lines left out: stderr had no room, because its reader is too slow"
        return encoded(stream, VOICE.as_event("warning", text, {}) if VOICE.as_event is not None else text)

    VOICE.outlet = OutputBuffer(stream.fileno(), left_out)
    os.register_at_fork(after_in_child=_wait_again)
    try:
        yield
    finally:
        outlet, VOICE.outlet = VOICE.outlet, None
        if not outlet.written(LAST_S):
            discard(stream)


def _wait_again() -> None:
    """Remove the buffer in a forked copy of this process, which has no thread for it."""
    VOICE.outlet = None


def put(text: str) -> None:
    """Write lines to stdout. Ignores a closed pipe; raises OSError for other failures."""
    try:
        write_line(sys.stdout, text)
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError:
        discard(sys.stdout)  # its buffer keeps the line, and the interpreter would try again at exit
        raise


def live(stream: TextIO | None) -> bool:
    """Return True if this stream is a terminal that can move its cursor, and events are off."""
    if stream is sys.stderr and VOICE.as_event is not None:
        return False
    if stream is None or stream.closed or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    return stream.isatty()


def colours() -> bool:
    """Return True if stderr may be coloured (https://no-color.org)."""
    return live(sys.stderr) and not os.environ.get("NO_COLOR")
