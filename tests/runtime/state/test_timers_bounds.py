"""Timers: what one poison `on_timer` may do, and what those that are moved or taken away leave. Rules B10, E10."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from letters_kit import until
from runtime_kit import Number, Pair
from timers_kit import AtEnd, Closes, Fired, Key, Slow, Timed, timing

from topology import State
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.state.key_values import KeyValue
from topology.runtime.state.state_value import StateValue
from topology.runtime.state.value import StateCodec
from topology.storage.encoding import state as states
from topology.testing import Pause, Wait, Watch, run_topology
from topology.testing.virtual_time.loop import START


class Poisoned(AtEnd):
    def on_timer(self, key: Key, name: str, state: State[int]) -> Iterator[Fired]:
        if key == (1,):
            raise ValueError("always")
        yield from super().on_timer(key, name, state)


@pytest.mark.slow
def test_an_on_timer_that_always_raises_keeps_no_run_from_its_end_E10(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = [Pair(1, 1000), Pair(2, 1000)]
    topology, captured = timing(Poisoned(), script)
    report = run_topology(topology, state_dir=tmp_path, limit_s=20_000)
    assert report.ended == "ended"
    assert report.exit_status == 1
    assert [one.key for one in captured.records] == [2]
    assert any("K548" in one.message and "'bolt'" in one.message for one in caplog.records)
    topology, captured = timing(AtEnd(), script)
    assert run_topology(topology, state_dir=tmp_path).exit_status == 0
    assert [one.key for one in captured.records] == [1], "it was kept for the next run"


def test_one_that_is_set_again_at_the_moment_at_which_it_fires_is_another_one_B10(tmp_path: Path) -> None:
    class Again(Timed):
        def on_timer(self, key: Key, name: str, state: State[int]) -> Iterator[Fired]:
            yield from super().on_timer(key, name, state)
            state.set(state.get(0) + 1)
            if state.get(0) < 4:
                state.timer(START + timedelta(seconds=10))

    topology, captured = timing(Again(), [Pair(1, 10), Pause(100)], Slow())
    assert run_topology(topology, state_dir=tmp_path).exit_status == 0
    assert sorted(one.count for one in captured.records) == [1, 2, 3]
    assert len(captured.distinct) == 3, "each has an identity of its own"


def test_timers_that_are_moved_or_taken_away_leave_nothing_behind(tmp_path: Path) -> None:
    class Moves(Timed):
        def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
            state.timer(self.clock.utc() + timedelta(hours=1) if pair.right else None)
            yield Number(pair.left)

    script: list[Any] = [Pair(1, 1), Pause(0.01)] * 1000 + [Pair(n, one) for n in range(2, 1000) for one in (1, 0)]
    topology, _ = timing(Moves(), [*script, Pause(5)])

    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(14)
        timers: Any = run.workers[0].executors["bolt", 0]
        assert len(timers.timers._set) == 1
        assert len(timers.timers._heap) < 100

    run_topology(topology, state_dir=tmp_path, during=look)


def test_what_a_bolt_below_fails_of_a_timer_is_told_once_each_time(tmp_path: Path) -> None:
    failing = [2]

    class Fails(Slow):
        async def process(self, fired: Fired) -> list[Fired]:
            if failing[0]:
                failing[0] -= 1
                raise ConnectionError("not yet")
            return [fired]

    topology, captured = timing(Timed(), [Pair(1, 1), Pause(50)], Fails())
    watch = Watch()
    assert run_topology(topology, state_dir=tmp_path, watch=watch).exit_status == 0
    assert len(captured.records) == 1
    assert [one.component for one in watch.failures] == ["sink0", "sink0"]


def test_one_that_is_set_again_for_its_time_after_the_clock_was_stepped_back_is_another_one_B10(tmp_path: Path) -> None:
    """What it had emitted the first time is still under way."""
    shift = timedelta()

    class Clock:
        def __init__(self, clock: Any) -> None:
            self.monotonic = clock.monotonic
            self._utc = clock.utc

        def utc(self) -> datetime:
            now: datetime = self._utc()
            return now + shift

    def before(worker: Any) -> None:
        worker.clock = Clock(worker.clock)

    async def step(run: EmbeddedRun) -> None:
        nonlocal shift
        await asyncio.sleep(10.5)
        shift = timedelta(seconds=-2)

    topology, captured = timing(Closes(), [Pair(1, 10), Pause(11), Pair(1, 10), Pause(30)], Slow())
    report = run_topology(topology, state_dir=tmp_path, watch=Watch(before=before), during=step)
    assert report.exit_status == 0
    assert [one.count for one in captured.records] == [1, 2]
    assert len(captured.distinct) == 2


def test_a_drain_does_not_wait_out_the_back_off_of_what_a_timer_has_put_out(tmp_path: Path) -> None:
    """As a message that waits for its replay is replayed at once."""
    away = [True]

    class Fails(Slow):
        async def process(self, fired: Fired) -> list[Fired]:
            if away:
                raise ConnectionError("not yet")
            return [fired]

    async def drain(run: EmbeddedRun) -> None:
        await asyncio.sleep(1000)
        timers: Any = run.workers[0].executors["bolt", 0]
        await until(lambda: bool(timers.timers.outputs._waiting))
        away.clear()
        begun.append(asyncio.get_running_loop().time())
        run.drain()

    begun = list[float]()
    topology, captured = timing(Timed(), [Pair(1, 1), Wait()], Fails())
    report = run_topology(topology, state_dir=tmp_path, during=drain, limit_s=5000)
    assert report.exit_status == 0
    assert captured.times[0] < begun[0] + 1


def test_a_key_keeps_its_timers_where_a_bolt_without_on_timer_sets_its_value_b10() -> None:
    codec = StateCodec("bolt", int, timed=False)
    state = StateValue(codec, b"key", states.packed(b"\x01", {"later": 7}))
    state.set(2)
    assert state.held(0) == KeyValue(2, {"later": 7}, 0)
