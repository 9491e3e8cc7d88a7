"""Bolts whose store is away, or broken: what the runtime does with their inputs meanwhile (F43, F18, E6)."""

import asyncio
import logging
import re
from collections.abc import Awaitable
from typing import Any, Never

import pytest

from topology import Bolt, Collector, Config, Record, Task, Topology, Tuple
from topology.codes.runtime import SINK_STORE_BROKEN
from topology.errors import WorkerError
from topology.testing import ScriptedSpout, Watch, run_topology

ROOM = 10  # tuples that the sink holds; the next one waits in `execute`


class Line(Record):
    number: int


class Away(Bolt):
    """Holds what it gets until `away_s` after its start, and for `slow_s` more; then acks it. `says`: whether it says
    that it is away."""

    def __init__(self, away_s: float, says: bool = True, slow_s: float = 0.0) -> None:
        self.away_s, self.says, self.slow_s = away_s, says, slow_s
        self.acked: list[int] = []

    def __deepcopy__(self, memo: Any) -> "Away":
        return self

    def open(self, task: Task) -> None:
        self._held: list[tuple[Tuple[Line], Collector[Never]]] = []
        self._back = asyncio.Event()
        self.away = "its store is away (no route to host), retry 7" if self.says else ""
        asyncio.get_running_loop().call_later(self.away_s, self._return)

    def execute(self, tup: Tuple[Line], out: Collector[Never]) -> Awaitable[None] | None:
        if self._back.is_set():
            self._ack(tup, out)
            return None
        if len(self._held) < ROOM:
            self._held.append((tup, out))
            return None
        return self._later(tup, out)

    async def _later(self, tup: Tuple[Line], out: Collector[Never]) -> None:
        await self._back.wait()
        self._ack(tup, out)

    def _return(self) -> None:
        self.away = ""
        asyncio.get_running_loop().call_later(self.slow_s, self._go_on)

    def _go_on(self) -> None:
        self._back.set()
        for tup, out in self._held:
            self._ack(tup, out)

    def _ack(self, tup: Tuple[Line], out: Collector[Never]) -> None:
        self.acked.append(tup.record.number)
        out.ack(tup)


class Pass(Bolt):
    def process(self, line: Line) -> list[Line]:
        return [line]


def over(sink: Bolt, count: int = 3_000, **settings: Any) -> Topology:
    topology = Topology("away", config=Config(**settings))
    lines = topology.spout("lines", ScriptedSpout([Line(number) for number in range(count)]))
    passed = topology.bolt("pass", Pass(), lines.shuffle())
    topology.bolt("store", sink, passed.global_())
    return topology


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_f43_what_waits_for_a_store_that_is_away_for_ten_minutes_neither_fails_nor_is_replayed(workers: int) -> None:
    sink, watch = Away(600), Watch()  # the cap is at 100 s
    report = run_topology(over(sink, tree_timeout_s=5.0), workers=workers, watch=watch, limit_s=4_000)
    counts = report.snapshot.spouts["lines"]
    assert (counts.acked, counts.failed, counts.replayed, counts.dead) == (3_000, 0, 0, 0)
    assert sorted(sink.acked) == list(range(3_000))
    assert not watch.failures


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("away_s", [190, 199, 205, 395])
def test_f43_what_has_waited_for_nearly_as_long_as_it_may_has_all_its_time_once_the_store_is_back(
    away_s: float, workers: int
) -> None:
    sink, watch = Away(away_s, slow_s=90), Watch()  # the cap is at 200 s
    topology = over(sink, count=100, tree_timeout_s=10.0, process_timeout_s=100.0)
    run_topology(topology, workers=workers, watch=watch, limit_s=4_000)
    assert sorted(sink.acked) == list(range(100))
    assert not watch.failures


def test_a13_a_bolt_that_holds_its_inputs_without_a_word_is_still_told_from_one_that_waits() -> None:
    watch = Watch()
    run_topology(
        over(Away(1_800, says=False), count=20, tree_timeout_s=10.0, max_replays=0), watch=watch, limit_s=4_000
    )
    assert {one.reason.name for one in watch.failures} == {"FORGOTTEN", "TIME_LIMIT"}


def test_f43_the_line_about_a_silent_run_names_the_store_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        run_topology(over(Away(60)))
    told = r"'store' waits: its store is away \(no route to host\), retry 7; 1,\d{3} messages are pending"
    assert re.search(told, caplog.text)  # how many come before the queue is found full is the loop's


def test_e6_what_a_sink_gives_back_as_it_closes_spends_no_attempt() -> None:
    class Closing(Away):
        def close(self) -> None:
            for tup, out in self._held:
                out.fail(tup, "the sink was closed before this was stored")

    watch = Watch()
    report = run_topology(over(Closing(1e6), count=5, max_replays=0, drain_timeout_s=5.0), until_s=3.0, watch=watch)
    assert report.snapshot.spouts["lines"].dead == 0
    assert not watch.dead
    assert report.aborted == 5


def test_f18_a_broken_store_ends_the_run_with_its_own_sentence_and_without_another_ack() -> None:
    class Broken(Away):
        def execute(self, tup: Tuple[Line], out: Collector[Never]) -> None:
            self.broken = WorkerError("store: its store is broken: fsync failed", code=SINK_STORE_BROKEN)

    sink = Broken(1e6)
    report = run_topology(over(sink, count=5))
    assert isinstance(report.error, WorkerError)
    assert "fsync failed" in str(report.error)
    assert report.snapshot.spouts["lines"].acked == 0
    assert report.exit_status == 1
