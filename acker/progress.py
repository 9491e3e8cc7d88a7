"""Progress: which messages of one home are done, so that others may forget what they remember of them (D4, E4).

A low-water mark alone would let one stuck message hold on to everything after it. So this is the newest message and the
few that are not done yet, at most as many as may be pending. Pure values; must not know who remembers what.
"""

from typing import Final, NamedTuple

from acker.roots import precedes

NUMBER_BITS: Final = 32  # of a message's number; above it, a message has its owner


class Progress(NamedTuple):
    """Every message of the home up to `newest`, but for those in `unfinished`, is done. Messages are roots without
    their attempts."""

    newest: int
    unfinished: frozenset[int]

    def covers(self, message: int) -> bool:
        """Whether this message of the home is done: nothing of it will be processed or counted again."""
        newest = self.newest
        begun = message <= newest if message >> NUMBER_BITS == newest >> NUMBER_BITS else precedes(message, newest)
        return begun and message not in self.unfinished
