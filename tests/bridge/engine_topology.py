"""A topology with a bit of each: dealt bolts, state by a key, all for one, copies for all, two classes, two sinks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slow_kit import Slowly

from bolts import PostgresSink, SqliteSink
from topology import Bolt, Record, Reject, State, Topology

KEYS = 7


class Numbered(Record):
    number: int


class Keyed(Record):
    key: str
    number: int


class Odd(Record):
    number: int


class Counted(Record):
    key: str
    number: int
    count: int
    total: int


class Total(Record):
    number: int
    seen: int


class Deal(Bolt):
    """Two streams: each number by its key, and the odd ones; 13 is rejected."""

    def process(self, given: Numbered) -> Iterator[Keyed | Odd]:
        if given.number == 13:
            raise Reject("an unlucky number")
        yield Keyed(f"key{given.number % KEYS}", given.number)
        if given.number % 2:
            yield Odd(given.number)


class Twice(Bolt):
    """Dealt once more, in the same stage."""

    async def process(self, given: Keyed) -> list[Keyed]:
        return [given, Keyed(given.key, given.number + 1_000_000)]


class Count(Bolt):
    def process(self, given: Keyed, state: State[tuple[int, int]]) -> Iterator[Counted]:
        count, total = state.get((0, 0))
        state.set((count + 1, total + given.number))
        yield Counted(given.key, given.number, count + 1, total + given.number)


class Sum(Bolt):
    """A state behind another one."""

    def process(self, given: Counted, state: State[int]) -> Iterator[Total]:
        seen = state.get(0) + 1
        state.set(seen)
        if not seen % 5:
            yield Total(given.number, seen)


class Copied(Bolt):
    def process(self, given: Odd) -> Iterator[Odd]:
        yield given


class Raising(Bolt):
    def process(self, given: Numbered) -> Iterator[Keyed | Odd]:
        if given.number == 5:
            raise ValueError("no such number")
        yield Odd(given.number)


class Shared(Bolt):
    """A sink of a user's, whose store any process may write."""

    dedup = "shared"

    def process(self, given: Odd) -> None:
        raise ValueError("an odd number")


def declared(topology: Topology, stream: Any, deal: Any = None) -> tuple[Any, Any, Any]:
    """All of its bolts but the sinks."""
    dealt = topology.bolt("deal", deal or Deal(), stream.shuffle())
    twice = topology.bolt("twice", Twice(), dealt[Keyed].shuffle())
    counted = topology.bolt("count", Count(), twice.fields("key"), tasks=2)
    total = topology.bolt("sum", Sum(), counted.global_())
    copied = topology.bolt("copied", Copied(), dealt[Odd].all(), tasks=2)
    return counted, total, copied


def topology(
    store: str,
    count: int = 500,
    rate: float = 0.0,
    raises: str = "",
    begin: int = 0,
    dsn: str = "",
    schema: str = "",
) -> Topology:
    """`rate`: until the file `hurry` is beside the store. `raises`: who does, `deal` or `odd`. `dsn`, `schema`: of a
    PostgreSQL in place of the first store."""
    topology, numbers = Topology("on-spark"), [Numbered(one) for one in range(begin, count)]
    stream = topology.spout("numbers", Slowly(numbers, rate, Path(store).with_name("hurry")))
    counted, total, copied = declared(topology, stream, Raising() if raises == "deal" else None)
    kept = [Counted, Total]
    sink: Any = PostgresSink(dsn, schema=schema or None, records=kept) if dsn else SqliteSink(store, records=kept)
    topology.bolt("store", sink, counted.global_(), total.global_())
    odd: Any = Shared() if raises == "odd" else SqliteSink(f"{store}-odd", records=[Odd])
    topology.bolt("odd", odd, copied.global_())
    return topology
