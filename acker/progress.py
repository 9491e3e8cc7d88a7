"""Progress: the finished messages of one home, so that others may forget what they remember of them (D4, E4).

With a low-water mark alone, one stuck message would keep everything after it. So progress is the newest message and the
few unfinished ones, at most as many as may be pending. Pure values; must not know which component remembers inputs.
"""

from typing import Final, NamedTuple

from acker.roots import precedes

NUMBER_BITS: Final = 32  # of a message's number; the bits above it are its owner


class Progress(NamedTuple):
    """The announcement of a home: every message up to `newest` is done, except for those in `unfinished`. Messages are
    roots without their attempts. Dead messages that may be replayed by hand are in `unfinished`.

    This holds for one life of the home. Emissions of its earlier lives are done, or have come again, once it has
    `caught_up`. Of the messages whose origins are in `dead`, some may be replayed by hand (E1).

    If sub-trees are begun, homes announce to each other which announcements they have `heard`. An announcement is named
    as a message is, by its owner and its number. Two announcements with the same number are equal, except for `heard`.
    """

    newest: int
    unfinished: frozenset[int]
    first: int = 0  # the owner under which this life has begun
    caught_up: bool = True
    dead: frozenset[int] = frozenset()
    # owners of other homes: all that this home had emitted before it knew of them is done, except for dead messages
    settled: frozenset[int] = frozenset()
    number: int = 0  # of this announcement, in this life
    heard: frozenset[int] = frozenset()  # the newest announcement of each home that this one knows
    refused: frozenset[int] = frozenset()  # sub-roots, also unfinished ones: no tree waits for their tuples any more

    @property
    def announcement(self) -> int:
        """The name of this announcement."""
        return self.first << NUMBER_BITS | self.number

    def covers(self, message: int) -> bool:
        """Return True if this message of the home is done: nothing of it will be processed or counted again."""
        newest = self.newest
        has_begun = message <= newest if message >> NUMBER_BITS == newest >> NUMBER_BITS else precedes(message, newest)
        return has_begun and message not in self.unfinished
