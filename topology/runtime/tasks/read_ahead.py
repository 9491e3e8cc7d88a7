"""The line of one task of a source: how far it may be ahead of its last durable marks, and when a life has come as far
as the ones before it (D4).

What an earlier life had emitted beyond its marks is in no mark; but how many messages that were at most, is durable
before any of them leaves. So a life has given all of it again: once it has given as many beyond the marks that it began
with, in each partition, and what is remembered for earlier lives need not be remembered for longer.

The allowance grows with the pace: a fast source is not held up for a commit, and a slow one is soon caught up. Pure;
must not know how marks are kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from acker.identity import MessageId
from acker.marks import Reached

AHEAD_MIN: Final = 64  # messages that a task may emit beyond its marks; it waits for a commit then
AHEAD_MAX: Final = 100_000
AHEAD_COMMITS: Final = 4  # the allowance is what so many commits need, at the pace of the last one

At = tuple[str, str]  # partition, epoch


class ReadAhead:
    """`on`: a task remembers what is emitted here, and marks are kept. Otherwise nothing is held, and there is
    nothing to catch up with."""

    def __init__(self, *, on: bool) -> None:
        self.on = on
        self.ahead = 0  # what is kept, or being kept
        self._limit = 0  # messages given in this life, at which it is held
        self._gathered_at = 0  # how many had been given at the last gather
        self._kept = 0  # the allowance that is durable
        self._under_way = False  # a commit is
        self._before: dict[At, Reached] = {}
        self._awaited = 0  # messages that this life has to give beyond those marks, in each partition,
        self._beyond: dict[At, int] = {}  # and has given
        self.catching_up = False

    def resume(self, ahead: int, before: Mapping[At, Reached]) -> None:
        """An earlier life was allowed so many messages beyond these marks."""
        if self.on:
            self._before = dict(before)
            self._awaited = self._kept = self.ahead = self._limit = ahead
            self.catching_up = True

    # -- the allowance

    def room(self, given: int) -> int:
        """Return how many messages it may give more, having given so many in this life, before a commit is kept."""
        return self._limit - given if self.on else AHEAD_MAX

    def is_short(self, given: int) -> bool:
        """Return whether a commit is wanted: half of the allowance is used up, and none is under way."""
        return self.on and 2 * (self._limit - given) <= self.ahead and not self._under_way

    def gather(self, given: int) -> bool:
        """Marks are gathered, up to these messages. Returns whether `ahead` is to be kept with them.

        What may be emitted beyond these marks holds from now on, whether or not they become durable: they may be so
        before this is known here. It shrinks by halves, and not before this life has caught up: the next one has to
        catch up with the same.
        """
        if not self.on:
            return False
        self._under_way = True
        wanted = 1 << max(0, AHEAD_COMMITS * (given - self._gathered_at) - 1).bit_length()
        wanted = min(AHEAD_MAX, max(AHEAD_MIN, wanted, self._kept // 2))
        self._gathered_at = given
        self.ahead = max(wanted, self._awaited) if self.catching_up else wanted
        self._limit = min(self._limit, given + self.ahead)
        return self.ahead != self._kept

    def kept(self) -> None:
        """Take note that what was gathered is durable."""
        self._under_way = False
        self._kept = self.ahead
        self._limit = self._gathered_at + self.ahead

    def not_kept(self) -> None:
        """Take note that it is not, or that this is unknown."""
        self._under_way = False

    # -- catching up

    def adds(self, at: At, ids: Sequence[MessageId], emitted: int) -> None:
        """The source has given these, of which so many are emitted; called only while it is `catching_up`."""
        before = self._before.get(at)
        if before is not None and at not in self._beyond:  # it may not have come to the mark's newest yet
            if (first := _beyond(ids, before)) is None:
                return
            emitted = min(emitted, len(ids) - first)
        self._beyond[at] = self._beyond.get(at, 0) + emitted

    def has_caught_up(self, current: Iterable[At], ended: bool) -> bool:
        """Return whether this life has given all that earlier ones had. `current`: the source's partitions, which it
        has named by now; `ended`: it has ended by itself."""
        if self.catching_up:
            named = list(current)
            again = bool(named) and all(self._beyond.get(at, 0) >= self._awaited for at in named)
            if ended or again:
                self.catching_up = False
                self._beyond, self._before = {}, {}
        return not self.catching_up


def _beyond(ids: Sequence[MessageId], before: Reached) -> int | None:
    """Return which of these is the first beyond what an earlier life has kept as its newest; None where the source has
    not come as far. Where all was done, it may begin behind that."""
    newest = before.newest
    if type(newest) is int:
        return next((at for at, one in enumerate(ids) if type(one) is not int or one > newest), None)
    if newest in ids:
        return list(ids).index(newest) + 1
    return 0 if before.position == newest else None
