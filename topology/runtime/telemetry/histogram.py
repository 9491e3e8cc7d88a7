"""Latencies in log-spaced counters: cheap to add to, converted to seconds only when reported.

After the idea of HdrHistogram: 64 buckets a doubling, so that a reported value is at most 1.1 % too high. Pure.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import log2
from typing import Any, Final

BUCKETS_A_DOUBLING: Final = 64
SHORTEST_S: Final = 1e-6  # anything shorter counts as this
LONGEST_S: Final = 1e6  # anything longer counts as this; so there are at most 2,552 buckets


class Histogram:
    """Counts of durations in seconds. `highest` is exact."""

    __slots__ = ("counts", "highest", "total")

    def __init__(self) -> None:
        self.counts: dict[int, int] = defaultdict(int)
        self.total = 0
        self.highest = 0.0

    def add(self, duration_s: float, count: int = 1) -> None:
        """Counts one duration, `count` times."""
        if duration_s > self.highest:
            self.highest = duration_s
        bounded = SHORTEST_S if duration_s < SHORTEST_S else LONGEST_S if duration_s > LONGEST_S else duration_s
        self.counts[int((log2(bounded) + 20) * BUCKETS_A_DOUBLING)] += count
        self.total += count

    def percentile(self, percent: float) -> float | None:
        """The duration, in seconds, that this share of all does not exceed; None where nothing was added."""
        if not self.total:
            return None
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen * 100 >= self.total * percent:
                return min(float(2.0 ** ((index + 1) / BUCKETS_A_DOUBLING - 20)), self.highest)
        return self.highest

    def parts(self) -> tuple[dict[int, int], float]:
        """What `of` makes an equal one of."""
        return dict(self.counts), self.highest

    @classmethod
    def of(cls, parts: Sequence[Any]) -> "Histogram":
        """A histogram of its parts. Raises TypeError or ValueError for what are none."""
        counts, highest = parts
        one = cls()
        for index, count in counts.items():
            one.counts[int(index)] = int(count)
            one.total += int(count)
        one.highest = float(highest)
        return one

    def merge(self, other: "Histogram") -> None:
        """Adds all that another one has counted."""
        for index, count in list(other.counts.items()):  # it may grow meanwhile, in another thread
            self.counts[index] += count
        self.total += other.total
        self.highest = max(self.highest, other.highest)

    def since(self, before: "Histogram") -> "Histogram":
        """What was added since an earlier look at the same. Its `highest` is at most 1.1 % too high."""
        one = Histogram()
        for index, count in list(self.counts.items()):
            if (more := count - before.counts.get(index, 0)) > 0:
                one.counts[index] = more
                one.total += more
                one.highest = max(one.highest, min(self.highest, 2.0 ** ((index + 1) / BUCKETS_A_DOUBLING - 20)))
        return one
