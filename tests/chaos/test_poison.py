"""A record that takes its process down, for real: it alone ends dead, and every other one is stored once (E7, F12).

Embedded runs, without workers, die with it; the next run on the same state directory finds it out.
"""

import contextlib
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from chaos_kit import HASTY, Outcome, running

POISONED = Path(__file__).with_name("poisoned.py")
COUNT = 6_000
AT = 2_000


def stored(folder: Path) -> list[int]:
    """The numbers in the store, as often as they are there."""
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as store:
        return [n for (n,) in store.execute("SELECT n FROM word ORDER BY n")]


def dead_in(outcome: Outcome) -> list[int]:
    """The numbers that were told to be dead; a worker's counters may die with it, its letters do not."""
    return sorted(int(n) for n in re.findall(r"message (\d+) of 'numbers' is dead", outcome.said))


def poisoned(folder: Path, *poison: int, within_s: float = 90.0, **values: Any) -> Outcome:
    """Runs it to its end; fails unless exactly the poison is dead, and all the rest is stored once."""
    began = time.monotonic()
    given = ",".join(map(str, poison))
    with running(folder, command=HASTY, program=POISONED, count=COUNT, poison=given, **values) as run:
        outcome = run.ended(within_s)
    print(f"{time.monotonic() - began:.1f} s, {outcome.figures['restarts']} restarts")
    assert outcome.status == 1, outcome.said
    assert outcome.total("pending") == 0, outcome.said
    assert dead_in(outcome) == sorted(poison), outcome.said
    assert stored(folder) == [n for n in range(COUNT) if n not in poison], outcome.said
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("how", ["_exit", "segfault"])
def test_a_record_that_takes_the_other_worker_down_is_dead_after_three_deaths_f12(folder: Path, how: str) -> None:
    outcome = poisoned(folder, AT, where="other", how=how)
    assert outcome.figures["restarts"] == 3
    assert outcome.said.count("K540") == 1


@pytest.mark.slow
def test_a_record_whose_worker_is_killed_for_it_each_time_is_found_though_such_deaths_count_half_f12(
    folder: Path,
) -> None:
    """As the kernel kills who takes too much memory."""
    outcome = poisoned(folder, AT, where="other", how="kill")
    assert outcome.figures["restarts"] == 6


@pytest.mark.slow
def test_two_such_records_are_found_within_the_budget_f12(folder: Path) -> None:
    outcome = poisoned(folder, AT, AT + 300, where="other")
    assert outcome.figures["restarts"] <= 6


@pytest.mark.slow
def test_a_record_that_takes_its_own_spouts_worker_down_is_found_by_the_marks_f12(folder: Path) -> None:
    outcome = poisoned(folder, AT, where="own")
    assert outcome.figures["restarts"] <= 5


def test_a_record_that_takes_down_whoever_gets_it_is_found_f12(folder: Path) -> None:
    poisoned(folder, AT, where="either")


@pytest.mark.slow
def test_two_records_that_take_their_own_spouts_worker_down_are_found_within_the_budget_f12(folder: Path) -> None:
    outcome = poisoned(folder, AT, AT + 300, where="own")
    assert outcome.figures["restarts"] <= 9


@pytest.mark.slow
def test_a_run_without_workers_dies_with_such_a_record_and_later_ones_find_it_f12(folder: Path) -> None:
    """The process is the run; it is the next ones on its state directory that isolate the record. Nobody knows how
    they have died, so each death counts as one by SIGKILL does."""
    lives = 0
    while True:
        with running(folder, program=POISONED, count=COUNT, poison=str(AT), workers=0) as run:
            outcome = run.ended()
        lives += 1
        if outcome.out:
            break
        assert lives <= 12, outcome.said
    print(f"{lives} lives")
    assert outcome.status == 1, outcome.said
    assert dead_in(outcome) == [AT], outcome.said
    assert stored(folder) == [n for n in range(COUNT) if n != AT]
