"""Bounds of what a bolt with state keeps: inputs that wait for their key, and identities that it remembers."""

import asyncio
from collections.abc import Sequence

import pytest
from runtime_kit import Number, Totals, built, line

from topology import Bolt, Config, Message, Spout, State, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.queue_limits import QUEUE_HIGH
from topology.runtime.state.keyed_executor import PARKED_MAX
from topology.runtime.state.state_executor import StateExecutor
from topology.runtime.tasks.executor import SLICE_MAX
from topology.testing import Captured, ScriptedSpout, Watch, run_topology


class Endless(Spout):
    """Numbers without end; all have the key `key`, where there is one."""

    def __init__(self, key: int | None = None, end: int = 10**9) -> None:
        self.key, self.end, self.next = key, end, 0

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        await asyncio.sleep(0.01)
        first, self.next = self.next, min(self.next + limit, self.end)
        return [Message(Number(n if self.key is None else self.key), n) for n in range(first, self.next)]


class SlowByKey(Bolt):
    async def process(self, number: Number, state: State[int]) -> list[Number]:
        await asyncio.sleep(0.05)
        state.set(state.get(0) + 1)
        return []


class Once(Bolt):
    """Waits for long with the first number, and not at all with the others."""

    async def process(self, number: Number) -> list[Number]:
        if number.n == 0:
            await asyncio.sleep(20)
        return []


def test_inputs_that_wait_for_a_key_under_way_are_bounded_and_pause_the_spout() -> None:
    topology, _ = line(Endless(key=7), SlowByKey(), config=Config(guarantee="at-most-once"), by="n", concurrency=8)
    most = 0

    async def during(run: EmbeddedRun) -> None:
        nonlocal most
        executor = (await built(run)).executors["bolt", 0]
        for _ in range(200):
            await asyncio.sleep(0.01)
            most = max(most, len(executor.queue) + len(executor.held()))
        run.drain()

    run_topology(topology, seed=1, during=during)
    assert PARKED_MAX <= most <= PARKED_MAX + QUEUE_HIGH + 2 * SLICE_MAX


def test_inputs_that_waited_for_a_key_are_counted_once_each_and_in_order_B6_D3() -> None:
    class InOrder(Bolt):
        async def process(self, number: Number, state: State[tuple[int, ...]]) -> list[Number]:
            await asyncio.sleep(0.001)
            state.set((*state.get(()), len(state.get(()))))
            return [Number(len(state.get(())))]

    topology, captured = line(Endless(key=7, end=300), InOrder(), by="n", concurrency=16)
    assert run_topology(topology, seed=None).exit_status == 0
    assert [one.n for one in captured.records] == list(range(1, 301))


def test_one_message_that_takes_long_does_not_keep_the_identities_of_all_after_it_E4() -> None:
    topology = Topology("held-up", Config(max_pending=500))
    stream = topology.spout("numbers", Endless(end=40_000))  # done in three seconds, but for the first
    topology.bolt("totals", Totals(), stream.fields("n"))
    topology.bolt("once", Once(), stream.shuffle(), concurrency=64)
    totals = topology.bolt("more", Totals(), stream.global_())
    topology.bolt("captured", Captured[Number](), totals.shuffle())
    most = 0

    async def during(run: EmbeddedRun) -> None:
        nonlocal most
        executor = (await built(run)).executors["totals", 0]
        assert isinstance(executor, StateExecutor)
        while run.workers[0].pending or not run.workers[0].spout_tasks["numbers", 0].ended:
            await asyncio.sleep(0.05)
            most = max(most, len(executor.known))

    watch = Watch()
    report = run_topology(topology, seed=None, during=during, watch=watch)
    assert report.snapshot.total("acked") == 40_000
    assert set(watch.state("totals").values()) == {1}
    assert most < 20_000, "all of them would have been remembered until the slow one was done"


@pytest.mark.slow
def test_a_message_whose_attempts_are_spent_and_that_takes_a_new_number_counts_once_D4_A7() -> None:
    class Waits(Bolt):
        async def process(self, number: Number) -> list[Number]:
            await asyncio.sleep(1.0)
            return [number]

    class DownFor70(Bolt):
        times = 0

        def process(self, number: Number) -> list[Number]:
            DownFor70.times += 1
            if DownFor70.times < 70:
                raise ConnectionError("down")
            return [number]

    topology, captured = line(
        ScriptedSpout([Number(1)]), Waits(), Totals(), DownFor70(), config=Config(max_replays=100), by="n"
    )
    watch = Watch()
    report = run_topology(topology, seed=1, watch=watch, limit_s=1e6)
    assert report.snapshot.total("replayed") > 64
    assert list(watch.state("bolt1").values()) == [1]
    assert [one.n for one in captured.records] == [1]
