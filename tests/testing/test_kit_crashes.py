"""Random topologies whose workers crash, on virtual time: every message has its effect at a sink that drops replays.

State in a dead worker's memory begins anew, so counts are not compared. The same seed gives the same run. A1, A14, A18.
"""

from collections import Counter
from random import Random

import pytest
from random_topologies import draw

from topology.plan import plan
from topology.testing import Crash, CrashMissed, Watch, run_topology

SEEDS = range(40)
HIT_MIN = 30  # of these seeds: a crash of a worker that has nothing to do in its topology hits nothing


def crashed(seed: int) -> bool:
    """Runs a topology and crashes workers of it. Whether all of them were hit."""
    random, workers = Random(seed), 2 + seed % 3
    drawn = draw(seed, share=random.choice([0.0, 0.05]), max_restarts=20, tree_timeout_s=random.choice([5, 30]))
    there = plan(drawn.topology, workers).workers
    at = [(random.choice(there), random.choice([0, random.randrange(drawn.emitted)])) for _ in range(3)]
    crashes = [Crash(worker, acked=acked) for worker, acked in at[: random.randint(1, 3)]]
    watch = Watch()
    try:
        report = run_topology(drawn.topology, seed=seed, workers=workers, crashes=crashes, watch=watch)
        assert report.exit_status == 0, f"seed {seed}: {report.error}"
        assert report.restarts == len(crashes)
    except CrashMissed:
        pass
    assert Counter(drawn.captured.distinct.values()) == drawn.items, f"seed {seed}"
    assert all(not worker.ledger.trees() for worker in watch.workers), f"seed {seed}"
    return len(watch.deaths) == len(crashes)


@pytest.mark.slow
def test_random_topologies_lose_nothing_by_crashes_of_their_workers() -> None:
    hit = sum(crashed(seed) for seed in SEEDS)
    assert hit >= HIT_MIN, f"{hit} of {len(SEEDS)}"


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_gives_the_same_deaths_at_the_same_times(seed: int) -> None:
    def deaths() -> list[str]:
        watch = Watch()
        run_topology(draw(seed, share=0.0).topology, seed=seed, workers=2, crashes=[Crash(0)], watch=watch)
        return [str(one) for one in watch.deaths]

    assert deaths() == deaths() != []
