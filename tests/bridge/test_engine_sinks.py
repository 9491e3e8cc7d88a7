"""Sinks of a topology on Spark: a batch is done once each of its rows is acked, or rejected."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Never

import pytest
from engine_topology import Numbered

from bolts import SqliteSink
from bridge.engine.mapping import mapped
from bridge.engine.python_process import FolderNotes
from bridge.engine.rows import EngineRow, Rejected, position_of, row_of
from bridge.engine.sinks import Away, Sinks
from bridge.engine.stage import Routing
from bridge.engine.user_errors import ComponentRaised
from spouts import Items
from topology import Bolt, Collector, Reject, Task, Topology, Tuple
from topology.core.source import Source
from topology.errors import StartError
from topology.records import encode
from topology.runtime.clock import LoopClock


class Later(Bolt):
    """Acks what it holds when it is flushed, or by itself after a while; fails 13, and breaks at 99."""

    def __init__(self, *, flushes: bool, twice: bool = False) -> None:
        self.twice = twice
        self.seen: list[int] = []
        self.held: list[tuple[Tuple[Any], Collector[Never]]] = []
        if flushes:
            self.flush = self._flush

    def __deepcopy__(self, memo: dict[int, Any]) -> "Later":
        return self

    def execute(self, tup: Tuple[Numbered], out: Collector[Never]) -> None:
        self.seen.append(tup.record.number)
        if tup.record.number == 99:
            self.broken = OSError("the disk is broken")
        self.held.append((tup, out))
        if not hasattr(self, "flush"):
            asyncio.get_running_loop().call_later(0.01, self._answer)

    def _flush(self, out: Collector[Never]) -> None:
        self._answer()

    def _answer(self) -> None:
        while self.held and not self.broken:
            tup, out = self.held.pop()
            if tup.record.number == 13:
                out.fail(tup, "an unlucky number")
            else:
                out.ack(tup)
            if self.twice:
                out.ack(tup)

    def summary(self) -> Iterator[str]:
        yield f"{len(self.seen)} seen"


class Checking(Bolt):
    def process(self, given: Numbered) -> None:
        if given.number == 13:
            raise Reject("an unlucky number")
        if given.number == 14:
            raise ValueError("no such number")


@pytest.fixture
def told() -> list[Away]:
    """What was said of stores that are away."""
    return []


@pytest.fixture
def sinks_of(told: list[Away]) -> Iterator[Callable[[Any], Sinks]]:
    made: list[Sinks] = []

    def task(name: str, index: int) -> Task:
        clock = LoopClock(asyncio.get_running_loop())
        return Task("sinks", name, index, 1, clock, Random(0), FolderNotes(Path("none")))

    def sinks_of(bolt: Any) -> Sinks:
        one = Topology("sinks")
        one.bolt("sink", bolt, one.spout("numbers", Items([Numbered(1)])).shuffle())
        made.append(Sinks(Routing(mapped(one)), [("sink", 0)], task, told.append))
        made[-1].open()
        return made[-1]

    yield sinks_of
    for one in made:
        one.close()
        one.end()


def rows(*numbers: int) -> list[EngineRow]:
    found = []
    for place, number in enumerate(numbers):
        tup = Tuple(Numbered(number), number, number, 0, (), Source("numbers", "Numbered"))
        found.append(row_of(tup, 0, 0, b"", b"", position_of(place, 0, 0, 0), encode(tup.record)))
    return found


@pytest.mark.parametrize("flushes", [True, False])
def test_a_batch_waits_until_each_row_is_acked_or_failed_and_failed_ones_are_rejected(
    sinks_of: Callable[[Any], Sinks], flushes: bool
) -> None:
    later = Later(flushes=flushes)
    sinks = sinks_of(later)
    counts, rejected = sinks.take(reversed(rows(5, 13, 7)))
    assert later.seen == [5, 13, 7], "in the order of their messages"
    assert not later.held
    assert counts == {("sink", "executed"): 3}
    assert rejected == [Rejected("sink", "an unlucky number", "Numbered(number=13)")]
    assert sinks.close() == ({"sink": ["3 seen"]}, [])


def test_what_a_sink_rejects_is_told_and_what_it_raises_ends_the_batch(sinks_of: Callable[[Any], Sinks]) -> None:
    sinks = sinks_of(Checking())
    _, rejected = sinks.take(rows(1, 13))
    assert [one.text for one in rejected] == ["Reject: an unlucky number"]
    with pytest.raises(ComponentRaised, match="'sink' has raised ValueError: no such number in process"):
        sinks.take(rows(14))


def test_a_sink_that_is_broken_ends_the_batch_and_acks_nothing(sinks_of: Callable[[Any], Sinks]) -> None:
    """F18."""
    sinks = sinks_of(Later(flushes=True))
    with pytest.raises(OSError, match="the disk is broken"):
        sinks.take(rows(1, 99))


def test_a_row_that_is_acked_twice_ends_the_batch(sinks_of: Callable[[Any], Sinks]) -> None:
    """A4."""
    sinks = sinks_of(Later(flushes=True, twice=True))
    with pytest.raises(ComponentRaised, match=r"'sink' has raised TupleStateError: .* twice in flush"):
        sinks.take(rows(1))


def test_a_store_that_is_away_is_waited_for_and_told_until_it_is_back(
    sinks_of: Callable[[Any], Sinks], told: list[Away], tmp_path: Path
) -> None:
    """F43."""
    path = tmp_path / "numbers.db"
    sinks = sinks_of(SqliteSink(path))
    sinks.take(rows(1))
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as elsewhere:
        other.execute("begin exclusive")
        taken = elsewhere.submit(sinks.take, rows(2, 3))
        until(lambda: bool(told))
        assert not taken.done()
        other.execute("rollback")
        assert taken.result() == ({("sink", "executed"): 2}, [])
        assert other.execute("select number from numbered").fetchall() == [(1,), (2,), (3,)]
    assert "its store is away" in told[0]["sink"]
    assert told[-1] == {}
    assert sinks.tally() == {("sink", "stored"): 3, ("sink", "duplicates"): 0}


def test_a_store_that_is_away_when_a_sink_opens_is_waited_for_where_that_is_wanted(
    sinks_of: Callable[[Any], Sinks], told: list[Away], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process of Spark's may open it at any time; the driver does not, and says what a user has to mend."""
    monkeypatch.setattr("bolts.sinks.batching.OPENING_S", 0.05)
    path = tmp_path / "numbers.db"
    sinks = sinks_of(SqliteSink(path))
    sinks.close()
    monkeypatch.setattr(sinks, "_start_timeout_s", 0.2)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as elsewhere:
        other.execute("begin exclusive")
        with pytest.raises(StartError, match=r"start_timeout_s = 0\.2 s: .*locked"):
            sinks.open()
        opened = elsewhere.submit(sinks.open, patient=True)
        until(lambda: bool(told))
        assert not opened.done()
        assert "locked" in told[0]["sink"]
        other.execute("rollback")
        opened.result()
        assert told[-1] == {}
    assert sinks.take(rows(4)) == ({("sink", "executed"): 1}, [])


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not condition():
        pause.wait(0.01)
