"""Runs with other numbers of tasks and of workers, everything killed in between: each word's count goes on where it
was, in whichever task and process, and no input that is read again is counted again (D2, D7)."""

from pathlib import Path
from typing import Any

import pytest
from chaos_kit import HASTY, running, seeded
from tallied_kit import tallied_exactly

TALLIED = Path(__file__).with_name("tallied.py")
RECORDS = 6_000


@pytest.mark.slow
def test_words_are_counted_exactly_over_2_3_and_1_tasks_and_workers_d2_d7(folder: Path) -> None:
    random, again = seeded(901), 0
    for counts, workers in ((2, 2), (3, 3), (1, 1), (3, 2)):
        values: dict[str, Any] = {"count": RECORDS, "rate": 1_000, "counts": counts}
        with running(folder, program=TALLIED, command=HASTY, workers=workers, **values) as run:
            run.until_done(random.randint(500, 900))
            assert len(run.workers()) == workers
            again += run.kill_all_in_flight()
    assert again > 0, "nothing was read again"
    with running(folder, program=TALLIED, workers=2, count=RECORDS, counts=2) as run:
        run.ended().well()
    tallied_exactly(folder, RECORDS)
