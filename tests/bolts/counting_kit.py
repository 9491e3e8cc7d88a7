"""What the tests of `CountWithin` share: a bolt to count with, what it ought to give, and a driver of keyed state.

The driver keeps each key's state as bytes and fires its timers by a clock of its own, and it undoes what fails. Knows
nothing of the runtime.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from bolts import Burst, CountWithin
from bolts.count_within import Counted
from topology import Record, Task
from topology.records import decoder, encode
from topology.storage.directory.state_dir import MemoryNotes

EPOCH = datetime(2026, 2, 1, 12, tzinfo=UTC)
NOW = datetime(2026, 11, 1, tzinfo=UTC)
Told = tuple[str, int, float, float]  # of which record, how many, from second … to second …

_decode = decoder(Counted)


class Event(Record):
    """Something at a second; `name` tells it from others at the same one."""

    second: float
    count: int = 1
    name: str = ""
    key: str = "k"


class Alert(Record):
    """A burst, and the record with which it began."""

    name: str
    key: str
    burst: Burst


class Events(CountWithin[Event, Alert]):
    def at(self, event: Event) -> datetime:
        return EPOCH + timedelta(seconds=event.second)

    def weight(self, event: Event) -> int:
        return event.count

    def raised(self, event: Event, burst: Burst) -> Alert:
        return Alert(event.name, event.key, burst)


class WallClock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = NOW

    def monotonic(self) -> float:
        return (self.now - NOW).total_seconds()

    def utc(self) -> datetime:
        return self.now


class KeyState:
    """`topology.State` of one input: its changes are taken over once that is done."""

    def __init__(self, content: bytes | None, timers: dict[str, datetime]) -> None:
        self.content = content
        self.timers = dict(timers)

    def get(self, default: Any = None) -> Any:
        return default if self.content is None else _decode(self.content)

    def set(self, value: Counted) -> None:
        hash(value)
        self.content = encode(value)

    def clear(self) -> None:
        self.content = None

    def timer(self, at: datetime | None, name: str = "") -> None:
        if at is None:
            self.timers.pop(name, None)
        else:
            self.timers[name] = at


class Keys:
    """Gives a bolt its records, key by key, and has its timers fire."""

    def __init__(self, make: Callable[[], CountWithin[Any, Alert]]) -> None:
        self.make = make
        self.clock = WallClock()
        self.content: dict[str, bytes | None] = {}
        self.timers: dict[str, dict[str, datetime]] = {}
        self.alerts: list[Alert] = []
        self.moved = 0  # how often a timer was set
        self.begin()

    def begin(self) -> None:
        """A task begins: the first time, or after a death, which leaves nothing but state and timers."""
        self.bolt = self.make()
        self.bolt.open(Task("topology", "alerts", 0, 1, self.clock, random.Random(0), MemoryNotes()))

    def give(self, *events: Any) -> list[Alert]:
        """Gives records; returns what they have raised."""
        before = len(self.alerts)
        for event in events:
            self._apply(event.key, partial(self.bolt.process, event))
        return self.alerts[before:]

    def pass_s(self, seconds: float) -> list[Alert]:
        """Time goes by; what is due fires then, and what is overdue at once."""
        before, until = len(self.alerts), self.clock.now + timedelta(seconds=seconds)
        while (due := self._next()) is not None and due[0] <= until:
            self.clock.now = max(self.clock.now, due[0])
            self._fire(*due)
        self.clock.now = until
        return self.alerts[before:]

    def end(self) -> list[Alert]:
        """A bounded run ends: the timers that are there fire, in their order."""
        before = len(self.alerts)
        for due in sorted((at, key, name) for key, timers in self.timers.items() for name, at in timers.items()):
            self._fire(*due)
        return self.alerts[before:]

    def state(self, key: str = "k") -> Counted | None:
        content = self.content.get(key)
        return None if content is None else _decode(content)

    def _next(self) -> tuple[datetime, str, str] | None:
        return min(
            ((at, key, name) for key, timers in self.timers.items() for name, at in timers.items()), default=None
        )

    def _fire(self, at: datetime, key: str, name: str) -> None:
        del self.timers[key][name]
        self._apply(key, lambda state: self.bolt.on_timer((key,), name, state))

    def _apply(self, key: str, call: Callable[[KeyState], Iterable[Alert]]) -> None:
        timers = self.timers.setdefault(key, {})
        state = KeyState(self.content.get(key), timers)
        given = list(call(state))
        self.moved += sum(timers.get(name) != at for name, at in state.timers.items())
        self.content[key], self.timers[key] = state.content, state.timers
        self.alerts += given


def told(alerts: Sequence[Alert]) -> list[Told]:
    """As (name, count, first second, last second)."""
    return [(one.name, one.burst.count, _second(one.burst.first_at), _second(one.burst.last_at)) for one in alerts]


def plainly(events: Iterable[Event], limit: int, within_s: float) -> list[Told]:
    """What the events of one key ought to give: sorted, and counted without forgetting anything."""
    found, before = [], 0
    ordered = sorted(events, key=lambda event: (event.second, encode(event)))
    for index, event in enumerate(ordered):
        within = [one for one in ordered[: index + 1] if one.second >= event.second - within_s]
        total = sum(one.count for one in within)
        if total >= limit > before:
            found.append((event.name, total, within[0].second, event.second))
        before = total
    return found


def _second(at: datetime) -> float:
    return (at - EPOCH).total_seconds()
