"""Runs that are killed as a whole, with kill -9, and gone on with on their state directory: on one process, on other
numbers of workers, with other numbers of tasks, and as somebody does who has just begun."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from chaos_kit import ENDLESS, KEDGE, WORDS, Outcome, Run, exactly, resumed_at, running, seeded, surroundings

RATE = 3_000  # so that a life is longer than several commits
NEWCOMER = Path(__file__).with_name("newcomer.py")
ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "examples" / "ssh_alerts.py"
LINES = 20_000
COLUMNS = {"failure": "source_ip, at, user, count", "brute_force": "source_ip, failures, first_at, last_at"}


@contextmanager
def killed_in_the_middle(folder: Path, random: Random, **values: Any) -> Iterator[Run]:
    """A run that is killed as a whole, after some thousand messages, while others are in flight."""
    with running(folder, count=ENDLESS, rate=RATE, **values) as run:
        run.until_done(random.randint(2_500, 4_000))
        yield run
        print(f"{run.kill_all_in_flight():,} messages were in flight")


def beyond(folder: Path) -> int:
    """How many records the last run is given: some more than were stored by those before, which had no end."""
    with closing(sqlite3.connect(folder / "store.db")) as store:
        (last,) = store.execute("SELECT max(n) FROM word").fetchone()
    return int(last) + 2_001


def rises(folder: Path) -> None:
    """Fails unless each run has begun further on than the one before."""
    begun = resumed_at(folder)
    print(f"tasks have begun at {begun}")
    assert begun == sorted(set(begun)), f"positions have to have moved: {begun}"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(0, 0, 0), (2, 3, 1)], ids=["one-process", "2-then-3-then-1-workers"])
def test_a_run_that_is_killed_twice_goes_on_where_it_was_f3_f54(folder: Path, workers: tuple[int, ...]) -> None:
    """Also by other numbers of workers, to whom what was kept is given."""
    random = seeded(601)
    for count in workers[:-1]:
        with killed_in_the_middle(folder, random, workers=count, splits=3) as run:
            assert len(run.workers()) == count
    records = beyond(folder)
    with running(folder, count=records, workers=workers[-1], splits=3) as run:
        outcome = run.ended().well()
    exactly(folder, records)
    rises(folder)
    assert "; the last run was interrupted, so its messages in flight are re-read" in outcome.said
    assert outcome.total("emitted") < records - 1_000, "what was done is not read again"


@pytest.mark.slow
def test_the_tasks_of_a_spout_may_change_after_kills_f54(folder: Path) -> None:
    """1, 2, and 1 again: what was another task's is read on from the lowest mark."""
    random = seeded(602)
    for layout in ("together", "both"):
        with killed_in_the_middle(folder, random, layout=layout):
            pass
    records = beyond(folder)
    with running(folder, count=records) as run:
        outcome = run.ended().well()
    exactly(folder, records)
    one, two, three, again = resumed_at(folder)
    assert one == 0
    assert two == three > 0, "both tasks go on where the one was"
    assert again > two
    assert "'numbers' has 1 task in place of 2" in outcome.said


@pytest.mark.slow
def test_the_tasks_of_a_spout_may_change_after_a_drained_stop_f54(folder: Path) -> None:
    """2, 1, and 2 again. Two tasks that share a partition are not as far as each other, and what comes after them
    begins at the lower of their marks: that much is read again and known to the sink, and nothing after one task."""
    outcomes = []
    for layout in ("both", "together"):
        with running(folder, count=ENDLESS, rate=1_000, layout=layout) as run:
            run.until_done(1_000)
            stop(folder)
            outcomes.append(run.ended().well())
    records = beyond(folder)
    with running(folder, count=records, layout="both") as run:
        outcomes.append(run.ended().well())
    exactly(folder, records)
    _, once_more, nothing = (one.known for one in outcomes)
    assert sum(one.total("emitted") for one in outcomes) == records + once_more // WORDS, resumed_at(folder)
    assert nothing == 0
    assert resumed_at(folder)[2] > 0, "nothing was kept"
    assert "was stopped and has drained" in outcomes[0].said


def stop(folder: Path) -> None:
    """`kedge stop --drain`, as a user does it."""
    done = subprocess.run(
        [*KEDGE, "stop", "--drain", "--state-dir", str(folder / "state")],
        cwd=folder,
        env=surroundings(folder, {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


# -- a newcomer's run


@pytest.fixture(scope="module")
def peace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log that the first example is tried on, `auth.log`, and what runs over it store that nobody disturbs, in a
    database named as the table. Not to be changed."""
    folder = tmp_path_factory.mktemp("peace")
    for name in ("r", "books"):
        (folder / name).mkdir(mode=0o700)
    subprocess.run(
        [sys.executable, "-m", "examples.auth_log", str(folder / "auth.log"), "--lines", str(LINES)],
        check=True,
        capture_output=True,
        timeout=60,
        cwd=ROOT,
    )
    for program, table in ((NEWCOMER, "failure"), (ALERTS, "brute_force")):
        values = over(folder, program, store=folder / f"{table}.db")
        with running(folder, workers=0, state=f"{table}-state", **values) as run:
            run.ended().well()
    return folder


def over(peace: Path, program: Path, **values: Any) -> dict[str, Any]:
    """What `running` takes to have this program read the log."""
    surrounded = {"PYTHONPATH": str(ROOT)}
    return {"program": program, "told_folder": False, "path": peace / "auth.log", "environment": surrounded, **values}


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_newcomers_run_over_a_log_is_killed_and_resumed_and_stores_what_an_undisturbed_one_does_f3(
    folder: Path, peace: Path, workers: int
) -> None:
    """Over the log that the first example is tried on; its bolt without state, which a death takes no memory from."""
    outcome = killed_and_resumed(folder, workers, "failure", 500, over(peace, NEWCOMER))
    undisturbed = stored(peace / "failure.db", "failure")
    assert stored(folder / "store.db", "failure") == undisturbed
    assert len(undisturbed) > 2_000
    assert outcome.total("emitted") < LINES - 1_000, "what was done is not read again"


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_the_first_example_is_killed_and_resumed_and_alerts_whom_an_undisturbed_run_alerts_f3_d1_d2(
    folder: Path, peace: Path, workers: int
) -> None:
    """What it had counted is there again, with what that had emitted: no alert is missing, and none comes twice."""
    killed_and_resumed(folder, workers, "brute_force", 5, over(peace, ALERTS))
    alerts, undisturbed = (stored(path, "brute_force") for path in (folder / "store.db", peace / "brute_force.db"))
    assert alerts == undisturbed
    assert len(alerts) > 20


def killed_and_resumed(folder: Path, workers: int, table: str, more: int, values: dict[str, Any]) -> Outcome:
    """Runs it over the log, killed as a whole twice, each time that so many rows more are stored. Returns how that has
    ended, which was well."""
    store = folder / "store.db"
    for _ in range(2):
        enough = len(stored(store, table)) + more
        with running(folder, workers=workers, store=store, rate=4_000, **values) as run:
            run.until(lambda enough=enough: len(stored(store, table)) > enough, f"{more} rows")
            run.kill_all()
    with running(folder, workers=workers, store=store, **values) as run:
        outcome = run.ended().well()
    assert re.search(r"resuming at 'lines' [\d,]{4,} of .*; the last run was interrupted", outcome.said), outcome.said
    return outcome


def stored(path: Path, table: str) -> list[tuple[Any, ...]]:
    """All rows of a store, sorted, but for what names the message; none where there is no table yet."""
    with closing(sqlite3.connect(path)) as store:
        try:
            return sorted(store.execute(f"SELECT {COLUMNS[table]} FROM {table}"))
        except sqlite3.OperationalError:
            return []
