"""What a user's code raises in a topology on Spark: told of the component that has raised it, with the user's own
traceback, wherever it has run; and what is left for the next batch, none of it."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Never

import pytest

from bolts import SqliteSink
from bridge.engine.mapping import mapped
from bridge.engine.python_process import FolderNotes
from bridge.engine.rows import DueNow, EngineRow, position_of, row_of
from bridge.engine.sinks import Sinks
from bridge.engine.stage import LazyState, Routing, StageBolts
from bridge.engine.user_errors import ComponentRaised, RaisedNotes, at_input, error_lines
from spouts import Items
from topology import Bolt, Collector, Config, Record, State, Task, Topology, Tuple
from topology.core.source import Source
from topology.errors import ConfigurationError, WorkerError
from topology.records import encode
from topology.runtime.clock import LoopClock


class Numbered(Record):
    number: int


class Other(Record):
    text: str


class Raising(Bolt):
    """Raises in the method that it is told."""

    def __init__(self, where: str) -> None:
        self.where = where

    def open(self, task: Task) -> None:
        self._raise("open")

    def process(self, given: Numbered) -> Iterator[Numbered]:
        self._raise("process")
        if self.where == "exits":
            raise SystemExit(3)
        if self.where == "misconfigured":
            raise ConfigurationError("no such table")
        if self.where == "undeclared":
            yield Other("a")  # type: ignore[misc]
        yield given

    def close(self) -> None:
        self._raise("close")

    def _raise(self, where: str) -> None:
        if self.where == where:
            raise ValueError("no such number")


class Keeping(Bolt):
    async def process(self, given: Numbered, state: State[int]) -> list[Numbered]:
        await asyncio.sleep(0)
        state.set("one")  # type: ignore[arg-type]
        return []


class Taking(Bolt):
    """A sink that raises where it is told."""

    def __init__(self, where: str = "") -> None:
        self.where = where
        self.closed = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> "Taking":
        return self

    def open(self, task: Task) -> None:
        if self.where == "open":
            raise KeyError("no such table")

    def process(self, given: Numbered) -> None:
        if self.where == "process":
            raise ValueError("no such number")
        if self.where == "exits":
            raise SystemExit(3)

    def summary(self) -> Iterator[str]:
        if self.where == "summary":
            raise ValueError("no summary")
        yield "taken"

    def close(self) -> None:
        self.closed += 1
        if self.where == "close":
            raise ValueError("not closed")


class Holding(Bolt):
    """A sink that answers for what it holds once it holds three, and has raised for the number 99 before."""

    def __init__(self) -> None:
        self.held: list[tuple[Tuple[Any], Collector[Never]]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Holding":
        return self

    def execute(self, tup: Tuple[Numbered], out: Collector[Never]) -> None:
        if tup.record.number == 99:
            raise ValueError("no such number")
        self.held.append((tup, out))
        if len(self.held) == 3:
            while self.held:
                one, collector = self.held.pop()
                collector.ack(one)


@pytest.fixture
def task() -> Iterator[Callable[..., Task]]:
    """What `open` is given."""
    loop = asyncio.new_event_loop()
    yield lambda name, index=0: Task("raising", name, index, 1, LoopClock(loop), Random(0), FolderNotes(Path("none")))
    loop.close()


def routed(*, bolt: Any = None, sinks: dict[str, Any] | None = None) -> Routing:
    one = Topology("raising", Config(tree_timeout_s=0.2))
    stream = one.spout("numbers", Items([Numbered(1)]))
    if bolt is not None:
        stream = one.bolt("it", bolt, stream.fields("number"))
    for name, sink in (sinks or {"sink": Taking()}).items():
        one.bolt(name, sink, stream.shuffle())
    return Routing(mapped(one))


def rows(*numbers: int, to: int = 0) -> list[EngineRow]:
    found = []
    for place, number in enumerate(numbers):
        tup = Tuple(Numbered(number), number, number, 0, (), Source("numbers", "Numbered"))
        found.append(row_of(tup, to, 0, b"", b"", position_of(place, 0, 0, 0), encode(tup.record)))
    return found


@pytest.fixture
def sinks_of(task: Callable[..., Task]) -> Iterator[Callable[..., Sinks]]:
    made: list[Sinks] = []

    def sinks_of(**sinks: Any) -> Sinks:
        made.append(Sinks(routed(sinks=sinks), [(name, 0) for name in sinks], task))
        return made[-1]

    yield sinks_of
    for one in made:
        one.close()
        one.end()


# -- bolts


@pytest.fixture
def raised_by(task: Callable[..., Task]) -> Iterator[Callable[[Any], BaseException]]:
    """What comes of a bolt that is opened, given one row and closed."""
    loop = asyncio.new_event_loop()

    def raised_by(bolt: Any) -> BaseException:
        routing = routed(bolt=bolt)
        part = StageBolts(routing, 1, task, loop)
        with pytest.raises(BaseException) as caught:  # noqa: PT011, PT012  # whatever it is
            part.open()
            list(part.take(rows(5), LazyState()))
            part.close()
        return caught.value

    yield raised_by
    loop.close()


@pytest.mark.parametrize(
    ("bolt", "said", "last"),
    [
        (Raising("open"), "'it' could not be opened: ValueError: no such number", "ValueError: no such number"),
        (
            Raising("process"),
            "raised in 'it': ValueError: no such number (K501); at Numbered(number=5); on Spark",
            None,
        ),
        (Raising("exits"), "raised in 'it': SystemExit: 3 (K501); at Numbered(number=5); on Spark", None),
        (
            Raising("misconfigured"),
            "raised in 'it': ConfigurationError: no such table (K501); at Numbered(number=5); on Spark",
            "topology.errors.ConfigurationError: no such table",
        ),
        (Raising("close"), "raised in 'it': close: ValueError: no such number (K501)", None),
        (Raising("undeclared"), "could not emit in 'it': ", None),
        (Keeping(), "could not emit in 'it': 'it' set its state to 'one'; by its annotation it is a int", None),
    ],
    ids=lambda one: getattr(one, "where", None),
)
def test_what_a_bolt_raises_is_told_of_that_bolt_with_the_users_frames_first(
    raised_by: Callable[[Any], BaseException], bolt: Any, said: str, last: str | None
) -> None:
    text, lines = error_lines(raised_by(bolt))
    assert text.startswith(said), text
    if not text.startswith("could not emit"):
        assert __file__ in lines[1], "the first frame is the user's"
        assert "engine_parts" not in "\n".join(lines)
    if last is not None:
        assert lines[-1] == last


def test_a_record_with_values_of_other_types_is_told_of_who_has_emitted_it(sinks_of: Callable[..., Sinks]) -> None:
    sinks = sinks_of(sink=Taking())
    sinks.open()
    (row,) = rows(5)
    with pytest.raises(ComponentRaised) as caught:
        sinks.take([row._replace(record=encode(Other("five")))])
    text, _ = error_lines(caught.value)
    assert text.startswith("could not emit in 'numbers': the bytes of a Numbered can't be decoded: Expected `int`")
    assert "; at a Numbered for 'sink'; " in text


def test_what_a_record_is_raised_at_says_what_to_do_about_it(raised_by: Callable[[Any], BaseException]) -> None:
    text, _ = error_lines(raised_by(Raising("process")))
    assert text.endswith("which makes a dead letter; the next run resumes at this batch")
    due = DueNow("it", b"", "silent", 1)
    assert "; at its timer 'silent'; " in error_lines(at_input("it", "on_timer", ValueError("no"), due))[0]


# -- sinks


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("process", "raised in 'sink': ValueError: no such number (K501); at Numbered(number=5); on Spark"),
        ("exits", "raised in 'sink': SystemExit: 3 (K501); at Numbered(number=5)"),
    ],
)
def test_what_a_sink_raises_is_told_of_that_sink_with_the_users_frames_first(
    sinks_of: Callable[..., Sinks], where: str, said: str
) -> None:
    sinks = sinks_of(sink=Taking(where))
    sinks.open()
    with pytest.raises(ComponentRaised) as caught:
        sinks.take(rows(5))
    text, lines = error_lines(caught.value)
    assert text.startswith(said)
    assert __file__ in lines[1], "the first frame is the user's"


def test_a_sink_that_can_not_be_opened_is_named_and_those_that_were_open_are_closed(
    sinks_of: Callable[..., Sinks],
) -> None:
    first = Taking()
    sinks = sinks_of(first=first, second=Taking("open"))
    with pytest.raises(ComponentRaised) as caught:
        sinks.open()
    assert error_lines(caught.value)[0] == "'second' could not be opened: KeyError: 'no such table'"
    assert first.closed == 1


@pytest.mark.parametrize(
    ("where", "said"), [("summary", "summary: ValueError: no"), ("close", "close: ValueError: no")]
)
def test_what_a_sink_raises_at_the_end_keeps_no_other_from_being_closed(
    sinks_of: Callable[..., Sinks], where: str, said: str
) -> None:
    """F9."""
    bad, others = Taking(where), [Taking(), Taking()]
    sinks = sinks_of(before=others[0], bad=bad, after=others[1])
    sinks.open()
    summaries, (raised,) = sinks.close()
    assert error_lines(raised)[0].startswith(f"raised in 'bad': {said}")
    assert [one.closed for one in (bad, *others)] == [1, 1, 1]
    assert summaries["before"] == summaries["after"] == ["taken"]


def test_a_batch_that_is_given_again_after_one_that_failed_waits_for_nothing_of_that(
    sinks_of: Callable[..., Sinks],
) -> None:
    """As a process of Spark's lives on when a task of it has failed, and Spark tries that again."""
    sinks = sinks_of(sink=Holding())
    sinks.open()
    with pytest.raises(ComponentRaised):
        sinks.take(rows(1, 99))
    assert sinks.take(rows(1, 2)) == ({("sink", "executed"): 2}, [])


def test_a_sink_that_answers_for_nothing_is_told_and_ends_the_batch(sinks_of: Callable[..., Sinks]) -> None:
    """A9: with nothing to come before the batch is done, it would hold its tuples for ever."""
    sinks = sinks_of(sink=Holding())
    sinks.open()
    with pytest.raises(ComponentRaised) as caught:
        sinks.take(rows(1, 2))
    text, _ = error_lines(caught.value)
    assert "raised in 'sink': execute: TimeoutError: 2 tuples were neither acked nor failed within 0.2 s; on" in text
    assert "add a flush(self, out)" in text


# -- from one of Spark's processes to the driver


def test_a_note_is_for_its_own_life_of_the_driver_until_the_batch_is_whole(tmp_path: Path) -> None:
    """A task that Spark has tried again, and that went well then, is not what a later death is laid to."""
    notes = RaisedNotes(tmp_path, "now")
    assert notes.read() == ("", [])
    notes.forget()
    notes.write(ComponentRaised("it", "open", ValueError("no")))
    assert notes.read()[0] == "'it' could not be opened: ValueError: no"
    assert RaisedNotes(tmp_path, "later").read() == ("", [])
    RaisedNotes(tmp_path, "later").write(ComponentRaised("it", "close", ValueError("no")))
    assert notes.read()[0] == "'it' could not be opened: ValueError: no", "whoever else writes"
    RaisedNotes(tmp_path, "later").forget()
    notes.forget()
    assert notes.read() == ("", [])
    assert not [*tmp_path.iterdir()]


def test_a_life_removes_what_those_before_it_have_left(tmp_path: Path) -> None:
    for life in ("one", "two"):
        RaisedNotes(tmp_path, life).write(ComponentRaised("it", "open", ValueError("no")))
    (tmp_path / "raised").write_text("{}")  # as an earlier release has called it
    (tmp_path / "epoch").write_text("{}")
    RaisedNotes(tmp_path, "three").sweep()
    assert [one.name for one in tmp_path.iterdir()] == ["epoch"]


def test_of_what_a_user_can_not_mend_there_is_no_note(tmp_path: Path) -> None:
    for error in (RuntimeError("ours"), ConnectionError("Spark's")):
        assert error_lines(error) == ("", [])
        RaisedNotes(tmp_path, "now").write(error)
    assert not [*tmp_path.iterdir()]
    assert error_lines(ConfigurationError("env:DSN is not set"))[0] == "env:DSN is not set"


def test_a_store_that_is_broken_in_one_of_sparks_processes_is_told_in_a_sentence_with_what_to_do(
    sinks_of: Callable[..., Sinks], tmp_path: Path
) -> None:
    """F18: it ends the run. Of one in the driver nothing is told so, as the driver's next life reads what is there."""
    path, notes = tmp_path / "numbers.db", RaisedNotes(tmp_path, "now")
    sinks = sinks_of(sink=SqliteSink(path))
    sinks.open()
    sinks.take(rows(1))
    damage(path)
    with pytest.raises(WorkerError) as caught:
        sinks.take(rows(2))
    assert error_lines(caught.value) == ("", [])
    notes.write(caught.value)
    text, lines = notes.read()
    assert text.startswith("sink: ")
    assert f"{path} can't be relied on: " in text
    assert "sqlite3 FILE .recover" in text
    assert text.endswith("(K572)")
    assert lines == []


def damage(path: Path) -> None:
    """As a disk may. Another connection writes before that, so that the sink's own reads the file anew."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("pragma user_version = 7")
        other.execute("pragma wal_checkpoint(truncate)")
        path.write_bytes(b"no database" * 10_000)
