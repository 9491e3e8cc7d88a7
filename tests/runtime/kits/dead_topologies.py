"""A topology that worker processes import by this module's name: some of its messages die, and somebody reads of it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from bolts import SqliteSink
from topology import Bolt, Config, Message, Positions, Record, Spout, Task, Topology

LOADER = f"{__name__}:made"


class Number(Record):
    n: int


class Paced(Spout):
    """The numbers below `count`, about 2,000 a second; it ends once the file "enough" is there."""

    def __init__(self, directory: str, count: int) -> None:
        self.directory, self.count = Path(directory), count
        self.next = 0

    def open(self, task: Task, positions: Positions) -> None:
        self.next = int(positions.get("", 0))

    async def poll(self, limit: int) -> list[Message[Number]]:
        while True:
            await asyncio.sleep(0.005)
            first, self.next = self.next, min(self.count, self.next + min(limit, 10))
            if first < self.next:
                return [Message(Number(n), n) for n in range(first, self.next)]
            if (self.directory / "enough").exists():
                return []


class Picky(Bolt):
    """Fails one number of a hundred, until the file "mended" is there."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def process(self, number: Number) -> Iterator[Number]:
        if number.n % 100 == 7 and not (self.directory / "mended").exists():
            raise ValueError(f"number {number.n} is bad")
        yield number


def made(directory: str, count: int = 2_000) -> Topology:
    """numbers (on worker 0) → picky (on both) → store, and the dead letters of numbers → pages."""
    topology = Topology("dead", Config(max_replays=1))
    numbers = topology.spout("numbers", Paced(directory, count))
    picked = topology.bolt("picky", Picky(directory), numbers.shuffle(), tasks=2)
    topology.bolt("store", SqliteSink(Path(directory) / "store.db"), picked.global_())
    topology.bolt("pages", SqliteSink(Path(directory) / "pages.db"), numbers.dead.global_())
    return topology
