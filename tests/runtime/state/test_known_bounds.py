"""Inputs that are known are bounded: beyond it the sources wait, and go on when messages are done. Rule D14."""

import asyncio
from collections.abc import Iterator

from runtime_kit import Number, line, numbers

from topology import Bolt, Config, State
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.state.state_executor import StateExecutor
from topology.testing import ScriptedSpout, run_topology

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
