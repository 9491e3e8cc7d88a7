"""The short one of what `make chaos` does: kills, stops, and twice the whole run, counted exactly (F1, F2, F3)."""

from pathlib import Path

from marathon import marathon


def test_rows_and_dead_letters_are_exact_through_kills_of_workers_and_of_the_whole_run_e2_f1_f3(folder: Path) -> None:
    """6,000 records, of which 60 are rejected, and replayed in the end."""
    marathon(folder, seed=61, records=6_000, faults=2, reject=100, each_s=0.5)
