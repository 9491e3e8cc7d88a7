"""`Print`: a look at a stream. Not a sink to rely on: a replay is printed again.

Knows stdout, and no store. A print waits while stdout's reader does not read, and the loop with it: a thread for each
line would cost more than the line, and a queue of lines could only grow or drop.
"""

import sys

from topology.components import Bolt
from topology.records import Record
from topology.text import discard, printable, write_line


class Print(Bolt):
    """Prints `str(record)` for each record, one line each, control characters escaped, long ones cut.

    At least once: what is replayed is printed again. When the reader goes away (`| head -1`), it stops printing without
    a word, and records are still acked. Where stdout fails otherwise (a full disk), the record fails.
    """

    def __init__(self) -> None:
        self._reader_gone = False

    def process(self, record: Record) -> None:
        """Prints one record. Blocks while stdout does. Raises OSError where stdout can't be written."""
        if self._reader_gone:
            return
        try:
            write_line(sys.stdout, printable(str(record)))
        except BrokenPipeError:
            self._reader_gone = True
            discard(sys.stdout)
