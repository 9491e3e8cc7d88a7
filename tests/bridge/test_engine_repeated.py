"""A topology on Spark after a death in the middle: timers of a batch that is repeated, segments of timers whose numbers
were taken, and files that somebody has deleted meanwhile. Without Spark."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from engine_kit import Stages

from bridge.engine import counts_and_timers
from bridge.engine.counts_and_timers import CountsAndTimers
from bridge.engine.offsets import checkpoint, missing, newest
from bridge.engine.rows import DueNow, KeyTimers
from bridge.engine.timers_source import TIMERS_INPUT, TimersInput
from bridge.files.input import StreamInput
from bridge.files.query import Epoch, QueryFolder
from bridge.files.segments import Segments
from spouts import Items
from topology import Bolt, Record, State, Topology
from topology.errors import ConfigurationError
from topology.testing import Captured

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
INPUT = "numbers.Numbered"


class Heard(Record):
    host: str


class Late(Bolt):
    """Sets a timer for a time that is past: it is due at once."""

    def process(self, heard: Heard, state: State[int]) -> Iterator[Heard]:
        state.timer(LONG_AGO, "late")
        yield from ()

    def on_timer(self, key: tuple[str], name: str, state: State[int]) -> Iterator[Heard]:
        yield Heard(key[0])


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[Stages]:
    one = Topology("hosts")
    late = one.bolt("late", Late(), one.spout("hosts", Items([Heard("a")])).fields("host"))
    one.bolt("kept", Captured[Heard](), late.global_())
    stages = Stages(one, tmp_path)
    yield stages
    stages.close()


def test_a_timer_for_a_time_that_is_past_is_due_at_one_time_in_all_attempts_at_its_batch(stages: Stages) -> None:
    """B10, D9: Spark keeps the state of one attempt, and the driver the timers of another."""
    stages.batch([(1, 2, Heard("a"))])
    first = stages.timers[0].due
    stages.states.clear()
    stages.batch_started_us -= 1_000
    stages.batch([(1, 2, Heard("a"))])
    assert [one.due for one in stages.timers] == [first, first]
    assert dict(first)["late"] == stages.batch_started_us


def test_a_timer_of_which_the_driver_has_another_time_than_the_state_fires_at_that_of_the_state(
    stages: Stages, tmp_path: Path
) -> None:
    """B10, D9: what earlier releases have left, which had another time in each attempt."""
    book = CountsAndTimers(tmp_path / "book.sqlite")
    stages.batch([(1, 2, Heard("a"))])
    ((name, due),) = stages.timers.pop().due
    (key,) = {group[1][2:] for group in stages.states}  # type: ignore[misc]
    wrong = DueNow("late", key, name, due - 7)
    book.keep(0, {}, [KeyTimers("late", key, ((name, wrong.due),), ())])
    book.fired([wrong])
    assert not stages.batch([], [wrong])["kept"]
    book.keep(1, {}, stages.timers)
    fired = stages.batch([], book.due(2**62))["kept"]
    assert [record for _, _, record in fired] == [Heard("a")]
    book.close()


def test_counts_are_those_of_one_run_in_all_lives_of_its_driver(tmp_path: Path) -> None:
    """A batch that a later run computes again is counted in both, as a message is that Kedge's workers replay there."""
    taken = ("watch", "executed")
    for run, batch, count in (("first", 0, 3), ("first", 0, 3), ("first", 1, 7), ("second", 1, 7), ("second", 2, 1)):
        book = CountsAndTimers(tmp_path / "book.sqlite")
        book.begin(run, -1)
        book.keep(batch, {taken: count}, [])
        counts = book.counts()
        book.close()
        assert counts == {taken: {"first": {0: 3, 1: 10}, "second": {1: 7, 2: 8}}[run][batch]}
    book = CountsAndTimers(tmp_path / "book.sqlite")
    assert [book.begin("third", 4), book.begin("third", 5), book.begin("fourth", 5)] == [4, 4, 5]
    assert not book.counts()
    book.close()


def test_timers_of_the_end_are_given_so_many_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is a segment: with all in one, a batch would have no bound."""
    monkeypatch.setattr(counts_and_timers, "AT_ONCE", 2)
    book = CountsAndTimers(tmp_path / "book.sqlite")
    book.keep(0, {}, [KeyTimers("watch", bytes([key]), (("silent", key),), ()) for key in range(5)])
    book.begin_end("all that there is", ["watch"])
    parts = []
    while part := book.at_end():
        assert all(one.at_end for one in part)
        parts.append([one.due for one in part])
        book.fired(part)
    assert parts == [[0, 1], [2, 3], [4]]
    assert not book.due(2**62)
    book.close()


def test_what_a_timer_sets_that_fires_at_the_end_is_for_the_next_end_whenever_the_driver_died(tmp_path: Path) -> None:
    """B10: it asks once more where it died before the end was settled."""
    book = CountsAndTimers(tmp_path / "book.sqlite")
    book.keep(0, {}, [KeyTimers("watch", b"a", (("silent", 5),), ())])
    book.begin_end("one", ["watch"])
    book.fired(book.at_end())
    book.keep(1, {}, [KeyTimers("watch", b"a", (("silent", 6),), ())])
    book.begin_end("one", ["watch"])
    assert not book.at_end()
    book.begin_end("two", ["watch"])
    assert [one.due for one in book.at_end()] == [6]
    book.begin_end("three", [])
    assert not book.at_end()
    book.close()


def test_a_segment_of_timers_gets_no_number_that_spark_has_read(tmp_path: Path) -> None:
    """F17: `done` is not durable, and segments below it are gone."""
    folder = QueryFolder(tmp_path)
    begun(folder, {"0": 7}, TIMERS_INPUT)
    timers = TimersInput(folder.input(TIMERS_INPUT))
    timers.begin(newest(folder)[TIMERS_INPUT]["0"])
    assert timers.write([DueNow("watch", b"a", "silent", 1)])
    assert Segments(folder.input(TIMERS_INPUT) / "0").numbers() == [7]
    timers.end()
    assert not timers.write([DueNow("watch", b"a", "silent", 1)]), "nothing comes after the end"
    timers.begin(0)
    assert timers.write([DueNow("watch", b"a", "silent", 1)])
    assert Segments(folder.input(TIMERS_INPUT) / "0").numbers() == [7, 8]
    timers.close()


def begun(folder: QueryFolder, read: dict[str, int], name: str = INPUT) -> None:
    """As after a batch that Spark has committed."""
    folder.begin(Epoch())
    for log in ("offsets", "commits"):
        (checkpoint(folder) / log).mkdir(parents=True)
        (checkpoint(folder) / log / "0").write_text(
            f"v1\n{{}}\n{json.dumps({'input': name, 'next': read, 'ended': ''})}"
        )


def handed_over(folder: QueryFolder, count: int) -> None:
    segments = Segments(folder.input(INPUT) / "0")
    segments.open()
    for number in range(count):
        segments.write(number, pa.RecordBatch.from_arrays([pa.array([number])], names=["number"]))
    segments.close()


@pytest.fixture
def book(tmp_path: Path) -> Iterator[CountsAndTimers]:
    book = CountsAndTimers(tmp_path / "book.sqlite")
    yield book
    book.close()


def test_nothing_is_missing_before_the_first_batch_and_after_one(tmp_path: Path, book: CountsAndTimers) -> None:
    folder = QueryFolder(tmp_path)
    assert missing(folder, [INPUT], book, timed=True) == ""
    handed_over(folder, 2)
    assert missing(folder, [INPUT], book, timed=True) == ""
    begun(folder, {"0": 2})
    book.keep(0, {}, [])
    assert missing(folder, [INPUT], book, timed=True) == ""


def test_a_checkpoint_that_was_deleted_is_told_and_not_waited_for(tmp_path: Path, book: CountsAndTimers) -> None:
    folder = QueryFolder(tmp_path)
    handed_over(folder, 2)
    folder.begin(Epoch())
    StreamInput(folder.input(INPUT)).say_done({"0": 1})
    told = missing(folder, [INPUT], book, timed=True)
    assert "is empty, although segments of 'numbers.Numbered' were read" in told


def test_segments_that_were_deleted_are_told(tmp_path: Path, book: CountsAndTimers) -> None:
    folder = QueryFolder(tmp_path)
    handed_over(folder, 2)
    begun(folder, {"0": 3})
    book.keep(0, {}, [])
    told = missing(folder, [INPUT], book, timed=True)
    assert "seg-000000000002.arrow is missing, but the checkpoint has read it" in told


def test_a_book_that_was_deleted_is_told_as_the_timers_were_in_it(tmp_path: Path, book: CountsAndTimers) -> None:
    folder = QueryFolder(tmp_path)
    handed_over(folder, 2)
    begun(folder, {"0": 2})
    assert "book.sqlite is missing, but it held the timers" in missing(folder, [INPUT], book, timed=True)


def test_a_book_that_was_deleted_ends_no_run_of_a_topology_without_timers(
    tmp_path: Path, book: CountsAndTimers
) -> None:
    """Counts were in it, and nothing that the output comes of."""
    folder = QueryFolder(tmp_path)
    handed_over(folder, 2)
    begun(folder, {"0": 2})
    assert missing(folder, [INPUT], book, timed=False) == ""


def test_a_book_that_is_damaged_is_told(tmp_path: Path) -> None:
    (tmp_path / "book.sqlite").write_bytes(b"no book" * 1_000)
    with pytest.raises(ConfigurationError, match=r"book.sqlite can't be read \(file is not a database\)"):
        CountsAndTimers(tmp_path / "book.sqlite")
