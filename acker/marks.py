"""Marks: the progress of a source's task in every epoch of each partition, from which a next run resumes (E3, E4).

The mark of an epoch is its oldest message that was emitted and is not done, in back-off or not. Finished messages above
it are kept as spans. Unfinished messages separate the spans, so there is at most one more span than unfinished
messages. Ids may have gaps, as byte offsets do: where the last ids are remembered, a gap makes no span. The caller
passes the unfinished messages when it asks for a mark, a few times per second, so an emission or an ack costs next to
nothing. A mark costs a fraction of a millisecond. Pure; must not know what a message is, nor where a mark is stored.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, pairwise, takewhile
from operator import lt
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from acker.identity import MessageId

_NAMES: Final = (str, bytes)
_LOWEST: Final = float("-inf")
_HIGHEST: Final = float("inf")
RECENT_MAX: Final = 4_096  # of the ints that a run has emitted last, those that are remembered
AHEAD_MAX: Final = 100_000  # names that a run emits before it forgets those that an earlier one had finished

Spans = tuple[tuple[MessageId, MessageId], ...]


class Reached(NamedTuple):
    """The progress in one epoch.

    position  The oldest unfinished message, or the newest message if all are done.
    done      Spans of finished messages from there on, both ends included. Ids that are ints grow, so a span covers
              every int between; names stand alone.
    newest    The newest message of an earlier run, until this run has come as far.
    """

    position: MessageId
    done: Spans
    newest: MessageId


class Lane:
    """One epoch of one partition. The caller calls `new` before it emits, and `add` right after. Ids that are not new
    were emitted `before`, by this run or an earlier one.

    `loaded` is the progress of an earlier run: messages that it covers are skipped when the source emits them again.
    """

    def __init__(self, loaded: Reached | None = None) -> None:
        self.newest: MessageId | None = None  # the last id of this run
        self._loaded = loaded
        self._last: float = _LOWEST  # the highest int id in this run
        self._clear: float = _LOWEST  # ints above it are new
        self._floor: float = _LOWEST  # an earlier run has finished the ints below it
        self._recent: deque[Sequence[Any]] = deque()  # the last ints in this run, by poll: all since the first of them
        self._recent_count = 0
        # finished by an earlier run, and not emitted again by the source yet
        self._ahead: deque[tuple[int, int]] = deque()
        self._names: dict[MessageId, None] = {}  # names in order: the passed ones, then from the oldest unfinished on
        self._names_ahead: dict[MessageId, None] = {}  # names that an earlier run has finished, as above
        # names that the last mark passed: forgotten once it is stored, as a run may go back before that
        self._passed: dict[MessageId, None] = {}
        self._given_names = 0  # in this run
        self._is_fresh = False  # whether the source has given something since the mark was asked for
        self._unsettled: set[MessageId] = set()  # names that stay in the mark though they may stand before all others
        # the name up to which an earlier run had read, if not all of it was done
        self._newest_ahead: MessageId | None = None
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
        """Return how many of these ids, from `start` on, name new messages: up to the first one that does not."""
        if start == 0 and self._all_new(ids):
            return len(ids)
        last, here = self._last, set[MessageId]()
        for count, message_id in enumerate(ids[start:]):
            if type(message_id) is int:
                if message_id <= last or (message_id <= self._clear and self._covers(message_id)):
                    return count
                last = message_id
            elif isinstance(message_id, _NAMES):
                if message_id in here or message_id in self._names_ahead or message_id in self._names:
                    return count
                here.add(message_id)
        return len(ids) - start

    def _all_new(self, ids: Sequence[MessageId]) -> bool:
        """Hot path: return True if these ids are all ints, or all names, and all new. False means that a closer look is
        needed."""
        first: Any = ids[0]
        try:
            if type(first) is int:
                return first > self._clear and all(map(lt, ids, islice(ids, 1, None)))
            plain = not self._names_ahead and self._names.keys().isdisjoint(ids)
            return plain and len(set(ids)) == len(ids) and all(type(message_id) in _NAMES for message_id in ids)
        except TypeError:  # an invalid id, or ids of both kinds
            return False

    def add(self, ids: Sequence[MessageId]) -> None:
        """Record that these ids are emitted, in this order. They must be new by `new`."""
        newest, self._is_fresh = ids[-1], True
        if type(newest) is int and type(ids[0]) is int:
            self.newest = self._last = newest
            self._remember(ids)
            if newest > self._clear:
                self._clear = newest
            if self._ahead:
                self._leave_behind(newest)
        else:
            for message_id in ids:  # names, ids of both kinds, and invalid ids, whose messages fail later
                self._given(message_id)

    def before(self, one: MessageId) -> bool:
        """Return True if an id that is not new names a message that an earlier run has finished; the id then has its
        place in this run.

        False: this run has emitted it, and it is in flight or, if it is a name, possibly done. `again` makes a finished
        name new.
        """
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
        """Let a finished message be emitted once more. Return False for an int: ints grow within an epoch."""
        self._names.pop(name, None)
        self._passed.pop(name, None)
        self._is_fresh = True
        return not isinstance(name, int)

    def reopen(self, ids: Iterable[MessageId]) -> None:
        """Take note that finished messages are not done any more; `ids` are in the order of their emission. The names
        among them that were forgotten come before all others; one that was not keeps its place."""
        forgotten: dict[MessageId, None] = {
            name: None for name in ids if isinstance(name, _NAMES) and name not in self._names
        }
        self._names = {**forgotten, **self._names}
        self._passed = {}  # the mark that passed them is not stored

    def stored(self) -> None:
        """Take note that the mark that was asked for last is stored."""
        for name in self._passed:
            self._names.pop(name, None)
        self._passed = {}

    def _given(self, one: MessageId) -> None:
        self._is_fresh = True
        if isinstance(one, _NAMES):
            self._names[one] = None
            self.newest = one
            if one == self._newest_ahead:
                self._newest_ahead = None
            self._given_names += 1
            if self._given_names >= AHEAD_MAX:
                self._names_ahead.clear()  # what comes again has come by now
        elif type(one) is int:
            self.newest = self._last = one
            self._remember([one])
            self._clear = max(self._clear, one)
            self._leave_behind(one)

    def _remember(self, ids: Sequence[Any]) -> None:
        self._recent.append(ids)
        self._recent_count += len(ids)
        while self._recent_count > RECENT_MAX:
            self._recent_count -= len(self._recent.popleft())

    def _forget_before(self, first: float) -> None:
        """Forget polls that are all before this int."""
        recent = self._recent
        while recent and recent[0][-1] < first:
            self._recent_count -= len(recent.popleft())

    def _covers(self, one: int) -> bool:
        return one < self._floor or any(first <= one <= last for first, last in self._ahead)

    def _leave_behind(self, one: int) -> None:
        """Record that the source has come to this id, and will emit none before it."""
        while self._ahead and self._ahead[0][0] <= one:
            _, last = self._ahead.popleft()
            if last > one:
                self._ahead.appendleft((one + 1, last))

    # -- what is done

    def reached(self, unfinished: Collection[MessageId] = (), unsettled: Collection[MessageId] = ()) -> Reached | None:
        """Return the mark. `unfinished`: all ids that were added here and are not done. None if this run has emitted
        nothing yet, so that the loaded mark stays valid.

        `unsettled`: ids that are done, and that the source will hear of once this mark is kept. A crash may come before
        it has passed that on to a broker, which gives them again: names among them stay in the mark, wherever they
        stand, until one is asked for after the source has given something more."""
        newest = self.newest
        if newest is None:
            return None
        ints = sorted(message_id for message_id in unfinished if type(message_id) is int)
        self._forget_before(ints[0] if ints else _HIGHEST)
        spans: list[tuple[MessageId, MessageId]] = [*self._finished_ints(ints)] if ints else []
        names = self._unfinished_names(unfinished, unsettled)
        passed = self._passed
        spans += [(name, name) for name in self._names if name not in names and name not in passed]
        position = ints[0] if ints else next((name for name in self._names if name in names), newest)
        if not ints and not names:
            spans = [(newest, newest), *(span for span in spans if span[0] != newest)]
        spans += self._ahead
        spans += [(name, name) for name in self._names_ahead]
        before = self._loaded.newest if self._loaded is not None else None
        if type(newest) is int and type(before) is int:
            newest = max(newest, before)
        elif self._newest_ahead is not None:
            newest = self._newest_ahead
        return Reached(position, tuple(spans), newest)

    def _finished_ints(self, unfinished: list[int]) -> Iterator[tuple[int, int]]:
        """Yield the spans of finished ints among these, which are sorted, and behind them. Among those that are
        remembered, a span begins and ends with one; before them, it is all that is between two unfinished ones."""
        recent = self._recent
        known = bisect_left(unfinished, recent[0][0]) if recent else len(unfinished)
        for lower, higher in pairwise(unfinished[: known + 1]):
            if higher - lower > 1:
                yield lower + 1, higher - 1
        if known == len(unfinished):
            if unfinished[-1] < self._last:
                yield unfinished[-1] + 1, int(self._last)
            return
        first, open_ones = unfinished[known], set(unfinished[known:])
        given = [number for ids in recent for number in ids if type(number) is int and number >= first]
        if not open_ones.issuperset(given):
            for is_open, some in groupby(given, open_ones.__contains__):
                if not is_open:
                    span = [*some]
                    yield span[0], span[-1]

    def _unfinished_names(self, unfinished: Collection[MessageId], unsettled: Collection[MessageId]) -> set[MessageId]:
        """Return the unfinished ids that are names; the mark passes finished names before the first of them, but for
        those that are `unsettled`."""
        names: set[MessageId] = {message_id for message_id in unfinished if isinstance(message_id, _NAMES)}
        if self._is_fresh:
            self._is_fresh, self._unsettled = False, set()
        self._unsettled.update(message_id for message_id in unsettled if isinstance(message_id, _NAMES))
        finished = takewhile(lambda name: name not in names, self._names)
        self._passed = {name: None for name in finished if name not in self._unsettled}
        return names


class Marks:
    """The marks of one task of a source: its lanes, by partition and epoch. `loaded` is the progress of an earlier
    run."""

    def __init__(self, loaded: Mapping[tuple[str, str], Reached] | None = None) -> None:
        self._loaded = dict(loaded or {})
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._stored: dict[tuple[str, str], Reached] = {}

    def lane(self, partition: str, epoch: str) -> Lane:
        """Return the lane of an epoch; it begins at the end of an earlier run."""
        at = partition, epoch
        if at not in self._lanes:
            self._lanes[at] = Lane(self._loaded.get(at))
        return self._lanes[at]

    def reached(
        self,
        unfinished: Mapping[tuple[str, str], Collection[MessageId]],
        unsettled: Mapping[tuple[str, str], Collection[MessageId]] = MappingProxyType({}),
    ) -> dict[tuple[str, str], Reached]:
        """Return the marks that have changed since `note_stored`. Both parameters: as for `Lane`, by partition and
        epoch."""
        found = {at: lane.reached(unfinished.get(at, ()), unsettled.get(at, ())) for at, lane in self._lanes.items()}
        return {at: mark for at, mark in found.items() if mark is not None and mark != self._stored.get(at)}

    def note_stored(
        self, marks: Mapping[tuple[str, str], Reached], current: Iterable[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Record that these marks are stored. Forget and return the lanes that are over: all done, and not of a
        `current` epoch of the source's partitions."""
        self._stored.update(marks)
        for at in marks:
            if at in self._lanes:
                self._lanes[at].stored()
        now = set(current)
        over = [at for at, lane in self._lanes.items() if at not in now and _is_over(lane, self._stored.get(at))]
        for at in over:
            self._stored.pop(at, None)
            del self._lanes[at]
        return over


def _is_over(lane: Lane, kept: Reached | None) -> bool:
    """Return True if the lane was all done at the last commit, and has emitted nothing since."""
    if kept is None or lane.newest != kept.newest:
        return lane.newest is None
    return kept.done[:1] == ((kept.position, kept.position),)
