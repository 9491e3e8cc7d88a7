"""A bolt that lives on has held a tuple for longer than its message was under way. It reaches the replacement of a bolt
with state, which refuses it as all others do: what the message has changed is in the state that it has loaded (D5, P4).
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kept_kit import through
from letters_kit import until
from runtime_kit import Number

from topology import Bolt, Collector, Config, State, Topology, Tuple
from topology.plan import plan
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Watch, run_topology

HELD = 20
MORE = 200


class Shared(Bolt):
    """One object for all tasks. `is_first`: whether this is the first attempt of one of the first messages."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.may_go_on = asyncio.Event()

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def is_first(self, n: int) -> bool:
        first = n not in self.seen
        self.seen.add(n)
        return first and n < HELD


class Holds(Shared):
    async def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        if self.is_first(tup.record.n):
            await self.may_go_on.wait()
        out.emit(tup.record)
        out.ack(tup)


class Fails(Shared):
    async def process(self, number: Number) -> list[Number]:
        if self.is_first(number.n):
            await asyncio.sleep(1)
            raise ValueError("once")
        return []


class Totals(Bolt):
    def process(self, number: Number, state: State[int]) -> list[Number]:
        state.set(state.get(0) + 1)
        return [Number(state.get(0))]


@pytest.mark.parametrize("durability", ["disk", "process", "checkpoint"])
def test_a_tuple_of_a_message_that_is_done_is_refused_by_a_new_life_D5(tmp_path: Path, durability: Any) -> None:
    holds, watch = Holds(), Watch(before=through(takes_s=0.03))
    topology = Topology("stale", Config(durability=durability))
    script = [*map(Number, range(HELD)), Pause(20), *map(Number, range(100, 100 + MORE)), Pause(10)]
    stream = topology.spout("numbers", ScriptedSpout(script))
    topology.bolt("fails", Fails(), stream.shuffle(), concurrency=50)
    held = topology.bolt("holds", holds, stream.shuffle(), concurrency=50)
    counts = topology.bolt("counts", Totals(), held.fields("n"), tasks=2)
    topology.bolt("captured", Captured[Number](), counts.shuffle())
    placement = plan(topology, 2).placement
    home = placement["numbers", 0]
    assert placement["holds", 0] == home
    away = next(placement["counts", task] for task in (0, 1) if placement["counts", task] != home)

    async def during(run: Any) -> None:
        await until(lambda: bool(watch.deaths))
        await asyncio.sleep(0.12)
        holds.may_go_on.set()

    run_topology(topology, workers=2, state_dir=tmp_path, crashes=[Crash(away, at_s=20.0)], during=during, watch=watch)
    assert Counter(watch.state("counts").values()) == {1: HELD + MORE}
