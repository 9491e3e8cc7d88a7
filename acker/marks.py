"""Marks: how far a task of a source has come, in every epoch of each partition, so that a next run resumes (E3, E4).

The mark of an epoch is the oldest message that was emitted and is not done, in back-off or not; what is done above it
is kept in spans, which unfinished messages part, so there is at most one more of them. Nothing is counted: ids may have
gaps. Who is not done, the caller says when it asks for a mark, a few times a second, and so an emission or an ack costs
next to nothing. Pure; must not know what a message is, nor who keeps a mark.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from operator import lt
from typing import Any, Final, NamedTuple

from acker.identity import MessageId

_NAMES: Final = (str, bytes)
_LOWEST: Final = float("-inf")

Spans = tuple[tuple[MessageId, MessageId], ...]


class Reached(NamedTuple):
    """`position`: the oldest message that is not done, or the newest where all are. `done`: spans of what is done from
    there on, both ends included; ids that are ints grow, so a span covers every int between, and names stand alone.
    `newest`: that an earlier run has given, until this one has come as far again."""

    position: MessageId
    done: Spans
    newest: MessageId


class Lane:
    """One epoch of one partition. The caller asks `new` before it emits, and calls `add` right after; what is not new
    was given `before`, by this run or an earlier one.

    `loaded` is what an earlier run has reached: what it covers is passed over when the source gives it again.
    """

    def __init__(self, loaded: Reached | None = None) -> None:
        self.newest: MessageId | None = None  # that was given last, by this run
        self._loaded = loaded
        self._last: float = _LOWEST  # the highest int id in this run
        self._clear: float = _LOWEST  # ints above it are new
        self._floor: float = _LOWEST  # ints below it were done by an earlier run,
        self._ahead: deque[tuple[int, int]] = deque()  # and these; not those that the source has given again
        self._names: dict[MessageId, None] = {}  # names from the oldest unfinished one on, in order
        self._names_ahead: dict[MessageId, None] = {}  # names that were done by an earlier run, as above
        self._newest_ahead: MessageId | None = None  # the name up to which one had read, where that was not all done
        if loaded is not None:
            self._load(loaded)

    def _load(self, loaded: Reached) -> None:
        for first, last in loaded.done:
            if type(first) is int and type(last) is int:
                self._ahead.append((first, last))
                self._clear = max(self._clear, last)
            else:
                self._names_ahead[first] = None
        if isinstance(loaded.newest, _NAMES) and loaded.position != loaded.newest:
            self._newest_ahead = loaded.newest
        if type(loaded.position) is int:
            self._floor = loaded.position
            self._clear = max(self._clear, loaded.position - 1)

    # -- what the source gives

    def new(self, ids: Sequence[MessageId], start: int = 0) -> int:
        """How many of these ids, from `start` on, are those of new messages: up to the first one that is not."""
        if start == 0 and self._all_new(ids):
            return len(ids)
        last, here = self._last, set[MessageId]()
        for count, one in enumerate(ids[start:]):
            if type(one) is int:
                if one <= last or (one <= self._clear and self._covers(one)):
                    return count
                last = one
            elif isinstance(one, _NAMES):
                if one in here or one in self._names_ahead or one in self._names:
                    return count
                here.add(one)
        return len(ids) - start

    def _all_new(self, ids: Sequence[MessageId]) -> bool:
        """The hot path: whether these are ints, or names, and all of them new. False where that takes a closer look."""
        first: Any = ids[0]
        try:
            if type(first) is int:
                return first > self._clear and all(map(lt, ids, islice(ids, 1, None)))
            plain = not self._names_ahead and self._names.keys().isdisjoint(ids)
            return plain and len(set(ids)) == len(ids) and all(type(one) in _NAMES for one in ids)
        except TypeError:  # an id that is none, or ids of both kinds
            return False

    def add(self, ids: Sequence[MessageId]) -> None:
        """These are emitted, in this order; `new` has said that they are."""
        newest = ids[-1]
        if type(newest) is int and type(ids[0]) is int:
            self.newest = self._last = newest
            if newest > self._clear:
                self._clear = newest
            if self._ahead:
                self._leave_behind(newest)
        else:
            for one in ids:  # names, ids of both kinds, and what is no id: its message dies of that
                self._given(one)

    def before(self, one: MessageId) -> bool:
        """Whether an id that is not new is that of a message that an earlier run has done; it has its place now. Else
        this run has emitted it, and it is under way or, where it is a name, perhaps done: then `again` makes it new."""
        if isinstance(one, int):
            if one <= self._last:
                return False
            if one >= self._floor:
                self._given(one)
            return True
        if one in self._names_ahead:
            del self._names_ahead[one]
            self._given(one)
            return True
        return False

    def again(self, name: MessageId) -> bool:
        """Has a message that is done be emitted once more. False for an int: those grow within an epoch."""
        self._names.pop(name, None)
        return not isinstance(name, int)

    def _given(self, one: MessageId) -> None:
        if isinstance(one, _NAMES):
            self._names[one] = None
            self.newest = one
            if one == self._newest_ahead:
                self._newest_ahead = None
        elif type(one) is int:
            self.newest = self._last = one
            self._clear = max(self._clear, one)
            self._leave_behind(one)

    def _covers(self, one: int) -> bool:
        return one < self._floor or any(first <= one <= last for first, last in self._ahead)

    def _leave_behind(self, one: int) -> None:
        """The source has come as far as this id, and gives none before it any more."""
        while self._ahead and self._ahead[0][0] <= one:
            _, last = self._ahead.popleft()
            if last > one:
                self._ahead.appendleft((one + 1, last))

    # -- what is done

    def reached(self, unfinished: Collection[MessageId] = ()) -> Reached | None:
        """The mark; `unfinished`: all that was added here and is not done. None where this run has given nothing yet,
        so that what was loaded stands."""
        newest = self.newest
        if newest is None:
            return None
        ints = sorted(one for one in unfinished if type(one) is int)
        spans: list[tuple[MessageId, MessageId]] = []
        for one, other in pairwise(ints):
            if other - one > 1:
                spans.append((one + 1, other - 1))
        if ints and ints[-1] < self._last:
            spans.append((ints[-1] + 1, int(self._last)))
        names = self._unfinished_names(unfinished)
        spans += [(one, one) for one in self._names if one not in names]
        position = ints[0] if ints else next((one for one in self._names if one in names), newest)
        if not ints and not names:
            spans = [(newest, newest)]
        spans += self._ahead
        spans += [(name, name) for name in self._names_ahead]
        before = self._loaded.newest if self._loaded is not None else None
        if type(newest) is int and type(before) is int:
            newest = max(newest, before)
        elif self._newest_ahead is not None:
            newest = self._newest_ahead
        return Reached(position, tuple(spans), newest)

    def _unfinished_names(self, unfinished: Collection[MessageId]) -> set[MessageId]:
        """Those of them that are names; what is done before the first one of them is forgotten."""
        names: set[MessageId] = {one for one in unfinished if isinstance(one, _NAMES)}
        while self._names and (oldest := next(iter(self._names))) not in names:
            del self._names[oldest]
        return names


class Marks:
    """Of one task of a source: its lanes, by partition and epoch; `loaded` is what an earlier run has reached."""

    def __init__(self, loaded: Mapping[tuple[str, str], Reached] | None = None) -> None:
        self._loaded = dict(loaded or {})
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._told: dict[tuple[str, str], Reached] = {}

    def lane(self, partition: str, epoch: str) -> Lane:
        """That of an epoch; it begins where an earlier run has ended."""
        at = partition, epoch
        if at not in self._lanes:
            self._lanes[at] = Lane(self._loaded.get(at))
        return self._lanes[at]

    def reached(self, unfinished: Mapping[tuple[str, str], Collection[MessageId]]) -> dict[tuple[str, str], Reached]:
        """The marks that have changed since `told`."""
        found = {at: lane.reached(unfinished.get(at, ())) for at, lane in self._lanes.items()}
        return {at: one for at, one in found.items() if one is not None and one != self._told.get(at)}

    def told(
        self, marks: Mapping[tuple[str, str], Reached], current: Iterable[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """These are kept. What is over is forgotten, and returned: all done, and not of the `current` epochs of the
        source's partitions."""
        self._told.update(marks)
        now = set(current)
        over = [at for at, lane in self._lanes.items() if at not in now and _is_over(lane, self._told.get(at))]
        for at in over:
            self._told.pop(at, None)
            del self._lanes[at]
        return over


def _is_over(lane: Lane, kept: Reached | None) -> bool:
    """Whether it was all done at the last commit, and has given nothing since."""
    if kept is None or lane.newest != kept.newest:
        return lane.newest is None
    return kept.done[:1] == ((kept.position, kept.position),)
