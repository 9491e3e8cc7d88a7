"""The short one of what `make chaos` does: kills, stops, and twice the whole run, counted exactly (F1, F2, F3)."""

from pathlib import Path

import pytest
from marathon import marathon, marathon_of_states


@pytest.mark.slow
def test_rows_and_dead_letters_are_exact_through_kills_of_workers_and_of_the_whole_run_e2_f1_f3(folder: Path) -> None:
    """6,000 records, of which 60 are rejected, and replayed in the end."""
    marathon(folder, seed=61, records=6_000, faults=2, reject=100, each_s=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("durability", "seed", "tasks"), [("disk", 62, 1), ("process", 63, 2)])
def test_words_are_counted_exactly_through_kills_of_workers_and_of_the_whole_run_d1_d2_d3_d4(
    folder: Path, durability: str, seed: int, tasks: int
) -> None:
    """6,000 records: each word comes to each of its counts once, though no process has lived for all of them."""
    marathon_of_states(folder, seed, records=6_000, faults=3, durability=durability, tasks=tasks, each_s=0.5)
