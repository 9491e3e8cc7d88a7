"""Timers of workers that live on while another one dies and the run goes back (B10, P9)."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from kept_kit import kept_in
from letters_kit import until
from runtime_kit import Pair, built

from topology import Bolt, Config, State, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.tasks.executor import SLICE_MAX
from topology.runtime.worker.worker import catches_up
from topology.testing import Crash, Pause, ScriptedSpout, run_topology
from topology.testing.virtual_time.loop import START

KEYS = 20


class Windows(Bolt):
    """Each of the first keys has a timer a second after the start; it emits one pair."""

    def process(self, pair: Pair, state: State[int]) -> Iterator[Pair]:
        state.set(state.get(0) + 1)
        if pair.left <= KEYS:
            state.timer(START + timedelta(seconds=1))
        yield from ()

    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[Pair]:
        yield Pair(key[0], 1)


class SlowRelay(Bolt):
    """Takes longer than many checkpoints."""

    async def process(self, pair: Pair) -> list[Pair]:
        await asyncio.sleep(1.5)
        return [pair]


class Counts(Bolt):
    def process(self, pair: Pair, state: State[int]) -> Iterator[Pair]:
        state.set(state.get(0) + pair.right)
        yield Pair(pair.left, state.get(0))


class SlowSink(Bolt):
    """The trees of timers are open while the other worker dies."""

    async def process(self, pair: Pair) -> None:
        await asyncio.sleep(8)


@pytest.mark.parametrize("durability", ["disk", "process", "checkpoint"])
def test_what_a_timer_has_emitted_counts_once_below_though_it_comes_again_after_many_checkpoints_B10_P9(
    durability: Literal["disk", "process", "checkpoint"], tmp_path: Path
) -> None:
    script: list[Pair | Pause] = [Pair(key, 0) for key in range(1, KEYS + 1)]
    for n in range(1_000):
        script += [Pause(0.01), Pair(100 + n % 5, 0)]
    topology = Topology("windows", Config(durability=durability, checkpoint_s=0.05, max_replays=100))
    pairs = topology.spout("pairs", ScriptedSpout[Pair](script, emits=(Pair,)))
    windows = topology.bolt("windows", Windows(), pairs.fields("left"), tasks=2)
    relay = topology.bolt("relay", SlowRelay(), windows.shuffle(), tasks=2, concurrency=100)
    counts = topology.bolt("counts", Counts(), relay.fields("left"), tasks=2)
    topology.bolt("slow", SlowSink(), counts.shuffle(), tasks=2, concurrency=100)
    report = run_topology(topology, workers=2, state_dir=tmp_path, crashes=[Crash(1, at_s=4.5)])
    assert (report.exit_status, report.restarts) == (0, 1)
    assert kept_in(tmp_path, "counts") == dict.fromkeys(range(1, KEYS + 1), 1)


class Failing(Windows):
    """Its timers fail in the first ten seconds."""

    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[Pair]:
        if asyncio.get_running_loop().time() < 10:
            raise ValueError("not yet")
        yield Pair(key[0], 1)


def test_a_worker_catches_up_until_its_sources_are_quiet_and_its_timers_have_fired_D4(tmp_path: Path) -> None:
    """Until then something that was done before a going back may be still to come, and others keep what they know."""
    script: list[Pair | Pause] = [Pair(1, 0), Pause(2), Pair(KEYS + 1, 0), Pause(60)]
    topology = Topology("windows", Config(durability="checkpoint"))
    pairs = topology.spout("pairs", ScriptedSpout[Pair](script, emits=(Pair,)))
    topology.bolt("windows", Failing(), pairs.fields("left"))
    seen: list[tuple[float, bool]] = []

    async def watched(run: EmbeddedRun) -> None:
        worker, loop = await built(run), asyncio.get_running_loop()
        while loop.time() < 50:
            await asyncio.sleep(0.5)
            seen.append((loop.time(), catches_up(worker)))

    report = run_topology(topology, state_dir=tmp_path, during=watched, limit_s=120)
    assert report.exit_status == 0
    assert all(is_behind for at, is_behind in seen if at < 10)
    assert not any(is_behind for at, is_behind in seen if at > 45), "the last try was within thirty seconds"
    assert seen[-1][0] > 45


def test_a_source_catches_up_until_it_has_given_as_much_as_an_earlier_life_may_have_read_D4(tmp_path: Path) -> None:
    script: list[Pair | Pause] = [each for n in range(1_000) for each in (Pair(n, 0), Pause(0.01))]
    topology = Topology("windows", Config(durability="checkpoint", max_lag=100, max_pending=20))
    pairs = topology.spout("pairs", ScriptedSpout[Pair](script, emits=(Pair,)))
    topology.bolt("windows", Windows(), pairs.fields("left"))
    seen: list[tuple[int, bool]] = []

    async def watched(run: EmbeddedRun) -> None:
        worker = await built(run)
        (spout_task,) = worker.spout_tasks.values()
        while not spout_task.ended:
            seen.append((spout_task.reader.given, spout_task.reader.may_reread))
            await asyncio.sleep(0.1)

    assert run_topology(topology, state_dir=tmp_path, during=watched, limit_s=60).exit_status == 0
    most = 100 + 20 + SLICE_MAX
    assert seen == [(given, given < most) for given, _ in seen]
    assert {given < most for given, _ in seen} == {True, False}


def test_what_a_timer_has_emitted_is_sent_once_though_the_run_goes_back_before_its_task_starts_B10(
    tmp_path: Path,
) -> None:
    """A worker that is open and not started sends it as it goes back, and would send it again as it starts."""
    topology = Topology("windows")
    script: list[Pair | Pause] = [Pair(key, 0) for key in range(1, KEYS + 1)]
    pairs = topology.spout("pairs", ScriptedSpout[Pair]([*script, Pause(5)], emits=(Pair,)))
    windows = topology.bolt("windows", Windows(), pairs.fields("left"))
    topology.bolt("slow", SlowSink(), windows.shuffle(), concurrency=100)
    sent: list[int] = []

    async def again(run: EmbeddedRun) -> None:
        worker = await built(run)
        await until(lambda: worker.fired.open == KEYS)
        for task in worker.with_state:
            task.send_timers()
        sent.append(sum(len(messages) for messages in worker.fired.trees.values()))

    report = run_topology(topology, state_dir=tmp_path, during=again, limit_s=60)
    assert report.exit_status == 0
    assert sent == [KEYS]


def test_what_is_passed_over_does_not_count_as_read_again_D4(tmp_path: Path) -> None:
    """The first message is not done, so the second run is given all of them again, and passes over the others."""
    config = Config(durability="checkpoint", tree_timeout_s=600, process_timeout_s=600)
    script: list[Pair | Pause] = [*(Pair(n, 0) for n in range(90)), Pause(60)]
    topology = Topology("windows", config)
    pairs = topology.spout("pairs", ScriptedSpout[Pair](script, emits=(Pair,)))
    topology.bolt("stays", FirstStays(), pairs.shuffle(), concurrency=10)
    seen: list[tuple[int, int, bool]] = []

    async def watched(run: EmbeddedRun) -> None:
        worker = await built(run)
        (spout_task,) = worker.spout_tasks.values()
        await until(lambda: spout_task.counters.passed_over == 89)
        reader = spout_task.reader
        reader._reread_max = 2
        seen.append((reader.given, reader.passed_over, reader.may_reread))

    for during in (None, watched):
        run_topology(topology, state_dir=tmp_path, until_s=3, may_crash=True, during=during)
    assert seen == [(90, 89, True)]


class FirstStays(Bolt):
    async def process(self, pair: Pair) -> None:
        if not pair.left:
            await asyncio.sleep(300)
