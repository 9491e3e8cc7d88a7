"""Timers of a topology on Spark: set in a stage, kept by the driver, back as a row when they are due; fired once."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from engine_kit import Stages

from acker.identity import timer_pair
from bridge.engine.counts_and_timers import CountsAndTimers
from bridge.engine.rows import DueNow, KeyTimers
from spouts import Items
from topology import Bolt, Record, State, Topology
from topology.testing import Captured

DUE = datetime(2090, 1, 1, tzinfo=UTC)
DUE_US = int(DUE.timestamp()) * 1_000_000


class Heard(Record):
    host: str
    number: int


class Silent(Record):
    host: str
    number: int


class Watch(Bolt):
    """The newest number of a host, once its timer fires; -1 takes the timer away."""

    def process(self, heard: Heard, state: State[int]) -> Iterator[Silent]:
        state.set(heard.number)
        state.timer(DUE + timedelta(seconds=heard.number) if heard.number >= 0 else None, "silent")
        yield from ()

    def on_timer(self, key: tuple[str], name: str, state: State[int]) -> Iterator[Silent]:
        yield Silent(key[0], state.get(0))


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[Stages]:
    one = Topology("hosts")
    watched = one.bolt("watch", Watch(), one.spout("hosts", Items([Heard("a", 1)])).fields("host"), tasks=2)
    one.bolt("kept", Captured[Silent](), watched.global_())
    stages = Stages(one, tmp_path)
    yield stages
    stages.close()


def due(one: KeyTimers) -> DueNow:
    ((name, at),) = one.due
    return DueNow(one.component, one.key, name, at)


def test_a_timer_fires_once_under_the_identity_that_kedge_gives_it(stages: Stages) -> None:
    """B10."""
    assert not stages.batch([(1, 2, Heard("a", 3)), (3, 4, Heard("b", 0))])["kept"]
    fired = due(next(one for one in stages.timers if b"a" in one.key))
    assert fired.due == DUE_US + 3_000_000
    ((origin, _, record),) = stages.batch([], [fired])["kept"]
    assert record == Silent("a", 3)
    assert origin == timer_pair("hosts", "watch", fired.key, "silent", fired.due)[0]
    assert not stages.batch([], [fired])["kept"], "the driver died before it had forgotten it"


def test_a_timer_that_was_moved_or_taken_away_meanwhile_does_not_fire(stages: Stages) -> None:
    stages.batch([(1, 2, Heard("a", 3)), (3, 4, Heard("b", 3))])
    first = [due(one) for one in stages.timers]
    stages.batch([(5, 6, Heard("a", 4)), (7, 8, Heard("b", -1))])
    assert not stages.batch([], first)["kept"]
    assert [one.gone for one in stages.timers if not one.due and b"b" in one.key] == [("silent",)]
    moved = due(next(one for one in stages.timers if dict(one.due).get("silent") == DUE_US + 4_000_000))
    assert [record for _, _, record in stages.batch([], [moved])["kept"]] == [Silent("a", 4)]


def test_a_batch_that_is_repeated_is_counted_once_and_an_earlier_one_changes_nothing(tmp_path: Path) -> None:
    book = CountsAndTimers(tmp_path / "book.sqlite")
    for _ in range(2):
        book.keep(0, {("watch", "executed"): 3}, [KeyTimers("watch", b"a", (("silent", 5), ("gone", 7)), ())])
    book.keep(1, {("watch", "executed"): 1}, [KeyTimers("watch", b"a", (("silent", 6),), ("gone",))])
    book.keep(0, {("watch", "executed"): 3}, [KeyTimers("watch", b"a", (("silent", 5),), ())])
    book.close()
    again = CountsAndTimers(tmp_path / "book.sqlite")
    assert again.counts() == {("watch", "executed"): 4}
    assert again.due(5) == []
    assert again.due(6) == [DueNow("watch", b"a", "silent", 6)]
    again.fired([DueNow("watch", b"a", "silent", 5)])
    assert again.due(6), "it was moved since"
    again.fired(again.due(6))
    assert not again.due(6)
    again.close()
