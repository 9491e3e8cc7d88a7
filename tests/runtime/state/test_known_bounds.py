"""Inputs that are known are bounded: beyond it the sources wait, and go on when messages are done. Rule D14."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from runtime_kit import Number, line, numbers

from topology import Bolt, Config, State
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.state.state_executor import StateExecutor
from topology.testing import Pause, ScriptedSpout, run_topology

BOUND = 50_000


class Counting(Bolt):
    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        yield number


class Stuck(Bolt):
    """Lets nothing pass for a minute."""

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(max(0.0, 60.0 - asyncio.get_running_loop().time()))
        return [number]


def test_over_the_bound_of_bytes_sources_wait_and_go_on_when_messages_are_done_D14() -> None:
    config = Config(max_remembered_bytes=BOUND, tree_timeout_s=300.0, process_timeout_s=300.0)
    topology, captured = line(ScriptedSpout(numbers(1000)), Counting(), Stuck(), by="n", config=config)
    seen: list[int] = []

    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(20.0)
        tasks = run.workers[0].executors.values()
        seen.extend(len(task.known) for task in tasks if isinstance(task, StateExecutor))

    assert run_topology(topology, during=look).exit_status == 0
    assert 0 < sum(seen) < 1000
    assert len(captured.distinct) == 1000


def test_what_decided_snapshots_leave_is_freed_in_a_run_without_a_state_directory_too() -> None:
    topology, _ = line(ScriptedSpout([*numbers(200), Pause(5.0)] * 3), Counting(), by="n")
    left: list[int] = []

    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(14.0)
        tasks = run.workers[0].executors.values()
        left.extend(len(task.keys._trash) for task in tasks if isinstance(task, StateExecutor))

    assert run_topology(topology, during=look).exit_status == 0
    assert left
    assert max(left) <= 1, "that of the last one"


def test_a_checkpoint_is_taken_sooner_while_sources_wait_for_what_it_frees(tmp_path: Path) -> None:
    config = Config(max_remembered_bytes=BOUND, checkpoint_s=3_600.0)
    topology, captured = line(ScriptedSpout(numbers(3_000)), Counting(), by="n", config=config)
    report = run_topology(topology, state_dir=tmp_path, limit_s=60)
    assert report.exit_status == 0
    assert len(captured.distinct) == 3_000


def test_a_checkpoint_is_taken_sooner_while_a_source_is_max_lag_ahead_of_the_last_one(tmp_path: Path) -> None:
    config = Config(durability="checkpoint", max_lag=200, max_pending=50, checkpoint_s=3_600.0)
    topology, captured = line(ScriptedSpout(numbers(2_000)), Counting(), by="n", config=config)
    report = run_topology(topology, state_dir=tmp_path, workers=2, limit_s=60)
    assert report.exit_status == 0
    assert len(captured.distinct) == 2_000
