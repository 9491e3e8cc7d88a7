"""Several workers in one event loop, joined by memory links that misbehave: nothing lost, nothing doubled in state."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from topology import Bolt, Config, Message, Record, Spout, State, Task, Topology
from topology.groupings import Grouping
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.links.memory import Faults, faultless
from topology.runtime.links.protocol import Frame, Kind
from topology.runtime.run.report import Report
from topology.runtime.tasks.executor import QUEUE_HIGH
from topology.testing import Captured, run_virtual

MESSAGES = 1_000


class Number(Record):
    n: int


class Halves(Record):
    n: int


class Numbers(Spout):
    """Numbers from 0, dealt out to its tasks, each under itself as its id."""

    def __init__(self, count: int) -> None:
        self.count = count

    def open(self, task: Task, positions: object) -> None:
        self.following, self.step = task.index, task.tasks

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        taken = range(self.following, self.count, self.step)[:limit]
        self.following += len(taken) * self.step
        return [Message(Number(n), n) for n in taken]


class Twice(Bolt):
    def process(self, number: Number) -> Iterator[Halves]:
        yield Halves(number.n)
        yield Halves(-number.n - 1)


class Total(Bolt):
    """How often each number came, replays not counted."""

    def process(self, half: Halves, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        yield Number(state.get(0))


class Same(Bolt):
    def process(self, number: Number) -> Iterator[Number]:
        yield number


class Unlucky(Bolt):
    def open(self, task: Task) -> None:
        self.random = task.random

    def process(self, number: Number) -> Iterator[Number]:
        if self.random.random() < 0.05:
            raise ValueError("unlucky")
        yield number


def topology(counts: Captured[Number], *, unlucky: bool = False, config: Config | None = None) -> Topology:
    topology = Topology("spread", config)
    numbers = topology.spout("numbers", Numbers(MESSAGES), tasks=2)
    if unlucky:
        numbers = topology.bolt("unlucky", Unlucky(), numbers.shuffle(), tasks=2)
    halves = topology.bolt("twice", Twice(), numbers.shuffle(), tasks=2)
    totals = topology.bolt("total", Total(), halves.fields("n"), tasks=3)
    topology.bolt("captured", counts, totals.shuffle(), tasks=2)
    return topology


def run(topology: Topology, seed: int, faults: Faults = faultless) -> tuple[Report, EmbeddedRun]:
    async def main() -> tuple[Report, EmbeddedRun]:
        run = EmbeddedRun(topology, workers=2, random=Random(seed), faults=faults)
        return await run.finish(), run

    return run_virtual(main(), seed=seed)


def lossy(random: Random, lost: float) -> Faults:
    def faults(frame: Frame) -> Sequence[float]:
        draw = random.random()
        if draw < lost:
            return ()
        if draw < 0.3:
            return 0.0, random.uniform(0, 0.01)
        return (random.uniform(0, 0.02) if draw < 0.5 else 0.0,)

    return faults


def exact(counts: Captured[Number], report: Report) -> None:
    assert report.exit_status == 0, report.ended
    assert report.snapshot.total("acked") == report.snapshot.total("emitted") == MESSAGES
    assert report.snapshot.total("pending") == 0
    assert {record.n for record in counts.records} == {1}, "every half was counted once"


def test_tuples_and_acks_cross_faultless_links_without_a_failure() -> None:
    counts: Captured[Number] = Captured()
    report, ran = run(topology(counts), seed=1)
    exact(counts, report)
    assert report.snapshot.total("failed") == 0
    assert len(counts.records) == 2 * MESSAGES
    assert len(ran.workers) == 2
    assert all(worker.ledger.unknown == 0 for worker in ran.workers)


@pytest.mark.parametrize("seed", range(5))
def test_duplicated_delayed_and_reordered_frames_change_nothing_a11(seed: int) -> None:
    counts: Captured[Number] = Captured()
    report, _ = run(topology(counts), seed, lossy(Random(seed), lost=0.0))
    exact(counts, report)
    assert report.snapshot.total("failed") == 0
    assert len(counts.records) == 2 * MESSAGES
    assert report.snapshot.rare["repeated frames"] > 0


@pytest.mark.parametrize("seed", range(5))
def test_a_lost_frame_fails_every_tree_and_the_replays_count_once_a11_d2(seed: int) -> None:
    counts: Captured[Number] = Captured()
    lost: Counter[str] = Counter()
    random = Random(seed)
    carried = lossy(random, lost=0.02)

    def faults(frame: Frame) -> Sequence[float]:
        delays = carried(frame)
        lost["frames"] += not delays
        return delays

    report, _ = run(topology(counts, unlucky=True), seed, faults)
    exact(counts, report)
    assert lost["frames"] > 0, f"seed {seed}: no frame was lost, so nothing was shown"
    assert report.snapshot.total("replayed") > 0


def test_a_lost_last_frame_is_noticed_long_before_the_timeout() -> None:
    counts: Captured[Number] = Captured()
    seen: Counter[int] = Counter()

    def faults(frame: Frame) -> Sequence[float]:
        acks = frame.kind == Kind.CONTENT and frame.body.acks
        if acks:
            seen[frame.sender] += 1
        return () if acks and seen[frame.sender] == 10 else (0.0,)

    report, _ = run(topology(counts), 3, faults)
    exact(counts, report)
    assert report.snapshot.seconds < Config().tree_timeout_s / 2


def test_what_is_remembered_on_another_worker_is_forgotten_once_its_message_is_done_d4() -> None:
    counts: Captured[Number] = Captured()
    remembered: list[int] = []

    class Slow(Numbers):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:

            await asyncio.sleep(0.01)
            return await super().poll(min(limit, 10))

    one = topology(counts)
    one.components[0].prototype = Slow(MESSAGES)

    async def main() -> Report:

        run = EmbeddedRun(one, workers=2, random=Random(1))
        finished = asyncio.ensure_future(run.finish())
        while not finished.done():
            await asyncio.sleep(0.05)
            sizes = [getattr(task, "remembered", ()) for worker in run.workers for task in worker.executors.values()]
            remembered.append(sum(map(len, sizes)))
        return finished.result()

    exact(counts, run_virtual(main(), seed=1))
    assert max(remembered) < MESSAGES, "what is done was forgotten while the run went on"


def test_a_full_queue_on_another_worker_pauses_the_spouts_a9() -> None:
    counts: Captured[Number] = Captured()
    longest: list[int] = []

    class Sleepy(Bolt):
        async def process(self, number: Number) -> list[Number]:

            await asyncio.sleep(0.01)
            return [number]

    one = Topology("slow", Config(max_pending=100_000))
    numbers = one.spout("numbers", Numbers(6_000), tasks=2)
    slow = one.bolt("sleepy", Sleepy(), numbers.shuffle(), tasks=2, concurrency=4)
    one.bolt("captured", counts, slow.shuffle())

    async def main() -> Report:

        run = EmbeddedRun(one, workers=2, random=Random(1))
        finished = asyncio.ensure_future(run.finish())
        while not finished.done():
            await asyncio.sleep(0.05)
            longest.append(max(len(t.queue) for w in run.workers for t in w.executors.values()))
        return finished.result()

    report = run_virtual(main(), seed=1)
    assert report.snapshot.total("acked") == 6_000
    assert report.snapshot.total("failed") == 0
    assert max(longest) < 2 * QUEUE_HIGH


class To(Grouping):
    """Everything goes to one task."""

    def __init__(self, task: int) -> None:
        self.task = task

    def choose(self, record: Number, tasks: int) -> list[int]:
        return [self.task]


class Endless(Numbers):
    """Gives as many as it is asked for, at each turn of the loop."""

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        await asyncio.sleep(0)
        return await super().poll(limit)


class Dawdling(Bolt):
    async def process(self, number: Number) -> None:
        await asyncio.sleep(0.01)


class DawdlingByKey(Bolt):
    async def process(self, number: Number, state: State[int]) -> None:
        await asyncio.sleep(0.01)


def emitted_within(topology: Topology, seconds: float) -> int:
    async def main() -> Report:
        run = EmbeddedRun(topology, workers=2, random=Random(1))
        asyncio.get_running_loop().call_later(seconds, run.abort)
        return await run.finish()

    return run_virtual(main(), seed=None).snapshot.total("emitted")


@pytest.mark.parametrize("worker", [0, 1], ids=["here", "there"])
def test_a_queue_that_another_task_of_its_own_worker_fills_pauses_the_spout_a9(worker: int) -> None:
    one = Topology("indirect", Config(guarantee="at-most-once"))
    numbers = one.spout("numbers", Endless(10**9))
    passed = one.bolt("passed", Same(), numbers.custom(To(worker)), tasks=2)
    one.bolt("slow", Dawdling(), passed.local_or_shuffle(), tasks=2)
    assert emitted_within(one, 1.0) < 4 * QUEUE_HIGH


@pytest.mark.parametrize("key", [0, 1, 2, 3])
def test_inputs_that_wait_for_one_hot_key_pause_the_spout_wherever_the_key_is_a9(key: int) -> None:
    class Hot(Endless):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            return [Message(Number(key), one.id) for one in await super().poll(limit)]

    one = Topology("hot", Config(guarantee="at-most-once"))
    one.bolt("keyed", DawdlingByKey(), one.spout("numbers", Hot(10**9)).fields("n"), tasks=2)
    assert emitted_within(one, 1.0) < 4 * QUEUE_HIGH


def test_a_bolt_that_was_not_here_when_the_others_were_flushed_is_flushed_with_those_that_had_inputs_since() -> None:
    flushed: list[int] = []

    class Holding(Bolt):
        def process(self, number: Number) -> None:
            """Takes it."""

        def flush(self, out: object) -> None:
            flushed.append(1)

    one = Topology("late")
    one.bolt("holding", Holding(), one.spout("numbers", Numbers(10)).shuffle())

    async def main() -> Report:
        run = EmbeddedRun(one, random=Random(1))
        report = await run.finish()
        worker = run.workers[0]
        await worker.flush_component("")
        assert len(flushed) == 1, "it was told, and has had no input since"
        worker.flushed.clear()  # as in a worker that has replaced the one that was told
        await worker.flush_component("")
        assert len(flushed) == 2
        return report

    assert run_virtual(main(), seed=None).ended == "ended"
