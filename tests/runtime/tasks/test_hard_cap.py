"""The hard cap and the pauses of spouts, on virtual time: no pause saves what is lost or forgotten (A9, A13)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from runtime_kit import Doing, Given, Number, Same, line, numbers

from topology import Bolt, Collector, Config, Message, Spout, Topology, Tuple
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.failures import Reason
from topology.runtime.worker.worker import Worker
from topology.testing import Captured, ScriptedSpout, Watch, run_topology


class Endless(Spout):
    """As many numbers as are asked for, for ever or up to `count`."""

    def __init__(self, count: int = 1_000_000) -> None:
        self.count = count
        self.next = 0

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        begun, self.next = self.next, min(self.count, self.next + limit)
        return [Message(Number(n), n) for n in range(begun, self.next)]


def test_a_forgotten_tuple_fails_by_the_hard_cap_though_its_spout_is_paused_all_the_time_A9_A13() -> None:
    async def forgets_one(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        await asyncio.sleep(0.01)
        if tup.record.n:
            out.ack(tup)

    class Waits(Doing):
        async def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            await self.function(self, tup, out)

    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(2)
        for _ in range(100):
            await asyncio.sleep(0.5)
            paused.append(watch.workers[0].spout_tasks["numbers", 0].pauses.queue is not None)
            held.append(len(watch.executor("bolt1").held()))
        failed.extend(one.reason for one in watch.failures)
        run.abort()

    watch = Watch()
    paused: list[bool] = []
    held: list[int] = []
    failed: list[Reason] = []
    fan = Given(lambda number: [number] * 20)
    topology, _ = line(Endless(), fan, Waits(forgets_one), config=Config(tree_timeout_s=1))
    run_topology(topology, watch=watch, during=look)
    assert all(paused)
    assert set(failed) == {Reason.FORGOTTEN}
    assert 20 <= len(failed) <= 40, "20 tuples an attempt"
    assert max(held) <= 21, "those of one attempt, and the one under way"


def loses_first(component: str) -> Callable[[Worker], None]:
    """The first tuple that reaches a bolt is lost there."""

    def lossy(worker: Worker) -> None:
        executor = worker.executors[component, 0]
        slice_ = executor.slice

        def lose(count: int) -> int:
            executor.queue.popleft()
            executor.slice = slice_  # type: ignore[method-assign]
            return 1

        executor.slice = lose  # type: ignore[method-assign]

    return lossy


class Patient(Bolt):
    """Holds its inputs for so many timeouts of a second, and touches them once in each."""

    def __init__(self, timeouts: int) -> None:
        self.timeouts = timeouts
        self.held: list[asyncio.Task[None]] = []

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        self.held.append(asyncio.get_running_loop().create_task(self.hold(tup, out)))

    async def hold(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        for _ in range(self.timeouts):
            await asyncio.sleep(1)
            out.touch(tup)
        out.emit(tup.record)
        out.ack(tup)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_input_that_its_holder_touches_is_not_given_up_after_20_timeouts_A21(workers: int) -> None:
    topology = Topology("patient", Config(tree_timeout_s=1, max_replays=0))
    stream = topology.spout("numbers", ScriptedSpout(numbers(workers)))  # one for each task, each on a worker
    held = topology.bolt("patient", Patient(65), stream.shuffle(), tasks=workers)
    captured = Captured[Number]()
    topology.bolt("captured", captured, held.shuffle())
    report = run_topology(topology, workers=workers)
    assert sorted(one.n for one in captured.records) == [*range(workers)]
    assert (report.snapshot.spouts["numbers"].acked, report.snapshot.spouts["numbers"].replayed) == (workers, 0)


class Slower(Bolt):
    """Takes 0.03 virtual seconds for each input."""

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(0.03)
        return [number]


def test_deadlines_stop_while_the_spout_is_paused_and_the_hard_cap_does_not_A9() -> None:
    async def look(run: EmbeddedRun) -> None:
        for _ in range(2):
            await asyncio.sleep(12.5)
            assert watch.workers[0].spout_tasks["numbers", 0].pauses.queue is not None
            seen.append([one.reason for one in watch.failures])
        run.abort()

    seen: list[list[Reason]] = []
    watch = Watch(before=loses_first("bolt1"))
    config = Config(tree_timeout_s=1, max_pending=1_000_000)
    topology, _ = line(Endless(), Slower(), Same(), config=config)
    run_topology(topology, watch=watch, during=look)
    assert seen == [[], [Reason.TIMED_OUT]]


def test_a_spout_that_is_paused_does_not_stop_the_deadlines_of_another_A9() -> None:
    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(5)
        assert watch.workers[0].spout_tasks["paused", 0].pauses.queue is not None
        seen.extend(str(one) for one in watch.failures)
        run.abort()

    seen: list[str] = []
    watch = Watch(before=loses_first("same"))
    topology = Topology("two", Config(tree_timeout_s=1, max_pending=1_000_000))
    slower = topology.bolt("slower", Slower(), topology.spout("paused", Endless()).shuffle())
    same = topology.bolt("same", Same(), topology.spout("numbers", ScriptedSpout(numbers(1))).shuffle())
    captured = Captured[Number]()
    topology.bolt("captured", captured, slower.shuffle(), same.shuffle())
    run_topology(topology, watch=watch, during=look)
    assert seen == ["no progress in 'numbers'"]
    assert [one for one, tup in zip(captured.times, captured.tuples, strict=True) if tup.source.component == "same"]


def test_a_tuple_behind_a_process_that_hangs_fails_by_the_hard_cap_A9() -> None:
    """Its time limit is the first line (F9), but it may be set to be longer."""

    class Hangs(Bolt):
        async def process(self, number: Number) -> list[Number]:
            await asyncio.get_running_loop().create_future()
            return [number]

    async def look(run: EmbeddedRun) -> None:
        for seconds in (19, 5):
            await asyncio.sleep(seconds)
            seen.append(len(watch.failures))
        run.abort()

    seen: list[int] = []
    watch = Watch()
    config = Config(tree_timeout_s=1, process_timeout_s=1_000)
    topology, _ = line(ScriptedSpout(numbers(3)), Hangs(), config=config)
    run_topology(topology, watch=watch, during=look)
    assert seen == [0, 3]
