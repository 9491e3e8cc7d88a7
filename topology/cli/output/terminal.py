"""The two places the command writes to: stdout for results, stderr for everything else. Text is made safe here.

Knows streams and characters, and nothing of topologies. Data may hold escape sequences, line ends and whole forged log
lines (S11): what people read goes through `topology.text.printable` first, or through `block`. A reader that goes away
(`| head -1`) ends nothing.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from topology.cli.output.buffer import OutputBuffer, may_be_slow
from topology.text import discard, encoded, printable, write_line

LAST_S: Final = 5.0  # how long the end waits for a reader of stderr that is slow


def block(text: str) -> str:
    """As `printable`, with line ends kept. Lines after the first are indented, so that none passes for a new entry."""
    first, *others = text.expandtabs().split("\n")
    return "\n".join([printable(first), *(f"    {printable(line)}" for line in others)])


class TerminalVoice:
    """How `say` puts things. `as_event`: makes one line of a level, a text and its figures, where each line on stderr
    has to be an event of its own (`--log-format json`); None: texts are written as they are."""

    as_event: Callable[[str, str, dict[str, Any]], str] | None = None
    outlet: OutputBuffer | None = None  # takes what stderr has no room for, while a run must not wait for it


VOICE: Final = TerminalVoice()


def say(text: str, *, level: str = "info", **figures: Any) -> None:
    """Tells people something on stderr. `level` and `figures`, what the text says in numbers, are for events. Never
    raises for a stderr that can't be written: nobody is left to be told."""
    write(VOICE.as_event(level, text, figures) if VOICE.as_event is not None else text)


def write(lines: str) -> None:
    """Writes lines to stderr as they are; as `say` otherwise."""
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
    """Until its end, `say` and `write` never wait for who reads stderr (F60): what it has no room for is written later,
    or left out and counted. The end waits LAST_S at most; what nobody has read by then is lost."""
    stream = sys.stderr
    try:
        slow = stream is not None and not stream.closed and may_be_slow(stream.fileno())
    except (OSError, ValueError):  # no real stream
        slow = False
    if stream is None or not slow:
        yield
        return

    def left_out(count: int) -> bytes:
        text = f"{count:,} lines for stderr had no room, since nobody read it, and are left out"
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
    """In a copy of this process, whose outlet has no thread."""
    VOICE.outlet = None


def put(text: str) -> None:
    """Writes lines to stdout; without a word where its reader has gone. Raises OSError where it fails otherwise."""
    try:
        write_line(sys.stdout, text)
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError:
        discard(sys.stdout)  # its buffer keeps the line, and the interpreter would try once more at exit
        raise


def live(stream: TextIO | None) -> bool:
    """Whether somebody watches this stream on a terminal that can move its cursor, and has not asked for events."""
    if stream is sys.stderr and VOICE.as_event is not None:
        return False
    if stream is None or stream.closed or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    return stream.isatty()


def colours() -> bool:
    """Whether stderr may be coloured (https://no-color.org)."""
    return live(sys.stderr) and not os.environ.get("NO_COLOR")
