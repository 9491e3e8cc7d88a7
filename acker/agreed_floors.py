"""Floors where sub-trees are begun: nothing is forgotten before all who begin them refuse what it was caused by (D17).

A sub-root makes new what is under it: nobody below can tell that its inputs are stale. So whoever begins one refuses
stale inputs, which it can only once it has heard that they are. Would others forget before, an input that was held up
would come under a sub-root and be counted twice. So a home's announcement ends something only when all that may begin
sub-trees have said that they have heard it; that they have said so here tells, too, which of their sub-roots that were
begun before are stale. What is refused is refused at once.

Pure values; must not know who remembers what.
"""

from collections.abc import Collection, Iterable, Sequence

from acker.floors import AHEAD, HOME_SHIFT, Floors
from acker.progress import NUMBER_BITS, Progress
from acker.roots import INCARNATION_BITS, INCARNATIONS


class AgreedFloors(Floors):
    """`beginners`: the workers that may begin sub-trees."""

    def __init__(self, homes: Collection[int], beginners: Collection[int]) -> None:
        super().__init__(homes)
        self._beginners = frozenset(beginners)
        self._agreed = Floors(homes)
        self._asked: dict[int, Progress] = {}  # by home: what is agreed next
        self._have: dict[int, dict[int, int]] = {}  # by beginner: home → the newest of its announcements that it knows

    def announce(self, progress: Progress) -> bool:
        news = super().announce(progress)
        if news:
            home = progress.newest >> HOME_SHIFT
            if home in self._beginners:
                self._have[home] = {one >> HOME_SHIFT: one for one in progress.heard}
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
        """The newest announcement of each home that was heard here."""
        return frozenset(self._progress[home].announcement for home in self._heard)

    def _agree(self, home: int) -> None:
        """What is asked stays until it is agreed, or where homes always have news nothing ever would be."""
        newest = self._progress[home]
        asked = self._asked.get(home, newest)
        if asked.first != newest.first:
            asked = newest  # nobody says any more that it has heard what an earlier life has said
        self._asked[home] = asked
        while self._all_have(home, asked.announcement):
            self._agreed.announce(asked)
            if asked.announcement == newest.announcement:
                break
            self._asked[home] = asked = newest

    def _all_have(self, home: int, announcement: int) -> bool:
        for one in self._beginners:
            if one != home:
                known = self._have.get(one, {}).get(home)
                if known is None or not _says_as_much(known, announcement):
                    return False
        return True


def _says_as_much(known: int, announcement: int) -> bool:
    """Whether who knows the one has heard what the other says: it is not older, nor of an earlier life."""
    mine, theirs = known >> NUMBER_BITS, announcement >> NUMBER_BITS
    return known >= announcement if mine == theirs else (mine - theirs) % INCARNATIONS < AHEAD
