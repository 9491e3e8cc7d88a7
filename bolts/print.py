"""`Print`: shows a stream. Do not rely on it as a sink: a replayed record is printed again.

Knows stdout, and no store. A print blocks the loop while stdout's reader does not read. A thread for each line would
cost more than the line, and a queue of lines could only grow or drop.
"""

import sys

from topology.components import Bolt
from topology.records import Record
from topology.text import discard, printable, write_line


class Print(Bolt):
    """Print `str(record)` for each record, one per line, with control characters escaped and long texts cut.

    At least once: a replayed record is printed again. If the reader closes the pipe (`| head -1`), this bolt stops
    printing without a message, and records are still acked. If stdout fails in another way (a full disk), the record
    fails.
    """

    def __init__(self) -> None:
        self._reader_gone = False

    def process(self, record: Record) -> None:
        """Print one record. Blocks while stdout blocks. Raises OSError if stdout cannot be written."""
        if self._reader_gone:
            return
        try:
            write_line(sys.stdout, printable(str(record)))
        except BrokenPipeError:
            self._reader_gone = True
            discard(sys.stdout)
