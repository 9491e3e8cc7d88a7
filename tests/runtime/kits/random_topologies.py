"""Random topologies, drawn from one seed: chains, forks, diamonds, broadcasts, joins by two anchors, state, failures.

Beside each topology stands what it must come to, computed in plain Python from the same drawing: which items reach the
sink, and how often each key was counted. An item says where it came from, so that no two of a message are equal.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from topology import Bolt, Collector, Config, Record, State, Task, Topology, Tuple
from topology.testing import Captured, Pause, ScriptedSpout


class Item(Record):
    n: int
    path: tuple[int, ...] = ()


class LeftItem(Record):
    n: int
    path: tuple[int, ...]


class RightItem(Record):
    n: int
    path: tuple[int, ...]


class Unlucky(Bolt):
    """Raises for a share of its inputs."""

    def __init__(self, share: float = 0.0) -> None:
        self.share = share

    def open(self, task: Task) -> None:
        self.random, self.index = task.random, task.index

    def chance(self) -> None:
        if self.random.random() < self.share:
            raise ValueError("unlucky")


class Fork(Unlucky):
    def __init__(self, mark: int, share: float) -> None:
        super().__init__(share)
        self.mark = mark

    def process(self, item: Item) -> Iterator[Item]:
        for child in range((item.n + self.mark) % 4):
            yield Item(item.n, (*item.path, self.mark, child))
        self.chance()


class Waits(Unlucky):
    async def process(self, item: Item) -> list[Item]:
        await asyncio.sleep(self.random.choice([0, 0, 0.001, 0.1, 2.0]))
        self.chance()
        return [item]


class Marks(Unlucky):
    """Read by all(): each of its tasks gives an item of its own."""

    def process(self, item: Item) -> Iterator[Item]:
        self.chance()
        yield Item(item.n, (*item.path, 1000 + self.index))


class Lefts(Unlucky):
    def process(self, item: Item) -> Iterator[LeftItem]:
        self.chance()
        yield LeftItem(item.n, item.path)


class Rights(Unlucky):
    async def process(self, item: Item) -> list[RightItem]:
        await asyncio.sleep(self.random.choice([0, 0.05]))
        self.chance()
        return [RightItem(item.n, item.path)]


class Join(Unlucky):
    """Holds each side until the other has come, then emits anchored to both. Sides of two attempts don't match: the
    earlier one's tree has failed, and its other side will not come again."""

    def __init__(self, share: float) -> None:
        super().__init__(share)
        self.waiting: dict[tuple[int, tuple[int, ...]], Tuple[Any]] = {}

    def execute(self, tup: Tuple[LeftItem | RightItem], out: Collector[Item]) -> None:
        self.chance()
        item = tup.record
        partner = self.waiting.pop((item.n, item.path), None)
        if partner is None:
            self.waiting[item.n, item.path] = tup
        elif partner.root != tup.root or type(partner.record) is type(item):
            older, newer = sorted([partner, tup], key=lambda one: one.root)
            out.ack(older)
            self.waiting[item.n, item.path] = newer
        else:
            out.emit(Item(item.n, (*item.path, 7)), anchors=[tup, partner])
            out.ack(tup)
            out.ack(partner)


class Counts(Unlucky):
    """Counts the inputs of each number; gives what it takes."""

    async def process(self, item: Item, state: State[int]) -> list[Item]:
        before = state.get(0)
        if self.random.random() < 0.3:
            await asyncio.sleep(0.01)
        state.set(before + 1)
        self.chance()
        return [item]


@dataclass
class Drawn:
    """A topology and what it comes to when no message ends dead."""

    topology: Topology
    captured: Captured[Item]
    items: Counter[Item] = field(default_factory=Counter)
    counted: dict[str, Counter[int]] = field(default_factory=dict)  # a stateful bolt → inputs of each number
    emitted: int = 0


def draw(seed: int, share: float = 0.05, **config: Any) -> Drawn:
    """The topology of this seed; its bolts fail this share of their inputs."""
    random = Random(seed)
    settings = {"max_pending": random.choice([1, 5, 50, 2000]), "max_replays": 1000, **config}
    topology, captured = Topology(f"drawn-{seed}", Config(**settings)), Captured[Item]()
    drawn = Drawn(topology, captured)
    streams: list[tuple[Any, Counter[Item]]] = []
    for index in range(random.randint(1, 3)):
        items = [Item(index * 1000 + n) for n in range(random.randint(1, 40))]
        script: list[Any] = list(items)
        script.insert(random.randrange(len(script)), Pause(random.random()))
        streams.append(
            (topology.spout(f"spout{index}", ScriptedSpout(script), tasks=random.randint(1, 3)), Counter(items))
        )
        drawn.emitted += len(items)
    for index in range(random.randint(1, 5)):
        streams.append(_bolt(drawn, random, index, streams[random.randrange(len(streams))], share))
    read = random.sample(range(len(streams)), random.randint(1, len(streams)))
    read = sorted({*read, *_unread_spouts(topology, streams)})
    topology.bolt("captured", captured, *(streams[index][0].shuffle() for index in read), tasks=random.randint(1, 2))
    for index in read:
        drawn.items.update(streams[index][1])
    return drawn


def _unread_spouts(topology: Topology, streams: list[Any]) -> list[int]:
    read = {one.component for declared in topology.components for one in declared.inputs}
    spouts = [declared for declared in topology.components if declared.kind == "spout"]
    return [index for index, declared in enumerate(spouts) if declared.name not in read]


def _bolt(
    drawn: Drawn, random: Random, index: int, source: tuple[Any, Counter[Item]], share: float
) -> tuple[Any, Counter[Item]]:
    """Adds one bolt, or a diamond of three, that reads `source`; returns its stream and what that comes to."""
    topology, (stream, items) = drawn.topology, source
    kind, tasks, name = (
        random.choice(["fork", "waits", "marks", "diamond", "counts"]),
        random.randint(1, 3),
        f"b{index}",
    )
    read = random.choice([stream.shuffle, stream.local_or_shuffle, lambda: stream.fields("n"), stream.global_])()
    if kind == "fork":
        forked = Counter[Item]()
        for item, times in items.items():
            for child in range((item.n + index) % 4):
                forked[Item(item.n, (*item.path, index, child))] += times
        return topology.bolt(name, Fork(index, share), read, tasks=tasks), forked
    if kind == "waits":
        return topology.bolt(name, Waits(share), read, tasks=tasks, concurrency=random.choice([1, 8])), items
    if kind == "marks":
        marked = Counter[Item]()
        for item, times in items.items():
            for task in range(tasks):
                marked[Item(item.n, (*item.path, 1000 + task))] += times
        return topology.bolt(name, Marks(share), stream.all(), tasks=tasks), marked
    if kind == "counts":
        drawn.counted[name] = Counter(dict.fromkeys((), 0))
        for item, times in items.items():
            drawn.counted[name][item.n] += times
        counts = topology.bolt(name, Counts(share), stream.fields("n"), tasks=tasks, concurrency=random.choice([1, 8]))
        return counts, items
    lefts = topology.bolt(f"{name}-left", Lefts(share), read, tasks=tasks)
    rights = topology.bolt(f"{name}-right", Rights(share), stream.shuffle(), tasks=tasks, concurrency=4)
    joined = topology.bolt(f"{name}-join", Join(share), lefts.fields("n"), rights.fields("n"), tasks=tasks)
    return joined, Counter({Item(item.n, (*item.path, 7)): times for item, times in items.items()})
