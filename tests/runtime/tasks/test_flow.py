"""Bounds: max_pending, back-pressure that pauses spouts only, both guarantees, and no deadlock. F40."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from runtime_kit import Doing, Number, Same, balanced, line, numbers

from topology import Bolt, Collector, Config, Message, Spout, Task, Topology, Tuple
from topology.runtime.queue_limits import QUEUE_HIGH
from topology.runtime.tasks import executor
from topology.runtime.tasks.executor import SLICE_MAX
from topology.testing import Captured, ScriptedSpout, Wait, Watch, run_topology


class Fast(Spout):
    """As many numbers as are asked for, up to `count`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.next = 0

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        begun, self.next = self.next, min(self.count, self.next + limit)
        return [Message(Number(n), n) for n in range(begun, self.next)]


class Slow(Bolt):
    def __init__(self, seconds: float = 0.001) -> None:
        self.seconds = seconds

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(self.seconds)
        return [number]


class Fan(Bolt):
    def __init__(self, width: int) -> None:
        self.width = width

    def process(self, number: Number) -> Iterator[Number]:
        for _ in range(self.width):
            yield number


async def sample(run: Any, seen: list[Any], look: Any, seconds: float = 0.0007) -> None:
    while True:
        await asyncio.sleep(seconds)
        seen.append(look(run))


def longest(run: Any) -> int:
    return max(len(one.queue) for worker in run.workers for one in worker.executors.values())


@pytest.mark.parametrize("max_pending", [1, 7, 128, 1000])
def test_a_spout_task_never_has_more_than_max_pending_trees_open(max_pending: int) -> None:
    seen: list[int] = []
    topology, captured = line(Fast(3000), Slow(), config=Config(max_pending=max_pending), concurrency=64)
    report = run_topology(topology, during=lambda run: sample(run, seen, lambda run: run.snapshot().total("pending")))
    assert max(seen) == min(max_pending, 3000)
    assert len(captured.records) == 3000
    assert balanced(report)


def test_emitted_is_acked_and_dead_and_pending_at_every_moment() -> None:
    class Sometimes(Bolt):
        def open(self, task: Task) -> None:
            self.random = task.random

        async def process(self, number: Number) -> list[Number]:
            await asyncio.sleep(self.random.random())
            if self.random.random() < 0.3:
                raise ValueError("sometimes")
            return [number]

    def sums(run: Any) -> bool:
        spouts = run.snapshot().spouts["numbers"]
        return bool(spouts.emitted == spouts.acked + spouts.dead + spouts.pending)

    seen: list[bool] = []
    topology, _ = line(Fast(500), Sometimes(), config=Config(max_replays=1, max_pending=50), concurrency=20)
    report = run_topology(topology, during=lambda run: sample(run, seen, sums, 0.01))
    assert len(seen) > 100
    assert all(seen)
    assert report.snapshot.total("dead") > 0


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_queues_are_bounded_by_the_pause_of_their_spouts(guarantee: Any) -> None:
    seen: list[int] = []
    paused: list[bool] = []
    config = Config(guarantee=guarantee, max_pending=1_000_000)
    topology, captured = line(Fast(6_000), Same(), Slow(0.0001), config=config)

    def look(run: Any) -> int:
        paused.append(any(one.pauses.queue is not None for one in run.workers[0].spout_tasks.values()))
        return longest(run)

    report = run_topology(topology, during=lambda run: sample(run, seen, look))
    assert QUEUE_HIGH < max(seen) <= QUEUE_HIGH + 3 * SLICE_MAX
    assert any(paused)
    assert not all(paused)
    assert [one.n for one in captured.records] == list(range(6_000))
    assert report.exit_status == 0


def test_at_most_once_tracks_nothing_and_replays_nothing() -> None:
    class Half(Bolt):
        def process(self, number: Number) -> list[Number]:
            if number.n % 2:
                raise ValueError("odd")
            return [number]

    spout = ScriptedSpout(numbers(100))
    topology, captured = line(spout, Half(), config=Config(guarantee="at-most-once"))
    report = run_topology(topology)
    counts = report.snapshot.spouts["numbers"]
    assert [one.n for one in captured.records] == list(range(0, 100, 2))
    assert (counts.emitted, counts.replayed, counts.pending) == (100, 0, 0)
    assert report.snapshot.bolts["bolt"].failed == 50
    assert all(tup.roots == () for tup in captured.tuples)
    assert (spout.acked, spout.failed) == ([*range(100)], []), "as soon as they have left"


def test_at_most_once_keeps_identities() -> None:
    def run(guarantee: Any) -> dict[tuple[int, int], Number]:
        topology, captured = line(ScriptedSpout(numbers(10)), Fan(3), config=Config(guarantee=guarantee))
        run_topology(topology)
        return captured.distinct

    assert run("at-most-once") == run("at-least-once")


def test_a_paused_spout_polls_no_more_and_bolts_go_on() -> None:
    polls: list[float] = []

    class Watched(Fast):
        def open(self, task: Task, positions: Any) -> None:
            self.clock = task.clock

        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            polls.append(self.clock.monotonic())
            return await super().poll(limit)

    config = Config(max_pending=1_000_000)
    topology, captured = line(Watched(6000), Slow(0.001), config=config)
    run_topology(topology)
    gaps = [later - earlier for earlier, later in pairwise(polls)]
    assert max(gaps) > 0.4  # from above QUEUE_HIGH down to QUEUE_LOW, a millisecond each
    assert len(captured.records) == 6000


def test_a_pause_is_not_silence_so_nothing_times_out_meanwhile_A9() -> None:
    watch = Watch()
    config = Config(max_pending=1_000_000, tree_timeout_s=2)
    topology, captured = line(Fast(3000), Same(), Slow(0.01), config=config)
    report = run_topology(topology, watch=watch)
    assert report.snapshot.seconds > 25
    assert watch.failures == []
    assert len(captured.records) == 3000


@pytest.mark.parametrize("high", [1, 2, 50])
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_a_diamond_with_tiny_queues_does_not_deadlock_F40(
    high: int, guarantee: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "QUEUE_HIGH", high)
    monkeypatch.setattr(executor, "QUEUE_LOW", high // 2)
    topology, captured = Topology("diamond", Config(guarantee=guarantee)), Captured[Number]()
    source = topology.spout("numbers", Fast(300))
    wide = topology.bolt("wide", Fan(7), source.shuffle(), tasks=2)
    left = topology.bolt("left", Same(), wide.fields("n"), tasks=3)
    right = topology.bolt("right", Slow(), wide.all(), tasks=2)
    topology.bolt("captured", captured, left.shuffle(), right.shuffle(), source.shuffle())
    report = run_topology(topology)
    assert len(captured.records) == 300 * (7 + 14 + 1)
    assert report.snapshot.total("pending") == 0


def test_several_spouts_pause_by_themselves_for_the_queue_that_each_feeds() -> None:
    topology, captured, other = Topology("two", Config(max_pending=1_000_000)), Captured[Number](), Captured[Number]()
    slow = topology.bolt("slow", Slow(0.01), topology.spout("fast", Fast(3000)).shuffle())
    topology.bolt("captured", captured, slow.shuffle())
    topology.bolt("other", other, topology.spout("free", Fast(3000)).shuffle())
    run_topology(topology)
    assert max(other.times) < 1 < max(captured.times)
    assert len(captured.records) == len(other.records) == 3000


def test_drain_lets_an_unbounded_fan_out_wait_for_room() -> None:
    depths: list[int] = []

    class Unbounded(Bolt):
        async def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            for n in range(6_000):
                out.emit(Number(n))
                if n % 100 == 0:
                    await out.drain()
            out.ack(tup)

    topology, captured = line(ScriptedSpout(numbers(2)), Unbounded(), Slow(0.00001))

    async def look(run: Any) -> None:
        while True:
            await asyncio.sleep(0.001)
            depths.append(longest(run))

    run_topology(topology, during=look)
    assert max(depths) <= QUEUE_HIGH + 200
    assert len(captured.records) == 12_000


def test_a_waiting_spout_and_a_busy_one_end_by_a_drain() -> None:
    topology, captured = Topology("mixed"), Captured[Number]()
    waiting = topology.spout("waiting", ScriptedSpout[Number]([Number(-1), Wait()]))
    busy = topology.spout("busy", Fast(1_000_000))
    topology.bolt("captured", captured, waiting.shuffle(), busy.shuffle())
    limited = topology.bolt("slow", Slow(0.01), busy.shuffle())
    topology.bolt("end", Doing(lambda bolt, tup, out: out.ack(tup)), limited.shuffle())
    report = run_topology(topology, until_s=2)
    assert (report.ended, report.aborted, report.exit_status) == ("stopped", 0, 0)
    assert balanced(report)
    assert report.snapshot.spouts["busy"].emitted < 1_000_000
    assert Number(-1) in captured.records
