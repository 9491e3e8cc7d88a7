"""Random topologies on a state directory: whatever fails, dies or is cut short, each input is counted once. D1 to D4.

Each test prints its seed, and the same seed gives the same run.
"""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from kept_kit import kept_in, through
from random_topologies import Item, draw

from topology.plan import plan
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Crash, CrashMissed, Watch, run_topology

SEEDS = range(24)
RUNS_MAX = 12


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_are_exact_though_workers_crash_D1_D2_D3_D4(tmp_path: Path, seed: int) -> None:
    random, workers = Random(seed), 1 + seed % 3
    print(f"seed {seed}, {workers} workers")
    drawn = draw(seed, share=random.choice([0.0, 0.05]), max_restarts=20, tree_timeout_s=random.choice([5, 30]))
    there = plan(drawn.topology, workers).workers
    crashes = [Crash(random.choice(there), acked=random.randrange(drawn.emitted)) for _ in range(random.randint(1, 4))]
    watch = Watch(before=through(takes_s=random.choice([0, 0.001, 0.02])))
    try:
        report = run_topology(
            drawn.topology, seed=seed, workers=workers, crashes=crashes, watch=watch, state_dir=tmp_path
        )
        assert report.exit_status == 0, report.error
    except CrashMissed:
        pass
    assert Counter(drawn.captured.distinct.values()) == drawn.items
    for name, counted in drawn.counted.items():
        assert kept_in(tmp_path, name) == counted, name


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_are_exact_though_runs_are_cut_short_D1_D2_D4_D7(tmp_path: Path, seed: int) -> None:
    """Some are aborted, and some drained, at some moment, each on another number of workers; the last one ends."""
    random = Random(seed)
    print(f"seed {seed}")
    stored: dict[object, Item] = {}
    for part in range(RUNS_MAX):
        drawn = draw(seed, share=random.choice([0.0, 0.05]), drain_timeout_s=0.5)

        async def cut(run: EmbeddedRun, part: int = part) -> None:
            await asyncio.sleep(random.choice([0.01, 0.1, 0.3, 0.6, 1.2, 3.0]))
            if part < RUNS_MAX - 1:
                run.abort() if random.random() < 0.7 else run.drain()

        watch = Watch(before=through(takes_s=random.choice([0, 0.001, 0.02])))
        report = run_topology(
            drawn.topology,
            seed=seed + 100 * part,
            workers=random.choice([1, 2, 3]),
            watch=watch,
            state_dir=tmp_path,
            during=cut,
        )
        for key, item in drawn.captured.distinct.items():
            assert stored.setdefault(key, item) == item
        if report.ended == "ended":
            break
    else:
        pytest.fail("no run has ended")
    drawn = draw(seed)
    assert Counter(stored.values()) == drawn.items
    for name, counted in drawn.counted.items():
        assert kept_in(tmp_path, name) == counted, name
