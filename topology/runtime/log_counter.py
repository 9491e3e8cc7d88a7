"""Counts of things that go wrong again and again, by kind. The log has each kind once, then a count a minute at most.

Must not know what is counted. One thread counts, another may tell.
"""

import logging
from typing import Final

from topology.text import printable

AGAIN_S: Final = 60.0  # between two lines of one kind
KINDS_MAX: Final = 16  # that are told apart; strangers can make up more
_OTHERS: Final = "others"

logger = logging.getLogger("kedge")


class LogCounter:
    """Counts of `what`: a sentence's beginning that a kind ends."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._counts: dict[str, int] = {}
        self._told: dict[str, tuple[int, float]] = {}  # kind → its count and the time when the log had it last

    def count(self, kind: str) -> None:
        """One more of this kind."""
        if kind not in self._counts and len(self._counts) >= KINDS_MAX:
            kind = _OTHERS
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def tell(self, now: float) -> None:
        """Logs what is new. `now` in seconds of the loop; call it now and then."""
        for kind, count in list(self._counts.items()):
            if kind not in self._told:
                logger.warning("%s: %s", self._what, printable(kind))
                if count > 1:
                    logger.warning("%s: %s: %d times so far", self._what, printable(kind), count)
                self._told[kind] = (count, now)
                continue
            told, at = self._told[kind]
            if count > told and now - at >= AGAIN_S:
                logger.warning("%s: %s: %d more in %.0f s", self._what, printable(kind), count - told, now - at)
                self._told[kind] = (count, now)
