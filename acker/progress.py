"""Progress: which messages of one home are done, so that others may forget what they remember of them (D4, E4).

A low-water mark alone would let one stuck message hold on to everything after it. So this is the newest message and the
few that are not done yet, at most as many as may be pending. Pure values; must not know who remembers what.
"""

from typing import Final, NamedTuple

from acker.roots import precedes

NUMBER_BITS: Final = 32  # of a message's number; above it, a message has its owner


class Progress(NamedTuple):
    """Every message of the home up to `newest`, but for those in `unfinished`, is done. Messages are roots without
    their attempts; of dead ones those are in `unfinished` that may be replayed by hand.

    That is of one life of the home. What its earlier lives have emitted is done, or has come again, once it has
    `caught_up`; of the messages that `dead` names by their origins some may be replayed by hand (E1).

    Where sub-trees are begun, homes tell one another what they have `heard`: announcements, each named as a message is,
    by its owner and its number. The same number says the same, but for that.
    """

    newest: int
    unfinished: frozenset[int]
    first: int = 0  # the owner under which this life has begun
    caught_up: bool = True
    dead: frozenset[int] = frozenset()
    settled: frozenset[int] = frozenset()  # owners of other homes: all that this one had emitted before it knew of them
    # is done, but for what is dead
    number: int = 0  # of this announcement, in this life
    heard: frozenset[int] = frozenset()  # the newest announcement of each home that this one knows
    refused: frozenset[int] = frozenset()  # sub-roots, also unfinished ones: nobody waits for tuples of theirs any more

    @property
    def announcement(self) -> int:
        """Its name."""
        return self.first << NUMBER_BITS | self.number

    def covers(self, message: int) -> bool:
        """Whether this message of the home is done: nothing of it will be processed or counted again."""
        newest = self.newest
        begun = message <= newest if message >> NUMBER_BITS == newest >> NUMBER_BITS else precedes(message, newest)
        return begun and message not in self.unfinished
