"""Trials, on virtual time: what takes workers down is dead after three deaths, and nothing else is (E7, F12)."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from runtime_kit import Number, balanced, numbers

from topology import Bolt, Collector, Config, Grouping, Topology, Tuple
from topology.runtime.failures import Reason
from topology.runtime.links.protocol import Frame
from topology.runtime.poison.trials import ALONE_S
from topology.runtime.tasks import retry_policy
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Watch, crash_here, run_topology

POISON = 137


class Deadly(Bolt):
    """Takes its worker down for some numbers; gives the others."""

    def __init__(self, *poison: int) -> None:
        self.poison = poison

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(0.001)
        if number.n in self.poison:
            crash_here()
        return [number]


class ToTheSecond(Grouping):
    """The second task of two, which is on worker 1."""

    def choose(self, record: Number, tasks: int) -> list[int]:
        return [1]


def paused(items: Sequence[Number], each_s: float = 0.001) -> list[Number | Pause]:
    return [part for n in items for part in (n, *[Pause(each_s)] * (n.n % 20 == 0))]


def away(
    deadly: Any, count: int = 400, *, each_s: float = 0.001, concurrency: int = 50, **config: Any
) -> tuple[Topology, Captured[Number]]:
    """The spout and the sink on worker 0, and what is deadly on worker 1."""
    topology, captured = Topology("away", Config(**config)), Captured[Number]()
    stream = topology.spout("numbers", ScriptedSpout(paused(numbers(count), each_s)))
    done = topology.bolt("deadly", deadly, stream.custom(ToTheSecond()), tasks=2, concurrency=concurrency)
    topology.bolt("captured", captured, done.global_())
    return topology, captured


def found(captured: Captured[Number]) -> list[int]:
    return sorted(one.n for one in captured.distinct.values())


def without(count: int, *poison: int) -> list[int]:
    return [n for n in range(count) if n not in poison]


@pytest.mark.parametrize("seed", range(10))
def test_a_message_that_takes_another_worker_down_is_dead_after_three_deaths_f12(seed: int) -> None:
    topology, captured = away(Deadly(POISON))
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=2, may_crash=True, watch=watch)
    assert ([one.id for one in watch.dead], [death.worker for death in watch.deaths]) == ([POISON], [1, 1, 1])
    assert (report.ended, report.exit_status, report.restarts) == ("ended", 1, 3)
    assert found(captured) == without(400, POISON)
    assert (watch.dead[0].failure.reason, str(watch.dead[0].failure.code)) == (Reason.DEADLY, "K541")
    assert balanced(report)


@pytest.mark.parametrize("seed", range(5))
def test_two_such_messages_are_both_dead_within_the_budget_of_restarts(seed: int) -> None:
    topology, captured = away(Deadly(POISON, POISON + 1))
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=2, may_crash=True, watch=watch)
    assert sorted(int(one.id) for one in watch.dead) == [POISON, POISON + 1]
    assert report.ended == "ended"
    assert report.restarts <= 6
    assert found(captured) == without(400, POISON, POISON + 1)


@pytest.mark.parametrize("seed", range(10))
def test_messages_of_another_home_are_not_blamed_though_it_has_suspects_too(seed: int) -> None:
    topology, captured = Topology("three", Config()), Captured[Number]()
    streams = [
        topology.spout(f"numbers{at}", ScriptedSpout(paused([Number(at * 1_000 + n.n) for n in numbers(200)])))
        for at in range(2)
    ]
    done = topology.bolt(
        "deadly", Deadly(POISON), *(one.custom(ToTheThird()) for one in streams), tasks=3, concurrency=99
    )
    topology.bolt("captured", captured, done.global_())
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=3, may_crash=True, watch=watch)
    assert {int(one.id) for one in watch.dead} == {POISON}
    assert len(watch.dead) == 1
    assert report.ended == "ended"
    assert found(captured) == sorted([*without(200, POISON), *range(1_000, 1_200)])


class ToTheThird(Grouping):
    def choose(self, record: Number, tasks: int) -> list[int]:
        return [2]


@pytest.mark.parametrize("seed", range(6))
def test_messages_of_another_home_are_not_blamed_while_a_home_dies_of_its_own(tmp_path: Path, seed: int) -> None:
    """That one comes back, and reads what it dies of a moment later, while the messages of the other are tried."""
    topology, captured = Topology("own", Config(max_pending=20)), Captured[Number]()
    for at in range(2):
        stream = topology.spout(f"numbers{at}", ScriptedSpout(paused([Number(at * 1_000 + n) for n in range(100)])))
        deadly = Deadly(8, 80)
        done = topology.bolt(f"deadly{at}", deadly, stream.custom(ToTheFirst()), tasks=2, concurrency=50)
        topology.bolt(f"captured{at}", captured, done.global_())
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=2, may_crash=True, watch=watch, state_dir=tmp_path / "state")
    assert [(one.spout, one.id) for one in watch.dead] == [("numbers0", 8), ("numbers0", 80)], f"seed {seed}"
    assert report.ended == "ended"
    assert found(captured) == sorted([*without(100, 8, 80), *range(1_000, 1_100)])


@pytest.mark.parametrize("seed", range(10))
def test_a_message_whose_trial_has_just_ended_is_not_blamed_for_the_next_one(tmp_path: Path, seed: int) -> None:
    """The trials of two homes alternate, and what the one tries takes the other down, where the store has to say by
    then that nothing is tried there."""
    topology, captured = Topology("alternating", Config(max_pending=30)), Captured[Number]()
    for at in range(2):
        stream = topology.spout(f"numbers{at}", ScriptedSpout(paused([Number(at * 1_000 + n) for n in range(60)])))
        done = topology.bolt(f"deadly{at}", Deadly(17), stream.custom(ToTheSecond()), tasks=2, concurrency=50)
        topology.bolt(f"captured{at}", captured, done.global_())
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=2, may_crash=True, watch=watch, state_dir=tmp_path / "state")
    assert [(one.spout, one.id) for one in watch.dead] == [("numbers0", 17)], f"seed {seed}"
    assert (report.ended, report.restarts) == ("ended", 3)
    assert found(captured) == sorted([*without(60, 17), *range(1_000, 1_060)])


def test_a_message_that_is_dead_but_not_buried_yet_is_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The death that makes it a suspect is the one failure too many of what is around it."""
    monkeypatch.setattr(retry_policy, "INFRASTRUCTURE_REPLAYS_MAX", 1)
    topology, captured = away(Deadly(POISON), max_pending=200)
    watch = Watch()
    report = run_topology(topology, workers=2, may_crash=True, watch=watch, state_dir=tmp_path / "state")
    assert (report.ended, report.error, report.restarts) == ("ended", None, 2)
    dead = {int(one.id) for one in watch.dead}
    assert POISON in dead
    assert len(dead) == len(watch.dead)
    assert dead | {*found(captured)} == {*range(400)}


class ToTheFirst(Grouping):
    def choose(self, record: Number, tasks: int) -> list[int]:
        return [0]


@pytest.mark.parametrize("seed", range(10))
def test_workers_that_are_killed_every_second_blame_nobody(seed: int) -> None:
    random = Random(seed)
    topology, captured = away(Deadly(), count=4_000, each_s=0.03, max_restarts=100)
    crashes = [Crash(1, at_s=n * 0.9 + random.random() / 2) for n in range(7)]
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=2, crashes=crashes, watch=watch)
    assert watch.dead == []
    assert (report.ended, report.exit_status, report.restarts) == ("ended", 0, 7)
    assert found(captured) == without(4_000)
    assert report.snapshot.seconds < 40


def test_a_kill_at_the_moment_of_a_trial_blames_nobody() -> None:
    """It counts half, and hits the next trial of the same message once in some hundred times."""
    topology, captured = away(Deadly(POISON), count=400, max_restarts=100)
    watch = Watch()
    report = run_topology(topology, workers=2, crashes=[Crash(1, at_s=1.3)], may_crash=True, watch=watch)
    assert watch.deaths[-1].at_s > 1.3, "while others were tried"
    assert [one.id for one in watch.dead] == [POISON]
    assert (report.ended, found(captured)) == ("ended", without(400, POISON))


class SlowAtFirst(Deadly):
    """Takes long for the first number, and its worker down once for the poison."""

    crashed: ClassVar[list[int]] = []

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(3 if number.n == 0 else 0.001)
        if number.n in self.poison and number.n not in self.crashed:
            self.crashed.append(number.n)
            crash_here()
        return [number]


def test_deaths_that_a_message_was_a_bystander_of_make_it_a_suspect_and_no_more_E7() -> None:
    """Three kills and a crash find it in flight beside others. A kill during its trial then counts one half."""
    SlowAtFirst.crashed.clear()
    topology, captured = away(SlowAtFirst(350), each_s=0.2, max_restarts=100)
    watch = Watch()
    crashes = [Crash(1, at_s=at_s) for at_s in (0.5, 1.5, 2.5, 7.5)]
    report = run_topology(topology, workers=2, crashes=crashes, may_crash=True, watch=watch)
    assert report.restarts == 5
    assert "'deadly' has 0 queued and 1 in hand" in watch.deaths[-1].in_flight, "all others wait"
    assert (watch.dead, report.ended, found(captured)) == ([], "ended", without(400))


def test_a_first_death_replays_everything_at_once_e8(caplog: pytest.LogCaptureFixture) -> None:
    topology, captured = away(Deadly())
    run_topology(topology, workers=2, crashes=[Crash(1, acked=50)])
    assert "K540" not in caplog.text
    assert found(captured) == without(400)


def test_the_detour_is_told_once_and_that_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    topology, _ = away(Deadly(POISON))
    run_topology(topology, workers=2, may_crash=True)
    assert caplog.text.count("K540") == 1
    assert caplog.text.count("the others resume") == 1


def test_a_suspect_that_a_bolt_holds_until_others_come_does_not_hold_up_the_trials() -> None:
    class Pairs(Bolt):
        """Holds each input until there are twenty."""

        def __init__(self) -> None:
            self.kept: list[Tuple[Number]] = []

        def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            if tup.record.n == POISON:
                crash_here()
            self.kept.append(tup)
            if len(self.kept) >= 20:
                self.flush(out)

        def flush(self, out: Collector[Number]) -> None:
            kept, self.kept = self.kept, []
            for one in kept:
                out.emit(one.record, anchors=[one])
                out.ack(one)

    topology, captured = away(Pairs(), concurrency=1)
    watch = Watch()
    report = run_topology(topology, workers=2, may_crash=True, watch=watch)
    assert [one.id for one in watch.dead] == [POISON]
    assert (report.ended, found(captured)) == ("ended", without(400, POISON))
    assert report.snapshot.seconds < 120


@pytest.mark.parametrize("seed", range(3))
def test_what_takes_a_worker_down_after_longer_than_a_trial_is_found_and_no_message_tried_after_it_is_blamed(
    seed: int,
) -> None:
    class Slowly(Deadly):
        async def process(self, number: Number) -> list[Number]:
            await asyncio.sleep(ALONE_S + 0.1 if number.n in self.poison else 0.05)
            return await super().process(number)

    topology, captured = away(Slowly(POISON), 250, max_restarts=20)
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=2, may_crash=True, watch=watch)
    assert [one.id for one in watch.dead] == [POISON]
    assert (report.ended, found(captured)) == ("ended", without(250, POISON))


@pytest.mark.parametrize("seed", range(10))
def test_links_that_delay_frames_change_nothing_of_it(seed: int) -> None:
    random = Random(seed)

    def faults(frame: Frame) -> Sequence[float]:
        return (random.random() / 20,) if random.random() < 0.2 else (0.0,)

    topology, captured = away(Deadly(POISON))
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=2, may_crash=True, watch=watch, faults=faults)
    assert [one.id for one in watch.dead] == [POISON]
    assert (report.ended, found(captured)) == ("ended", without(400, POISON))


def test_code_that_crashes_outside_of_such_a_run_is_told_so() -> None:
    with pytest.raises(RuntimeError, match="may_crash=True"):
        crash_here()
