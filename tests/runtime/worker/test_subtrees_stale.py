"""Inputs that were held up until their messages were done, and forgotten, come under no new sub-root: whatever a bolt
with state had counted is counted once (A16, D5, D17).

In each of these a first attempt fails elsewhere while its tuples are held up, and another one is done meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from runtime_kit import Number, Totals, built, numbers

from acker.roots import worker_of_owner
from topology import Bolt, Collector, Topology, Tuple
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.links.protocol import Frame
from topology.runtime.state.state_executor import StateExecutor
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Stop, Watch, run_topology

INPUTS = 10  # more than a tuple may have roots
LATE = 99  # a number that comes later
ONCE = {1: 1}  # how many sums were counted how often


class Shared(Bolt):
    """All tasks, of all lives, are this one object."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.gate = asyncio.Event()

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def is_first(self, number: Number) -> bool:
        first = number.n not in self.seen
        self.seen.add(number.n)
        return first and number.n < INPUTS


class Held(Shared):
    """Holds up each number the first time, until it is opened."""

    async def process(self, number: Number) -> list[Number]:
        if self.is_first(number):
            await self.gate.wait()
        return [number]


class Raises(Shared):
    """Raises the first time, after a while."""

    def __init__(self, after_s: float = 0.0) -> None:
        super().__init__()
        self.after_s = after_s

    async def process(self, number: Number) -> list[Number]:
        if self.is_first(number):
            await asyncio.sleep(self.after_s)
            raise ValueError("once")
        return []


class Sums(Bolt):
    """The sum of each so many inputs, anchored to all of them."""

    def __init__(self) -> None:
        self.kept: list[Tuple[Number]] = []

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> Any:
        if tup.record.n == LATE:
            out.ack(tup)
            return
        self.kept.append(tup)
        if len(self.kept) == INPUTS:
            self.give(self.kept, out)
            self.kept = []

    def give(self, inputs: list[Tuple[Number]], out: Collector[Number]) -> None:
        out.emit(Number(sum(one.record.n for one in inputs)), anchors=inputs)
        for one in inputs:
            out.ack(one)


def counted(watch: Watch) -> dict[int, int]:
    values = [*watch.state("counts").values()]
    return {value: values.count(value) for value in values}


def script(*later: Number | Pause) -> ScriptedSpout[Number]:
    return ScriptedSpout[Number]([*numbers(INPUTS), *later, Pause(60)])


async def forgotten(run: EmbeddedRun, counts: int = 0) -> None:
    """Returns once the bolt with state had an input, and remembers none."""
    while True:
        await asyncio.sleep(0.5)
        counting = run.workers[counts].executors["counts", 0]
        assert isinstance(counting, StateExecutor)
        if len(counting.keys) and not len(counting.known):
            return


def test_stale_inputs_are_refused_where_a_sub_tree_may_begin_D5() -> None:
    held, topology, watch = Held(), Topology("held"), Watch()
    stream = topology.spout("numbers", script())
    topology.bolt("raises", Raises(), stream.shuffle(), concurrency=50)
    sums = topology.bolt("sums", Sums(), topology.bolt("held", held, stream.shuffle(), concurrency=50).global_())
    counts = topology.bolt("counts", Totals(), sums.fields("n"))
    topology.bolt("captured", Captured[Number](), counts.shuffle())

    async def late(run: EmbeddedRun) -> None:
        await built(run)
        await forgotten(run)
        held.gate.set()

    report = run_topology(topology, during=late, watch=watch)
    assert counted(watch) == ONCE
    assert report.snapshot.rare["stale tuples refused"] == INPUTS
    assert report.snapshot.bolts["sums"].executed == INPUTS


def test_what_would_begin_a_sub_tree_for_stale_inputs_alone_is_dropped_D5() -> None:
    class Hoards(Sums):
        """Keeps the first ones, gives the sum of the next ones, and of the first when a later number comes."""

        def __init__(self) -> None:
            super().__init__()
            self.first: list[Tuple[Number]] = []

        def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            if len(self.first) < INPUTS:
                self.first.append(tup)
                return
            if tup.record.n == LATE:
                self.give(self.first, out)
            super().execute(tup, out)

    topology, watch = Topology("hoards"), Watch()
    stream = topology.spout("numbers", script(Pause(20), Number(LATE)))
    topology.bolt("raises", Raises(1.0), stream.shuffle(), concurrency=50)
    sums = topology.bolt("sums", Hoards(), stream.global_())
    counts = topology.bolt("counts", Totals(), sums.fields("n"))
    topology.bolt("captured", Captured[Number](), counts.shuffle())
    report = run_topology(topology, watch=watch)
    assert counted(watch) == ONCE
    assert (report.snapshot.rare["stale tuples refused"], watch.workers[0].subtrees.begun) == (1, 1)


def test_a_tuple_of_a_sub_tree_whose_inputs_have_become_stale_is_refused_D5() -> None:
    """Its own tree is open still; what has the same identity is forgotten by now."""

    class HeldSum(Held):
        def is_first(self, number: Number) -> bool:
            first = not self.seen
            self.seen.add(number.n)
            return first

    held, topology, watch = HeldSum(), Topology("held-sum"), Watch()
    stream = topology.spout("numbers", script())
    topology.bolt("raises", Raises(1.0), stream.shuffle(), concurrency=50)
    sums = topology.bolt("held", held, topology.bolt("sums", Sums(), stream.global_()).shuffle(), concurrency=50)
    counts = topology.bolt("counts", Totals(), sums.fields("n"))
    topology.bolt("captured", Captured[Number](), counts.shuffle())
    pending: list[int] = []

    async def late(run: EmbeddedRun) -> None:
        worker = await built(run)
        await forgotten(run)
        held.gate.set()
        await asyncio.sleep(1)
        pending.append(len(worker.subtrees.open))

    report = run_topology(topology, during=late, watch=watch)
    assert counted(watch) == ONCE
    assert watch.workers[0].subtrees.begun == 2
    assert report.snapshot.rare["stale tuples refused"] == 1
    assert pending == [0], "nobody waits for the first one any more"


def apart(held: Any, sums: Any, raises: Any, spout: Any, *, tasks: int) -> Topology:
    """The source's worker is 0; that of what holds up, and of the state, 1; the first task that sums is on 2."""
    topology = Topology("apart")
    stream = topology.spout("numbers", spout)
    one, two = (topology.spout(name, ScriptedSpout[Number]([Stop(), Number(0)])) for name in ("one", "two"))
    topology.bolt("raises", raises, stream.shuffle(), concurrency=50)
    late: Any = topology.bolt("held", held, one.shuffle(), stream.shuffle(), concurrency=50)
    to = late.direct() if tasks > 1 else late.global_()
    summed = topology.bolt("sums", sums, two.shuffle(), to, tasks=tasks)
    counts = topology.bolt("counts", Totals(), one.fields("n"), summed.fields("n"))
    topology.bolt("captured", Captured[Number](), counts.shuffle())
    return topology


def delayed(when: Callable[[], bool], by_s: float) -> Callable[[Frame], Sequence[float]]:
    """Frames from worker 0 to worker 2 that are sent within so many seconds of some moment all come at their end."""
    until: list[float] = []

    def faults(frame: Frame) -> Sequence[float]:
        now = asyncio.get_running_loop().time()
        if not until and when():
            until.append(now + by_s)
        held_up = until and (worker_of_owner(frame.sender), worker_of_owner(frame.receiver)) == (0, 2)
        return (max(0.0, until[0] - now) if held_up else 0.0,)

    return faults


@pytest.mark.parametrize("by_s", [0.0, 2.0])
def test_what_was_held_up_in_a_generation_that_is_over_never_reaches_a_new_life_P9(by_s: float) -> None:
    class Busy(Sums):
        """Is at work when its worker dies."""

        lives = 0

        def execute(self, tup: Tuple[Number], out: Collector[Number]) -> Any:
            if tup.record.n == LATE and not Busy.lives:
                return self.wait()
            return super().execute(tup, out)

        async def wait(self) -> None:
            Busy.lives += 1
            await asyncio.sleep(1_000)

    held, watch = Held(), Watch()
    topology = apart(held, Busy(), Raises(), script(Pause(5), Number(LATE)), tasks=1)

    async def late(run: EmbeddedRun) -> None:
        await built(run)
        await forgotten(run, counts=1)
        while not watch.deaths:  # noqa: ASYNC110 – virtual time, and nothing tells
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)
        held.gate.set()

    report = run_topology(
        topology,
        workers=3,
        crashes=[Crash("sums", at_s=8)],
        during=late,
        watch=watch,
        faults=delayed(lambda: bool(watch.deaths), by_s),
    )
    assert counted(watch) == ONCE
    assert (report.exit_status, report.restarts, report.snapshot.total("pending")) == (0, 1, 0)
    assert report.snapshot.rare["stale tuples refused"] == 0, "none came"


def test_what_was_held_up_is_refused_by_another_task_than_what_was_done_though_frames_to_its_worker_are_late_D5() -> (
    None
):
    """Decisions do not travel with frames."""

    class ToOther(Shared):
        async def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            first = self.is_first(tup.record)
            if first:
                await self.gate.wait()
            out.emit(tup.record, task=0 if first else 1)
            out.ack(tup)

    held, watch, seconds = ToOther(), Watch(), list[float]()
    topology = apart(held, Sums(), Raises(4.0), script(), tasks=2)

    async def late(run: EmbeddedRun) -> None:
        await built(run)
        await asyncio.sleep(3)
        seconds.append(3)
        await asyncio.sleep(6)
        held.gate.set()

    report = run_topology(topology, workers=3, during=late, watch=watch, faults=delayed(lambda: bool(seconds), 30.0))
    assert counted(watch) == ONCE
    assert sum(worker.subtrees.begun for worker in watch.workers) == 1
    assert report.snapshot.rare["stale tuples refused"] == INPUTS
    assert (report.exit_status, report.snapshot.total("pending")) == (0, 0)
