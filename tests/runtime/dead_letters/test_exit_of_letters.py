"""The exit status says whether dead letters are left: those that were replayed or dropped by the end are none."""

import asyncio
from pathlib import Path

import pytest
from runtime_kit import Number

from topology import Bolt, Reject, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.storage.dead_questions import DeadAsk
from topology.testing import ScriptedSpout, run_topology
from topology.testing.scripted import Wait


class Refusing(Bolt):
    def process(self, number: Number) -> None:
        raise Reject("never")


@pytest.mark.parametrize("act", ["", "drop"])
def test_a_run_whose_letters_are_all_dropped_ends_with_0_and_else_with_1(tmp_path: Path, act: str) -> None:
    topology = Topology("refused")
    stream = topology.spout("numbers", ScriptedSpout([Number(1), Wait()]))
    topology.bolt("refusing", Refusing(), stream.shuffle())

    async def during(run: EmbeddedRun) -> None:
        for _ in range(100):
            await asyncio.sleep(0.1)  # virtual
            if (await run.dead(DeadAsk(1, "list", (), "", 10))).letters:
                break
        if act:
            await run.dead(DeadAsk(2, act, (), "", 10))
        run.drain()

    report = run_topology(topology, state_dir=tmp_path, during=during)
    assert report.snapshot.total("dead") == 1
    assert report.exit_status == (0 if act else 1)
