"""`Print`: a look at a stream. Not a sink to rely on: a replay is printed again.

Knows stdout, and no store. A print waits while stdout's reader does not read, and the loop with it: a thread for each
line would cost more than the line, and a queue of lines could only grow or drop.
"""

import os
import sys
from typing import Final

from topology.components import Bolt
from topology.records import Record

LINE_MAX: Final = 2_000  # characters of a record that are printed


class Print(Bolt):
    """Prints `str(record)` for each record, one line each, control characters escaped, long ones cut.

    At least once: what is replayed is printed again. When the reader goes away (`| head -1`), it stops printing without
    a word, and records are still acked. Where stdout fails otherwise (a full disk), the record fails.
    """

    def __init__(self) -> None:
        self._reader_gone = False

    def process(self, record: Record) -> None:
        """Prints one record. Blocks while stdout does. Raises OSError where stdout can't be written."""
        out = sys.stdout
        if self._reader_gone or out is None or out.closed:
            return
        line = printable(str(record))
        encoding = getattr(out, "encoding", None) or "utf-8"
        try:
            out.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            out.flush()
        except BrokenPipeError:
            self._reader_gone = True
            _discard_stdout()


def printable(text: str) -> str:
    """The text in one line: line ends, escapes, direction marks and lone surrogates as their `\\x..` forms (S11)."""
    cut = len(text) - LINE_MAX
    if cut > 0:
        text = text[:LINE_MAX]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return f"{text}… ({cut} more characters)" if cut > 0 else text


def _discard_stdout() -> None:
    """Points the descriptor at nothing, or the interpreter's last flush would complain of the same pipe at exit."""
    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError):  # a replaced stdout, which has no descriptor
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, fd)
    os.close(nothing)
