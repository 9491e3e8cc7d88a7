"""Ticks that take their time: each within the process timeout, none under way when its bolt flushes or closes. F9."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest
from runtime_kit import Number, Totals, numbers

from topology import Bolt, Collector, Config, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Pause, ScriptedSpout, Wait, run_bolt, run_topology, run_virtual

LIMIT = Config(process_timeout_s=5)


class Ticks(Bolt):
    """The first tick does what is said; the others are over at once."""

    def __init__(self, first: Callable[[], Awaitable[None]]) -> None:
        self.first, self.count, self.said = first, 0, list[str]()

    def __deepcopy__(self, memo: Any) -> "Ticks":
        return self

    def process(self, number: Number) -> list[Number]:
        return [number]

    async def tick(self, now: datetime) -> AsyncIterator[Number]:
        self.count += 1
        if self.count == 1:
            await self.first()
        yield Number(100 + self.count)

    def flush(self, out: Collector[Number]) -> None:
        self.said.append("flushed")

    def close(self) -> None:
        self.said.append("closed")


def ticking(bolt: Ticks) -> tuple[Topology, Captured[Number]]:
    """One number, and no end → the bolt, with a tick a second → captured."""
    topology = Topology("ticks", LIMIT)
    stream = topology.spout("numbers", ScriptedSpout[Number]([*numbers(1), Wait()]))
    captured = Captured[Number]()
    topology.bolt("captured", captured, topology.bolt("ticks", bolt, stream.shuffle(), every="1s").shuffle())
    return topology, captured


async def for_ever() -> None:
    await asyncio.sleep(3600)


async def stubbornly() -> None:
    until = asyncio.get_running_loop().time() + 3600
    while (left := until - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


@pytest.mark.parametrize("first", [for_ever, stubbornly])
def test_a_tick_that_hangs_is_given_up_and_told_after_the_time_limit_and_the_next_ones_come_F9(
    first: Callable[[], Awaitable[None]],
) -> None:
    bolt = Ticks(first)
    done = run_bolt(bolt, [*numbers(1), Pause(9.5)], every="1s", config=LIMIT)
    assert [str(one) for one in done.errors] == ["not done after 5 s"]
    assert done.outputs == [Number(0), *(Number(100 + n) for n in (2, 3, 4))]  # at 7, 8 and 9 s


def test_a_tick_under_way_when_the_source_ends_is_waited_for_before_the_flush() -> None:
    async def a_while() -> None:
        await asyncio.sleep(4)
        bolt.said.append("ticked")

    bolt = Ticks(a_while)
    done = run_bolt(bolt, [*numbers(1), Pause(1.5)], every="1s", config=LIMIT)
    assert bolt.said == ["ticked", "flushed", "closed"]
    assert done.outputs == [Number(0), Number(101)]


def test_a_drain_waits_for_a_tick_under_way_and_for_what_it_sends() -> None:
    topology, captured = ticking(Ticks(lambda: asyncio.sleep(4)))
    report = run_topology(topology, until_s=1.5)
    assert report.ended == "stopped"
    assert captured.records == [Number(0), Number(101)]
    assert report.snapshot.seconds == pytest.approx(5, abs=0.1)


def test_a_bolt_with_state_is_not_quiet_while_it_ticks_either() -> None:
    said: list[str] = []

    class Keeps(Totals):
        async def tick(self, now: datetime) -> None:
            await asyncio.sleep(3)
            said.append("ticked")

        def flush(self, out: Collector[Number]) -> None:
            said.append("flushed")

    run_bolt(Keeps(), [*numbers(1), Pause(1.5)], by=("n",), every="1s", config=LIMIT)
    assert said[:2] == ["ticked", "flushed"]


def test_a_tick_under_way_when_the_run_is_aborted_has_ended_before_its_bolt_is_closed_F10() -> None:
    async def ends_slowly() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            bolt.said.append("tick over")

    bolt = Ticks(ends_slowly)
    topology, _ = ticking(bolt)

    async def main() -> list[str]:
        run = EmbeddedRun(topology)
        asyncio.get_running_loop().call_later(2, run.abort)
        await run.finish()
        return [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}]

    assert run_virtual(main()) == []
    assert bolt.said == ["tick over", "closed"]
