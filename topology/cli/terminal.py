"""The two places the command writes to: stdout for results, stderr for everything else. Text is made safe here.

Knows streams and characters, and nothing of topologies. Data may hold escape sequences, line ends and whole forged log
lines (S11): what people read goes through `plain` first. A reader that goes away (`| head -1`) ends nothing.
"""

import os
import sys
from typing import Final, TextIO

LINE_MAX: Final = 2_000  # characters of one line that are shown


def plain(text: str) -> str:
    """The text in one line that a terminal takes as text: control characters escaped, long ones cut."""
    cut = len(text) - LINE_MAX
    if cut > 0:
        text = text[:LINE_MAX]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return f"{text}… ({cut} more characters)" if cut > 0 else text


def block(text: str) -> str:
    """As `plain`, with its line ends kept. Lines after the first are indented, so that none passes for a new entry."""
    first, *others = text.expandtabs().split("\n")
    return "\n".join([plain(first), *(f"    {plain(line)}" for line in others)])


def say(text: str) -> None:
    """Writes lines to stderr. Never raises for a stderr that can't be written: nobody is left to be told."""
    try:
        _write(sys.stderr, text)
    except OSError:
        _discard(sys.stderr)


def put(text: str) -> None:
    """Writes lines to stdout; without a word where its reader has gone. Raises OSError where it fails otherwise."""
    try:
        _write(sys.stdout, text)
    except BrokenPipeError:
        _discard(sys.stdout)


def live(stream: TextIO | None) -> bool:
    """Whether somebody watches this stream on a terminal that can move its cursor."""
    if stream is None or stream.closed or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    return stream.isatty()


def colours() -> bool:
    """Whether stderr may be coloured (https://no-color.org)."""
    return live(sys.stderr) and not os.environ.get("NO_COLOR")


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None or stream.closed:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def _discard(stream: TextIO) -> None:
    """Points the descriptor at nothing, or the interpreter's last flush would complain of the same pipe at exit."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # a replaced stream, which has none
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)
