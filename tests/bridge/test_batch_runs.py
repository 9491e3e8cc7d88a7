"""Runs of the command with a batch join in them: its results in a table, once, whatever is killed while it runs.

In `make test-all`; `make test` has a bounded one in `test_spark_elsewhere`, which is on a cluster.
"""

import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from batch_topology import OWNED, numbered
from runs_kit import Run, java_of, runs_of
from spark_kit import needs_spark

pytestmark = [
    needs_spark,
    pytest.mark.slow,
    pytest.mark.timeout(420),
]

TOPOLOGY = Path(__file__).with_name("batch_topology.py")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    yield from runs_of(TOPOLOGY, tmp_path)


def stored(folder: Path) -> list[tuple[int, int, str | None]]:
    database = sqlite3.connect(folder / "counted.db")
    try:
        return sorted(database.execute("select job, number, owner from matched"))
    finally:
        database.close()


def expected(count: int, job: int) -> list[tuple[int, int, str | None]]:
    """The same in plain Python."""
    return [(job, one.number, f"owner {one.number % 7}" if one.number % 7 < OWNED else None) for one in numbered(count)]


def test_a_bounded_run_stores_the_join_of_all_that_it_has_had_and_ends(run: Callable[..., Run], tmp_path: Path) -> None:
    first = run("count=3000")
    assert first.end() == 0, first.text()
    assert stored(tmp_path) == expected(3000, 0)
    assert "matched: job 1 is complete, 3,000 results in " in first.text()


def test_whatever_is_killed_while_a_job_runs_each_result_is_stored_once_and_the_next_run_joins_all_again(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """C7: the driver, its JVM and then the whole run are killed in the middle of the job."""
    first = run("count=20000", "--workers 2")
    for life, victim in enumerate(["python", "java", "run"], start=1):
        driver = first.until_ready(life)
        first.until(lambda life=life: first.text().count("matched: job 1 starts") >= life)  # type: ignore[misc]
        java = java_of(driver)
        {"java": java, "python": driver, "run": first.process}[victim].send_signal(signal.SIGKILL)
        psutil.wait_procs([driver, java], timeout=120)
    first.process.wait()
    assert first.batches("matched") == -1, "no job has been complete"
    second = run("count=20000", "--workers 2")
    assert second.end() == 0, second.text()
    assert stored(tmp_path) == expected(20_000, 0)
    third = run("count=21000")
    assert third.end() == 0, third.text()
    again = sorted(expected(20_000, 1) + expected(21_000, 1))  # C2: other items are other messages
    assert stored(tmp_path) == expected(20_000, 0) + again
