"""A run that drains emits what its generators have yielded, and asks them for no more. Rule F61."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from runtime_kit import Number, Same, line

from spouts import Paced
from topology import Bolt, Config, Message, Spout, Topology
from topology.runtime.run.report import Report
from topology.testing import Captured, run_topology

END_S = 5.5  # of the loop: between two yields


class Counts(Spout):
    """Yields numbers as fast as they are taken, or one each `pause_s`, and knows how many it has yielded."""

    def __init__(self, yielded: list[int], *, pause_s: float = 0.0, late_s: float = 0.0) -> None:
        self.yielded, self.pause_s, self.late_s = yielded, pause_s, late_s
        self.closed_after: list[int] = []
        self.acked: list[int] = []

    def __deepcopy__(self, memo: Any) -> "Counts":
        return self

    async def records(self) -> AsyncIterator[Message[Number]]:
        try:
            for n in range(100_000):
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)
                if self.late_s and n == 3:
                    await asyncio.sleep(self.late_s)
                self.yielded.append(n)
                yield Message(Number(n), n)
        finally:
            self.closed_after.append(len(self.acked))

    def ack(self, id: Any) -> None:
        self.acked.append(id)


class Slow(Bolt):
    """Takes a while for each, so that a generator is ahead of what is emitted."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds

    async def process(self, item: Number) -> list[Number]:
        await asyncio.sleep(self.seconds)
        return [item]


def drained(spout: Any, bolt: Any, *, config: Config | None = None) -> tuple[Report, list[int]]:
    topology, seen = Topology("drained", config=config or Config(max_pending=8)), Captured[Number]()
    topology.bolt("seen", seen, topology.bolt("slow", bolt, topology.spout("numbers", spout).shuffle()).shuffle())
    report = run_topology(topology, until_s=END_S)
    return report, [one.n for one in seen.records]


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_what_a_generator_has_yielded_is_emitted_before_a_drain_ends_F61(guarantee: Any) -> None:
    yielded: list[int] = []
    report, seen = drained(Counts(yielded, pause_s=0.001), Slow(), config=Config(max_pending=8, guarantee=guarantee))
    assert (report.ended, report.aborted) == ("stopped", 0)
    assert len(yielded) > 100
    assert sorted(seen) == yielded


def test_a_generator_is_asked_for_no_more_once_the_run_drains_F61() -> None:
    yielded: list[int] = []
    report, seen = drained(Counts(yielded), Slow(0.1))
    assert len(yielded) <= report.snapshot.spouts["numbers"].emitted == len(seen)


def test_what_a_generator_yields_while_the_run_drains_is_emitted_too_F61() -> None:
    yielded: list[int] = []
    spout = Counts(yielded, late_s=END_S + 1)
    _, seen = drained(spout, Slow(3))
    assert sorted(seen) == yielded == [0, 1, 2, 3]


def test_a_generator_is_ended_after_the_last_ack_F61() -> None:
    spout = Counts([], pause_s=0.001)
    drained(spout, Slow())
    assert spout.closed_after == [len(spout.acked)] == [len(spout.yielded)]


@pytest.mark.parametrize("ahead", [1, 7, 500])
def test_how_far_a_generator_runs_ahead_is_what_its_spout_says(ahead: int) -> None:
    class Ahead(Counts):
        reads_ahead = ahead

    yielded: list[int] = []
    topology, _ = line(
        Ahead(yielded), Slow(1000), config=Config(max_pending=2, process_timeout_s=3000, tree_timeout_s=3000)
    )
    report = run_topology(topology, until_s=1)
    assert len(yielded) == 2 + ahead
    assert report.aborted == 2 + ahead, "what was yielded and not emitted is unfinished, too"


def test_a_paced_generator_loses_nothing_and_is_drained_in_time_F61() -> None:
    yielded: list[int] = []
    report, seen = drained(Paced(Counts(yielded), rate=10), Same())
    assert (report.ended, report.aborted) == ("stopped", 0)
    assert seen == yielded
    assert 50 <= len(seen) <= 60
