"""The topology of the poison tests: numbers go through a bolt that takes its process down for some of them.

    numbers ─ Sentence ─► deadly (two tasks, one a worker) ─ Word ─► store (SqliteSink)

`where` says whose process a deadly number meets: "own" the spout's, "other" the other one, "either" as shuffle has it.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from numbered import TROUBLES, Numbers, Sentence, Word

from bolts import SqliteSink
from topology import Bolt, Config, Grouping, Topology

HOW: Final[Mapping[str, Callable[[float], object]]] = {**TROUBLES, "kill": lambda _: os.kill(os.getpid(), 9)}


class Deadly(Bolt):
    def __init__(self, poison: tuple[int, ...], how: str) -> None:
        self.poison, self.how = poison, how

    def process(self, sentence: Sentence) -> Iterator[Word]:
        if sentence.n in self.poison:
            HOW[self.how](0.0)
        yield Word(sentence.n, 0, sentence.text)


class Always(Grouping):
    """The task with this number."""

    def __init__(self, task: int) -> None:
        self.task = task

    def choose(self, record: Sentence, tasks: int) -> list[int]:
        return [self.task if tasks > 1 else 0]


def topology(
    folder: str, count: int = 20_000, rate: int = 0, poison: str = "", how: str = "_exit", where: str = "either"
) -> Topology:
    """`poison` are numbers with commas between them."""
    place = Path(folder)
    topology = Topology("poisoned", Config(max_pending=1_000))
    numbers = topology.spout("numbers", Numbers(place / "books", count, rate))
    deadly = tuple(int(n) for n in poison.split(",") if n)
    read = numbers.shuffle() if where == "either" else numbers.custom(Always(int(where == "other")))
    words = topology.bolt("deadly", Deadly(deadly, how), read, tasks=2)
    topology.bolt("store", SqliteSink(place / "store.db", records=[Word], batch=500), words.global_())
    return topology
