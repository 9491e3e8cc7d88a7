"""`CountWithin`: counts a key's records within a span of event time, whatever the order of their arrival.

Knows records, states and clocks. `burst_window` does the counting. Must not know any store, nor what runs a timer.

A burst that is raised while its records arrive depends on the order of arrival: a late record may join two bursts, and
then the second was no burst of its own. So a record waits until no older record is expected, and records are counted in
the order of event time.
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

LIMIT_MAX: Final = 100_000  # the largest `limit` and `most`: entries that a key's state may hold
SPAN_MAX_S: Final = 366 * 86_400.0
# seconds after a key's last record until the key is forgotten; a run that stands still for less splits no burst
FORGET_MIN_S: Final = 3_600.0
FORGET_SPANS: Final = 10  # the key is also kept for at least this many times the span plus the lateness
DECIDE: Final = "decide"
FORGET: Final = "forget"

# A record that waits for older ones: its time in microseconds since 1970, the index of its class among those that the
# bolt takes, its bytes, and its weight. Entries are sorted by all four, so the order of equal times depends only on the
# set.
Entry: TypeAlias = tuple[int, int, bytes, int]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Burst(Record):
    """A burst that begins: the number of records within the span, and the first and last of their times, in UTC."""

    count: int
    first_at: datetime
    last_at: datetime


class Counted(Record):
    """The state that CountWithin keeps for a key."""

    window: Window = EMPTY  # of the decided records
    behind: Window = EMPTY  # of records that came too late for `window` and are older than all of it
    waiting: tuple[Entry, ...] = ()  # undecided records, sorted
    due: int = 0  # microseconds since 1970, by the wall clock: when `waiting` is decided if no newer record comes
    is_fresh: bool = True  # True if a record has come since the timer for forgetting last fired
    forget: int = 0  # microseconds since 1970: when that timer is due next; at the end of a bounded run it fires before


class CountWithin(Bolt, ABC, Generic[A, B]):
    """Counts a key's records within a span of event time and emits one record per burst.

    A burst is `limit` or more records within `within_s` seconds, inclusive. Subscribe with `fields(…)`. A subclass says
    when a record happened, and which record reports a burst:

        class ManyFailures(CountWithin[Failure, Alert]):
            def at(self, failure: Failure) -> datetime:
                return failure.at

            def raised(self, failure: Failure, burst: Burst) -> Alert:
                return Alert(failure.source_ip, burst.count, burst.first_at, burst.last_at)

        topology.bolt("alerts", ManyFailures(limit=5, within_s=60), failures.fields("source_ip"))

    A key's records count in the order of their event times. At each record, the records of the last `within_s` seconds
    count. A burst begins at the record where this number reaches `limit` and had not reached it at the record before.
    The burst is over at the first record where the number is below `limit`.

    The order of arrival makes no difference: each record waits until the key has a record that is `lateness_s` newer.
    Then no older record is expected, and the record is decided. If no newer record comes, the waiting records are
    decided `lateness_s` after the last record by the wall clock, or at the end of a bounded run. Alerts are later by
    that time. With `lateness_s=0` no record waits, and each is decided when it arrives: use 0 for records that arrive
    in order.

    A record that comes later than `lateness_s` allows still counts, among the records of its time that are still known.
    `summary` reports the number of such records: with them a burst may be missed, or raised twice.

    limit       number of records that make a burst, up to 100,000
    within_s    seconds of event time, up to 366 days
    lateness_s  how much older than the key's newest record a record may be when it comes; seconds, up to 366 days
    most        number of records of a key that may wait to be decided; one more fails with EmitError (K618), and may be
                replayed

    State of a key: the distinct times of the newest decided records that add up to `limit` (at most two such rows), and
    the waiting records. A key is forgotten after an hour without a record by the wall clock, or after ten times the
    span plus the lateness if that is longer. A run that stands still or is stopped for less than that splits no burst.
    An `open` or `process` of a subclass must call the one of this class.
    """

    fires_at_end: ClassVar[bool] = True

    def __init__(self, limit: int, within_s: float, lateness_s: float = 0.0, *, most: int = 10_000) -> None:
        """Raises ConfigurationError for a number outside its limits."""
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
        self.order_matters = "never" if lateness_s else "inputs"
        self._late = 0  # records that came later than `lateness_s` allows
        self._far = 0  # of these, records that are also older than the span of the newest decided record

    # -- what a subclass says

    @abstractmethod
    def at(self, record: A, /) -> datetime:
        """Return the record's event time, with a time zone."""

    @abstractmethod
    def raised(self, record: A, burst: Burst, /) -> B:
        """Return the record to emit for a burst. `record` is the record at which the burst begins."""

    def weight(self, record: A, /) -> int:
        """Return how many records this one stands for: a whole number from 1 on. The default is 1."""
        return 1

    # -- what the runtime calls

    def open(self, task: Task) -> None:
        """Raises ConfigurationError if records may have to wait and their class is not declared."""
        self._clock = task.clock
        self._opened = task.clock.utc()
        takes = next(iter(bindings(self, "_wait").values()), None)  # the class, or union of classes, that A is bound to
        classes = [member for member in union(takes, {}) if is_record(member)]
        if self._lateness and not classes:
            kind = type(self).__name__
            text = f"{kind} keeps records until they are decided, and does not say of which class they are"
            raise ConfigurationError(text, code=UNTYPED_COUNT_WITHIN)
        self._kinds = {cls: index for index, cls in enumerate(classes)}
        self._decoders: list[Callable[[bytes], Any]] = [decoder(cls) for cls in classes]

    def process(self, record: A, state: State[Counted]) -> Iterable[B]:
        """Count one record. Raises EmitError for a record that cannot be counted."""
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
        """Decide the waiting records, or forget a key that has had no record."""
        kept = state.get()
        if kept is None:
            return ()
        if name == DECIDE:
            return self._decide_all(kept, state)
        if _micros(self._clock.utc()) < kept.forget:
            state.timer(_EPOCH + kept.forget * _MICROSECOND, FORGET)
        elif kept.is_fresh or kept.waiting:  # look again later, so that a record need not move the timer
            forget = self._look_again(state)
            state.set(Counted(kept.window, kept.behind, kept.waiting, kept.due, is_fresh=False, forget=forget))
        else:
            state.clear()
        return ()

    def summary(self) -> Iterator[str]:
        """Yield a line with the number of records that came too late, if any did."""
        if self._late:
            several = "s" * (self._late != 1)
            older = f"; {self._far:,} of them older than within_s={self.within_s:g}" if self._far else ""
            yield (
                f"{self._late:,} record{several} came later than lateness_s={self.lateness_s:g} allows{older}: bursts "
                "may be missing, or raised twice"
            )

    # -- counting

    def _look_again(self, state: State[Counted]) -> int:
        """Set the timer for forgetting and return its time, in microseconds."""
        at = self._clock.utc() + self._keep
        state.timer(at, FORGET)
        return _micros(at)

    def _read(self, record: A) -> tuple[int, int]:
        """Return the record's time in microseconds, and its weight."""
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
        """Count a record that is older than the newest decided one, at its own time."""
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
        """Add the record to the waiting ones, and decide every record for which no older one is expected any more."""
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
        """Decide all waiting records.

        If they are overdue because no process was up, decide them later: the records that would have come meanwhile
        come now. At the end of a run the timer fires before it is due.
        """
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
