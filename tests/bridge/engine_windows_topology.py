"""A timer for each key, which is set by the clock and left until the end of a run."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from slow_kit import Slowly

from bolts import SqliteSink
from topology import Bolt, Record, State, Task, Topology

EACH = 5  # records of a key, one behind the other


class Reading(Record):
    key: str
    number: int


class Closed(Record):
    key: str
    count: int
    total: int


class Windows(Bolt):
    fires_at_end = True

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, reading: Reading, state: State[tuple[int, int]]) -> None:
        count, total = state.get((0, 0))
        state.set((count + 1, total + reading.number))
        state.timer(self.clock.utc() + timedelta(days=30))

    def on_timer(self, key: tuple[str], name: str, state: State[tuple[int, int]]) -> Iterator[Closed]:
        yield Closed(key[0], *state.get((0, 0)))


def topology(store: str, count: int = 1_000, rate: float = 0.0) -> Topology:
    topology = Topology("windows")
    items = [Reading(f"k{number // EACH:05}", number) for number in range(count)]
    readings = topology.spout("readings", Slowly(items, rate, Path(store).with_name("hurry")))
    closed = topology.bolt("windows", Windows(), readings.fields("key"), tasks=2)
    topology.bolt("store", SqliteSink(store, records=[Closed]), closed.global_())
    return topology
