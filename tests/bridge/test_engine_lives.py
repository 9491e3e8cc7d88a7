"""Lives of a driver, in one run and in several, over the files of one topology on Spark: which timers are for which of
them, what each run has counted, and what the dead have left."""

import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from engine_topology import Numbered
from runs_kit import Run, runs_of
from spark_kit import needs_spark
from test_engine_in_spark import COUNT, Lives, embedded, stored

from bridge.engine.engine import EngineSpark
from bridge.engine.python_process import LEFT_S, FolderNotes, PythonProcess
from bridge.engine.rows import SCHEMA, EngineRow, batch_of, rows_of
from bridge.engine.timers_source import TIMERS_INPUT
from bridge.files.query import QueryFolder
from bridge.files.segments import Segments
from bridge.queries.options import AVAILABLE_NOW, DEFAULT

pytestmark = [needs_spark, pytest.mark.timeout(240)]

TOPOLOGY = Path(__file__).with_name("engine_timed_topology.py")


class Timed(Lives):
    """Of `engine_timed_topology`, in runs that have names."""

    def __init__(self, session: Any, folder: Path, trigger: str = DEFAULT) -> None:
        super().__init__(session, folder, trigger)
        file, given = str(TOPOLOGY), {"store": str(folder / "spark.db")}
        self.again = {"where": file, "attribute": "topology", "file": file, "given": given, "config": {}}

    def begun(self, run: str) -> Any:
        from bridge.engine.run import EngineRunning, Settings

        seat = PythonProcess(self.again, str(self.folder), secrets.token_hex(4), 2)
        running = EngineRunning(self.session, seat, Settings(self.trigger, 2, run), self.said.append)
        running.begin()
        return running

    def until_ended(self, running: Any) -> None:
        self.until(running, lambda: self.query.ended() is not None)

    def numbers(self, *numbers: int) -> None:
        """All that is handed over in a run."""
        self.segments.goes_on()
        self.put([(number, number, Numbered(number)) for number in numbers])
        self.segments.end(self.next)

    def summary(self) -> str:
        return (self.query.folder / "summary").read_text()


def come_due(query: Path) -> int:
    """As if the time of all timers had come meanwhile; how many there are."""
    database = sqlite3.connect(query / "book.sqlite")
    try:
        with database:
            return database.execute("update timers set due = 1").rowcount
    finally:
        database.close()


def fired(query: QueryFolder) -> list[int]:
    """Segments of timers."""
    return Segments(query.input(TIMERS_INPUT) / "0").numbers()


def epoch(query: QueryFolder) -> int:
    found = query.epoch()
    assert found is not None
    return found.number


def with_a_timer_due(session: Any, folder: Path) -> Timed:
    """A run has ended, and its one timer has come due since."""
    lives = Timed(session, folder)
    running = lives.begun("first")
    lives.numbers(1)
    lives.until_ended(running)
    running.close()
    assert come_due(lives.query.folder) == 1
    return lives


@pytest.mark.slow
def test_timers_that_come_due_after_a_runs_end_was_settled_are_for_the_next_run_whenever_the_driver_died(
    session: Any, tmp_path: Path
) -> None:
    """B10, E10: between the notes `closing` and `results/end`, and after both."""
    lives = with_a_timer_due(session, tmp_path)

    (lives.query.results / "end").unlink()  # as a kill before that note leaves it
    for _ in range(2):
        running = lives.begun("first")
        lives.until_ended(running)
        for _ in range(3):
            running.look()
        running.close()
        assert (epoch(lives.query), fired(lives.query)) == (0, [])

    (lives.query.results / "end").unlink()  # the run as a whole
    running = lives.begun("second")
    lives.until(running, lambda: epoch(lives.query) == 1 and lives.query.ended() is not None)
    assert fired(lives.query) == [0]
    running.close()


@pytest.mark.slow
def test_timers_that_are_due_when_inputs_have_ended_fire_before_the_end_is_settled(
    session: Any, tmp_path: Path
) -> None:
    """B10: the driver has no time for a look while the first batch runs, or there are more than a look takes."""
    lives = with_a_timer_due(session, tmp_path)
    running = lives.begun("second")
    lives.until(running, lambda: epoch(lives.query) == 1)
    pause = threading.Event()
    while lives.query.closing() is None:
        pause.wait(0.02)
    lives.until_ended(running)
    assert fired(lives.query) == [0]
    running.close()


@pytest.mark.slow
def test_what_is_said_at_the_end_is_counted_in_that_run_as_elsewhere(session: Any, tmp_path: Path) -> None:
    lives = Timed(session, tmp_path)
    for run, numbers in (("first", (1, 2, 3)), ("second", (4, 5))):
        running = lives.begun(run)
        lives.numbers(*numbers)
        lives.until(running, lambda run=run: epoch(lives.query) == (run == "second"))  # type: ignore[misc]
        lives.until_ended(running)
        assert f'"late: {len(numbers)} in, {len(numbers)} out", "store: {len(numbers)} in"' in lives.summary()
        running.close()


def test_a_run_has_one_name_in_all_lives_of_its_driver_and_another_one_has_another(tmp_path: Path) -> None:
    one, other = EngineSpark({}), EngineSpark({})
    assert one.launch(tmp_path) == one.launch(tmp_path)
    assert one.launch(tmp_path).given != other.launch(tmp_path).given


KILLED = """
import os, signal, sys
from pathlib import Path
from bridge.engine.python_process import FolderNotes
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
FolderNotes(Path(sys.argv[1])).set("opened", "now")
"""


def test_what_killed_processes_have_half_written_goes_when_a_driver_begins(session: Any, tmp_path: Path) -> None:
    """But for what is so young that its writer may still be there."""
    lives = Timed(session, tmp_path, AVAILABLE_NOW)
    left: list[Path] = []
    for folder in (lives.query.folder, lives.query.folder / "notes", lives.query.folder / "away"):
        for _ in range(2):
            killed = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
            assert killed.returncode == -signal.SIGKILL
        old, young = sorted(folder.glob(".tmp-*"))
        os.utime(old, (0, young.stat().st_mtime - LEFT_S - 1))
        left.append(young)
    FolderNotes(lives.query.folder / "notes").set("opened", "before")
    running = lives.begun("first")
    assert sorted(lives.query.folder.rglob(".tmp-*")) == sorted(left)
    assert FolderNotes(lives.query.folder / "notes").get("opened") == "before"
    running.close()


def test_the_rows_of_a_batch_are_made_so_many_at_a_time_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge.engine import run as engine_running

    monkeypatch.setattr(engine_running, "ROWS_AT_ONCE", 10)
    rows = [EngineRow(0, 0, b"", b"", 0, 0, bytes([number * 7 % 25]), b"") for number in range(25)]
    table = pa.Table.from_batches([batch_of(rows[:12]), batch_of(rows[12:])])
    parts = [*engine_running.in_order(table)]
    assert [len(part) for part in parts] == [10, 10, 5]
    assert [row for part in parts for row in part] == sorted(rows_of(table), key=lambda row: row.position)
    assert not [*engine_running.in_order(pa.Table.from_batches([], SCHEMA))]


@pytest.mark.slow
def test_a_batch_may_have_more_than_a_binary_column_has_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge.engine import run as engine_running

    monkeypatch.setattr(engine_running, "ROWS_AT_ONCE", 10)
    mebibyte = bytes(1 << 20)
    part = batch_of(EngineRow(0, 0, b"", b"", 0, 0, b"%05d" % number, mebibyte) for number in range(450))
    rows = next(engine_running.in_order(pa.Table.from_batches([part] * 5)))
    assert [row.position for row in rows] == [b"00000"] * 5 + [b"00001"] * 5
    assert rows[0].record == mebibyte


def test_sinks_that_get_a_batch_in_parts_hold_what_they_hold_after_a_run_of_kedge(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B1, C4."""
    from bridge.engine import run as engine_running

    monkeypatch.setattr(engine_running, "ROWS_AT_ONCE", 7)
    messages, wanted = embedded(tmp_path)
    lives = Lives(session, tmp_path, AVAILABLE_NOW)
    running = lives.begin()
    lives.put(messages)
    lives.segments.end(lives.next)
    lives.until(running, lambda: lives.query.ended() is not None)
    assert stored(tmp_path / "spark.db") == wanted
    assert len(wanted["counted"]) > COUNT
    running.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    yield from runs_of(TOPOLOGY, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_once_the_end_is_settled_begins_no_epoch_in_its_next_life(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """As above, by a kill: a sink that does not close holds the driver there."""
    one = run("--engine spark", f"lasting={tmp_path}")
    query = QueryFolder(tmp_path / "state" / "kept" / "spark" / "engine")
    one.until((tmp_path / "closes").exists)
    assert query.closing() is not None
    assert query.ended() is None
    driver = psutil.Process(one.starts()[-1])
    os.kill(driver.pid, signal.SIGKILL)
    psutil.wait_procs([driver], timeout=30)
    assert come_due(query.folder) == 3
    (tmp_path / "go").touch()
    assert one.end() == 0, one.text()
    assert len(one.starts()) == 2
    assert (epoch(query), fired(query)) == (0, [])
    assert "late: 3 in, 3 out" in one.text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_with_nothing_new_does_not_tell_the_counts_of_the_one_before_as_its_own(run: Callable[..., Run]) -> None:
    """With workers of their own, as each of these would draw another name of the run."""
    first = run("--engine spark", "--workers 2")
    assert first.end() == 0, first.text()
    assert "late: 3 in, 3 out" in first.text()
    second = run("--engine spark", "--workers 2")
    assert second.end() == 0, second.text()
    assert "spark: no new records were handed over" in second.text()
    assert "late: 3 in" not in second.text()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("trigger", [DEFAULT, AVAILABLE_NOW])
def test_timers_that_came_due_between_two_runs_fire_in_the_second_where_that_has_nothing_new(
    run: Callable[..., Run], tmp_path: Path, trigger: str
) -> None:
    """B10: as in Kedge's workers. The third has nothing to wait for."""
    query = QueryFolder(tmp_path / "state" / "kept" / "spark" / "engine")
    given = ("--engine spark", f"--trigger {trigger}")
    assert run(*given).end() == 0
    assert come_due(query.folder) == 3
    for said in ("spark: late: 0 in", "spark: no new records were handed over"):
        one = run(*given)
        assert one.end() == 0, one.text()
        assert (epoch(query), fired(query)) == (1, [0])
        assert said in one.text()
