"""Frontiers: which messages of each home are done at one checkpoint, so that nothing of them can come again.

A home notes what is done between two turns of its loop; the notes of all homes are the frontier of a checkpoint, a cut
as that of Chandy and Lamport (1985). A message is named by its home's life and its number there, and lives are compared
for equality only: of another life of a home, a frontier says nothing.

Pure values; must not know who remembers inputs, nor how a checkpoint is taken.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from acker.roots import WORKER_SHIFT

NUMBER_BITS: Final = 32  # of a message's number; the bits above it are its owner
HOME_SHIFT: Final = WORKER_SHIFT - 6  # shift of a message; the bits above it are its home worker


class Note(NamedTuple):
    """One home's part of a frontier: all messages of this life up to `newest` are done, except those in `unfinished`.

    Messages are roots without their attempts. `owners` are those of this life, the first one first: a life takes
    another one when its numbers are used up. Messages that are dead and may be replayed by hand are unfinished.
    `dropped` has the origins of dead messages that will never be replayed. `lost` has sub-roots, also unfinished ones,
    that stand for a message of a life that is over: they will never be done. Two decided frontiers have each of them.
    `catches_up` is True as long as its sources may read again what an earlier life has read, or timers are late.
    """

    owners: tuple[int, ...]
    newest: int
    unfinished: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    catches_up: bool = False

    def has(self, message: int) -> bool:
        """Return True if this message is of this life, and done."""
        newest = self.newest
        if message >> NUMBER_BITS == newest >> NUMBER_BITS:
            return message <= newest and message not in self.unfinished
        return self.is_of(message) and message not in self.unfinished

    def is_of(self, message: int) -> bool:
        """Return True if this message is of this life."""
        return message >> NUMBER_BITS in self.owners


class Frontier:
    """The notes of all homes at one checkpoint, by worker. `dropped` and `lost`: see `Note`, of all homes."""

    def __init__(self, checkpoint: int = 0, notes: Mapping[int, Note] = MappingProxyType({})) -> None:
        self.checkpoint = checkpoint
        self.notes = notes
        self.dropped = frozenset[int]().union(*(note.dropped for note in notes.values()))
        self.lost = frozenset[int]().union(*(note.lost for note in notes.values()))
        self.catches_up = any(note.catches_up for note in notes.values())

    def has(self, message: int) -> bool:
        """Return True if this message is done, and nothing of it can come again under this number."""
        note = self.notes.get(message >> HOME_SHIFT)
        return note is not None and note.has(message)

    def has_none(self, first: int, last: int) -> bool:
        """Fast check that no message of a home in `first` … `last` is in it. May return False although none is."""
        note = self.notes.get(first >> HOME_SHIFT)
        return note is None or (first > note.newest and first >> NUMBER_BITS == last >> NUMBER_BITS == note.owners[-1])

    def has_all(self, messages: Collection[int], origin: int) -> bool:
        """Return True if an input that came in the trees of these messages can't come again: each is done, or of
        another life and dropped. A tuple that belongs to no tree (0) never comes again. Without any message, as after a
        restart, its `origin` alone decides."""
        if not messages:
            return origin in self.dropped
        dropped = origin in self.dropped
        has = self.has
        return all(not message or has(message) or (dropped and not self.is_present(message)) for message in messages)

    def is_present(self, message: int) -> bool:
        """Return True if this message is of the life that its home had when it noted this."""
        note = self.notes.get(message >> HOME_SHIFT)
        return note is not None and note.is_of(message)


EMPTY: Final = Frontier()


def home_of(owner: int) -> int:
    """Return the worker that an owner is of."""
    return owner >> HOME_SHIFT - NUMBER_BITS


def _last_of(owner: int) -> int:
    """Return the last message that this owner can have."""
    return ((owner + 1) << NUMBER_BITS) - 1


ROUNDS: Final = 3  # frontiers that have to be done after the run has gone back, and caught up
DROPPED_MAX: Final = 1_000_000  # origins of dropped messages that a worker keeps in mind


class Decided:
    """The knowledge of one worker: of decided checkpoints, and of lives that are over. All of its tasks share it.

    gathered  The newest checkpoint that this worker has gathered.
    version   Grows with each decision.
    newest    For the hot path: owner → the newest message that may be refused; of other owners none is.
    """

    def __init__(self) -> None:
        self.gathered = 0
        self.version = 0
        self.newest: dict[int, int] = {}
        self._frontier = EMPTY
        self._over: set[int] = set()  # owners whose lives are over; their messages come again under other numbers
        self._lost: set[int] = set()  # sub-roots that stand for such a message
        self._dropped: set[int] = set()  # a frontier has them once, and a task may look less often
        self._unfinished: dict[int, list[int]] = {}  # home → its unfinished messages, filled on demand
        self._went_back = -1  # `gathered` when the run went back last, until what came before can't come in other trees
        self._waits: list[dict[int, int]] = []  # home → the newest message that has to be done for that, in turn

    @property
    def frontier(self) -> Frontier:
        """The last decided one that this worker has heard of; `EMPTY` at first."""
        return self._frontier

    @frontier.setter
    def frontier(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._lost |= frontier.lost
        self._unfinished.clear()
        self.version += 1
        if frontier.dropped and len(self._dropped) + len(frontier.dropped) <= DROPPED_MAX:
            self._dropped |= frontier.dropped
        if self._went_back >= 0:
            self._look_at_waits(frontier)
        self._set_newest()

    def went_back(self) -> None:
        """Take note that the run goes back to the last decided checkpoint. An output that is named by a count may come
        again in the tree of another message: of one that is open now, or is still to be read again, or of a later one
        that its task takes sooner; or from a timer that one of these sets. So what this worker remembers now, and what
        does not come again, is kept until all homes have caught up, and then all messages of one frontier after the
        other are done."""
        self._went_back, self._waits = self.gathered, []

    def _look_at_waits(self, frontier: Frontier) -> None:
        if frontier.catches_up:
            return
        last = self._waits[-1] if self._waits else {}
        if all(at > last.get(home, -1) for home, note in frontier.notes.items() for at in note.unfinished):
            self._waits.append({home: note.newest for home, note in frontier.notes.items()})
        if len(self._waits) > ROUNDS:
            self._went_back, self._waits = -1, []

    def is_held(self, taken_at: int) -> bool:
        """Return True if what came when `gathered` was `taken_at` is kept, whatever message it came in."""
        return taken_at <= self._went_back

    @property
    def has_dropped(self) -> bool:
        """True if a decided frontier has named a message that was dropped."""
        return bool(self._dropped)

    def _set_newest(self) -> None:
        newest: dict[int, int] = {}
        for note in self._frontier.notes.values():
            *used_up, owner = note.owners
            newest |= dict(zip(used_up, map(_last_of, used_up), strict=True))
            newest[owner] = note.newest
        for message in self._lost:
            owner = message >> NUMBER_BITS
            newest[owner] = max(newest.get(owner, -1), message)
        for owner in self._over:
            newest[owner] = _last_of(owner)
        self.newest = newest

    def resume(self, frontier: Frontier, over: Iterable[int]) -> None:
        """Know what all other workers know, in a worker that begins while the run goes on: the last decided frontier,
        and the owners whose lives are over. Else it would take a tuple for new that those refuse, from one who has held
        it since (D5)."""
        self.gathered = frontier.checkpoint
        self.frontier = frontier
        for owner in over:
            self.ends(owner)

    def ends(self, owner: int) -> None:
        """Take note that the life of this owner is over, with all owners that it has taken since."""
        note = self._frontier.notes.get(home_of(owner))
        over = {owner, *(note.owners if note is not None and owner in note.owners else ())}
        self._over |= over
        self._lost = {message for message in self._lost if message >> NUMBER_BITS not in over}
        self._set_newest()

    def begins(self, owner: int) -> None:
        """Take note that a life begins under this owner. It may have the number of one that is over, 4,096 lives ago
        (A20)."""
        if owner in self._over:
            self._over.discard(owner)
            self._lost = {message for message in self._lost if message >> NUMBER_BITS != owner}
            frontier = self._frontier
            notes = {home: note for home, note in frontier.notes.items() if owner not in note.owners}
            if len(notes) < len(frontier.notes):
                self._frontier = Frontier(frontier.checkpoint, notes)
            self._set_newest()

    def is_over(self, message: int) -> bool:
        """Return True if the life of this message is over: it comes again under another number, or its source has lost
        it."""
        return bool(self._over) and message >> NUMBER_BITS in self._over

    def refuses(self, message: int) -> bool:
        """Return True if a tuple of this message is stale: nothing waits for it, and what was known of it may be
        forgotten."""
        if (self._over and message >> NUMBER_BITS in self._over) or (self._lost and message in self._lost):
            return True
        return self._frontier.has(message)

    def refuses_none(self, first: int, last: int) -> bool:
        """Fast check that no message in `first` … `last` is stale. May return False although none is."""
        if self._over and any(first >> NUMBER_BITS <= owner <= last >> NUMBER_BITS for owner in self._over):
            return False
        if self._lost and first <= self.newest.get(first >> NUMBER_BITS, -1):
            return False
        return first >> HOME_SHIFT == last >> HOME_SHIFT and self._frontier.has_none(first, last)

    def has_done(self, first: int, last: int) -> bool:
        """Fast check that all messages in `first` … `last`, of one owner, are done. May return False although they
        are."""
        home = first >> HOME_SHIFT
        note = self._frontier.notes.get(home)
        if note is None or not note.is_of(first) or last > note.newest:
            return False
        if not first >> NUMBER_BITS == last >> NUMBER_BITS == note.newest >> NUMBER_BITS:
            return False
        unfinished = self._unfinished.get(home)
        if unfinished is None:  # what is lost is in no later frontier, and will never be done all the same
            lost = [message for message in self._lost if message >> HOME_SHIFT == home]
            unfinished = self._unfinished[home] = sorted(note.unfinished.union(lost))
        at = bisect_left(unfinished, first)
        return at == len(unfinished) or unfinished[at] > last

    def may_forget(self, messages: Collection[int], origin: int, taken_at: int) -> bool:
        """Return True if an input of `origin`, which came last in the trees of these messages, can't come again.
        `taken_at`: `gathered` when it came. What came after this worker had gathered is kept until the next decision,
        because the effects of its tree may be in no snapshot. What came under a lost sub-root comes again under another
        number. After the run has gone back, see `went_back`."""
        frontier = self._frontier
        if taken_at >= frontier.checkpoint or taken_at <= self._went_back:
            return bool(messages) and not any(messages)  # of no tree
        if self._lost and not self._lost.isdisjoint(messages):
            return origin in self._dropped
        return frontier.has_all(messages, origin) or (not messages and origin in self._dropped)

    def is_earlier(self, messages: Collection[int], taken_at: int) -> bool:
        """Return True if one of these messages, which came when `gathered` was `taken_at`, is of an earlier life of its
        home, or stands for one. May return False although one is, until two checkpoints were decided."""
        frontier = self._frontier
        if self._lost and not self._lost.isdisjoint(messages):
            return True
        if taken_at + 1 >= frontier.checkpoint:
            return False  # the life may have taken another owner after its note
        return any(
            (note := frontier.notes.get(message >> HOME_SHIFT)) is None or not note.is_of(message)
            for message in messages
            if message
        )
