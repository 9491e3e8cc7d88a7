"""Floors for topologies with sub-trees: nothing is forgotten before all workers that begin sub-trees refuse its causes
(D17).

A sub-root gives new roots to the tuples below it: bolts below cannot see that their inputs are stale. So a worker that
begins sub-trees refuses stale inputs, which it can do only once it has heard that they are stale. If others forgot
before that, a delayed input would arrive under a sub-root and be counted twice. So a home's announcement ends something
only when all workers that may begin sub-trees have confirmed that they heard it. A confirmation that is heard here also
shows which of their earlier sub-roots are stale. Refusals apply at once.

Pure values; must not know which component remembers inputs.
"""

from collections.abc import Collection, Iterable, Sequence

from acker.floors import AHEAD, HOME_SHIFT, Floors
from acker.progress import NUMBER_BITS, Progress
from acker.roots import INCARNATION_BITS, INCARNATIONS


class AgreedFloors(Floors):
    """Floors that all beginners agree on. `beginners`: the workers that may begin sub-trees."""

    def __init__(self, homes: Collection[int], beginners: Collection[int]) -> None:
        super().__init__(homes)
        self._beginners = frozenset(beginners)
        self._agreed = Floors(homes)
        self._asked: dict[int, Progress] = {}  # by home: the announcement to be agreed on next
        # by beginner: home → its newest announcement that the beginner has heard
        self._have: dict[int, dict[int, int]] = {}

    def announce(self, progress: Progress) -> bool:
        news = super().announce(progress)
        if news:
            home = progress.newest >> HOME_SHIFT
            if home in self._beginners:
                self._have[home] = {announcement >> HOME_SHIFT: announcement for announcement in progress.heard}
            for other in self._heard if home in self._beginners else (home,):
                self._agree(other)
        return news

    def begins(self, home: int, owner: int, *, new: bool = False) -> None:
        super().begins(home, owner, new=new)
        self._agreed.begins(home, owner, new=new)

    def ends(self, owner: int) -> None:
        super().ends(owner)
        self._agreed.ends(owner)
        self._asked.pop(owner >> INCARNATION_BITS, None)

    def restore(self, progress: Iterable[Progress]) -> None:
        kept = list(progress)
        super().restore(kept)
        self._agreed.restore(kept)

    def are_over(self, messages: Sequence[int], origin: int) -> bool:
        return self._agreed.are_over(messages, origin)

    def has_done(self, first: int, last: int) -> bool:
        return self._agreed.has_done(first, last)

    def known(self) -> frozenset[int]:
        """Return the newest announcement of each home that was heard here."""
        return frozenset(self._progress[home].announcement for home in self._heard)

    def _agree(self, home: int) -> None:
        """Ask for agreement on this home's newest announcement.

        An announcement that is asked for stays until it is agreed on. Otherwise nothing would ever be agreed on while
        homes keep announcing.
        """
        newest = self._progress[home]
        asked = self._asked.get(home, newest)
        if asked.first != newest.first:
            asked = newest  # no beginner confirms announcements of an earlier life any more
        self._asked[home] = asked
        while self._all_have(home, asked.announcement):
            self._agreed.announce(asked)
            if asked.announcement == newest.announcement:
                break
            self._asked[home] = asked = newest

    def _all_have(self, home: int, announcement: int) -> bool:
        for beginner in self._beginners:
            if beginner != home:
                known = self._have.get(beginner, {}).get(home)
                if known is None or not _says_as_much(known, announcement):
                    return False
        return True


def _says_as_much(known: int, announcement: int) -> bool:
    """Return True if a worker that knows `known` has heard the content of `announcement`: `known` is not older, nor of
    an earlier life."""
    mine, theirs = known >> NUMBER_BITS, announcement >> NUMBER_BITS
    return known >= announcement if mine == theirs else (mine - theirs) % INCARNATIONS < AHEAD
