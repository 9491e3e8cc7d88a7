"""A run that ends while it opens its components leaves what the run before has known. Rules D2, P15."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from durability_kit import COUNT, DURABILITIES, KEYS, Counts, Durability, expected, stored_once
from kept_kit import kept_in, known_in
from letters_kit import until
from runtime_kit import Number, Pair

from spouts import Items, Paced
from topology import Bolt, Config, Task, Topology
from topology.errors import StartError
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, run_topology


class Opening(Counts):
    """Its `open` raises, or does not end, if it is so asked."""

    def __init__(self, how: str) -> None:
        self.how = how

    async def open(self, task: Task) -> None:
        if self.how == "raises":
            raise RuntimeError("no such table")
        if self.how == "hangs":
            await asyncio.Event().wait()


class Holds(Bolt):
    """Passes some pairs on at once, and the others after a second: their messages are in flight for as long."""

    async def process(self, pair: Pair) -> list[Pair]:
        if pair.right % 3 == 0:
            await asyncio.sleep(1.0)
        return [pair]


def counting(durability: Durability, how: str = "works") -> tuple[Topology, Captured[Pair]]:
    topology = Topology("counting", Config(durability=durability, checkpoint_s=0.05))
    numbers = topology.spout("numbers", Paced(Items([Number(n % KEYS) for n in range(COUNT)]), 300.0))
    counts = topology.bolt("counts", Opening(how), numbers.fields("n"))
    held = topology.bolt("holds", Holds(), counts.shuffle(), concurrency=500)
    captured = Captured[Pair]()
    topology.bolt("captured", captured, held.shuffle())
    return topology, captured


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_inputs_in_flight_are_counted_once_after_a_run_whose_open_fails_or_is_cut_short_D2(
    tmp_path: Path, how: str, durability: Durability, workers: int
) -> None:
    topology, first = counting(durability)

    async def aborted(run: EmbeddedRun) -> None:
        await until(lambda: len(first.distinct) >= 100)
        run.abort()

    assert run_topology(topology, workers=workers, state_dir=tmp_path, during=aborted).ended == "aborted"
    known = known_in(tmp_path, "counts")
    assert len(known) > 10

    async def drained(run: EmbeddedRun) -> None:
        await asyncio.sleep(0.1)
        run.drain()

    topology, none = counting(durability, how)
    settings: dict[str, Any] = {"workers": workers, "state_dir": tmp_path}
    if how == "raises":
        with pytest.raises(StartError, match="no such table"):
            run_topology(topology, **settings)
    else:
        assert run_topology(topology, **settings, during=drained).ended == "stopped"
    assert none.distinct == {}
    assert known_in(tmp_path, "counts") == known

    topology, last = counting(durability)
    assert run_topology(topology, workers=workers, state_dir=tmp_path).exit_status == 0
    assert stored_once({**first.distinct, **last.distinct})
    assert kept_in(tmp_path, "counts") == expected()
