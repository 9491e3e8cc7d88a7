"""Every message is processed at least once, or is dead and loud: replays, back-off, dead messages, exit status."""

import logging
from itertools import pairwise

import pytest
from runtime_kit import Flaky, Number, Poisoned, Same, balanced, line, numbers

from topology import Config, Reject
from topology.testing import ScriptedSpout, Watch, run_topology


@pytest.mark.parametrize("seed", range(5))
def test_each_message_reaches_the_sink_although_bolts_fail_at_random(seed: int) -> None:
    spout = ScriptedSpout(numbers(200))
    topology, captured = line(spout, Flaky(0.2), Flaky(0.2), config=Config(max_replays=50), tasks=3)
    report = run_topology(topology, seed=seed)
    counts = report.snapshot.spouts["numbers"]
    assert {one.n for one in captured.distinct.values()} == set(range(200)), f"seed {seed}"
    assert (counts.emitted, counts.acked, counts.dead, counts.pending) == (200, 200, 0, 0), f"seed {seed}"
    assert counts.failed == counts.replayed > 0
    assert sorted(spout.acked) == list(range(200))
    assert report.exit_status == 0


def test_a_sink_sees_the_same_identity_in_every_replay() -> None:
    topology, captured = line(ScriptedSpout(numbers(50)), Same(), Same())
    run_topology(topology, replay_all=True)
    assert len(captured.records) == 100
    assert len(captured.distinct) == 50


def test_acked_and_dead_are_all_that_was_emitted() -> None:
    spout = ScriptedSpout(numbers(100))
    topology, captured = line(spout, Flaky(0.5), config=Config(max_replays=1))
    report = run_topology(topology, seed=3)
    counts = report.snapshot.spouts["numbers"]
    assert counts.dead > 0
    assert counts.emitted == 100 == counts.acked + counts.dead
    assert balanced(report)
    assert len(spout.acked) == counts.acked
    assert len(spout.failed) == counts.dead
    assert sorted([*spout.acked, *spout.failed]) == list(range(100))
    assert {one.n for one in captured.records} == set(spout.acked)


def test_replays_back_off_doubling_with_jitter_and_end_after_max_replays() -> None:
    attempts: list[float] = []

    class Timed(Poisoned):
        def open(self, task):  # type: ignore[no-untyped-def]
            self.clock = task.clock

        def process(self, number: Number) -> list[Number]:
            attempts.append(self.clock.monotonic())
            return super().process(number)

        def __deepcopy__(self, memo: object) -> "Timed":
            return self

    topology, _ = line(ScriptedSpout(numbers(1)), Timed(0, ValueError), config=Config(max_replays=12))
    report = run_topology(topology, seed=5)
    waits = [later - earlier for earlier, later in pairwise(attempts)]
    assert len(attempts) == 13
    for number, wait in enumerate(waits):
        whole = min(30.0, 0.05 * 2**number)
        assert whole / 2 <= wait <= whole + 0.01, f"wait {number}"
    assert len({round(wait / min(30.0, 0.05 * 2**number), 6) for number, wait in enumerate(waits)}) > 6  # jitter
    assert report.snapshot.spouts["numbers"].replayed == 12


def test_the_jitter_comes_from_the_seed() -> None:
    def times(seed: int) -> list[float]:
        topology, captured = line(ScriptedSpout(numbers(20)), Flaky(0.6), config=Config(max_replays=60))
        run_topology(topology, seed=seed)
        return captured.times

    assert times(1) == times(1) != times(2)


def test_a_dead_message_is_told_with_record_and_traceback_and_makes_the_exit_status_1(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spout = ScriptedSpout(numbers(5))
    topology, captured = line(spout, Poisoned(3, lambda: ValueError("three is bad")), config=Config(max_replays=2))
    with caplog.at_level(logging.WARNING, logger="kedge"):
        report = run_topology(topology)
    failed = [record.getMessage() for record in caplog.records if "further ones like it" in record.getMessage()]
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert (len(failed), len(told)) == (1, 1)
    assert "message 3 of 'numbers' is dead after 3 attempts" in told[0]
    assert "Number(n=3)" in told[0]
    assert "ValueError: three is bad" in told[0]
    assert "ValueError: three is bad (K520)\n" in told[0]
    assert "Traceback" not in told[0]  # it was told when the first attempt failed
    assert "in process" in failed[0]
    assert "executor.py" not in failed[0]  # the user's frames, not the runtime's
    assert spout.failed == [3]
    assert sorted(one.n for one in captured.records) == [0, 1, 2, 4]  # F11: the others flow
    assert (report.ended, report.exit_status) == ("ended", 1)


def test_a_rejected_message_is_dead_at_once() -> None:
    spout = ScriptedSpout(numbers(3))
    watch = Watch()
    topology, _ = line(spout, Poisoned(1, lambda: Reject("no such thing")))
    report = run_topology(topology, watch=watch)
    counts = report.snapshot.spouts["numbers"]
    assert (counts.dead, counts.replayed, counts.failed) == (1, 0, 1)
    assert [(one.id, one.failure.text) for one in watch.dead] == [(1, "no such thing")]
    assert report.exit_status == 1


def test_on_dead_stop_ends_the_run_at_the_first_dead_message() -> None:
    spout = ScriptedSpout([*numbers(3), *[Number(7)] * 10_000])
    topology, _ = line(spout, Poisoned(1, lambda: Reject("stop")), config=Config(on_dead="stop", max_pending=10))
    report = run_topology(topology)
    assert report.ended == "failed"
    assert report.exit_status == 1
    assert report.snapshot.spouts["numbers"].emitted < 1_000
    assert balanced(report)


def test_a_failure_that_was_replayed_and_acked_leaves_the_exit_status_at_0() -> None:
    failed: set[int] = set()

    class Once(Poisoned):
        def process(self, number: Number) -> list[Number]:
            if number.n not in failed:
                failed.add(number.n)
                raise ValueError("the first time")
            return [number]

    topology, captured = line(ScriptedSpout(numbers(10)), Once(0, ValueError))
    report = run_topology(topology)
    assert report.exit_status == 0
    assert report.snapshot.spouts["numbers"].failed == 10
    assert sorted(one.n for one in captured.records) == list(range(10))
