"""Prints what the hot path makes of random input, as JSON, so that a test can compare one core with the other.

KEDGE_CORE=python python -m tests.property.both_cores SEED
"""

import asyncio
import json
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import timedelta
from operator import attrgetter
from random import Random
from typing import Any, Literal

from acker.ledger import Ledger
from topology import Bolt, Config, EmitError, Message, Record, State, Task, Topology
from topology.core import CORE
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.runtime.hot.hot_path import Plain, ack_given, begin, begun_together, emit, work
from topology.runtime.hot.open_trees import OpenTrees
from topology.runtime.hot.pending import Pending
from topology.runtime.hot.tuple_columns import packed, tuples_of
from topology.testing import Captured, ScriptedSpout, Watch, run_topology

EDGES = (0, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)  # of 64 bits
IDS = (
    -(2**63) - 1,
    -(2**63),
    -1,
    0,
    1,
    2**63 - 1,
    2**63,
    2**64,
    2**70,
    "",
    "name",
    "\ud800",
    b"",
    b"\xff",
    True,
    None,
    1.5,
)


class Thing(Record):
    number: int


class Other(Record):
    number: int


class Many(Bolt):
    """Gives as many as its input says, of the kind that it says."""

    def process(self, thing: Thing) -> Any:
        count, kind = divmod(thing.number, 6)
        things = [Thing(thing.number + k) for k in range(count % 4)]
        if kind == 5:
            raise ValueError(thing.number)
        if kind == 4:
            return [*things, Other(1)]  # not declared
        return (self._yield(things), things, tuple(things), iter(things))[kind]

    def _yield(self, things: list[Thing]) -> Iterator[Thing]:
        yield from things


class Home:
    """A ledger, and a note of all that is asked of it."""

    def __init__(self) -> None:
        self.ledger: Ledger[Any] = Ledger(30.0, now=0.0, table=OpenTrees)
        self.told: list[Any] = []

    def ack(self, root: int, value: int) -> Any:
        self.told.append(("ack", root, value))
        return self.ledger.ack(root, value)

    def completed(self, trees: list[Any]) -> None:
        self.told.append(("completed", [tree.root for tree in trees]))


class Outbox:
    def __init__(self, plain: Plain) -> None:
        self.plain = plain

    def undeclared(self, record: object) -> EmitError:
        return EmitError(f"{record!r} is not declared")


class Executor:
    """As much of a `ProcessExecutor` as a slice uses."""

    def __init__(self, plain: Plain, home: Home, inputs: list[Tuple[Any]]) -> None:
        self.queue, self.bolt, self.home, self.outbox = deque(inputs), Many(), home, Outbox(plain)
        self.executed, self.concurrency, self.under_way = 0, 1, {}

    def raised(self, tup: Tuple[Any], error: BaseException) -> None:
        self.home.told.append(("raised", tup.identity, str(error)))

    def ack_input(self, tup: Tuple[Any], sent: int) -> None:
        self.home.told.append(("ack_input", tup.identity, tup.roots, sent))


def acked(random: Random, inputs: list[Tuple[Any]], trees: list[Pending]) -> Any:
    """Ack most of these inputs, as a sink does that was given them."""
    given, home = {id(tup): tup for tup in inputs if random.random() < 0.9}, Home()
    for tree in trees:
        if tree.value:
            home.ledger.begin(tree)
    done, missing = ack_given(given, [*inputs[:3], inputs[1].record, None, *inputs[3:]], home)
    values = [tree.value for tree in trees]
    return (
        [tree.root for tree in done],
        [repr(one) for one in missing if not isinstance(one, Tuple)],
        len(missing),
        len(given),
        home.told,
        values,
    )


def drawn(seed: int) -> Iterator[Any]:
    random = Random(seed)
    number = lambda: random.choice(EDGES) if random.random() < 0.2 else random.getrandbits(64)  # noqa: E731
    queues: list[list[Tuple[Any]]] = [[], [], []]
    dealt = lambda record, identity: identity % 3  # noqa: E731
    plains = [Plain(Thing, number() >> 1, number() >> 1, Source("a", "Thing", 0), one, queues) for one in (None, dealt)]
    shown = lambda: [[(t.record, t.origin, t.identity, t.root, t.others) for t in queue] for queue in queues]  # noqa: E731
    for _ in range(20):
        plain, home = random.choice(plains), Home()
        ids: list[Any] = [random.choice(IDS) if random.random() < 0.02 else random.getrandbits(40) for _ in range(9)]
        messages = [Message(Thing(k) if random.random() < 0.98 else Other(k), id=one) for k, one in enumerate(ids)]
        first = random.getrandbits(50) << 6
        begun = begin(plain, messages, number(), first, None, random.random(), home.ledger)
        trees = sorted(home.ledger.trees(), key=attrgetter("root"))
        yield "begun", begun, [(tree.root, tree.value, tree.seed, tree.started_at) for tree in trees]
        yield begun_together([Pending(1, 1, None, 0, None, float(k // random.randint(1, 3))) for k in range(9)])
        inputs = [
            Tuple(
                Thing(random.randrange(60)),
                number(),
                tree.value if (tree := random.choice(trees) if trees else None) else number(),
                tree.root if tree else 0,
                (64,) if random.random() < 0.1 else (),
                Source("a", "Thing", random.choice((0, 0, number()))),
            )
            for _ in range(12)
        ]
        executor = Executor(random.choice(plains), home, inputs)
        yield (
            "worked",
            work(executor, executor.bolt.process, 10),
            executor.executed,
            home.told,
            sorted(tree.root for tree in home.ledger.trees()),
        )
        yield [tree.value for tree in trees]
        yield acked(random, inputs, trees)
        columns, joined = packed(inputs)
        numbers = lambda made: [(t.record, t.origin, t.identity, t.root, t.others) for t in made]  # noqa: E731
        further = [tup.others for tup in inputs] if joined else None
        again = tuples_of(columns, [tup.record for tup in inputs], further, inputs[0].source)
        assert numbers(again) == numbers(inputs), "what was packed comes out again"
        yield columns.hex(), joined
        for count, others in ((random.choice((11, 13)), None), (12, []), (12, [()] * 11), (12, [()] * 13)):
            try:
                tuples_of(columns, [None] * count, others, inputs[0].source)
                raise AssertionError("the columns are of twelve")
            except ValueError as error:
                yield str(error)
        try:
            yield emit(plain, [Thing(1), Thing(2)], inputs[0], Outbox(plain).undeclared)
            yield emit(plain, [Thing(1), Other(2)], inputs[0], Outbox(plain).undeclared)
        except EmitError as error:
            yield str(error)
        yield shown(), [plain.emitted for plain in plains]
        for queue in queues:
            queue.clear()


class Keeps(Bolt):
    """Does with its state what its input says, and gives as many outputs as it says."""

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, thing: Thing, state: State[int]) -> Iterable[Thing] | None:
        act, count = thing.number % 7, thing.number % 4
        before = state.get(0)
        if act == 6:
            raise ValueError(thing.number)
        if act == 5:
            state.clear()
        elif act:
            state.set(before + thing.number * (2**60 if act == 4 else 1) % 2**70)  # some have no byte form
        if act == 3:
            state.timer(self.clock.utc() + timedelta(seconds=thing.number % 11))
        things = [Thing(before + k) for k in range(count)]
        return (None if count == 0 else iter(things), things, (thing for thing in things))[thing.number % 3]

    def on_timer(self, key: tuple[int, ...], name: str, state: State[int]) -> Iterator[Thing]:
        yield Thing(state.get(0))


class Again(Bolt):
    """Fails some inputs once, so that what is above is replayed."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def process(self, thing: Thing) -> Iterator[Thing]:
        if thing.number % 5 == 0 and thing.number not in self.seen:
            self.seen.add(thing.number)
            raise ValueError("once")
        yield thing


class Draws(Bolt):
    """Gives what depends on nothing but its input, and says that it does not."""

    deterministic = False

    def process(self, thing: Thing) -> Iterator[Thing]:
        for k in range(thing.number % 3):
            yield Thing(thing.number + k)


class Rebuilds(Bolt):
    """Counts up to three, then clears its count."""

    recovery = "replay"

    def process(self, thing: Thing, state: State[int]) -> Iterator[Thing]:
        if (count := state.get(0) + 1) < 3:
            state.set(count)
        else:
            state.clear()
            yield Thing(thing.number)


class Slow(Bolt):
    """Waits for some of its inputs, so that others wait for their key."""

    async def process(self, thing: Thing, state: State[int]) -> list[Thing]:
        if thing.number % 3 == 0:
            await asyncio.sleep(0.01)
        state.set(state.get(0) + 1)
        return [Thing(thing.number + state.get(0))]


def through_state(seed: int) -> Iterator[Any]:
    """Yield what comes out of bolts with state, with replays, timers, two workers, a log and without one."""
    random = Random(seed)
    durabilities: tuple[Literal["disk", "checkpoint"], ...] = ("disk", "checkpoint")
    for durability in durabilities:
        for bolt, workers in ((Keeps(), 1), (Keeps(), 2), (Draws(), 2), (Rebuilds(), 1), (Slow(), 1)):
            topology = Topology("kept", Config(durability=durability, max_replays=3))
            source = topology.spout("things", ScriptedSpout([Thing(random.randrange(200)) for _ in range(40)]))
            concurrency = 4 if isinstance(bolt, Slow) else 1
            kept = topology.bolt("keeps", bolt, source.fields("number"), tasks=workers, concurrency=concurrency)
            captured = Captured[Thing]()
            topology.bolt("captured", captured, topology.bolt("again", Again(), kept.shuffle()).shuffle())
            watch = Watch()
            with tempfile.TemporaryDirectory() as state_dir:
                report = run_topology(
                    topology,
                    watch=watch,
                    seed=seed,
                    until_s=12,
                    state_dir=state_dir,
                    replay_all=True,
                    workers=workers,
                )
            yield durability, type(bolt).__name__, report.ended, report.snapshot.spouts["things"].acked
            yield sorted((tup.record.number, tup.origin, tup.identity) for tup in captured.tuples)
            yield sorted((key.hex(), value) for key, value in watch.state("keeps").items())


if __name__ == "__main__":
    said = [*drawn(int(sys.argv[1])), *through_state(int(sys.argv[1]))]
    print(json.dumps({"core": CORE, "said": said}, default=repr))
