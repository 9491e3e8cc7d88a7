"""Numbers, a few every five milliseconds, stored in a file as they come: a topology for real processes of the kit."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from topology import Bolt, Message, Record, Spout, Task, Topology


class Number(Record):
    n: int


class Numbers(Spout):
    def __init__(self, count: int) -> None:
        self.count, self.following = count, 0

    async def poll(self, limit: int) -> list[Message[Number]]:
        await asyncio.sleep(0.005)
        numbers = range(self.following, min(self.following + 5, self.count))
        self.following += len(numbers)
        return [Message(Number(n), n) for n in numbers]


class Same(Bolt):
    def process(self, number: Number) -> Iterator[Number]:
        yield number


class Stored(Bolt):
    """A line a number; what a replay repeats is there twice."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, task: Task) -> None:
        print("the store is open")
        self.file = Path(self.path).open("a")  # noqa: SIM115 – closed with the process

    def process(self, number: Number) -> None:
        self.file.write(f"{number.n}\n")
        self.file.flush()


def topology(path: str, count: int = 1_000_000) -> Topology:
    """Tasks: the spout and the store on worker 0, `same` on both."""
    topology = Topology("numbers")
    numbers = topology.spout("numbers", Numbers(count))
    same = topology.bolt("same", Same(), numbers.shuffle(), tasks=2)
    topology.bolt("stored", Stored(path), same.global_())
    return topology
