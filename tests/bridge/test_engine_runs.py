"""`kedge run --engine spark`, as people run it: what a bolt raises, and processes of Spark's killed in the middle."""

import contextlib
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from engine_topology import topology
from runs_kit import READER, Run, java_of, runs_of
from spark_kit import needs_spark

pytestmark = [needs_spark, pytest.mark.timeout(600)]

TOPOLOGY = Path(__file__).with_name("engine_topology.py")
BEGIN, RATE = 20, 200  # the first message, and how many come in a second


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    yield from runs_of(TOPOLOGY, tmp_path)


def stored(path: Path) -> dict[str, list[Any]]:
    """All rows, with the keys that their identities are."""
    found: dict[str, list[Any]] = {}
    for file, tables in ((path, ("counted", "total")), (path.with_name(f"{path.name}-odd"), ("odd",))):
        database = sqlite3.connect(file)
        try:
            found |= {table: sorted(database.execute(f"select * from {table}")) for table in tables}
        except sqlite3.OperationalError:
            found |= {table: [] for table in tables}  # not there yet
        finally:
            database.close()
    return found


def bolts_of(driver: psutil.Process) -> list[psutil.Process]:
    """Spark's Python processes. Where they work on something, the batch fails, and the driver begins anew."""
    found = []
    for one in driver.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if {READER, "pyspark.daemon"} & {*one.cmdline()}:
                found.append(one)
    return found


@pytest.mark.slow
def test_a_bolt_that_raises_ends_the_run_with_its_own_traceback(run: Callable[..., Run]) -> None:
    ended = run("--engine spark", "raises=deal")
    assert ended.end() == 1, ended.text()
    assert "raised in 'deal': ValueError: no such number (K501); at Numbered(number=5); on Spark" in ended.text()
    assert "raise ValueError(" in ended.text()
    assert "bridge/engine/stage.py" not in ended.text()


KILLED = [
    pytest.param(["driver"], 6_000, id="driver"),
    pytest.param(["bolts", "driver", "java", "run"], 20_000, id="all"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("victims", "count"), KILLED)
def test_the_output_is_exact_whoever_of_sparks_is_killed_in_the_middle(
    run: Callable[..., Run], tmp_path: Path, victims: list[str], count: int
) -> None:
    """C4, C7: those who run the bolts, the driver and its JVM, one after the other; then the run as a whole."""
    one = run("--engine spark", f"begin={BEGIN}", f"count={count}", f"rate={RATE}")
    beside: list[psutil.Process] = []
    for victim in victims:
        one.until(lambda: 0 < len(one.starts()) <= one.text().count("spark: it is ready"))
        lives, before = len(one.starts()), len(stored(tmp_path / "counted.db")["counted"])
        one.until(lambda before=before: len(stored(tmp_path / "counted.db")["counted"]) > before)  # type: ignore[misc]
        driver = psutil.Process(one.starts()[-1])
        java = java_of(driver)
        beside = [driver, java]
        pids = {"bolts": [bolt.pid for bolt in bolts_of(driver)], "run": [one.process.pid]}
        for pid in {**pids, "driver": [driver.pid], "java": [java.pid]}[victim]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victim in ("driver", "java"):
            one.until(lambda lives=lives: len(one.starts()) > lives)  # type: ignore[misc]
    half = len(stored(tmp_path / "counted.db")["counted"])
    if "run" in victims:
        one.process.wait()
        psutil.wait_procs(beside, timeout=30)
        one = run("--engine spark", f"begin={BEGIN}", f"count={count}")
    one.hurry()
    assert one.end() == 0, one.text()
    (tmp_path / "kedge").mkdir()
    assert topology(str(tmp_path / "kedge" / "counted.db"), count, begin=BEGIN).run().exit_status == 0
    wanted = stored(tmp_path / "kedge" / "counted.db")
    assert 0 < half < len(wanted["counted"]), "they were killed in the middle"
    assert stored(tmp_path / "counted.db") == wanted
