"""A letter goes with the checkpoint in which its message is done. So nothing that is known of the message stays if the
home of the message dies right after the decision (P10, E1)."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from kept_kit import dies
from letters_kit import asked, dead_of, until
from runtime_kit import Number, Totals

from topology import Bolt, Config, Reject, Topology
from topology.plan import plan
from topology.runtime.worker.worker import Worker
from topology.testing import Captured, Crash, ScriptedSpout, Wait, Watch, run_topology

COUNT = 20


class Rejects(Bolt):
    """Until it is mended."""

    def __init__(self, mended: list[bool]) -> None:
        self.mended = mended

    def __deepcopy__(self, memo: object) -> "Rejects":
        return self

    def process(self, number: Number) -> list[Number]:
        if not self.mended:
            raise Reject("no")
        return [number]


def counting(durability: Any, mended: list[bool], *more: Any) -> Topology:
    topology = Topology("removed", Config(durability=durability))
    numbers = topology.spout("numbers", ScriptedSpout([*map(Number, range(COUNT)), *more]))
    totals = topology.bolt("totals", Totals(), numbers.fields("n"), tasks=2)
    topology.bolt("captured", Captured[Number](), topology.bolt("rejects", Rejects(mended), totals.shuffle()).shuffle())
    return topology


@pytest.mark.parametrize("act", ["drop", "replay"])
@pytest.mark.parametrize("durability", ["disk", "process", "checkpoint"])
def test_nothing_is_known_of_messages_whose_letters_are_gone_though_their_home_dies_then_P10(
    tmp_path: Path, durability: Any, act: Literal["drop", "replay"]
) -> None:
    mended: list[bool] = []
    topology = counting(durability, mended, Wait())
    home = plan(topology, 2).placement["numbers", 0]
    left: list[int] = []

    def before(worker: Worker) -> None:
        def decided() -> None:
            if worker.worker == home and worker.decided.frontier.dropped and len(watch.deaths) == 1:
                dies()

        worker.checkpoints.at_decision.append(decided)

    async def during(run: Any) -> None:
        await dead_of(run, COUNT)
        await asyncio.sleep(2)
        mended.append(True)
        await asked(run, act)
        await until(lambda: len(watch.deaths) == 2)
        await asyncio.sleep(10)
        left.append(sum(len(task.known) for worker in run.workers for task in worker.with_state))
        run.drain()

    watch = Watch(before=before)
    run_topology(topology, workers=2, state_dir=tmp_path, during=during, watch=watch, crashes=[Crash(1 - home)])
    assert left == [0]
    assert run_topology(counting(durability, mended), workers=2, state_dir=tmp_path).clean
