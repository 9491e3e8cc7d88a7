"""A limit on how often something may happen. Pure: times are passed in."""

from collections import deque
from typing import Final

COUNT_MAX: Final = 10_000  # moments that one limit remembers


class Pace:
    """At most `count` times within any `per_s` seconds. Remembers the last `count` moments."""

    def __init__(self, count: int, per_s: float) -> None:
        self._per_s = per_s
        self._moments: deque[float] = deque(maxlen=count)

    @classmethod
    def of_rate(cls, rate: float, per_s: float = 1.0) -> "Pace":
        """Return the limit of `rate` times in `per_s` seconds. If the rate is no whole number, it is once in a part of
        them, or in a longer time."""
        count = min(int(rate), COUNT_MAX) if rate >= 1 and rate == int(rate) else 1
        return cls(count, per_s * count / rate)

    def free_at(self) -> float:
        """Return the moment from which it may happen again."""
        moments = self._moments
        return moments[0] + self._per_s if len(moments) == moments.maxlen else float("-inf")

    def note(self, now: float) -> None:
        """Note that it happens."""
        self._moments.append(now)
