"""From a table through state to a table: each row counts exactly once, whatever is killed."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from live_run import cases, live, patience, until
from postgres_kit import Database
from postgres_source_kit import ItemTable, Mode

pytestmark = pytest.mark.service("postgres")

FILE = Path(__file__).with_name("postgres_source_topology.py")


@pytest.fixture
def settings(database: Database, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("ITEMS_DSN", database.dsn)
    return {"dsn": "env:ITEMS_DSN", "schema": database.schema}


def stored(database: Database) -> int:
    if not database.do(
        "SELECT 1 AS one FROM pg_tables WHERE schemaname = %s AND tablename = 'counted'", database.schema
    ):
        return 0
    (row,) = database.do("SELECT count(*) AS rows FROM counted")
    return int(row["rows"])


def assert_exact(database: Database, count: int) -> None:
    """Each number is there once, and was counted once."""
    found = Counter((row["number"], row["times"]) for row in database.do("SELECT number, times FROM counted"))
    assert {number for number, _ in found} == set(range(1, count + 1))
    assert found == Counter(dict.fromkeys(((number, 1) for number in range(1, count + 1)), 1))


@pytest.mark.parametrize(("count", "killed"), cases("nothing", "a worker", "the whole run"))
@pytest.mark.parametrize("mode", ["growing", "outbox"])
def test_each_row_counts_once_whatever_is_killed(
    database: Database, settings: dict[str, Any], tmp_path: Path, count: int, mode: Mode, killed: str
) -> None:
    table = ItemTable(database, mode).make()
    table.put(range(1, count // 2 + 1))
    settings["outbox"] = "true" if mode == "outbox" else "false"
    with live(FILE, tmp_path, **settings) as run:
        until(lambda: stored(database) >= count // 10, "the first rows", patience(count))
        if killed == "a worker":
            run.kill_worker()
        if killed == "the whole run":
            run.kill_all()
        for begin in range(count // 2 + 1, count + 1, 1_000):
            table.put(range(begin, min(begin + 1_000, count + 1)))
        if killed != "the whole run":
            until(lambda: stored(database) >= count, "all rows", patience(count))
            run.stop()
    if killed == "the whole run":
        with live(FILE, tmp_path, **settings) as again:
            until(lambda: stored(database) >= count, "all rows", patience(count))
            again.stop()
    print((tmp_path / "run.log").read_text())
    assert_exact(database, count)
    left = table.numbers()
    assert left == ([] if mode == "outbox" else [*range(1, count + 1)]), "an outbox is empty at the end, a table is not"


def test_a_run_that_does_not_follow_ends_and_the_next_one_reads_the_rest(
    database: Database, settings: dict[str, Any], tmp_path: Path
) -> None:
    def run() -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "kedge", "run", str(FILE), "--state-dir", str(tmp_path / "state")]
        given = [f"--set={name}={value}" for name, value in {**settings, "follow": "false"}.items()]
        return subprocess.run([*command, *given], capture_output=True, text=True, timeout=100)

    table = ItemTable(database).make()
    for first, last in ((1, 300), (301, 500)):
        table.put(range(first, last + 1))
        done = run()
        assert done.returncode == 0, done.stdout + done.stderr
        assert_exact(database, last)
    database.do("TRUNCATE item RESTART IDENTITY")
    done = run()
    assert done.returncode == 2, done.stdout + done.stderr
    assert "pass another epoch" in done.stderr
    assert "Traceback" not in done.stderr
