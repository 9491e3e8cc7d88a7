"""Counters of repeated problems, by kind. Each kind is logged once, and then its count at most once per minute.

Must not know what is counted. One thread counts, another may log.
"""

import logging
from typing import Final

from topology.text import printable

AGAIN_S: Final = 60.0  # seconds between two lines about one kind
KINDS_MAX: Final = 16  # kinds that are counted apart; strangers can cause any number of kinds
_OTHERS: Final = "others"

logger = logging.getLogger("kedge")


class LogCounter:
    """Counters of `what`: the beginning of a sentence that a kind ends."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._counts: dict[str, int] = {}
        self._logged: dict[str, tuple[int, float]] = {}  # kind → its count and the time when it was logged last

    def count(self, kind: str) -> None:
        """Count one more of this kind."""
        if kind not in self._counts and len(self._counts) >= KINDS_MAX:
            kind = _OTHERS
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def tell(self, now: float) -> None:
        """Log what is new. `now` is in seconds of the loop. Call it now and then."""
        for kind, count in list(self._counts.items()):
            if kind not in self._logged:
                logger.warning("%s: %s", self._what, printable(kind))
                if count > 1:
                    logger.warning("%s: %s: %d times so far", self._what, printable(kind), count)
                self._logged[kind] = (count, now)
                continue
            logged, at = self._logged[kind]
            if count > logged and now - at >= AGAIN_S:
                logger.warning("%s: %s: %d more in %.0f s", self._what, printable(kind), count - logged, now - at)
                self._logged[kind] = (count, now)
