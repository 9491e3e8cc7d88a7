"""At-most-once: no tree is followed, but what a run leaves behind at its end is counted, and told by its status."""

import asyncio

import pytest
from runtime_kit import Number, line, numbers

from topology import Bolt, Collector, Config, State, Topology, Tuple
from topology.testing import ScriptedSpout, Wait, run_topology

AT_MOST_ONCE = Config(guarantee="at-most-once", drain_timeout_s=5)


class Takes(Bolt):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(self.seconds)
        return [number]


def test_inputs_that_an_at_most_once_run_leaves_behind_are_counted_as_aborted_F10() -> None:
    topology, captured = line(
        ScriptedSpout[Number]([*numbers(100), Wait()]), Takes(2), config=AT_MOST_ONCE, concurrency=3
    )
    report = run_topology(topology, until_s=1)
    assert (report.ended, len(captured.records)) == ("stopped", 9)
    assert report.snapshot.seconds == pytest.approx(6, abs=0.1)
    assert (report.aborted, report.exit_status) == (100 - 9, 1)


def test_an_at_most_once_run_that_has_drained_has_aborted_nothing() -> None:
    topology, captured = line(
        ScriptedSpout[Number]([*numbers(9), Wait()]), Takes(1), config=AT_MOST_ONCE, concurrency=3
    )
    report = run_topology(topology, until_s=1)
    assert (report.ended, report.aborted, report.exit_status) == ("stopped", 0, 0)
    assert len(captured.records) == 9


def test_inputs_that_wait_for_a_key_or_are_held_at_the_end_of_an_at_most_once_run_are_aborted_too() -> None:
    class Keyed(Bolt):
        async def process(self, number: Number, state: State[int]) -> None:
            await asyncio.sleep(60)

    class Holds(Bolt):
        async def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            if tup.record.n < 2:
                out.ack(tup)
                await asyncio.sleep(60)  # done, though its task is not
            elif tup.record.n == 2:
                await asyncio.sleep(60)

    topology = Topology("two", AT_MOST_ONCE)
    stream = topology.spout("numbers", ScriptedSpout[Number]([*numbers(5), Wait()]))
    topology.bolt("keyed", Keyed(), stream.global_(), concurrency=4)
    topology.bolt("holds", Holds(), stream.shuffle(), concurrency=4)
    report = run_topology(topology, until_s=1)
    assert (report.aborted, report.exit_status) == (5 + 3, 1)
