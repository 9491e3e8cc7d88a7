"""Random topologies for the simulator, drawn from one seed: forks, diamonds, broadcasts, joins, state, timers, bolts
that draw numbers or hold their inputs, messages that are rejected and who reads them. Must not know what befalls them.

What reaches the sink is a function of the messages alone, in whatever order they come: an item says where it was, and
the count of a key stands in it, which is 1 for ever as no two items of a key are equal. Below what draws a number it is
a function of what was drawn first. What does hang on the order is in branches of its own (`surviving`).
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any, ClassVar, Final, Literal

from acker.identity import MessageId
from tests.simulation.items import Item, Unlucky
from tests.simulation.partitioned import Partitioned
from tests.simulation.recreated import Recreated
from tests.simulation.surviving import Draws, gathers, rings, tally
from topology import Collector, Config, DeadLetter, Record, Reject, State, Task, Topology, Tuple
from topology.testing import Captured, Hazard, Pause, ScriptedSpout

MESSAGES_MIN: Final = 200
REJECTED_EVERY: Final = 31
CALM: Final = (Hazard.PAUSE, Hazard.DISK_FULL, Hazard.LATE_FRAMES, Hazard.REPEATED_FRAMES)
RESCALE: Final = True  # whether workers and tasks change when all of a run begins again
BOUNDED: Final = 0.05  # of the topologies: more messages, and small bounds of what is remembered and of the lag
BOUNDED_DEAD: Final = 0.5  # of those in which a bolt with state knows dead messages: letters wait for room (D5)
REMEMBERED_MAX: Final = 20_000  # bytes
REMEMBERED_DEAD_MAX: Final = 14_000  # more than the dead messages take, and soon full
PARTITIONED: Final = 0.35  # of the sources
RECREATED: Final = "recreated"
HELD_S: Final = "50ms"
DURABILITIES: Final[tuple[Literal["disk", "process", "checkpoint"], ...]] = ("disk", "process", "checkpoint")
KINDS: Final = ("fork", "waits", "marks", "diamond", "counts", "counts", "holds", "draws")


class LeftItem(Record):
    n: int
    path: tuple[int, ...]


class RightItem(Record):
    n: int
    path: tuple[int, ...]


class Fork(Unlucky):
    """None, one or two for one."""

    def __init__(self, share: float, mark: int) -> None:
        super().__init__(share)
        self.mark = mark

    def process(self, item: Item) -> Iterator[Item]:
        for child in range((item.n + self.mark) % 3):
            yield Item(item.n, (*item.path, self.mark, child))
        self.chance()


class Waits(Unlucky):
    async def process(self, item: Item) -> list[Item]:
        await asyncio.sleep(self.random.choice([0, 0, 0, 0.001, 0.02]))
        self.chance()
        return [item]


class Marks(Unlucky):
    """Read by all(): each of its tasks gives an item of its own."""

    def process(self, item: Item) -> Iterator[Item]:
        self.chance()
        yield Item(item.n, (*item.path, 1000 + self.index))


class Rejects(Unlucky):
    def process(self, item: Item) -> Iterator[Item]:
        if item.n % REJECTED_EVERY == REJECTED_EVERY - 1:
            raise Reject("of no use")
        self.chance()
        yield item


class Holds(Unlucky):
    """Keeps its inputs for a while, more than may be pending perhaps, and gives one item for each (A19)."""

    def __init__(self, share: float) -> None:
        super().__init__(share)
        self.held: list[tuple[Tuple[Item], Collector[Item]]] = []

    def execute(self, tup: Tuple[Item], out: Collector[Item]) -> None:
        self.chance()
        self.held.append((tup, out))

    def tick(self, now: datetime) -> None:
        self._give()

    def flush(self, out: Collector[Item]) -> None:
        self._give()

    def _give(self) -> None:
        held, self.held = self.held, []
        for tup, out in held:
            out.emit(Item(tup.record.n, (*tup.record.path, 5)), anchors=[tup])
            out.ack(tup)


class Batches(Holds):
    """Keeps its inputs for a while, and gives one item for each, anchored to all of them: more trees than a tuple may
    name, so they become sub-trees (A16). Who is with whom is another matter in every run, and so are identities."""

    def _give(self) -> None:
        held, self.held = self.held, []
        anchors = [tup for tup, _ in held]
        for tup, out in held:
            out.emit(Item(tup.record.n, (*tup.record.path, 6)), anchors=anchors)
        for tup, out in held:
            out.ack(tup)


class Lefts(Unlucky):
    def process(self, item: Item) -> Iterator[LeftItem]:
        self.chance()
        yield LeftItem(item.n, item.path)


class Rights(Unlucky):
    async def process(self, item: Item) -> list[RightItem]:
        await asyncio.sleep(self.random.choice([0, 0.005]))
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
            out.emit(Item(item.n, (*item.path, 7)), anchors=[tup, partner, tup])  # one of them twice (A2)
            out.ack(tup)
            out.ack(partner)


class Counts(Unlucky):
    """Counts the inputs of each key, of which there is one: what it gives says 1 for ever, unless it counts twice."""

    async def process(self, item: Item, state: State[int]) -> list[Item]:
        count = state.get(0) + 1
        if self.random.random() < 0.3:
            await asyncio.sleep(0.002)
        state.set(count)
        self.chance()
        return [Item(item.n, (*item.path, count))]


class CountsInMemory(Counts):
    recovery: ClassVar[Literal["checkpoint", "replay", "none"]] = "none"


def faults_of(seed: int) -> Collection[Hazard]:
    """What may befall this seed's run: in one of six nobody dies, so that what is counted in memory can be compared.

    What waits for others is blamed for deaths; and a run that begins from a kept checkpoint reads messages again of
    which it remembers that they are settled. Those of an old epoch can't be read again at all."""
    if _is_gathered(seed):
        return [one for one in Hazard if one not in (Hazard.LOST_FRAME, Hazard.SAVEPOINT)]
    if _is_calm(seed):
        return CALM
    can_go_back = all(component.name != RECREATED for component in draw(seed).components)
    return [one for one in Hazard if can_go_back or one is not Hazard.SAVEPOINT]


def _is_gathered(seed: int) -> bool:
    """Whether messages are joined with others. None of them may die elsewhere: what is left would wait for ever."""
    return seed % 3 == 0


def _is_calm(seed: int) -> bool:
    return seed % 6 == 5


def durability_of(seed: int) -> Literal["disk", "process", "checkpoint"]:
    return Random(f"durability of {seed}").choice(DURABILITIES)


def _config(seed: int, random: Random, *, gathered: bool, remembered_max: int | None) -> Config:
    bounds: dict[str, int] = {"max_lag": 60, "max_remembered_bytes": remembered_max} if remembered_max else {}
    return Config(
        # a group may wait for the last message of a partition that is read behind all others
        max_pending=random.choice([5, 50, 2_000] if not gathered else [MESSAGES_MIN, 2_000]),
        max_replays=1_000,
        max_restarts=1_000,
        tree_timeout_s=30 if gathered else 5,  # a suspect is tried alone for as long as 5 s
        durability=durability_of(seed),
        **bounds,
    )


def draw(seed: int) -> Topology:
    """The topology of this seed: at least MESSAGES_MIN messages, and three components."""
    random = Random(seed)
    share = random.choice([0.0, 0.002, 0.02])
    known_dead = seed % 4 == 1 and not _is_gathered(seed)  # what dies was counted, and is so once if replayed (E1)
    gathered = _is_gathered(seed)
    of_sources = Random(f"sources of {seed}")
    bounded = not gathered and of_sources.random() < (BOUNDED_DEAD if known_dead else BOUNDED)
    messages = 2 * MESSAGES_MIN if bounded and not known_dead else MESSAGES_MIN
    most = (REMEMBERED_DEAD_MAX if known_dead else REMEMBERED_MAX) if bounded else None
    topology = Topology(f"drawn-{seed}", _config(seed, random, gathered=gathered, remembered_max=most))
    spouts = random.randint(1, 2)
    streams: list[Any] = []
    settled: set[int] = set()
    for index in range(spouts):
        items = [Item(index * 1_000 + n) for n in range(messages // spouts)]
        streams.append(_source(topology, random, of_sources, f"spout{index}", items, settled))
    if random.random() < 0.2:
        records = [Item(spouts * 1_000 + n) for n in range(100)]
        streams.append(topology.spout(RECREATED, Recreated(records[:40], records[40:])))
    if random.random() < 0.3:
        topology.bolt("letters", Captured[DeadLetter](), streams[0].dead.global_())
    unread = {*range(len(streams))}
    counted: set[int] = set()  # streams below a bolt with state, or one that draws
    kinds: list[str | None] = [None] * random.randint(1, 3) if not known_dead else ["counts", "rejects"]
    for number, kind in enumerate(kinds):
        at = len(streams) - 1 if known_dead else random.choice(sorted(unread))
        unread.discard(at)
        unread.add(len(streams))
        if kind is None:
            more = [*(["rejects"] if not gathered else []), *(["in-memory"] if _is_calm(seed) else [])]
            kind = random.choice([*KINDS, *more])
        bolt = _bolt(topology, random, number, streams[at], share, kind)
        if kind == "rejects" and (known_dead or random.random() < 0.5):  # what dies there is seen elsewhere
            unread.add(at)
        if at in counted or kind in {"counts", "in-memory", "draws"}:
            counted.add(len(streams))
        streams.append(bolt)
    plain = sorted(unread - counted)
    if plain and random.random() < 0.35:  # nothing below may go by identities, and counts above would be in the items
        at = random.choice(plain)
        unread.discard(at)
        read = streams[at].shuffle()
        batches = topology.bolt("batches", Batches(share), read, tasks=random.randint(1, 2), every=HELD_S)
        topology.bolt("captured-batches", Captured[Item](by_record=True), batches.shuffle())
    if unread:
        read = [streams[at].shuffle() for at in sorted(unread)]
        topology.bolt("captured", Captured[Item](), *read, tasks=random.randint(1, 2))
    for name, branch in (("counted", tally), ("rung", rings)):
        if random.random() < 0.4:
            branch(topology, random, name, random.choice(streams), share)
    if gathered:
        gathers(topology, random, streams[:spouts], MESSAGES_MIN // spouts, share, settled)
    return topology


class Told(ScriptedSpout[Item]):
    """`told` gets the numbers of records that are settled: also of those before the position at which it resumes."""

    def __init__(self, script: Sequence[Any], told: Callable[[Sequence[int]], None]) -> None:
        super().__init__(script)
        self.told = told

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        super().open(task, positions)
        self.settled([id for id in range(int(positions.get("", 0))) if id % task.tasks == task.index], "")

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        self.told([int(id) for id in ids])


def _source(
    topology: Topology, random: Random, more: Random, name: str, items: Sequence[Item], settled: set[int]
) -> Any:
    """Adds a source with pauses, or one with partitions, and returns its stream. `settled` gets the numbers of its
    items that a decided checkpoint has."""
    source: Any
    script: list[Any] = [*items]
    for _ in range(random.randint(0, 3)):
        script.insert(random.randrange(len(script)), Pause(random.random() / 4))
    tasks = random.randint(1, 2)

    def told(numbers: Sequence[int]) -> None:
        settled.update(items[number].n for number in numbers)

    if more.random() < PARTITIONED:
        tasks, source = _partitioned(more, items, told)
    else:
        source = Told(script, told)
    return topology.spout(name, source, tasks=tasks)


def _partitioned(
    random: Random, items: Sequence[Item], told: Callable[[Sequence[int]], None]
) -> tuple[int, Partitioned]:
    """A source with partitions, and its number of tasks: some may have no partition, or one each."""
    tasks = random.randint(1, 3)
    partitions = random.choice([1, tasks, 5])
    waits = {random.randint(0, 3): random.uniform(0.5, 2.5) for _ in range(random.randint(0, 1))}
    texts, as_met = random.random() < 0.5, random.random() < 0.5
    return tasks, Partitioned(items, partitions, texts=texts, as_met=as_met, waits=waits, told=told)


def _bolt(topology: Topology, random: Random, number: int, stream: Any, share: float, kind: str) -> Any:
    """Adds one bolt, or a diamond of three, and returns its stream."""
    tasks, name = random.randint(1, 2), f"{kind}{number}"
    read = random.choice([stream.shuffle, stream.local_or_shuffle, lambda: stream.fields("n"), stream.global_])
    concurrency = random.choice([1, 8])
    if kind == "fork":
        return topology.bolt(name, Fork(share, number + 1), read(), tasks=tasks)
    if kind == "waits":
        return topology.bolt(name, Waits(share), read(), tasks=tasks, concurrency=concurrency)
    if kind == "marks":
        return topology.bolt(name, Marks(share), stream.all(), tasks=tasks)
    if kind == "rejects":
        return topology.bolt(name, Rejects(share), read(), tasks=tasks)
    if kind == "holds":
        return topology.bolt(name, Holds(share), read(), tasks=tasks, every=HELD_S)
    if kind == "draws":
        return topology.bolt(name, Draws(share), read(), tasks=tasks)
    if kind in {"counts", "in-memory"}:
        counts = Counts(share) if kind == "counts" else CountsInMemory(share)
        return topology.bolt(name, counts, stream.fields("n", "path"), tasks=tasks, concurrency=concurrency)
    lefts = topology.bolt(f"{name}-left", Lefts(share), read(), tasks=tasks)
    rights = topology.bolt(f"{name}-right", Rights(share), stream.shuffle(), tasks=tasks, concurrency=4)
    return topology.bolt(f"{name}-join", Join(share), lefts.fields("n"), rights.fields("n"), tasks=tasks)
