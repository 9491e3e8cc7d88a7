"""`ReadLimit`: what one read may ask for, if whole replies do not come in their time. Pure; must not know a server."""

from typing import Final

QUICK: Final = 4  # a full reply within this part of its time lets the next one be twice as large


class ReadLimit:
    """Bounds the rows or entries of one read: half as many after a reply that has not come in time, down to 1, and
    twice as many after a full reply that came in less than a quarter of its time. Unbounded at first.

    So large messages over a slow line come in smaller replies, and no read is repeated in vain without end.
    """

    def __init__(self, within_s: float) -> None:
        """`within_s`: seconds in which a reply has to come."""
        self._within_s = within_s
        self._most: int | None = None  # None: no bound

    def of(self, wanted: int) -> int:
        """Return how much to ask for."""
        return wanted if self._most is None else min(wanted, self._most)

    def timed_out(self, asked: int) -> None:
        """Take note that a reply to a read of so much has not come in time."""
        self._most = max(1, asked // 2)

    def came(self, asked: int, count: int, took_s: float) -> None:
        """Take note of a reply with so much in it."""
        if self._most is not None and asked == self._most and count >= asked and took_s * QUICK < self._within_s:
            self._most *= 2
