"""Timers that are due, on their way back to their bolts: an input of the query whose only task is the driver.

Knows segments, and how far Spark has read; must not know which timers exist.
"""

import threading
from pathlib import Path
from typing import Final

import pyarrow as pa

from bridge.engine.handover import RECORD
from bridge.engine.rows import DueNow
from bridge.files.query import place
from bridge.files.segments import Segments
from topology.records import encode

TIMERS_INPUT: Final = "timers"  # the input that the driver writes itself; all other inputs have a dot in their names


class TimersInput:
    """The timers that are due, as an input of the query like any other. Its only task is the driver."""

    def __init__(self, folder: Path) -> None:
        """Become the only writer. Raises ConfigurationError, or StoreAway if there is no room."""
        self._segments = Segments(folder / "0")
        self._segments.open()
        self._lock = threading.Lock()
        self._next = 0
        self._ended = False
        place(folder / "tasks", b"1")

    def close(self) -> None:
        """Release the folder, so that another process may write."""
        self._segments.close()

    def begin(self, read: int) -> None:
        """Allow more timers from now on, behind all existing segments and behind what Spark has `read` by its own log.
        `done` is not durable, and Spark would never read a segment that got a number for the second time."""
        with self._lock:
            self._segments.goes_on()
            self._ended = False
            self._next = max(self._segments.done(), read, *(number + 1 for number in self._segments.numbers()))

    def write(self, timers: list[DueNow]) -> bool:
        """Write one more segment, which is durable when this returns. Return False after the end; the timers then stay
        where they are."""
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([encode(timer) for timer in timers], pa.binary()),
                pa.array([bytes(16)] * len(timers), pa.binary(16)),
            ],
            names=[RECORD, "_id"],
        )
        with self._lock:
            if self._ended:
                return False
            self._segments.write(self._next, batch)
            self._next += 1
            done = self._segments.done()
            self._segments.remove(number for number in self._segments.numbers() if number < done)
        return True

    def end(self) -> None:
        """Note that no more timers come until the next `begin`."""
        with self._lock:
            self._segments.end(self._next)
            self._ended = True
