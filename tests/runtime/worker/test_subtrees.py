"""Sub-trees: what is anchored to more messages than a tuple can name is followed as well as anything else (A16, D17).

The canonical case is a batch of 600 inputs and one summary of them. Rules A1, A9, A18, D17, E6; the random topologies
beside this file have joins of many inputs too.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kept_kit import kept_in, known_in
from runtime_kit import Doing, Number, Totals, balanced, built, line, numbers

from topology import Bolt, Collector, Config, State, Task, Topology, Tuple
from topology.errors import EmitError
from topology.runtime.failures import Reason
from topology.runtime.links.protocol import Frame
from topology.runtime.state.state_executor import StateExecutor
from topology.runtime.worker import subtrees
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Watch, run_topology

INPUTS = 600


class Sums(Bolt):
    """Gives one sum of each `size` inputs, anchored to all of them, and acks them at once."""

    def __init__(self, size: int = INPUTS) -> None:
        self.size = size
        self.kept: list[Tuple[Number]] = []

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        self.kept.append(tup)
        if len(self.kept) == self.size:
            self.flush(out)

    def flush(self, out: Collector[Number]) -> None:
        kept, self.kept = self.kept, []
        if kept:
            out.emit(Number(sum(one.record.n for one in kept)), anchors=kept)
        for one in kept:
            out.ack(one)


class Once(Bolt):
    """Raises the first time in the run, then gives what it takes."""

    def __init__(self) -> None:
        self.failed: list[int] = []

    def __deepcopy__(self, memo: object) -> "Once":
        return self

    def process(self, number: Number) -> Iterator[Number]:
        if not self.failed:
            self.failed.append(number.n)
            raise ValueError("once")
        yield number


class Slow(Bolt):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(self.seconds)
        return [number]


# -- followed as one


def test_a_summary_of_600_inputs_names_one_tree_and_all_600_wait_for_it_a16() -> None:
    spout = ScriptedSpout(numbers(INPUTS))
    topology, captured = line(spout, Sums(), Slow(5.0))
    seen: list[int] = []

    async def look(run: Any) -> None:
        await asyncio.sleep(4)  # the inputs themselves were acked long ago
        seen.append(len(spout.acked))

    report = run_topology(topology, during=look)
    assert seen == [0]
    assert captured.records == [Number(sum(range(INPUTS)))]
    assert [len(tup.roots) for tup in captured.tuples] == [1]
    assert sorted(spout.acked) == list(range(INPUTS))
    assert (report.exit_status, report.snapshot.total("failed")) == (0, 0)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_all_600_inputs_of_a_summary_that_fails_once_are_replayed_and_the_sink_is_exact_a16_e6(
    seed: int, workers: int
) -> None:
    topology, captured = line(ScriptedSpout(numbers(INPUTS)), Sums(), Once())
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=workers, watch=watch)
    spout = report.snapshot.spouts["numbers"]
    assert (spout.failed, spout.replayed, spout.acked) == (INPUTS, INPUTS, INPUTS)
    assert [*captured.distinct.values()] == [Number(sum(range(INPUTS)))]
    assert {(one.reason, one.text) for one in watch.failures} == {(Reason.RAISED, "ValueError: once")}
    assert balanced(report)
    assert all(not len(worker.ledger) and not worker.subtrees.open for worker in watch.workers)


def test_the_messages_of_a_summary_that_always_fails_are_dead_for_its_reason_e6() -> None:
    class Never(Bolt):
        def process(self, number: Number) -> list[Number]:
            raise ValueError("never")

    topology, captured = line(ScriptedSpout(numbers(20)), Sums(10), Never(), config=Config(max_replays=2))
    watch = Watch()
    report = run_topology(topology, watch=watch, workers=2)
    assert (report.exit_status, captured.records) == (1, [])
    assert sorted(int(one.id) for one in watch.dead) == list(range(20))
    assert {one.failure.reason for one in watch.dead} == {Reason.RAISED}


def test_each_of_several_summaries_of_the_same_inputs_is_waited_for_a18() -> None:
    def summaries(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        bolt.kept.append(tup)
        if len(bolt.kept) == 20:
            for _ in range(3):  # three with one content, and one of fewer inputs
                out.emit(Number(1), anchors=bolt.kept)
            out.emit(Number(2), anchors=bolt.kept[:9])
            out.emit(Number(3), anchors=bolt.kept[:8])
            for one in bolt.kept:
                out.ack(one)

    spout = ScriptedSpout(numbers(20))
    topology, captured = line(spout, Doing(summaries), Slow(1.0))
    seen: list[int] = []

    async def look(run: Any) -> None:
        await asyncio.sleep(4.5)  # four of the five are done
        seen.append(len(spout.acked))

    run_topology(topology, during=look)
    assert seen == [20 - 8], "the last one is under way, and has eight inputs"
    assert len(captured.distinct) == 5
    assert sorted(spout.acked) == list(range(20))


def test_a_summary_of_summaries_completes_the_inputs_of_all_of_them() -> None:
    spout = ScriptedSpout(numbers(100))
    topology, captured = line(spout, Sums(10), Sums(10), Once())
    watch = Watch()
    report = run_topology(topology, workers=2, watch=watch)
    assert [*captured.distinct.values()] == [Number(sum(range(100)))]
    assert report.snapshot.spouts["numbers"].replayed == 100
    assert sorted(spout.acked) == list(range(100))


def test_a_summary_that_nobody_is_sent_begins_no_tree() -> None:
    topology, spout = Topology("nobody"), ScriptedSpout(numbers(20))
    topology.bolt("sums", Sums(10), topology.spout("numbers", spout).shuffle())
    watch = Watch()
    report = run_topology(topology, watch=watch)
    assert (report.exit_status, sorted(spout.acked)) == (0, list(range(20)))
    assert watch.workers[0].subtrees.begun == 0


def test_more_sub_trees_than_may_be_kept_are_a_clear_error_k609(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subtrees, "KEPT_MAX", 1)
    told: list[EmitError] = []

    def twice(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        bolt.kept.append(tup)
        if len(bolt.kept) == 10:
            out.emit(tup.record, anchors=bolt.kept)
            try:
                out.emit(tup.record, anchors=bolt.kept)
            except EmitError as error:
                told.append(error)
            for one in bolt.kept:
                out.ack(one)

    topology, captured = line(ScriptedSpout(numbers(10)), Doing(twice))
    report = run_topology(topology)
    assert [str(one.code) for one in told] == ["K609"]
    assert (report.exit_status, len(captured.records), report.snapshot.total("acked")) == (0, 1, 10)


# -- deadlines


def test_inputs_do_not_time_out_while_their_summary_is_under_way_a9_a19() -> None:
    topology, captured = line(ScriptedSpout(numbers(20)), Sums(20), Slow(25.0), config=Config(tree_timeout_s=2))
    report = run_topology(topology, workers=2)
    assert (report.exit_status, report.snapshot.total("failed"), len(captured.records)) == (0, 0, 1)


def test_inputs_outlive_their_own_hard_cap_while_their_summary_makes_progress() -> None:
    topology = Topology("long", Config(tree_timeout_s=1, process_timeout_s=100))
    stream: Any = topology.spout("numbers", ScriptedSpout(numbers(20)))
    stream = topology.bolt("sums", Sums(20), stream.shuffle())
    for index in range(4):
        stream = topology.bolt(f"slow{index}", Slow(12.0), stream.shuffle())
    captured = Captured[Number]()
    topology.bolt("captured", captured, stream.shuffle())
    report = run_topology(topology, workers=2)
    assert (report.snapshot.total("failed"), len(captured.records)) == (0, 1)


def test_a_summary_that_is_held_and_forgotten_fails_its_inputs_in_the_end_a13() -> None:
    def forgets(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        bolt.kept.append(tup)

    config = Config(tree_timeout_s=1, max_replays=0)
    topology, captured = line(ScriptedSpout(numbers(20)), Sums(20), Doing(forgets), config=config)
    watch = Watch()
    report = run_topology(topology, watch=watch)
    assert (report.exit_status, captured.records) == (1, [])
    assert {one.failure.reason for one in watch.dead} == {Reason.FORGOTTEN}
    assert len(watch.dead) == 20


def test_the_stall_line_names_who_has_what_an_input_has_become() -> None:
    topology, _ = line(ScriptedSpout(numbers(20)), Sums(20), Slow(20.0))
    told: list[str] = []

    async def look(run: Any) -> None:
        await asyncio.sleep(10)
        told.append(run.in_flight())

    run_topology(topology, during=look)
    assert told[0].startswith("20 messages are pending; 'bolt1' has the oldest, for 10 s")


def test_a_drain_waits_for_sub_trees_e10() -> None:
    spout = ScriptedSpout[Number]([*numbers(20), Pause(1000)])
    topology, captured = line(spout, Sums(20), Slow(5.0))
    report = run_topology(topology, until_s=1.0)
    assert (report.ended, report.aborted, len(captured.records)) == ("stopped", 0, 1)


# -- deaths


class Gathers(Bolt):
    """Holds as many inputs as it draws, then gives each of them once more, anchored to all; now and then it fails."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: list[Tuple[Number]] = []

    def open(self, task: Task) -> None:
        self.random = task.random

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        self.kept.append(tup)
        if len(self.kept) >= self.random.randint(1, self.most):
            self.flush(out)

    def flush(self, out: Collector[Number]) -> None:
        kept, self.kept = self.kept, []
        for one in kept:
            out.emit(one.record, anchors=kept, key=one.record.n)
        for one in kept:
            if self.random.random() < 0.01:
                out.fail(one, "unlucky")
            else:
                out.ack(one)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 20))])
def test_batches_of_any_size_on_workers_that_die_over_links_that_delay_lose_no_input_a14_a16(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    script: list[Number | Pause] = [part for n in numbers(300) for part in (n, Pause(0.002))]
    topology = Topology("dies", Config(max_replays=1000))
    stream: Any = topology.spout("numbers", ScriptedSpout(script))
    for index in range(random.randint(1, 3)):
        tasks = random.randint(1, 3)
        stream = topology.bolt(f"gathers{index}", Gathers(random.choice([3, 20, 60])), stream.shuffle(), tasks=tasks)
    slow = topology.bolt("slow", Slow(0.05), stream.shuffle(), tasks=2, concurrency=50)
    captured = Captured[Number]()
    topology.bolt("captured", captured, slow.global_())

    def faults(frame: Frame) -> Sequence[float]:
        return (random.random() / 20,) if random.random() < 0.1 else (0.0,)

    crashes = [Crash(seed % 2, at_s=0.2), Crash(1 - seed % 2, acked=20)]
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=2, crashes=crashes, watch=watch, faults=faults, limit_s=6_000)
    assert (report.exit_status, report.restarts, report.snapshot.total("pending")) == (0, 2, 0)
    assert {one.n for one in captured.distinct.values()} == set(range(300))
    assert all(not len(worker.ledger) and not worker.subtrees.open for worker in watch.workers)


def test_a_fan_in_of_10_000_inputs_from_another_worker_takes_few_frames() -> None:
    topology = Topology("wide", Config(max_pending=20_000))
    stream = topology.spout("numbers", ScriptedSpout(numbers(10_000)), tasks=2)
    sums = topology.bolt("sums", Sums(10_000), stream.global_())
    captured = Captured[Number]()
    topology.bolt("captured", captured, sums.global_())
    frames: list[int] = []
    watch = Watch()

    def counted(frame: Frame) -> Sequence[float]:
        frames.append(frame.number)
        return (0.0,)

    report = run_topology(topology, workers=2, faults=counted, watch=watch)
    assert [one.n for one in captured.records] == [sum(range(10_000))]
    assert (report.snapshot.total("acked"), report.snapshot.total("failed")) == (10_000, 0)
    assert len(frames) < 1_000


# -- bolts with state


class Counts(Bolt):
    def process(self, number: Number, state: State[int]) -> list[Number]:
        state.set(state.get(0) + 1)
        return [number]


def counted(after: Any) -> tuple[Topology, Captured[Number]]:
    topology, captured = Topology("counted"), Captured[Number]()
    script: list[Number | Pause] = [part for n in numbers(200) for part in (n, Pause(0.01))]
    sums = topology.bolt("sums", Sums(20), topology.spout("numbers", ScriptedSpout(script)).global_())
    counts = topology.bolt("counts", Counts(), sums.fields("n"))
    last = topology.bolt("last", after, counts.shuffle())
    topology.bolt("captured", captured, last.shuffle())
    return topology, captured


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_a_keyed_bolt_below_a_summary_still_knows_its_replay_d17(seed: int, workers: int) -> None:
    class Fails(Bolt):
        """Fails one of the summaries long after it came, so that its sub-tree is over by then."""

        def __init__(self) -> None:
            self.times = 0

        async def process(self, number: Number) -> list[Number]:
            self.times += 1
            if self.times == 2:
                await asyncio.sleep(3.0)
                raise ValueError("late")
            return [number]

    watch = Watch()
    topology, captured = counted(Fails())
    report = run_topology(topology, seed=seed, workers=workers, watch=watch)
    assert report.snapshot.total("replayed") == 20
    assert len(captured.distinct) == 10
    assert [*watch.state("counts").values()] == [1] * 10


def test_a_sub_root_is_in_a_frontier_only_when_all_its_inputs_are_d17() -> None:
    topology, captured = Topology("two-ways"), Captured[Number]()
    stream = topology.spout("numbers", ScriptedSpout[Number]([*numbers(20), Pause(200)]))
    sums = topology.bolt("sums", Sums(20), stream.global_())
    counts = topology.bolt("counts", Counts(), sums.fields("n"))
    slow = topology.bolt("slow", Slow(5.0), stream.shuffle(), concurrency=1)
    topology.bolt("captured", captured, counts.shuffle(), slow.shuffle())
    kept: list[tuple[int, int]] = []

    async def look(run: Any) -> None:
        worker = await built(run)
        counting = worker.executors["counts", 0]
        assert isinstance(counting, StateExecutor)
        await asyncio.sleep(50.0)  # half of the inputs are done, and the sub-tree long since
        kept.append((len(worker.subtrees.note()[0]), len(counting.known)))
        await asyncio.sleep(60.0)
        kept.append((len(worker.subtrees.note()[0]), len(counting.known)))

    run_topology(topology, during=look)
    assert kept == [(1, 1), (0, 0)]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_nothing_is_known_of_sub_trees_once_a_run_has_ended_P4(tmp_path: Path, workers: int) -> None:
    """Their sub-roots are in a frontier only after their inputs are in a decided one."""
    topology = Topology("ended")
    sums = topology.bolt("sums", Sums(20), topology.spout("numbers", ScriptedSpout(numbers(200))).global_())
    counts = topology.bolt("counts", Totals(), sums.fields("n"))
    topology.bolt("captured", Captured[Number](), counts.shuffle())
    assert run_topology(topology, workers=workers, state_dir=tmp_path).clean
    assert len(kept_in(tmp_path, "counts")) == 10
    assert known_in(tmp_path, "counts") == []
