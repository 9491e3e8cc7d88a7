"""Floors: what all homes of messages have announced, and so which tuples are stale and what may be forgotten (D4, D5).

Whoever remembers inputs asks by the messages that an input belongs to: `refuses` before it takes a tuple, `are_over`
before it forgets what it remembers. A tuple of an earlier life of its home is refused, since nobody waits for it. What
is remembered for one is kept until nothing that it was caused by can come again: until all homes have caught up with
what their earlier lives had emitted, and those that have outlived its home are done with what they had emitted by then
(D17).

Pure values; must not know who remembers what.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from acker.progress import NUMBER_BITS, Progress
from acker.roots import INCARNATION_BITS, INCARNATIONS, WORKER_SHIFT, precedes, superseded

HOME_SHIFT: Final = WORKER_SHIFT - 6  # of a message: what is above it is its home worker
AHEAD: Final = INCARNATIONS // 4  # what is no further ahead than this, counted round, is taken for newer, and not older


class Floors:
    """What one worker knows. `homes`: the workers whose announcements count, itself included; where there are none,
    nothing is refused and nothing is over. `dead`: the origins of messages that are dead and may be replayed by hand.
    """

    def __init__(self, homes: Collection[int]) -> None:
        self.homes = frozenset(homes)
        self.dead: frozenset[int] = frozenset()
        self._progress: dict[int, Progress] = {}  # by home
        self._heard: set[int] = set()  # homes that have said something since this was made; of others it is restored
        self._present: dict[int, int] = {}  # home → the owner of its present life, as `begins` was told,
        self._new: set[int] = set()  # homes whose life is newer than whatever is restored,
        self._ended: set[int] = set()  # and homes that have none at present
        self.version = 0  # grows with every news
        self._unfinished: dict[int, list[int]] = {}  # home → its messages that are not done, of what was asked since
        self._over: dict[int, bool] = {}  # home → whether its earlier lives are over; of what was asked since the news

    def announce(self, progress: Progress) -> bool:
        """Takes note of what a home says; whether that is news. What it had said before, and what an earlier life of
        it says, is none."""
        home = progress.newest >> HOME_SHIFT
        before = self._progress.get(home)
        if home not in self.homes or progress.first != self._present.get(home, progress.first):
            return False
        if home in self._heard and before is not None and (before == progress or _is_behind(progress, before)):
            return False  # what was restored says nothing against what is heard: it may be of 2,048 lives ago (A20)
        self._heard.add(home)
        self._take(home, progress)
        return True

    def begins(self, home: int, owner: int, *, new: bool = False) -> None:
        """The present life of a home is that of this owner, told by who knows: incarnations are counted round, so one
        that is 2,048 lives later, or as many as there are numbers, can't be told from an earlier one (A20). What was
        known of other lives is over: their tuples are refused. `new`: so is all that is restored, whatever owner it
        names."""
        self._present[home] = owner
        if new:
            self._new.add(home)
        before = self._progress.get(home)
        if before is not None and (before.first != owner or home in self._ended):
            self._take(home, _begun(owner, before))
        self._ended.discard(home)

    def ends(self, owner: int) -> None:
        """The life of this owner is over: the next one of its home is another, though it may have the same owner (A20).
        Nothing happens where that has begun."""
        home = owner >> INCARNATION_BITS
        if self._present.get(home) == owner:
            del self._present[home]
            self._ended.add(home)

    def restore(self, progress: Iterable[Progress]) -> None:
        """What was announced before, as `announced` gave it. Tuples are refused for it; what an earlier life has left
        is over only by what homes say from now on."""
        for one in progress:
            home = one.newest >> HOME_SHIFT
            before = self._progress.get(home)
            if home not in self.homes or home in self._heard:
                continue
            present = self._present.get(home, one.first)
            if one.first != present or home in self._new:
                self._take(home, _begun(present, one, before))
            elif before is None or not _is_behind(one, before):
                self._take(home, one)

    def announced(self) -> list[Progress]:
        """What each home has said last."""
        return list(self._progress.values())

    def refuses(self, message: int) -> bool:
        """Whether a tuple of this message is stale: the message is done, or was emitted by an earlier life, or is a
        sub-root of inputs that are all stale (D5)."""
        progress = self._progress.get(message >> HOME_SHIFT)
        if progress is None:
            return bool(self.homes) and message >> HOME_SHIFT not in self.homes
        newest = progress.newest
        if message > newest and message >> NUMBER_BITS == newest >> NUMBER_BITS:  # the hot path: it is newer
            return message in progress.refused
        return progress.covers(message) or message in progress.refused

    def refuses_none(self, first: int, last: int) -> bool:
        """Whether none of the messages from one to another is stale; may say no where none is. The quick way."""
        progress = self._progress.get(first >> HOME_SHIFT)
        if progress is None or progress.refused or first <= progress.newest:
            return False
        return first >> NUMBER_BITS == last >> NUMBER_BITS == progress.newest >> NUMBER_BITS

    @property
    def hears_all(self) -> bool:
        """Whether every home has said something since this was made, so that what was stale by then is refused."""
        return self._heard >= self.homes

    def has_done(self, first: int, last: int) -> bool:
        """Whether all messages of a home from one to another are done; may say no where they are. The quick way."""
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
        """Whether what is remembered of an input may be forgotten: of `origin`, in the trees of these messages. What
        stands for several messages, as a sub-root does, is named twice."""
        if len(messages) == 1:  # the hot path
            message = messages[0]
            progress = self._progress.get(message >> HOME_SHIFT)
            if progress is not None and message >> NUMBER_BITS == progress.first == progress.newest >> NUMBER_BITS:
                done = message <= progress.newest and message not in progress.unfinished
                return done and origin not in self.dead  # a source may have given a dead one again, as after --fresh
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
        return not old or not self.dead or len(messages) == 1  # of several nobody knows which is dead

    def is_earlier(self, messages: Sequence[int]) -> bool:
        """Whether one of these is of a life of its home that is over."""
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
            self.dead = frozenset().union(*(one.dead for one in self._progress.values()))

    def _is_over(self, home: int) -> bool:
        """Whether nothing that the earlier lives of a home were begun for, or have emitted, can come again.

        For that all homes must have caught up, also those whose present life is older than what is asked about: what
        their earlier lives had emitted may have been on its way still when it began.
        """
        if (known := self._over.get(home)) is None:
            present = self._progress.get(home) if home in self.homes else None
            known = self._heard >= self.homes and bool(self.homes)
            known = known and all(_has_done(one, present) for one in self._progress.values())
            self._over[home] = known
        return known


def _has_done(one: Progress, present: Progress | None) -> bool:
    """Whether one home has done its part for that: what its own earlier lives had, and, where it has outlived the
    other, what it had emitted until it knew of the present one."""
    outlived = present is not None and not 0 <= (one.first - present.first) % INCARNATIONS < AHEAD
    return one.caught_up and (not outlived or (present is not None and present.first in one.settled))


def _is_behind(one: Progress, other: Progress) -> bool:
    """Whether a home has said one before the other."""
    return _is_older(one, other) or (one.first == other.first and precedes(one.newest, other.newest))


def _is_older(one: Progress, other: Progress) -> bool:
    return superseded(one.first % INCARNATIONS, other.first % INCARNATIONS)


def _ended(message: int, progress: Progress) -> bool:
    """Whether this message is of a life that was over when the present one of its home began. That has had the owners
    from the first one to the newest, and a few more perhaps that were not announced yet."""
    owners = ((progress.newest >> NUMBER_BITS) - progress.first) % INCARNATIONS
    return ((message >> NUMBER_BITS) - progress.first) % INCARNATIONS > owners + AHEAD


def _begun(owner: int, *before: Progress | None) -> Progress:
    """Of a life that has said nothing yet; dead letters are those of the lives before."""
    dead = frozenset[int]().union(*(one.dead for one in before if one is not None))
    return Progress(owner << NUMBER_BITS, frozenset(), first=owner, caught_up=False, dead=dead)
