"""What a run with `--engine spark` says at its end of Spark's part: what its own driver has counted, and not what
that of the run before has; and which timers it waits for before that. Without Spark."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

from spark_kit import HandedOver

from bridge.engine.counts_and_timers import FILE, CountsAndTimers
from bridge.engine.engine import EngineSpark
from bridge.engine.handover import QUERY, SUMMARY, Outcomes, keep_summary
from bridge.engine.rows import KeyTimers
from bridge.files.query import Epoch, QueryFolder
from bridge.handover.results import query_folder
from topology import Record
from topology.components import Task
from topology.errors import ConfigurationError
from topology.runtime.state.value import due_of
from topology.storage.directory.state_dir import MemoryNotes

INPUT = "lines.Line"
COUNTED = ["parse: 5 in, 5 out"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
STOPPED = ["it stopped before the end of the records that were handed over; the next run resumes there"]


class Line(Record):
    text: str


class Runs:
    """Runs on one folder, with the driver and the hand-over played by the test."""

    def __init__(self, folder: Path) -> None:
        self.base = folder
        self.folder = QueryFolder(query_folder(folder, QUERY))
        self.folder.begin(Epoch())
        self.input = HandedOver(self.folder.folder, INPUT)
        self.notes = MemoryNotes()
        self.outcomes = self.begun()
        self.input.put([Line("one")])

    def begun(self) -> Outcomes:
        """One more run begins, and this is what one of its workers has."""
        self.run: str = json.loads(EngineSpark({}).launch(self.base).given)["run"]
        self.input.begin()
        self.outcomes = Outcomes([INPUT], timed=True)
        clock: Any = SimpleNamespace(utc=lambda: NOW)
        task = Task("t", "spark", 0, 1, clock, Random(0), self.notes, folder_of=lambda: self.base)
        self.outcomes.open(task, {})
        return self.outcomes

    def end(self, epoch: int = 0) -> None:
        """As the driver tells it."""
        self.input.end()
        keep_summary(self.folder.folder, self.run, COUNTED)
        self.folder.end(Epoch(epoch), {INPUT: {"0": self.input.next[0]}})

    def book(self) -> CountsAndTimers:
        """The driver's."""
        return CountsAndTimers(self.folder.folder / FILE)

    def timer(self, due: datetime) -> None:
        """Set in the run that is under way, in its last batch."""
        book = self.book()
        book.begin(self.run, -1)
        book.keep(0, {}, [KeyTimers("watch", b"a", (("silent", due_of(due)),), ())])
        book.close()


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_a_run_says_at_its_end_what_its_own_driver_has_counted(runs: Runs) -> None:
    """In the first run, and in one that has taken up what another one has left."""
    runs.begun()
    assert runs.outcomes.summary() == STOPPED
    runs.end()
    assert runs.outcomes.summary() == COUNTED


async def test_a_run_with_nothing_new_does_not_tell_the_counts_of_the_one_before_as_its_own(runs: Runs) -> None:
    runs.end()
    runs.begun()
    runs.input.end()
    assert await runs.outcomes.poll(1) == [], "it is complete before a driver has begun"
    assert runs.outcomes.summary() == ["no new records were handed over"]


@pytest.mark.parametrize("content", ["", "{", '{"run": "a'])
def test_a_summary_that_can_not_be_read_is_told_with_its_file(runs: Runs, content: str) -> None:
    runs.begun()
    (runs.folder.folder / SUMMARY).write_text(content)
    with pytest.raises(ConfigurationError, match=f"{SUMMARY} can't be read"):
        runs.outcomes.summary()


def test_a_summary_without_a_run_is_of_none(runs: Runs) -> None:
    runs.begun()
    (runs.folder.folder / SUMMARY).write_text("{}")
    assert runs.outcomes.summary() == STOPPED


async def test_timers_that_came_due_between_two_runs_are_waited_for_in_a_run_with_nothing_new(runs: Runs) -> None:
    """B10: they fire at the next start, as elsewhere; which of their driver's steps is the last one so far, makes no
    difference."""
    runs.timer(NOW - timedelta(seconds=1))
    runs.end()
    runs.begun()
    runs.input.end()
    poll = asyncio.create_task(runs.outcomes.poll(1))
    await asyncio.sleep(0)
    assert not poll.done(), "there is no driver yet"
    book = runs.book()
    book.begin(runs.run, 0)
    assert not await looked(runs), "it is about to begin an epoch for them"
    runs.folder.begin(Epoch(1))
    book.fired(book.due(due_of(NOW)))
    assert not await looked(runs), "they are on their way"
    runs.end(1)
    assert await poll == []
    assert runs.outcomes.summary() == COUNTED
    book.close()


async def looked(runs: Runs) -> bool:
    """Whether another look finds the run to be complete."""
    poll = asyncio.create_task(runs.outcomes.poll(1))
    await asyncio.sleep(0)
    return poll.done() or not poll.cancel()


async def test_a_book_that_can_not_be_read_is_for_the_driver_to_tell_of(runs: Runs) -> None:
    runs.end()
    runs.begun()
    runs.input.end()
    (runs.folder.folder / FILE).write_bytes(b"no book" * 1_000)
    assert not await looked(runs)


@pytest.mark.parametrize("at_s", [-1, 1], ids=["due at the end", "due later"])
async def test_a_run_does_not_wait_for_timers_of_a_later_run(runs: Runs, at_s: int) -> None:
    """B10, E10: those that come due once the end of its epoch is settled, and those that are not due when there is
    nothing new."""
    runs.timer(NOW + timedelta(seconds=at_s))
    runs.end()
    if at_s > 0:
        runs.begun()
        runs.input.end()
    assert await looked(runs)


@pytest.mark.parametrize("driver_begins", [False, True])
def test_a_run_that_ends_before_its_driver_is_through_says_so_and_nothing_of_the_one_before(
    runs: Runs, driver_begins: bool
) -> None:
    """The driver of the first run has left its counts where they were."""
    runs.end()
    runs.begun()
    runs.input.put([Line("two")])
    if driver_begins:
        runs.folder.begin(Epoch(1))
    assert runs.outcomes.summary() == STOPPED


def test_what_an_earlier_release_has_counted_is_of_no_run_that_goes_on_here(runs: Runs) -> None:
    runs.end()
    (runs.folder.folder / SUMMARY).write_text(json.dumps(COUNTED))
    runs.begun()
    assert runs.outcomes.summary() == ["no new records were handed over"]


def test_only_the_first_life_of_a_runs_driver_writes_its_name(tmp_path: Path) -> None:
    """The next one may find no room for it, and would be given up."""
    one = EngineSpark({})
    one.launch(tmp_path)
    path = query_folder(tmp_path, QUERY) / "run"
    first = path.stat().st_ino
    one.launch(tmp_path)
    assert path.stat().st_ino == first
    EngineSpark({}).launch(tmp_path)
    assert path.stat().st_ino != first
