"""Each process that a record passes on its way through Spark is killed in the middle of many numbered records: what is
stored is exact each time, of a query of one's own, of `windowed` and of `joined`.

In `make test-all`, as each run takes a minute; `test_spark_runs` has a short one for the suite.
"""

import contextlib
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from cluster_kit import standalone
from killed_topology import EVERY, FIRST, KEYS, OWNERS
from runs_kit import PLANNER, READER, Run, java_of, python_of, runs_of
from spark_kit import needs_spark

RECORDS: Final = int(os.environ.get("KEDGE_TEST_RECORDS", "60_000"))  # `make chaos` takes 200,000
RATE: Final = 200  # a second, of those that wait for the next to be killed: so that there is a middle for each
WITHIN_S: Final = 400.0

pytestmark = [
    needs_spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    yield from runs_of(Path(__file__).with_name("killed_topology.py"), tmp_path)


def asked(path: Path, sql: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(path)
    try:
        return database.execute(sql).fetchall()
    except sqlite3.OperationalError:
        return []  # the table is not there yet
    finally:
        database.close()


def start_of(number: int) -> str:
    at = FIRST + timedelta(seconds=number // EVERY * EVERY)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def exact(folder: Path, count: int = RECORDS) -> None:
    """All that is stored, against plain Python: each number once, in its window, whose count and sum are right."""
    windows = [[*numbers] for _, numbers in groupby(range(count), lambda one: one // EVERY)]
    members = [(start_of(one), len(window), sum(window), one) for window in windows for one in window]
    assert sorted(asked(folder / "counted.db", "select start, count, total, number from member"), key=last) == members
    keyed = [
        (window[0], key, [one for one in window if one % KEYS == key]) for window in windows for key in range(KEYS)
    ]
    bounds = [(start_of(start), f"key{key}", len(own), sum(own), own[0], own[-1]) for start, key, own in keyed if own]
    found = asked(folder / "counted-bounds.db", "select start, key, count, total, least, most from bounds")
    assert sorted(found) == bounds
    known = [(one, f"key{one % KEYS}", OWNERS.get(f"key{one % KEYS}")) for one in range(count)]
    assert sorted(asked(folder / "counted-known.db", "select number, key, owner from known")) == known


def last(row: tuple[Any, ...]) -> Any:
    return row[-1]


def handing_over(run: Run) -> psutil.Process | None:
    """A worker that writes segments of a hand-over."""
    for one in psutil.Process(run.process.pid).children():
        if any("/stream/" in file.path and file.path.endswith("/lock") for file in one.open_files()):
            return one
    return None


def driver_of(run: Run) -> psutil.Process:
    return psutil.Process(run.starts()[-1])


VICTIMS: Final[dict[str, Callable[[Run], psutil.Process | None]]] = {
    "a hand-over's worker": handing_over,
    "the driver's Python": driver_of,
    "its JVM": lambda run: java_of(driver_of(run)),
    "who reads for Spark": lambda run: python_of(driver_of(run), READER),
    "who plans what is read": lambda run: python_of(driver_of(run), PLANNER),
}


def kill(run: Run, victim: str) -> None:
    """Once it is there: who died before it may have taken it along, and it comes again."""

    def killed() -> bool:
        with contextlib.suppress(psutil.Error, StopIteration):
            if (one := VICTIMS[victim](run)) is not None:
                one.kill()
                psutil.wait_procs([one], timeout=30)
                return True
        return False

    run.until(killed)


def has_gone_on(run: Run, since: int) -> bool:
    """Whether there are results of batches after this one, and the driver's present life has begun to work."""
    return run.batches("known") > since and len(run.starts()) <= run.text().count("spark: it is ready")


# Each is killed twice, the second time in the life that began after the first; a run begins and ends once for several.
ONE_BY_ONE: Final = {
    "who gives to Spark, and the driver": ("a hand-over's worker", "the driver's Python", "its JVM"),
    "who reads in Spark": ("who reads for Spark", "who plans what is read"),
}


@pytest.mark.parametrize("victims", ONE_BY_ONE)
def test_all_numbers_are_in_their_windows_once_whoever_is_killed_in_the_middle(
    run: Callable[..., Run], tmp_path: Path, victims: str
) -> None:
    """C4, C7, D16: each once there are further results, and before the last record."""
    one = run(f"rate={RATE}", f"count={RECORDS}", "--workers 2")
    one.until_ready(1)
    listed = [victim for victim in ONE_BY_ONE[victims] for _ in range(2)]
    for at, victim in enumerate(listed, start=1):
        before = one.batches("known")
        one.hurry(RECORDS * at // (len(listed) + 1))
        one.until(lambda before=before: has_gone_on(one, before), WITHIN_S)  # type: ignore[misc]
        kill(one, victim)
        stored = len(asked(tmp_path / "counted-known.db", "select number from known"))
        print(f"killed {victim} with {stored:,} of them stored")
        assert stored < RECORDS, "it was killed in the middle"
    one.hurry()
    assert one.end(WITHIN_S) == 0, one.text()
    exact(tmp_path)


def executors() -> list[psutil.Process]:
    """Of a cluster that this process has started."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in one.cmdline()):
                found.append(one)
    return found


@pytest.mark.cluster
def test_all_numbers_are_in_their_windows_once_when_executors_of_a_cluster_are_killed_in_the_middle(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """C4, C7, D16."""
    with standalone(tmp_path) as master:
        settings = [f"--spark {master}", "--spark-conf spark.executor.memory=512m", "--workers 2"]
        one = run(f"rate={RATE}", f"count={RECORDS}", *settings)
        one.until_ready(1)
        for at in (1, 2):
            before = one.batches("known")
            one.hurry(RECORDS * at // 3)
            one.until(lambda before=before: one.batches("known") > before, WITHIN_S)  # type: ignore[misc]
            one.until(lambda: bool(executors()))
            killed = executors()[0]
            killed.send_signal(signal.SIGKILL)
            psutil.wait_procs([killed], timeout=30)
            stored = len(asked(tmp_path / "counted-known.db", "select number from known"))
            assert stored < RECORDS, "it was killed in the middle"
        one.hurry()
        assert one.end(WITHIN_S) == 0, one.text()
    exact(tmp_path)
