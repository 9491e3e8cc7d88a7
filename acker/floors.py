"""Floors: the announcements of all homes of messages, and the stale tuples and forgettable inputs that follow from them
(D4, D5).

A component that remembers inputs asks by the messages that an input belongs to: `refuses` before it takes a tuple,
`are_over` before it forgets an input. A tuple of an earlier life of its home is refused, because no tree waits for it.

A memory of such an input is kept until none of its causes can come again. First, all homes must have caught up with the
messages that their earlier lives had emitted. Second, homes that have outlived its home must have finished the messages
that they had emitted by then (D17).

Pure values; must not know which component remembers inputs.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from acker.progress import NUMBER_BITS, Progress
from acker.roots import INCARNATION_BITS, INCARNATIONS, WORKER_SHIFT, precedes, superseded

HOME_SHIFT: Final = WORKER_SHIFT - 6  # shift of a message; the bits above it are its home worker
# a number at most this far ahead, counted modulo INCARNATIONS, counts as newer, otherwise as older
AHEAD: Final = INCARNATIONS // 4


class Floors:
    """The floors that one worker knows.

    homes  The workers whose announcements count, this one included. If there are none, nothing is refused and nothing
           is over.
    dead   The origins of messages that are dead and may be replayed by hand.
    """

    def __init__(self, homes: Collection[int]) -> None:
        self.homes = frozenset(homes)
        self.dead: frozenset[int] = frozenset()
        self._progress: dict[int, Progress] = {}  # by home
        self._heard: set[int] = set()  # homes heard since this object was made; the progress of the others is restored
        self._present: dict[int, int] = {}  # home → the owner of its present life, set by `begins`
        self._new: set[int] = set()  # homes whose life is newer than all restored progress
        self._ended: set[int] = set()  # homes that have no life at present
        self.version = 0  # grows with every news
        self._unfinished: dict[int, list[int]] = {}  # home → its unfinished messages, filled on demand
        # home → True if its earlier lives are over, filled on demand; cleared by each news
        self._over: dict[int, bool] = {}

    def announce(self, progress: Progress) -> bool:
        """Record an announcement of a home. Return True if it is news. An announcement that is a repetition, or of an
        earlier life, is not."""
        home = progress.newest >> HOME_SHIFT
        before = self._progress.get(home)
        if home not in self.homes or progress.first != self._present.get(home, progress.first):
            return False
        if home in self._heard and before is not None and (before == progress or _is_behind(progress, before)):
            return False  # restored progress does not outweigh an announcement: it may be 2,048 lives old (A20)
        self._heard.add(home)
        self._take(home, progress)
        return True

    def begins(self, home: int, owner: int, *, new: bool = False) -> None:
        """Set the present life of a home to that of this owner.

        The caller must know this: incarnations are counted modulo their number, so an incarnation that is 2,048 or more
        lives later looks like an earlier one (A20). Everything known of other lives is over: their tuples are refused.
        `new`: all restored progress is over too, whatever owner it names.
        """
        self._present[home] = owner
        if new:
            self._new.add(home)
        before = self._progress.get(home)
        if before is not None and (before.first != owner or home in self._ended):
            self._take(home, _new_life(owner, before))
        self._ended.discard(home)

    def ends(self, owner: int) -> None:
        """End the life of this owner. The next life of its home is another one, even with the same owner (A20). Does
        nothing if the next life has begun."""
        home = owner >> INCARNATION_BITS
        if self._present.get(home) == owner:
            del self._present[home]
            self._ended.add(home)

    def restore(self, progress: Iterable[Progress]) -> None:
        """Restore earlier progress, as `announced` returned it. Tuples are refused because of it, but remains of an
        earlier life are over only by announcements from now on."""
        for restored in progress:
            home = restored.newest >> HOME_SHIFT
            before = self._progress.get(home)
            if home not in self.homes or home in self._heard:
                continue
            present = self._present.get(home, restored.first)
            if restored.first != present or home in self._new:
                self._take(home, _new_life(present, restored, before))
            elif before is None or not _is_behind(restored, before):
                self._take(home, restored)

    def announced(self) -> list[Progress]:
        """Return the last announcement of each home."""
        return list(self._progress.values())

    def refuses(self, message: int) -> bool:
        """Return True if a tuple of this message is stale: the message is done, or an earlier life emitted it, or it is
        a sub-root of inputs that are all stale (D5)."""
        progress = self._progress.get(message >> HOME_SHIFT)
        if progress is None:
            return bool(self.homes) and message >> HOME_SHIFT not in self.homes
        newest = progress.newest
        if message > newest and message >> NUMBER_BITS == newest >> NUMBER_BITS:  # the hot path: it is newer
            return message in progress.refused
        return progress.covers(message) or message in progress.refused

    def refuses_none(self, first: int, last: int) -> bool:
        """Fast check that no message in `first` … `last` is stale. May return False although none is."""
        progress = self._progress.get(first >> HOME_SHIFT)
        if progress is None or progress.refused or first <= progress.newest:
            return False
        return first >> NUMBER_BITS == last >> NUMBER_BITS == progress.newest >> NUMBER_BITS

    @property
    def hears_all(self) -> bool:
        """True if every home was heard since this object was made. Then all messages that were stale by then are
        refused."""
        return self._heard >= self.homes

    def has_done(self, first: int, last: int) -> bool:
        """Fast check that all messages of a home in `first` … `last` are done. May return False although they are."""
        home = first >> HOME_SHIFT
        progress = self._progress.get(home)
        if progress is None or not first >> NUMBER_BITS == last >> NUMBER_BITS == progress.first:
            return False
        if last > progress.newest:
            return False
        unfinished = self._unfinished.get(home)
        if unfinished is None:
            unfinished = self._unfinished[home] = sorted(progress.unfinished)
        at = bisect_left(unfinished, first)
        return at == len(unfinished) or unfinished[at] > last

    def are_over(self, messages: Sequence[int], origin: int) -> bool:
        """Return True if the memory of an input of `origin`, in the trees of these messages, may be forgotten. A
        message that stands for several, as a sub-root does, is given twice."""
        if len(messages) == 1:  # the hot path
            message = messages[0]
            progress = self._progress.get(message >> HOME_SHIFT)
            if progress is not None and message >> NUMBER_BITS == progress.first == progress.newest >> NUMBER_BITS:
                done = message <= progress.newest and message not in progress.unfinished
                # a source may have emitted a dead message again, as after --fresh
                return done and origin not in self.dead
        old = False
        for message in messages:
            home = message >> HOME_SHIFT
            progress = self._progress.get(home)
            if progress is not None and not _ended(message, progress):
                if not progress.covers(message):
                    return False
            elif not self._is_over(home):
                return False
            else:
                old = True
        if origin in self.dead:
            return False
        # if there are several messages, it is unknown which one is dead
        return not old or not self.dead or len(messages) == 1

    def is_earlier(self, messages: Sequence[int]) -> bool:
        """Return True if one of these messages is of an earlier life of its home."""
        for message in messages:
            progress = self._progress.get(message >> HOME_SHIFT)
            if progress is not None and _ended(message, progress):
                return True
        return any(message >> HOME_SHIFT not in self.homes for message in messages)

    # -- within

    def _take(self, home: int, progress: Progress) -> None:
        before = self._progress.get(home)
        self._progress[home] = progress
        self._over.clear()
        self._unfinished.pop(home, None)
        self.version += 1
        if before is None or before.dead != progress.dead:
            self.dead = frozenset().union(*(home_progress.dead for home_progress in self._progress.values()))

    def _is_over(self, home: int) -> bool:
        """Return True if no message that caused emissions of a home's earlier lives, nor any of these emissions, can
        come again.

        For that all homes must have caught up, even homes whose present life is older than the one in question:
        emissions of their earlier lives may still have been in flight when it began.
        """
        if (known := self._over.get(home)) is None:
            present = self._progress.get(home) if home in self.homes else None
            known = self._heard >= self.homes and bool(self.homes)
            known = known and all(_has_done(home_progress, present) for home_progress in self._progress.values())
            self._over[home] = known
        return known


def _has_done(one: Progress, present: Progress | None) -> bool:
    """Return True if one home has done its part: it has caught up with its own earlier lives. If it has outlived the
    other home, it has also finished all that it had emitted until it knew of the other's present life."""
    outlived = present is not None and not 0 <= (one.first - present.first) % INCARNATIONS < AHEAD
    return one.caught_up and (not outlived or (present is not None and present.first in one.settled))


def _is_behind(one: Progress, other: Progress) -> bool:
    """Return True if a home has announced `one` before `other`."""
    return _is_older(one, other) or (one.first == other.first and precedes(one.newest, other.newest))


def _is_older(one: Progress, other: Progress) -> bool:
    return superseded(one.first % INCARNATIONS, other.first % INCARNATIONS)


def _ended(message: int, progress: Progress) -> bool:
    """Return True if this message is of a life that was over when the present life of its home began. The present life
    has had the owners from its first to its newest, and possibly a few more that are not announced yet."""
    owners = ((progress.newest >> NUMBER_BITS) - progress.first) % INCARNATIONS
    return ((message >> NUMBER_BITS) - progress.first) % INCARNATIONS > owners + AHEAD


def _new_life(owner: int, *before: Progress | None) -> Progress:
    """Return the progress of a life that has announced nothing yet; it has the dead letters of the lives before."""
    dead = frozenset[int]().union(*(life.dead for life in before if life is not None))
    return Progress(owner << NUMBER_BITS, frozenset(), first=owner, caught_up=False, dead=dead)
