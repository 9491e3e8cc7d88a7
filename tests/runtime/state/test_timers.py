"""Timers: a part of the state, and each fires once, whatever dies or fails meanwhile. Rules B10, D9, D17."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kept_kit import kept_in, timers_in
from runtime_kit import Number, Pair, numbers
from timers_kit import AtEnd, Closes, Fired, Key, Slow, Timed, timing

from topology import Bolt, State, Task, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Wait, Watch, run_bolt, run_topology
from topology.testing.virtual_time.loop import START


def times(captured: Captured[Fired]) -> list[tuple[int, float]]:
    return [(one.key, round(one.at, 2)) for one in captured.records]


# -- when


def test_a_timer_fires_at_its_time_and_not_before_and_one_that_is_past_at_once(tmp_path: Path) -> None:
    topology, captured = timing(Timed(), [Pair(1, 30), Pair(2, 0), Pair(3, -100), Pair(4, 3), Pause(60)])
    watch = Watch()
    run_topology(topology, state_dir=tmp_path, watch=watch)
    assert sorted(times(captured)) == [(1, 30.0), (2, 0.0), (3, 0.0), (4, 3.0)]
    assert kept_in(tmp_path) == {1: 1, 2: 1, 3: 1, 4: 1}
    assert not any(timers_in(tmp_path).values())
    assert watch.failures == []


def test_a_timer_that_is_due_before_the_others_does_not_wait_for_them(tmp_path: Path) -> None:
    topology, captured = timing(Timed(), [Pair(1, 30), Pause(10.1), Pair(2, 0), Pause(5), Pair(3, -5), Pause(30)])
    run_topology(topology, state_dir=tmp_path)
    assert times(captured) == [(2, 10.1), (3, 15.1), (1, 30.0)]


def test_a_timer_of_the_same_name_moves_and_fires_once(tmp_path: Path) -> None:
    script = [Pair(1, 10), Pause(5), Pair(1, 20), Pause(1), Pair(2, 50), Pair(2, 3), Pause(60)]
    topology, captured = timing(Timed(), script)
    run_topology(topology, state_dir=tmp_path)
    assert times(captured) == [(2, 9.0), (1, 25.0)]
    assert [one.count for one in captured.records] == [2, 2]


def test_a_timer_that_is_taken_away_does_not_fire_and_timers_of_other_names_do(tmp_path: Path) -> None:
    class Cancels(Timed):
        def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
            for name in ("a", "b"):
                state.timer(self.clock.utc() + timedelta(seconds=pair.right), name)
            if pair.right == 0:
                state.timer(None, "a")
                state.timer(None, "none of this name")
            yield Number(pair.left)

    topology, captured = timing(Cancels(), [Pair(1, 5), Pair(2, 5), Pair(1, 0), Pause(20)])
    run_topology(topology, state_dir=tmp_path)
    assert sorted((one.key, one.name) for one in captured.records) == [(1, "b"), (2, "a"), (2, "b")]


def test_clear_leaves_the_timers_and_a_key_of_nothing_else_goes_when_they_have_fired(tmp_path: Path) -> None:
    class Clears(Timed):
        def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
            state.set(1)
            state.timer(self.clock.utc() + timedelta(seconds=pair.right))
            state.clear()
            yield Number(pair.left)

    topology, captured = timing(Clears(), [Pair(1, 5), Pair(2, 5000), Pause(20)])
    run_topology(topology, state_dir=tmp_path)
    assert [(one.key, one.count) for one in captured.records] == [(1, 0)]
    assert kept_in(tmp_path) == {2: None}


def test_the_wall_clock_may_step_forth_and_back(tmp_path: Path) -> None:
    """What counts is what it says: steps are seen within a second."""
    shift = timedelta()

    class Clock:
        def __init__(self, clock: Any) -> None:
            self._clock = clock

        def monotonic(self) -> float:
            return float(self._clock.monotonic())

        def utc(self) -> datetime:
            now: datetime = self._clock.utc()
            return now + shift

    def before(worker: Any) -> None:
        worker.clock = Clock(worker.clock)

    class Told(Timed):
        def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
            state.timer(START + timedelta(seconds=pair.right))
            yield Number(pair.left)

    async def step(run: EmbeddedRun) -> None:
        nonlocal shift
        await asyncio.sleep(10)
        shift = timedelta(hours=1)
        await asyncio.sleep(10)
        shift = timedelta(hours=-1)
        await asyncio.sleep(100)
        assert len(captured.records) == 1
        shift = timedelta(hours=2)

    topology, captured = timing(Told(), [Pair(1, 3600), Pause(15), Pair(2, 3700), Pair(3, 7300), Pause(200)])
    run_topology(topology, state_dir=tmp_path, watch=Watch(before=before), during=step)
    assert [one.key for one in captured.records] == [1, 2, 3]
    found = [round(one, 1) for one in captured.times]
    assert 10 <= found[0] <= 11.1
    assert 120 <= found[1] <= found[2] <= 121.1


def test_one_that_is_set_again_for_a_time_at_which_it_has_fired_fires_again_and_is_another_one(tmp_path: Path) -> None:
    """What it had emitted the first time is still under way."""
    script = [Pair(1, 1), Pause(2), Pair(1, 1), Pause(0.5), Pair(1, 1), Pair(1, 1), Pause(20)]
    topology, captured = timing(Closes(), script, Slow())
    assert run_topology(topology, state_dir=tmp_path).exit_status == 0
    assert {1, 2, 4} <= {one.count for one in captured.records} <= {1, 2, 3, 4}
    assert len(captured.distinct) == len(captured.records)


def test_one_that_is_due_is_not_held_up_by_inputs_that_set_it_again(tmp_path: Path) -> None:
    topology, captured = timing(Closes(), [Pair(1, 1), *[Pair(1, 0)] * 3000, Pause(10)])
    run_topology(topology, state_dir=tmp_path)
    assert captured.records[0].at < 0.1


# -- what takes its turn


def test_a_timer_and_an_input_of_its_key_take_turns(tmp_path: Path) -> None:
    """The input is under way for long when the timer is due: it fires after it, on what that has left."""

    class SlowInput(Timed):
        async def process(self, pair: Pair, state: State[int]) -> list[Number]:  # type: ignore[override]
            before = state.get(0)
            state.timer(self.clock.utc() + timedelta(seconds=2))
            await asyncio.sleep(0 if before == 0 else 5)
            state.set(before + 1)
            return []

        def on_timer(self, key: Key, name: str, state: State[int]) -> Iterator[Fired]:
            yield Fired(key[0], name, (self.clock.utc() - START).total_seconds(), state.get(0))
            state.set(state.get(0) + 100)

    topology, captured = timing(SlowInput(), [Pair(1, 0), Pause(1), Pair(1, 0), Pause(20)])
    run_topology(topology, state_dir=tmp_path)
    assert [(round(one.at), one.count) for one in captured.records] == [(6, 2)], "the second input has moved it"
    assert kept_in(tmp_path) == {1: 102}


def test_a_timer_may_be_set_by_on_timer_itself(tmp_path: Path) -> None:
    class Again(Timed):
        def on_timer(self, key: Key, name: str, state: State[int]) -> Iterator[Fired]:
            yield from super().on_timer(key, name, state)
            state.set(state.get(0) + 1)
            if state.get(0) < 4:
                state.timer(self.clock.utc() + timedelta(seconds=10))

    topology, captured = timing(Again(), [Pair(1, 10), Pause(100)])
    run_topology(topology, state_dir=tmp_path)
    assert times(captured) == [(1, 10.0), (1, 20.0), (1, 30.0)]
    assert len(captured.distinct) == 3, "each has an identity of its own"


# -- what fails


def test_an_on_timer_that_raises_changes_nothing_and_is_tried_again(tmp_path: Path) -> None:
    class Fails(Timed):
        left = 3

        def on_timer(self, key: Key, name: str, state: State[int]) -> Iterator[Fired]:
            yield from super().on_timer(key, name, state)
            state.set(100)
            if (left := Fails.left) > 0:
                Fails.left = left - 1
                raise ConnectionError("not yet")

    topology, captured = timing(Fails(), [Pair(1, 10), Pause(100)])
    watch = Watch()
    run_topology(topology, state_dir=tmp_path, watch=watch)
    assert len(watch.failures) == 3
    assert [one.count for one in captured.records] == [1]
    assert 10 < captured.records[0].at < 40
    assert kept_in(tmp_path) == {1: 100}


def test_one_that_fails_for_long_is_tried_again_once_however_many_inputs_move_another_timer(tmp_path: Path) -> None:
    tried: list[float] = []

    class Fails(Timed):
        def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
            state.set(state.get(0) + 1)
            if state.get(0) == 1:
                state.timer(self.clock.utc(), "bad")
            state.timer(self.clock.utc() + timedelta(hours=1), "other")
            yield Number(pair.left)

        def on_timer(self, key: Key, name: str, state: State[int]) -> Iterator[Fired]:
            tried.append(self.clock.monotonic())
            raise ValueError("always")

    script: list[Any] = []
    for _ in range(200):
        script += [Pair(1, 0), Pause(0.5)]
    topology, _ = timing(Fails(), script)
    run_topology(topology, state_dir=tmp_path)
    assert 3 < len(tried) < 30, "the back-off holds"
    assert set(timers_in(tmp_path)[1]) == {"bad", "other"}


def test_what_a_timer_has_put_out_is_sent_again_until_it_is_done_D17(tmp_path: Path) -> None:
    class Down(Bolt):
        def open(self, task: Task) -> None:
            self.clock = task.clock

        def process(self, fired: Fired) -> list[Fired]:
            if self.clock.monotonic() < 30:
                raise ConnectionError("down")
            return [fired]

    class Counts(Timed):
        fired = 0

        def on_timer(self, key: Key, name: str, state: State[int]) -> Iterator[Fired]:
            Counts.fired += 1
            yield from super().on_timer(key, name, state)

    topology, captured = timing(Counts(), [Pair(1, 10)], Down())
    report = run_topology(topology, state_dir=tmp_path, during=ticking(20))
    assert report.exit_status == 0
    assert Counts.fired == 0, "the input has ended before: it stays"
    assert list(timers_in(tmp_path)) == [1]
    topology, captured = timing(Counts(), [Pair(1, 10), Pause(10)], Down())
    report = run_topology(topology, state_dir=tmp_path, start=START + timedelta(minutes=1))
    assert Counts.fired == 1
    assert len(captured.distinct) == 1
    assert captured.times[0] >= 30, "the run waits for it"


def ticking(seconds: float) -> Any:
    async def during(run: EmbeddedRun) -> None:
        await asyncio.sleep(seconds)

    return during


def test_an_output_that_nobody_reads_is_no_problem(tmp_path: Path) -> None:
    topology = Topology("unread")
    stream = topology.spout("pairs", ScriptedSpout[Pair]([Pair(1, 1), Pause(10)]))
    topology.bolt("bolt", Timed(), stream.fields("left"))
    watch = Watch()
    report = run_topology(topology, state_dir=tmp_path, watch=watch)
    assert report.exit_status == 0
    assert watch.failures == []
    assert timers_in(tmp_path) == {1: {}}


# -- ends


@pytest.mark.parametrize("count", [3, 1500])
def test_all_that_are_left_fire_when_the_input_has_ended_where_the_bolt_says_so(tmp_path: Path, count: int) -> None:
    topology, captured = timing(AtEnd(), [Pair(n, 1000 + n) for n in range(count)], tasks=2)
    report = run_topology(topology, seed=None, state_dir=tmp_path, limit_s=500)
    assert report.exit_status == 0
    assert sorted(one.key for one in captured.records) == [*range(count)]
    assert not any(timers_in(tmp_path).values())


def test_without_a_state_directory_timers_fire_all_the_same() -> None:
    done = run_bolt(AtEnd(), [Pair(1, 5), Pause(7), Pair(2, 1000)], by=("left",), state={2: 10}).well()
    assert [(one.key, one.count) for one in done.of(Fired)] == [(1, 1), (2, 11)]
    assert done.state == {1: 1, 2: 11}


def test_a_drain_leaves_them_for_the_next_run_and_those_that_are_overdue_fire_then(tmp_path: Path) -> None:
    topology, captured = timing(AtEnd(), [Pair(1, 10), Pair(2, 1000), Wait()])
    assert run_topology(topology, state_dir=tmp_path, until_s=5).ended == "stopped"
    assert captured.records == []
    assert set(timers_in(tmp_path)) == {1, 2}
    topology, captured = timing(AtEnd(), [Pair(1, 10), Pair(2, 1000), Pause(10), Wait()])
    run_topology(topology, state_dir=tmp_path, until_s=20, start=START + timedelta(seconds=500))
    assert [one.key for one in captured.records] == [1]
    assert captured.times[0] < 1


def test_many_that_are_overdue_after_a_restart_fire_once_each(tmp_path: Path) -> None:
    script = [Pair(n, 100) for n in range(2000)]
    topology, _ = timing(Timed(), script, tasks=2)
    run_topology(topology, seed=None, state_dir=tmp_path)
    topology, captured = timing(Timed(), [*script, Pause(10)], tasks=2)
    run_topology(topology, seed=None, state_dir=tmp_path, start=START + timedelta(hours=1))
    assert sorted(one.key for one in captured.records) == [*range(2000)]
    assert max(captured.times) < 5


@pytest.mark.parametrize("seed", range(4))
def test_each_fires_once_whichever_worker_dies_B10_D1(tmp_path: Path, seed: int) -> None:
    """Workers die while timers are due, fire, and wait for what they have emitted."""
    topology, captured = timing(Timed(), [*(Pair(n, 1 + n // 10) for n in range(100)), Pause(30)], tasks=2)
    crashes = [Crash(worker, at_s=at_s) for worker, at_s in ((0, 1.0), (1, 3.001), (0, 5.0), (1, 7.0))]
    report = run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes)
    assert report.exit_status == 0
    assert sorted(one.key for one in captured.distinct.values()) == [*range(100)]
    assert {one.count for one in captured.records} == {1}
    assert not any(timers_in(tmp_path).values())


def test_what_is_wrong_with_a_timer_fails_its_input() -> None:
    class Wrong(Timed):
        def process(self, number: Number, state: State[int]) -> Iterator[Number]:  # type: ignore[override]
            at: Any = [datetime(2026, 1, 1), 5, datetime(2026, 1, 1, tzinfo=UTC)][number.n]  # noqa: DTZ001 – the test
            state.timer(at, 7 if number.n == 2 else "a")  # type: ignore[arg-type]
            yield number

    done = run_bolt(Wrong(), numbers(3))
    assert ["K620" in str(one.error.code) for one in done.failed] == [True] * 3  # type: ignore[union-attr]
