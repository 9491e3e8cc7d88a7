"""What a known input sends once more leaves after the log has its new number. Rule P8."""

import asyncio
from pathlib import Path

import pytest
from durability_kit import COUNT, Counts, Durability, expected, stored_once
from kept_kit import kept_in, known_in, through
from letters_kit import until
from runtime_kit import Number, Pair

from spouts import Items
from topology import Bolt, Config, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Watch, run_topology


class Holds(Bolt):
    """Holds all pairs back as long as it is told to."""

    def __init__(self, held: bool) -> None:
        self.held = held

    async def process(self, pair: Pair) -> list[Pair]:
        if self.held:
            await asyncio.sleep(1_000)
        return [pair]


def counting(durability: Durability, held: bool) -> tuple[Topology, Captured[Pair], Captured[Pair]]:
    topology = Topology("counting", Config(durability=durability, checkpoint_s=0.05))
    numbers = topology.spout("numbers", Items([Number(n % 7) for n in range(COUNT)]))
    counts = topology.bolt("counts", Counts(), numbers.fields("n"))
    seen, stored = Captured[Pair](), Captured[Pair]()
    topology.bolt("seen", seen, counts.shuffle())
    holds = topology.bolt("holds", Holds(held), counts.shuffle(), concurrency=500)
    topology.bolt("stored", stored, holds.shuffle())
    return topology, seen, stored


@pytest.mark.parametrize("durability", ["disk", "process"])
def test_a_known_input_sends_again_once_the_log_has_its_new_number_P8(tmp_path: Path, durability: Durability) -> None:
    """Were it acked before that, a death could leave it known under a number that never comes again."""
    topology, first, _ = counting(durability, held=True)

    async def aborted(run: EmbeddedRun) -> None:
        await until(lambda: len(first.distinct) == COUNT)
        run.abort()

    run_topology(topology, state_dir=tmp_path, during=aborted)
    assert len(known_in(tmp_path, "counts")) == COUNT
    topology, seen, stored = counting(durability, held=False)
    before: list[int] = []

    def look(_: object) -> None:
        before.append(len(seen.records))

    with_log = through(takes_s=0.05, **({"synced": look} if durability == "disk" else {"appending": look}))
    report = run_topology(topology, state_dir=tmp_path, watch=Watch(before=with_log))
    assert report.exit_status == 0
    assert before[0] == 0
    assert stored_once(stored.distinct)
    assert kept_in(tmp_path, "counts") == expected()
    assert known_in(tmp_path, "counts") == []
