"""The topology of the disk tests: numbers are read on from where they were, some are rejected, the rest are stored.

numbers ─ Sentence ─► pick (Reject for every `dead`-th) ─ Word ─► store (SqliteSink or JsonLinesSink, by its name)
"""

from collections.abc import Iterator
from pathlib import Path

from numbered import Numbers, Sentence, Silent, Word

from bolts import JsonLinesSink, SqliteSink
from topology import Bolt, Config, Positions, Reject, Task, Topology


class Resumed(Numbers):
    """Reads on from its position."""

    def open(self, task: Task, positions: Positions) -> None:  # type: ignore[override]
        super().open(task, positions)
        position = positions.of("", "")
        if isinstance(position, int):
            self.next = position


class Pick(Bolt):
    """One word of each number; every `dead`-th number, the first is `dead` - 1, is rejected."""

    def __init__(self, dead: int) -> None:
        self.dead = dead

    def process(self, sentence: Sentence) -> Iterator[Word]:
        if self.dead and sentence.n % self.dead == self.dead - 1:
            raise Reject(f"one of every {self.dead}")
        yield Word(sentence.n, 0, sentence.text)


def topology(
    folder: str, count: int = 20_000, rate: int = 2_000, dead: int = 0, store: str = "", name: str = "disks"
) -> Topology:
    """On two workers the spout is on 1, and the sink on 0."""
    place = Path(folder)
    topology = Topology(name, Config(max_pending=1_000))
    silent = topology.spout("silent", Silent())
    numbers = topology.spout("numbers", Resumed(place / "books", count, rate))
    words = topology.bolt("pick", Pick(dead), numbers.shuffle())
    path = Path(store) if store else place / "store.db"
    sink = JsonLinesSink(path) if path.suffix == ".jsonl" else SqliteSink(path, records=[Word], batch=500)
    topology.bolt("store", sink, silent.global_(), words.global_())
    return topology
