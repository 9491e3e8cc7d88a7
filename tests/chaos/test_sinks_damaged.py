"""A sink's file that is damaged while a run writes it: the run says so and ends with an error, not with a number of
rows."""

from pathlib import Path

import pytest
from chaos_kit import running
from disks_kit import DISKS

COUNT = 6_000


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["store.db", "store.jsonl"])
def test_a_sink_s_file_that_was_damaged_under_it_ends_the_run_with_an_error_f72(
    folder: Path, workers: int, name: str
) -> None:
    """Where no write comes upon it: in the middle of what was stored first."""
    store = folder / name
    with running(folder, program=DISKS, workers=workers, count=COUNT, rate=2_000, store=store) as run:
        run.until(lambda: store.exists() and store.stat().st_size > 300_000, "some pages")
        with store.open("r+b") as file:
            for place in range(40_960, 300_000, 8_192):
                file.seek(place)
                file.write(b"\xa5" * 4_096)
        outcome = run.ended()
    assert outcome.status != 0, outcome.said
    assert "Traceback" not in outcome.said
    assert "K572" in outcome.said
    assert str(store) in outcome.said
