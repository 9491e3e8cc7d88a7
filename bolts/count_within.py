"""`CountWithin`: how many of a key's records fall within a span of event time, whatever order they come in.

Knows records, states and clocks. How a window counts is `windows`'; must not know any store, nor what runs a timer.

Raising a burst as its records arrive can't be the same for every order of arrival: a late one joins two bursts to one,
and then the second was none. So a record waits until nothing older may come, and is counted in the order of event time.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, Generic, TypeAlias

from typing_extensions import TypeVar

from bolts.burst_window import EMPTY, Raised, Window, counted
from topology.annotations import bindings, union
from topology.codes.settings import INVALID_COUNT_WITHIN, UNTYPED_COUNT_WITHIN
from topology.codes.tuples import UNCOUNTABLE_RECORD
from topology.components import A, Bolt, State, Task
from topology.errors import ConfigurationError, EmitError
from topology.records import Record, decoder, encode, is_record

B = TypeVar("B", bound=Record)

LIMIT_MAX: Final = 100_000  # so many times a key's state may hold
SPAN_MAX_S: Final = 366 * 86_400.0
FORGET_MIN_S: Final = 3_600.0  # after a key's last record; less than this of standing still splits no burst
FORGET_SPANS: Final = 10  # and at least so many times the span and the lateness
DECIDE: Final = "decide"
FORGET: Final = "forget"

# A record that waits for older ones: its time, in microseconds since 1970, which of the classes that the bolt takes it
# is of, its bytes, and how many it stands for. They are sorted so: the order of equal times is a function of the set.
Entry: TypeAlias = tuple[int, int, bytes, int]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Burst(Record):
    """A burst as it begins: how many there are within the span, from when to when, in UTC."""

    count: int
    first_at: datetime
    last_at: datetime


class Counted(Record):
    """What CountWithin keeps of a key."""

    window: Window = EMPTY  # of what is decided
    behind: Window = EMPTY  # of what came too late for that, and is older than all of it
    waiting: tuple[Entry, ...] = ()  # in their order
    due: int = 0  # when these are decided if nothing newer comes, in microseconds since 1970 by the wall clock
    is_fresh: bool = True  # a record has come since the timer for forgetting looked last
    forget: int = 0  # when that looks next: at the end of a bounded run it fires before


class CountWithin(Bolt, ABC, Generic[A, B]):
    """Counts a key's records within a span of event time, and gives a record once a burst: where `limit` or more fall
    within `within_s` seconds, inclusive. Declare it behind `fields(…)`, and say in a subclass when a record was, and
    what a burst is told by:

        class ManyFailures(CountWithin[Failure, Alert]):
            def at(self, failure: Failure) -> datetime:
                return failure.at

            def raised(self, failure: Failure, burst: Burst) -> Alert:
                return Alert(failure.source_ip, burst.count, burst.first_at, burst.last_at)

        topology.bolt("alerts", ManyFailures(limit=5, within_s=60), failures.fields("source_ip"))

    A key's records count in the order of their event times: at each of them, those of the last `within_s` seconds. A
    burst begins at the record where that comes to `limit` and did not at the one before; it is over where it no longer
    does.

    So that the order in which records come makes no difference, each waits until the key has one that is `lateness_s`
    newer: then nothing older is expected, and it is decided. Where nothing newer comes, what waits is decided
    `lateness_s` after the last record by the wall clock, or at the end of a bounded run. Alerts come that much later.
    With 0 nothing waits, and each record is decided as it comes: that is for records in order.

    A record that comes later than that counts all the same, among those of its time that are still known, and
    `summary` tells how many there were: with them a burst may be missed, or be raised twice.

    limit       a burst has as many as this, up to 100,000
    within_s    seconds of event time, up to 366 days
    lateness_s  how much older than the key's newest record one may be when it comes; seconds, up to 366 days
    most        records of a key that may wait to be decided; one more fails with EmitError (K618), and may be replayed

    State of a key: the times, each once, of the newest decided records that come to `limit`, at most two such rows, and
    the records that wait. It is forgotten after an hour without a record by the wall clock, or ten times the span and
    the lateness where that is longer; a run that stands still or is stopped for less than that splits no burst. An
    `open` or `process` of a subclass has to call this one's.
    """

    fires_at_end: ClassVar[bool] = True

    def __init__(self, limit: int, within_s: float, lateness_s: float = 0.0, *, most: int = 10_000) -> None:
        """Raises ConfigurationError for numbers out of their limits."""
        kind = type(self).__name__
        for name, value in (("limit", limit), ("most", most)):
            if type(value) is not int or not 1 <= value <= LIMIT_MAX:
                text = f"{kind}: {name} is a whole number from 1 to {LIMIT_MAX:,}, not {value!r}"
                raise ConfigurationError(text, code=INVALID_COUNT_WITHIN)
        for name, seconds in (("within_s", within_s), ("lateness_s", lateness_s)):
            if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= SPAN_MAX_S:
                text = f"{kind}: {name} is a number of seconds from 0 to {SPAN_MAX_S:.0f}, not {seconds!r}"
                raise ConfigurationError(text, code=INVALID_COUNT_WITHIN)
        self.limit = limit
        self.within_s = within_s
        self.lateness_s = lateness_s
        self.most = most
        self._span = round(within_s * 1_000_000)
        self._lateness = round(lateness_s * 1_000_000)
        self._keep = timedelta(seconds=max(FORGET_MIN_S, FORGET_SPANS * (within_s + lateness_s)))
        self._late = 0  # records that came later than `lateness_s` allows
        self._far = 0  # of these, the ones that are older than the span of the newest decided, too

    # -- what a subclass says

    @abstractmethod
    def at(self, record: A, /) -> datetime:
        """The record's event time, with a zone."""

    @abstractmethod
    def raised(self, record: A, burst: Burst, /) -> B:
        """What is given for a burst. `record` is the one with which it begins."""

    def weight(self, record: A, /) -> int:
        """How many the record stands for: 1. A whole number from 1 on."""
        return 1

    # -- what the runtime calls

    def open(self, task: Task) -> None:
        """Raises ConfigurationError where records may have to wait, and their class can't be told."""
        self._clock = task.clock
        self._opened = task.clock.utc()
        takes = next(iter(bindings(self, "_wait").values()), None)  # what stands for A
        classes = [one for one in union(takes, {}) if is_record(one)]
        if self._lateness and not classes:
            kind = type(self).__name__
            text = f"{kind} keeps records until they are decided, and does not say of which class they are"
            raise ConfigurationError(text, code=UNTYPED_COUNT_WITHIN)
        self._kinds = {cls: index for index, cls in enumerate(classes)}
        self._decoders: list[Callable[[bytes], Any]] = [decoder(cls) for cls in classes]

    def process(self, record: A, state: State[Counted]) -> Iterable[B]:
        """Counts one record. Raises EmitError for one that can't be counted."""
        at, count = self._read(record)
        kept = state.get()
        if kept is None:
            kept = Counted(forget=self._look_again(state))
        events = kept.window.events
        if events and at < events[-1][0]:
            raised = self._count_late(kept, at, count, state)
        elif self._lateness:
            return self._wait(record, at, count, kept, state)
        else:
            window, raised = counted(kept.window, at, count, self.limit, self._span)
            state.set(Counted(window, kept.behind, forget=kept.forget))
        return (self.raised(record, _burst(raised)),) if raised is not None else ()

    def on_timer(self, key: tuple[Any, ...], name: str, state: State[Counted]) -> Iterable[B]:
        """Decides what waits, or forgets a key for which nothing has come."""
        kept = state.get()
        if kept is None:
            return ()
        if name == DECIDE:
            return self._decide_all(kept, state)
        if _micros(self._clock.utc()) < kept.forget:
            state.timer(_EPOCH + kept.forget * _MICROSECOND, FORGET)
        elif kept.is_fresh or kept.waiting:  # once more: so a timer is not moved by each record
            forget = self._look_again(state)
            state.set(Counted(kept.window, kept.behind, kept.waiting, kept.due, is_fresh=False, forget=forget))
        else:
            state.clear()
        return ()

    def summary(self) -> Iterator[str]:
        """How many records came later than they may, where some did."""
        if self._late:
            several = "s" * (self._late != 1)
            older = f"; {self._far:,} of them older than within_s={self.within_s:g}" if self._far else ""
            yield (
                f"{self._late:,} record{several} came later than lateness_s={self.lateness_s:g} allows{older}: bursts "
                "may be missing, or raised twice"
            )

    # -- counting

    def _look_again(self, state: State[Counted]) -> int:
        """Sets the timer for forgetting, and tells for when, in microseconds."""
        at = self._clock.utc() + self._keep
        state.timer(at, FORGET)
        return _micros(at)

    def _read(self, record: A) -> tuple[int, int]:
        """The record's time in microseconds, and how many it stands for."""
        at, weight = self.at(record), self.weight(record)
        try:
            micros = _micros(at)
        except TypeError:
            text = f"{type(self).__name__}.at gives a datetime with a zone, and not {at!r:.80}"
            raise _uncountable(text) from None
        if type(weight) is not int or weight < 1:
            text = f"{type(self).__name__}.weight gives a whole number from 1 on, and not {weight!r:.80}"
            raise _uncountable(text)
        return micros, weight

    def _count_late(self, kept: Counted, at: int, count: int, state: State[Counted]) -> Raised | None:
        """Counts one that is older than the newest that is decided, where it belongs."""
        window, behind = kept.window, kept.behind
        self._late += 1
        if at < window.events[-1][0] - self._span:
            self._far += 1
            behind, raised = counted(behind, at, count, self.limit, self._span)
        else:
            window, raised = counted(window, at, count, self.limit, self._span)
        state.set(Counted(window, behind, kept.waiting, kept.due, forget=kept.forget))
        return raised

    def _wait(self, record: A, at: int, count: int, kept: Counted, state: State[Counted]) -> Iterable[B]:
        """Puts the record to those that wait, and decides what nothing older can come for any more."""
        waiting = [*kept.waiting]
        insort(waiting, (at, self._kinds[type(record)], encode(record), count))
        ready = bisect_left(waiting, waiting[-1][0] - self._lateness, key=_time_of)
        if len(waiting) - ready > self.most:
            text = f"more than most={self.most:,} records of one key wait, within lateness_s={self.lateness_s:g}"
            raise _uncountable(text)
        window, given = self._decide(kept.window, waiting[:ready])
        due = self._clock.utc() + timedelta(seconds=self.lateness_s)
        state.timer(due, DECIDE)
        state.set(Counted(window, kept.behind, tuple(waiting[ready:]), _micros(due), forget=kept.forget))
        return given

    def _decide_all(self, kept: Counted, state: State[Counted]) -> Iterable[B]:
        """Decides all that waits; later where it is overdue because nobody was up: what would have come comes now. At
        the end of a run the timer fires before it is due."""
        lateness = timedelta(seconds=self.lateness_s)
        if kept.due <= _micros(self._clock.utc()) < _micros(self._opened + lateness):
            state.timer(self._opened + lateness, DECIDE)
            due = _micros(self._opened + lateness)
            state.set(Counted(kept.window, kept.behind, kept.waiting, due, kept.is_fresh, kept.forget))
            return ()
        window, given = self._decide(kept.window, kept.waiting)
        state.set(Counted(window, kept.behind, is_fresh=kept.is_fresh, forget=kept.forget))
        return given

    def _decide(self, window: Window, entries: Sequence[Entry]) -> tuple[Window, list[B]]:
        given: list[B] = []
        for at, kind, data, count in entries:
            window, raised = counted(window, at, count, self.limit, self._span)
            if raised is not None:
                given.append(self.raised(self._decoders[kind](data), _burst(raised)))
        return window, given


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def _time_of(entry: Entry) -> int:
    return entry[0]


def _burst(raised: Raised) -> Burst:
    first, last = (_EPOCH + timedelta(microseconds=at) for at in (raised.first, raised.last))
    return Burst(raised.total, first, last)


def _uncountable(text: str) -> EmitError:
    return EmitError(text, code=UNCOUNTABLE_RECORD)
