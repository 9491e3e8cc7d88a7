"""How runs end: by themselves, by a drain, by force, because a source broke. Flush and held tuples. F10, F55."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from runtime_kit import Doing, Number, Same, balanced, line, numbers

from topology import Bolt, Collector, Config, Task, Topology, Tuple
from topology.testing import (
    Captured,
    Fail,
    Pause,
    ScriptedSpout,
    Stop,
    Wait,
    run_topology,
)


class Slow(Bolt):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(self.seconds)
        return [number]


class Sums(Bolt):
    """Holds all its inputs until the end of input, then gives their sum, anchored to up to eight of them."""

    def __init__(self, flushed: list[int]) -> None:
        self.flushed = flushed

    def __deepcopy__(self, memo: Any) -> "Sums":
        return Sums(self.flushed)

    def open(self, task: Task) -> None:
        self.kept: list[Tuple[Number]] = []

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        self.kept.append(tup)

    def flush(self, out: Collector[Number]) -> None:
        self.flushed.append(len(self.kept))
        while self.kept:
            some, self.kept = self.kept[:8], self.kept[8:]
            out.emit(Number(sum(one.record.n for one in some)), anchors=some)
            for one in some:
                out.ack(one)


def test_a_bounded_run_ends_by_itself_when_all_is_done() -> None:
    topology, captured = line(ScriptedSpout(numbers(30)), Slow(1.0))
    report = run_topology(topology)
    assert (report.ended, report.aborted, report.exit_status, report.error) == ("ended", 0, 0, None)
    assert len(captured.records) == 30
    assert 30 <= report.snapshot.seconds < 31


def test_a_source_without_records_ends_at_once() -> None:
    topology, captured = line(ScriptedSpout[Number]([Stop(), Number(1)], emits=[Number]), Same())
    report = run_topology(topology)
    assert (report.ended, report.snapshot.spouts["numbers"].emitted) == ("ended", 0)
    assert captured.records == []


def test_held_tuples_are_flushed_once_at_the_end_of_input() -> None:
    flushed: list[int] = []
    spout = ScriptedSpout(numbers(20))
    topology, captured = line(spout, Sums(flushed))
    report = run_topology(topology)
    assert flushed == [20]
    assert sum(one.n for one in captured.records) == sum(range(20))
    assert sorted(spout.acked) == list(range(20))
    assert report.exit_status == 0


def test_a_bolt_is_flushed_only_after_all_that_can_reach_it_was_flushed() -> None:
    first, second = [], []  # type: ignore[var-annotated]
    topology, captured = line(ScriptedSpout(numbers(8)), Slow(0.5), Sums(first), Slow(3.0), Sums(second))
    report = run_topology(topology)
    assert (first, second) == ([8], [1])
    assert captured.records == [Number(sum(range(8)))]
    assert report.exit_status == 0


def test_what_is_replayed_after_the_flush_is_flushed_again() -> None:
    flushed: list[int] = []
    failed: list[int] = []

    class Once(Bolt):
        def process(self, number: Number) -> list[Number]:
            if not failed:
                failed.append(number.n)
                raise ValueError("once")
            return [number]

    spout = ScriptedSpout(numbers(3))
    topology, captured = line(spout, Sums(flushed), Once())
    report = run_topology(topology)
    assert flushed == [3, 3]
    assert captured.records == [Number(3)]
    assert sorted(spout.acked) == [0, 1, 2]
    assert report.exit_status == 0


def test_what_flush_emits_without_an_anchor_is_sent_with_random_identities() -> None:
    class Farewell(Bolt):
        def process(self, number: Number) -> Iterator[Number]:
            yield number

        async def flush(self, out: Collector[Number]) -> None:
            await asyncio.sleep(1)
            out.emit(Number(-1))

    topology, captured = line(ScriptedSpout(numbers(2)), Farewell(), tasks=2)
    run_topology(topology)
    assert sorted(one.n for one in captured.records) == [-1, -1, 0, 1]
    assert len(captured.distinct) == 4


def test_a_drain_does_not_flush_but_lets_what_is_under_way_finish_F55() -> None:
    flushed: list[int] = []
    spout = ScriptedSpout[Number]([*numbers(10), Wait()])
    topology, captured = line(spout, Slow(1.0), concurrency=3)
    report = run_topology(topology, until_s=1.5)
    assert (report.ended, report.aborted, report.exit_status) == ("stopped", 0, 0)
    assert len(captured.records) == len(spout.acked) == 10
    held, _ = line(ScriptedSpout[Number]([*numbers(3), Wait()]), Sums(flushed), config=Config(drain_timeout_s=4))
    report = run_topology(held, until_s=1)
    assert flushed == []
    assert (report.ended, report.aborted, report.exit_status) == ("stopped", 3, 1)
    assert report.snapshot.seconds == pytest.approx(5, abs=0.1)


def test_a_drain_replays_what_waits_for_its_back_off_at_once() -> None:
    class AtFirst(Bolt):
        def open(self, task: Task) -> None:
            self.clock = task.clock

        def process(self, number: Number) -> list[Number]:
            if self.clock.monotonic() < 10:
                raise ValueError("not yet")
            return [number]

    spout = ScriptedSpout[Number]([Number(0), Wait()])
    topology, captured = line(spout, AtFirst(), config=Config(max_replays=50))
    report = run_topology(topology, until_s=10.5)
    assert captured.times[0] == pytest.approx(10.5, abs=0.01)
    assert (report.ended, report.aborted) == ("stopped", 0)


def test_what_fails_again_during_a_drain_backs_off_and_is_not_dead_at_once() -> None:
    class Always(Bolt):
        def process(self, number: Number) -> list[Number]:
            raise ValueError("as ever")

    topology, _ = line(ScriptedSpout[Number]([Number(0), Wait()]), Always(), config=Config(max_replays=50))
    report = run_topology(topology, until_s=10)
    assert (report.ended, report.snapshot.total("dead"), report.aborted) == ("stopped", 0, 1)
    assert report.snapshot.spouts["numbers"].replayed < 15


def test_a_drain_that_takes_too_long_aborts_the_rest_and_counts_it() -> None:
    spout = ScriptedSpout[Number]([*numbers(10), Wait()])
    topology, captured = line(spout, Slow(4.0), config=Config(drain_timeout_s=10))
    report = run_topology(topology, until_s=1)
    assert (report.ended, report.aborted, report.exit_status) == ("stopped", 8, 1)
    assert len(captured.records) == 2
    assert balanced(report)
    assert report.snapshot.seconds == pytest.approx(11, abs=0.1)


def test_an_abort_ends_the_run_now_and_counts_what_was_under_way() -> None:
    async def abort(run: Any) -> None:
        await asyncio.sleep(2)
        run.drain()
        await asyncio.sleep(2)
        run.abort()

    spout = ScriptedSpout[Number]([*numbers(5), Wait()])
    topology, _ = line(spout, Slow(100.0), config=Config(process_timeout_s=1000, drain_timeout_s=1000))
    report = run_topology(topology, during=abort)
    assert (report.aborted, report.exit_status) == (5, 1)
    assert report.snapshot.seconds < 4.1


def test_a_source_that_raises_ends_the_run_with_status_1_after_a_drain() -> None:
    spout = ScriptedSpout[Number]([*numbers(5), Pause(1), Fail(OSError("the file is gone")), Number(6)])
    topology, captured = line(spout, Slow(2.0), concurrency=9)
    report = run_topology(topology)
    assert (report.ended, report.exit_status) == ("failed", 1)
    assert isinstance(report.error, OSError)
    assert sorted(one.n for one in captured.records) == [0, 1, 2, 3, 4]
    assert balanced(report)


def test_a_held_tuple_that_belongs_to_no_tree_is_waited_for_at_the_end() -> None:
    class Later(Bolt):
        def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            async def later() -> None:
                await asyncio.sleep(3)
                out.emit(tup.record)
                out.ack(tup)

            self.task = asyncio.ensure_future(later())

    topology, captured = line(ScriptedSpout(numbers(1)), Later(), config=Config(guarantee="at-most-once"))
    report = run_topology(topology)
    assert captured.records == numbers(1)
    assert report.ended == "ended"


def test_a_bolt_that_forgets_an_untracked_tuple_does_not_keep_the_run_from_ending() -> None:
    topology, _ = line(
        ScriptedSpout(numbers(3)),
        Doing(lambda bolt, tup, out: None),
        config=Config(guarantee="at-most-once", drain_timeout_s=10),
    )
    report = run_topology(topology, limit_s=120)
    assert report.ended == "ended"


@pytest.mark.parametrize("every", ["0.01s", "1s"])
def test_what_a_tick_emits_is_no_reason_to_flush_again_for_ever(every: str) -> None:
    class Beats(Bolt):
        def __init__(self) -> None:
            self.held: Any = None

        def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            self.held = tup, out

        def tick(self, now: datetime) -> Iterator[Number]:
            if self.held and asyncio.get_running_loop().time() > 0.9:
                tup, out = self.held
                self.held = None
                out.ack(tup)
            yield Number(-1)

    topology = Topology("beats")
    beats = topology.bolt("beats", Beats(), topology.spout("numbers", ScriptedSpout(numbers(1))).shuffle(), every=every)
    topology.bolt("captured", Captured[Number](), beats.shuffle())
    report = run_topology(topology)
    assert report.exit_status == 0
    assert report.snapshot.seconds < 3
