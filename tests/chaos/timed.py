"""Each number sets a timer of its own, and each that fires is one row: what state and timers come to, whatever dies.

    numbers ─ Sentence ─► clocks (a state for each of 97 keys, two tasks) ─ Rung ─► store (SqliteSink, one task)

A timer that fires is counted with those of its key: 1 … n have to be there, each once, and each number once.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from numbered import Numbers, Sentence, works

from bolts import SqliteSink
from topology import Bolt, Record, State, Task, Topology

KEYS: Final = 97


class Keyed(Record):
    key: int
    n: int


class Rung(Record):
    n: int
    key: int
    count: int  # the how manyth of its key
    at: datetime  # when it fired


class Keys(Bolt):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, sentence: Sentence) -> Iterator[Keyed]:
        works(self.folder)
        yield Keyed(sentence.n % KEYS, sentence.n)


class Clocks(Bolt):
    fires_at_end = True

    def __init__(self, after_s: float) -> None:
        self.after_s = after_s

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, keyed: Keyed, state: State[int]) -> None:
        state.timer(self.clock.utc() + timedelta(seconds=self.after_s), str(keyed.n))

    def on_timer(self, key: tuple[int], name: str, state: State[int]) -> Iterator[Rung]:
        count = state.get(0) + 1
        state.set(count)
        yield Rung(int(name), key[0], count, self.clock.utc())


def topology(folder: str, count: int = 4_000, rate: int = 500, after_s: float = 5.0) -> Topology:
    place = Path(folder)
    topology = Topology("timed")
    numbers = topology.spout("numbers", Numbers(place / "books", count, rate))
    keyed = topology.bolt("keys", Keys(place), numbers.shuffle(), tasks=2)
    rung = topology.bolt("clocks", Clocks(after_s), keyed.fields("key"), tasks=2)
    topology.bolt("store", SqliteSink(place / "store.db", records=[Rung]), rung.global_())
    return topology
