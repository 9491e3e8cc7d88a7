"""Files that are complete: no program writes to them any more, as far as can be seen from outside.

Pure. Must not know how files are found.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from spouts.directory.listing import FoundFile

SKEW_S: Final = 60.0  # seconds by which the clocks of two machines may differ
NS: Final = 1_000_000_000


class CompleteFiles:
    """A file is complete once it has not changed for `quiet_s` seconds. Without `quiet_s`, it is when it is found.

    `next_at` is the monotonic time at which the next file may be complete.
    """

    def __init__(self, quiet_s: float) -> None:
        self.next_at = float("inf")
        self._quiet_s = quiet_s
        self._since: dict[int, float] = {}  # mark → the monotonic time at which the file was first seen so

    def of(self, files: Iterable[FoundFile], now: float, utc: datetime) -> list[FoundFile]:
        """Return those of the files that are complete at this monotonic time and this wall-clock time."""
        if not self._quiet_s:
            return [*files]
        # a file that is older than all clocks can differ by need not be watched
        latest_ns = (utc.timestamp() - self._quiet_s - SKEW_S) * NS
        since, complete = dict[int, float](), list[FoundFile]()
        self.next_at = float("inf")
        for file in files:
            seen = self._since.get(file.mark, now)
            if file.changed_ns < latest_ns or now - seen >= self._quiet_s:
                complete.append(file)
            else:
                since[file.mark] = seen
                self.next_at = min(self.next_at, seen + self._quiet_s)
        self._since = since
        return complete
