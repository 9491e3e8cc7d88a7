"""A run in which nothing happens writes nothing, whatever it knows. Rule P16."""

import asyncio
from pathlib import Path

import pytest
from durability_kit import DURABILITIES, Counts, Durability
from letters_kit import until
from runtime_kit import Number, Pair

from topology import Bolt, Config, Reject, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Pause, ScriptedSpout, run_topology

IDLE_S = 60


class Refuses(Bolt):
    """Rejects some pairs, below a bolt that has counted their inputs: these are known as long as the letters stay."""

    def process(self, pair: Pair) -> list[Pair]:
        if pair.left == 3:
            raise Reject("no threes")
        return [pair]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("durability", DURABILITIES)
def test_an_idle_run_takes_no_checkpoints_though_inputs_of_dead_letters_are_known(
    tmp_path: Path, durability: Durability, workers: int
) -> None:
    script = [*(Number(n % 7) for n in range(50)), Pause(IDLE_S)]
    topology = Topology("idle", Config(durability=durability))
    numbers = topology.spout("numbers", ScriptedSpout[Number](script, emits=(Number,)))
    counts = topology.bolt("counts", Counts(), numbers.fields("n"), tasks=2)
    refuses = topology.bolt("refuses", Refuses(), counts.shuffle())
    topology.bolt("captured", Captured[Pair](), refuses.shuffle())
    taken: list[int] = []

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: (seen := run.snapshot()) is not None and seen.total("dead") == 7)
        await asyncio.sleep(5)
        for _ in range(2):
            snapshot = run.snapshot()
            assert snapshot is not None
            assert snapshot.checkpoint is not None
            taken.append(snapshot.checkpoint.taken)
            await asyncio.sleep(20)

    report = run_topology(topology, workers=workers, state_dir=tmp_path, during=look)
    assert report.snapshot.total("dead") == 7
    assert taken[0] == taken[1]
