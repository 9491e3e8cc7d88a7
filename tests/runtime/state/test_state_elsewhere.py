"""What the death of a spout's worker means for state, there and in another worker: nothing (D1, D4)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from spouts import Items, Paced
from topology import Bolt, Record, State, Topology
from topology.testing import Captured, Crash, Watch, run_topology

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
def test_state_counts_each_input_once_when_a_spouts_worker_dies_wherever_it_is_D4(tmp_path: Path, seed: int) -> None:
    """Some keys are in the worker that dies, which begins with what it has kept, and some in the other one."""
    print(f"seed {seed}")
    topology, captured = Topology("elsewhere"), Captured[Counted]()
    numbers = topology.spout("numbers", Paced(Items([Number(n % KEYS, n) for n in range(COUNT)]), 300.0))
    topology.bolt("captured", captured, topology.bolt("count", Count(), numbers.fields("key"), tasks=2).shuffle())
    crashes, watch = [Crash("numbers", acked=200), Crash("numbers", acked=400)], Watch()
    report = run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes, watch=watch)
    assert report.restarts == 2
    assert len({worker.worker for worker in watch.workers if worker.tasks_of("count")}) == 2
    counts = Counter(captured.distinct.values())
    assert counts == Counter(Counted(key, count) for key in range(KEYS) for count in range(1, COUNT // KEYS + 1))
