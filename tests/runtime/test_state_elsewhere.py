"""What the death of a spout's worker means for state in another worker: nothing (D4)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spouts import Items, Paced
from topology import Bolt, Record, State, Topology
from topology.testing import Captured, Crash, Divergence, run_topology

COUNT, KEYS = 600, 10


class Number(Record):
    key: int
    n: int


class Counted(Record):
    key: int
    count: int


class Count(Bolt):
    def process(self, number: Number, state: State[int]) -> Iterator[Counted]:
        count = state.get(0) + 1
        state.set(count)
        yield Counted(number.key, count)


@pytest.mark.parametrize("seed", range(3))
def test_state_in_other_workers_counts_each_input_once_when_a_spouts_worker_dies_D4(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    topology, captured = Topology("elsewhere"), Captured[Counted]()
    numbers = topology.spout("numbers", Paced(Items([Number(n % KEYS, n) for n in range(COUNT)]), 300.0))
    topology.bolt("captured", captured, topology.bolt("count", Count(), numbers.fields("key"), tasks=2).shuffle())
    crashes = [Crash("numbers", acked=200), Crash("numbers", acked=400)]
    with pytest.raises(Divergence):  # what the dead worker had counted begins anew, and other counts come out
        run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes)
    highest = {key: max(one.count for one in captured.records if one.key == key) for key in range(KEYS)}
    elsewhere = [key for key, count in highest.items() if count == COUNT // KEYS]
    assert max(highest.values()) == COUNT // KEYS, "no key is counted twice"
    assert 0 < len(elsewhere) < KEYS, "some keys were in the other worker, and some began anew"
