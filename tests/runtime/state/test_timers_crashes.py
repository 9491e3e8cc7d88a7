"""Timers that fire in runs that are cut short, and in workers that die: once each, and none is lost. B10, D1, D17."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kept_kit import known_in, through, timers_in
from runtime_kit import Number, Pair

from topology import Bolt, Config, Record, State, Task, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Watch, run_topology
from topology.testing.virtual_time.loop import START

KEYS, RUNS = 60, 10


class Fired(Record):
    key: int
    count: int


class Timed(Bolt):
    """Each input sets a timer of its key so many seconds after now, and is counted; `on_timer` tells the count."""

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        state.timer(self.clock.utc() + timedelta(seconds=pair.right))
        yield Number(pair.left)

    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[Fired]:
        yield Fired(key[0], state.get(0))


class Unsteady(Bolt):
    """Takes up to a second, and raises for a share of its inputs."""

    def __init__(self, share: float) -> None:
        self.share = share

    def open(self, task: Task) -> None:
        self.random = task.random

    async def process(self, fired: Fired) -> list[Fired]:
        await asyncio.sleep(self.random.random())
        if self.random.random() < self.share:
            raise ValueError("unlucky")
        return [fired]


def timing(share: float) -> tuple[Topology, Captured[Fired]]:
    """Ten keys' timers are due at each second."""
    topology, captured = Topology("timing", Config(max_replays=100, max_restarts=20)), Captured[Fired]()
    script: list[Pair | Pause] = [*(Pair(n, 1 + n // 10) for n in range(KEYS)), Pause(12)]
    bolt = topology.bolt("bolt", Timed(), topology.spout("pairs", ScriptedSpout[Pair](script)).fields("left"), tasks=2)
    unsteady = topology.bolt("unsteady", Unsteady(share), bolt[Fired].shuffle(), concurrency=8)
    topology.bolt("captured", captured, unsteady.shuffle())
    return topology, captured


@pytest.mark.parametrize("seed", range(8))
def test_each_fires_once_over_runs_that_are_cut_short(tmp_path: Path, seed: int) -> None:
    """Some are aborted, and some drained; the wall clock goes on from one to the next."""
    random, now, stored = Random(seed), START, dict[tuple[int, int], Fired]()
    for part in range(RUNS):
        topology, captured = timing(0.2)

        async def cut(run: EmbeddedRun, part: int = part) -> None:
            await asyncio.sleep(random.choice([0.01, 0.5, 1.0, 1.01, 1.02, 2.0, 3.3]))
            if part < RUNS - 1:
                run.abort() if random.random() < 0.7 else run.drain()

        watch = Watch(before=through(takes_s=random.choice([0, 0.002, 0.02])))
        report = run_topology(
            topology,
            seed=seed + 100 * part,
            workers=1 + part % 3,
            state_dir=tmp_path,
            during=cut,
            start=now,
            watch=watch,
        )
        now += timedelta(seconds=report.snapshot.seconds)
        for key, fired in captured.distinct.items():
            assert stored.setdefault(key, fired) == fired
    assert sorted(one.key for one in stored.values()) == [*range(KEYS)]
    assert {one.count for one in stored.values()} == {1}
    assert not any(timers_in(tmp_path).values())


@pytest.mark.parametrize("seed", range(8))
def test_each_fires_once_whichever_worker_dies_while_what_it_has_put_out_is_under_way(
    tmp_path: Path, seed: int
) -> None:
    topology, captured = timing(0.3)
    crashes = [Crash(worker, at_s=at_s) for worker, at_s in ((0, 1.0), (1, 2.001), (1, 3.0), (0, 4.0), (1, 5.5))]
    watch = Watch(before=through(takes_s=0.01))
    report = run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes, watch=watch)
    assert report.exit_status == 0
    assert sorted(one.key for one in captured.distinct.values()) == [*range(KEYS)]
    assert {one.count for one in captured.records} == {1}
    assert not any(timers_in(tmp_path).values())


def test_what_a_timer_has_put_out_is_forgotten_when_it_is_done_D17(tmp_path: Path) -> None:
    topology, _ = timing(0.0)
    assert run_topology(topology, state_dir=tmp_path).exit_status == 0
    assert [one for one in known_in(tmp_path) if one.timer] == []
