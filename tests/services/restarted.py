"""A topology over numbered records into PostgreSQL, for runs whose server goes away: by `kedge run restarted.py`."""

from collections.abc import AsyncIterator, Iterator

from bolts import PostgresSink
from topology import Bolt, Message, Record, Secret, Spout, Topology


class Number(Record):
    number: int


class Doubled(Record):
    number: int
    twice: int


class Numbers(Spout):
    """1 … count, paced so that a test has time to interfere."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def records(self) -> AsyncIterator[Message[Number]]:
        for number in range(1, self.count + 1):
            yield Message(Number(number), number)


class Double(Bolt):
    def process(self, number: Number) -> Iterator[Doubled]:
        yield Doubled(number.number, number.number * 2)


def topology(dsn: Secret, count: int = 20_000) -> Topology:
    topology = Topology("restarted")
    numbers = topology.spout("numbers", Numbers(count))
    doubled = topology.bolt("double", Double(), numbers.shuffle(), tasks=2)
    topology.bolt("store", PostgresSink(dsn, records=(Doubled,), batch=50), doubled.shuffle(), tasks=2)
    return topology
