"""Latencies in log-spaced counters: cheap to add to, and converted to seconds only for a report.

The idea is HdrHistogram's: 64 buckets per doubling, so a reported value is at most 1.1 % too high. Pure.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import log2
from typing import Any, Final

BUCKETS_A_DOUBLING: Final = 64
SHORTEST_S: Final = 1e-6  # seconds; anything shorter counts as this
LONGEST_S: Final = 1e6  # seconds; anything longer counts as this. So there are at most 2,552 buckets.


class Histogram:
    """Counts of durations in seconds. `highest` is exact."""

    __slots__ = ("counts", "highest", "total")

    def __init__(self) -> None:
        self.counts: dict[int, int] = defaultdict(int)
        self.total = 0
        self.highest = 0.0

    def add(self, duration_s: float, count: int = 1) -> None:
        """Count one duration, `count` times."""
        if duration_s > self.highest:
            self.highest = duration_s
        bounded = SHORTEST_S if duration_s < SHORTEST_S else LONGEST_S if duration_s > LONGEST_S else duration_s
        self.counts[int((log2(bounded) + 20) * BUCKETS_A_DOUBLING)] += count
        self.total += count

    def percentile(self, percent: float) -> float | None:
        """Return the duration, in seconds, that this share of all does not exceed; None if nothing was added."""
        if not self.total:
            return None
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen * 100 >= self.total * percent:
                return min(float(2.0 ** ((index + 1) / BUCKETS_A_DOUBLING - 20)), self.highest)
        return self.highest

    def parts(self) -> tuple[dict[int, int], float]:
        """Return the parts from which `of` makes an equal histogram."""
        return dict(self.counts), self.highest

    @classmethod
    def of(cls, parts: Sequence[Any]) -> "Histogram":
        """Return a histogram made from its parts. Raises TypeError or ValueError for invalid parts."""
        counts, highest = parts
        histogram = cls()
        for index, count in counts.items():
            histogram.counts[int(index)] = int(count)
            histogram.total += int(count)
        histogram.highest = float(highest)
        return histogram

    def merge(self, other: "Histogram") -> None:
        """Add all that another histogram has counted."""
        for index, count in list(other.counts.items()):  # it may grow meanwhile, in another thread
            self.counts[index] += count
        self.total += other.total
        self.highest = max(self.highest, other.highest)

    def since(self, before: "Histogram") -> "Histogram":
        """Return what was added since an earlier copy of this histogram. Its `highest` is at most 1.1 % too high."""
        added = Histogram()
        for index, count in list(self.counts.items()):
            if (more := count - before.counts.get(index, 0)) > 0:
                added.counts[index] = more
                added.total += more
                added.highest = max(added.highest, min(self.highest, 2.0 ** ((index + 1) / BUCKETS_A_DOUBLING - 20)))
        return added
