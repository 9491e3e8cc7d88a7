"""Timers by the clock, by a draw, for the past, behind another stage, and such as fire at the end of a run and set
themselves anew: whatever becomes of the driver, each fires once."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from bolts import SqliteSink
from spouts import Items
from topology import Bolt, Record, State, Task, Topology


class Heard(Record):
    key: str
    number: int


class Fired(Record):
    kind: str
    number: int
    key: str
    total: int


class Timed(Bolt):
    def open(self, task: Task) -> None:
        self.clock, self.random = task.clock, task.random


class Sums(Timed):
    """What a key has come to, at the end of each run."""

    fires_at_end = True

    def process(self, heard: Heard, state: State[int]) -> None:
        state.set(state.get(0) + heard.number)
        state.timer(self.clock.utc() + timedelta(days=30))

    def on_timer(self, key: tuple[str], name: str, state: State[int]) -> Iterator[Fired]:
        state.timer(self.clock.utc() + timedelta(days=30))
        yield Fired("end", 0, key[0], state.get(0))


class Soon(Timed):
    def process(self, heard: Heard, state: State[int]) -> None:
        state.set(heard.number)
        state.timer(self.clock.utc() + timedelta(seconds=3 * self.random.random()))

    def on_timer(self, key: tuple[int], name: str, state: State[int]) -> Iterator[Fired]:
        yield Fired("soon", key[0], "", state.get(-1))


class Late(Timed):
    def process(self, heard: Heard, state: State[int]) -> None:
        state.set(1)
        state.timer(datetime(2020, 1, 1, tzinfo=UTC))

    def on_timer(self, key: tuple[int], name: str, state: State[int]) -> Iterator[Fired]:
        """Twice, with one time between them at least."""
        count = state.get(0)
        yield Fired(f"late {count}", key[0], "", 0)
        if count < 2:
            state.set(count + 1)
            state.timer(datetime(2020, 1, 1, tzinfo=UTC))


class Then(Timed):
    """Behind `Soon`."""

    def process(self, fired: Fired, state: State[int]) -> None:
        state.set(fired.total)
        state.timer(self.clock.utc() + timedelta(seconds=1))

    def on_timer(self, key: tuple[int], name: str, state: State[int]) -> Iterator[Fired]:
        yield Fired("then", key[0], "", state.get(-1))


def topology(store: str) -> Topology:
    topology = Topology("firing")
    heard = topology.spout("heard", Items([Heard("a", 0)]))
    sums = topology.bolt("sums", Sums(), heard.fields("key"), tasks=2)
    soon = topology.bolt("soon", Soon(), heard.fields("number"), tasks=2)
    late = topology.bolt("late", Late(), heard.fields("number"))
    then = topology.bolt("then", Then(), soon.fields("number"), tasks=2)
    topology.bolt("store", SqliteSink(store, records=[Fired]), *(one.global_() for one in (sums, soon, late, then)))
    return topology
