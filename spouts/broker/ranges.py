"""A set of ints, kept as ranges: small if they come nearly in order. Pure."""

from bisect import bisect_right
from typing import Final

RANGES_MAX: Final = 100_000  # ranges that are kept, the lowest are dropped first
DROPPED: Final = 1_000  # ranges that are dropped at once


class IntRanges:
    """Ints of which runs without a hole take no more room than one int. Of more than RANGES_MAX runs the lowest are
    forgotten."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._firsts)

    def add(self, first: int, last: int) -> None:
        """Add all ints from `first` to `last`; nothing if `first` is the higher one."""
        if first > last:
            return
        firsts, lasts = self._firsts, self._lasts
        if lasts and first == lasts[-1] + 1:  # the usual case
            lasts[-1] = last
            return
        begin = bisect_right(lasts, first - 2)  # the first range that is touched
        end = bisect_right(firsts, last + 1)  # the first one behind them
        if begin < end:
            first, last = min(first, firsts[begin]), max(last, lasts[end - 1])
        firsts[begin:end], lasts[begin:end] = [first], [last]
        if len(firsts) > RANGES_MAX:
            del firsts[:DROPPED], lasts[:DROPPED]

    def first_missing(self, number: int) -> int:
        """Return the lowest int from `number` on that is not in the set."""
        at = bisect_right(self._firsts, number) - 1
        return self._lasts[at] + 1 if at >= 0 and number <= self._lasts[at] else number
