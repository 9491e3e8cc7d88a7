"""Bolts of drawn topologies whose state, timers or outputs have to survive, and the branches that show it. Must not
know what befalls them.

A running count hangs on the order in which inputs come, so none is compared by identity: what a key's count has to be
is 1 … n, each once. A count too many is an input that was counted twice, or a timer that has fired twice; one that
lacks is one that was lost.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from tests.simulation.items import Item, Unlucky
from tests.simulation.late import LateLots, Lot, Lots, Spoils
from topology import Collector, Record, State, Task, Topology, Tuple
from topology.testing import Captured

GROUP: Final = 10  # messages whose output is anchored to all of them: more trees than a tuple may name (A16)
LOOKS: Final = "100ms"
AT_ONCE: Final = 64  # inputs that a slow bolt works on
SECOND: Final = 0.5  # of the tallies are read by another bolt with state
SECOND_BACK: Final = 0.8  # the same if all workers go back: then the two have to be of one cut (P1)
AGAIN: Final = 3  # times that one side of a join fails on its own


class Count(Record):
    """The how manyth of its key this is, and which input it was."""

    key: int
    count: int
    n: int = 0
    path: tuple[int, ...] = ()


# An input as a state remembers it: key, count (0 for none), n, path.
Taken = tuple[int, int, int, tuple[int, ...]]


class Tallies(Unlucky):
    """Counts the inputs of each key, of which there are many; they are read, waited for, and written (D3). Its state
    has all of them in their order. So it can be compared with what has left, and with the state of who reads that."""

    async def process(self, lot: Lot | Count, state: State[tuple[Taken, ...]]) -> list[Count]:
        count = lot.count if isinstance(lot, Count) else 0
        taken: tuple[Taken, ...] = (*state.get(()), (lot.key, count, lot.n, lot.path))
        if self.random.random() < 0.3:
            await asyncio.sleep(0.002)
        state.set(taken)
        self.chance()
        return [Count(self.key_of(lot), len(taken), lot.n, lot.path)]

    def key_of(self, lot: Lot | Count) -> int:
        return lot.key


class Seconds(Tallies):
    """Reads counts by their count: so which inputs of a key come together here depends on their order there."""

    def key_of(self, lot: Lot | Count) -> int:
        return lot.count if isinstance(lot, Count) else 0


class Rings(Unlucky):
    """Each input sets a timer of its own; what that emits is a function of its key and the state alone."""

    fires_at_end = True

    def open(self, task: Task) -> None:
        super().open(task)
        self.clock = task.clock

    def process(self, item: Item, state: State[int]) -> None:
        after = timedelta(milliseconds=self.random.randint(50, 500))
        state.timer(self.clock.utc() + after, repr(item.path))
        self.chance()

    def on_timer(self, key: tuple[int], name: str, state: State[int]) -> list[Count]:
        count = state.get(0) + 1
        state.set(count)
        self.chance()
        return [Count(key[0], count)]


class Draws(Unlucky):
    """Puts a random number into what it gives: another one each time that it is asked."""

    deterministic = False

    def process(self, item: Item) -> list[Item]:
        drawn = [Item(item.n, (*item.path, self.random.getrandbits(30)))]
        self.chance()
        return drawn


class Stamps(Unlucky):
    """As `Draws`, of counts."""

    deterministic = False

    async def process(self, count: Count) -> list[Item]:
        await asyncio.sleep(self.random.choice([0, 0.001]))
        self.chance()
        return [Item(count.n, (*count.path, self.random.getrandbits(30)))]


class CapturedCounts(Captured[Count]):
    """Counts are compared by key and number; which input was which differs from run to run."""

    def __init__(self) -> None:
        super().__init__(by_record=True)

    def compared(self, tup: Tuple[Count]) -> Count:
        return Count(tup.record.key, tup.record.count)


class Gathers(Unlucky):
    """Holds messages until all of a group are there, then emits one item for each, anchored to all of them.

    When a tree is lost after another one of its group was done, what comes again comes alone. It is done once another
    one is `settled`: then a decided checkpoint has all that the group has emitted.
    """

    def __init__(self, share: float, groups: Mapping[int, frozenset[int]], settled: set[int]) -> None:
        super().__init__(share)
        self.groups, self.settled = groups, settled
        self.held: dict[int, dict[int, Tuple[Item]]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Gathers":
        return Gathers(self.share, self.groups, self.settled)

    def execute(self, tup: Tuple[Item], out: Collector[Item]) -> None:
        self.chance()
        self.out = out
        number = min(self.groups[tup.record.n])
        held = self.held.setdefault(number, {})
        before = held.get(tup.record.n)
        if before is not None:
            older, tup = sorted([before, tup], key=lambda one: one.root)  # of an attempt that has failed
            out.ack(older)
        held[tup.record.n] = tup
        if held.keys() == self.groups[number]:
            self._give(number, out)

    def _give(self, number: int, out: Collector[Item]) -> None:
        held = self.held.pop(number)
        anchors = [held[n] for n in sorted(held)]
        for n in sorted(held):
            out.emit(Item(n, (*held[n].record.path, 8)), anchors=anchors, key=n)
        for one in anchors:
            out.ack(one)

    def tick(self, now: datetime) -> None:
        for number in [*self.held]:
            if not self.settled.isdisjoint(self.groups[number]):
                for one in self.held.pop(number).values():
                    self.out.ack(one)


# -- branches


def tally(topology: Topology, random: Random, name: str, stream: Any, share: float) -> CapturedCounts:
    """Counts what a stream gives by keys that come again and again."""
    tasks, captured = random.randint(1, 2), CapturedCounts()
    late = random.random() < 0.6
    lots = _lots(topology, random, f"{name}-lots", stream, share, late=late)
    if late:
        topology.bolt(f"{name}-spoils", Spoils(), stream.fields("n"))
    many = random.choice([1, 8])
    counts = topology.bolt(f"{name}-tally", Tallies(share), lots.fields("key"), tasks=tasks, concurrency=many)
    if random.random() < 0.5:
        stamped = topology.bolt(f"{name}-stamps", Stamps(share), counts.shuffle(), tasks=tasks, concurrency=many)
        topology.bolt(f"captured-{name}-stamps", Captured[Item](), stamped.shuffle())
    topology.bolt(f"captured-{name}", captured, counts.shuffle())
    if random.random() < (SECOND_BACK if topology.config.durability == "checkpoint" else SECOND):
        again = topology.bolt(f"{name}-second", Seconds(share), counts.fields("count"), tasks=2, concurrency=many)
        topology.bolt(f"captured-{name}-second", CapturedCounts(), again.shuffle())
    return captured


def rings(topology: Topology, random: Random, name: str, stream: Any, share: float) -> None:
    """Has timers set by what a stream gives, and counts what they emit."""
    rung = topology.bolt(f"{name}-rings", Rings(share), stream.fields("n"), tasks=random.randint(1, 2))
    topology.bolt(f"captured-{name}", CapturedCounts(), rung.shuffle())
    if random.random() < 0.5:
        again = topology.bolt(f"{name}-again", Tallies(share), rung.fields("key"), tasks=2, concurrency=8)
        topology.bolt(f"captured-{name}-again", CapturedCounts(), again.shuffle())


def gathers(topology: Topology, random: Random, streams: list[Any], each: int, share: float, settled: set[int]) -> None:
    """Counts what is anchored to messages of two sources (D15), or to many of one (A16, D17). `each` has so many.
    `settled`: those that a decided checkpoint has."""
    if len(streams) > 1:
        groups = {n + at: frozenset({n, 1_000 + n}) for n in range(each) for at in (0, 1_000)}
    else:
        groups = {n: frozenset(range(n - n % GROUP, min(each, n - n % GROUP + GROUP))) for n in range(each)}
    counted = CapturedCounts()
    read = [one.global_() for one in streams]
    given = topology.bolt("gathers", Gathers(share, groups, settled), *read, every=LOOKS)
    lots = _lots(topology, random, "gathered-lots", given, share, late=True)
    times = random.sample([1, AGAIN], len(read))  # what comes alone is held: its other side is done meanwhile
    for number, (stream, count) in enumerate(zip(streams, times, strict=True)):
        topology.bolt(f"spoils{number}", Spoils(count), stream.fields("n"))
    many = random.choice([1, 8])
    counts = topology.bolt("gathered-tally", Tallies(share), lots.fields("key"), tasks=2, concurrency=many)
    topology.bolt("captured-gathered", counted, counts.shuffle())


def _lots(topology: Topology, random: Random, name: str, stream: Any, share: float, *, late: bool) -> Any:
    """Gives each input the key that it is counted by; some of them late."""
    tasks = random.randint(1, 2)
    if late:
        return topology.bolt(name, LateLots(share), stream.fields("n"), tasks=tasks, concurrency=AT_ONCE)
    return topology.bolt(name, Lots(share), stream.shuffle(), tasks=tasks)
