"""The two places the command writes to: stdout for results, stderr for everything else. Text is made safe here.

Knows streams and characters, and nothing of topologies. Data may hold escape sequences, line ends and whole forged log
lines (S11): what people read goes through `topology.text.printable` first, or through `block`. A reader that goes away
(`| head -1`) ends nothing.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

from topology.text import printable
from topology.writing import discard, write_line


def block(text: str) -> str:
    """As `printable`, with line ends kept. Lines after the first are indented, so that none passes for a new entry."""
    first, *others = text.expandtabs().split("\n")
    return "\n".join([printable(first), *(f"    {printable(line)}" for line in others)])


class Voice:
    """How `say` puts things. `as_event`: makes one line of a level, a text and its figures, where each line on stderr
    has to be an event of its own (`--log-format json`); None: texts are written as they are."""

    as_event: Callable[[str, str, dict[str, Any]], str] | None = None


VOICE: Final = Voice()


def say(text: str, *, level: str = "info", **figures: Any) -> None:
    """Tells people something on stderr. `level` and `figures`, what the text says in numbers, are for events. Never
    raises for a stderr that can't be written: nobody is left to be told."""
    write(VOICE.as_event(level, text, figures) if VOICE.as_event is not None else text)


def write(lines: str) -> None:
    """Writes lines to stderr as they are; as `say` otherwise."""
    try:
        write_line(sys.stderr, lines)
    except OSError:
        discard(sys.stderr)


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
