"""What the simulator makes of effects that dead messages had on ways beside the one that they died on (A6)."""

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `tests` is not installed

from tests.simulation.drawing import Item
from topology import Bolt, Config, Reject, Task, Topology
from topology.testing import Captured, Hazard, Pause, ScriptedSpout, SimulationFailed, run_topology, simulate
from topology.testing.simulator.comparing import Names
from topology.testing.simulator.expected import DRAWS_MAX, CapturedRows, Peace

DEAD_EVERY = 10
WORKERS = 2


class Rejects(Bolt):
    def process(self, item: Item) -> list[Item]:
        if item.n % DEAD_EVERY == 0:
            raise Reject("of no use")
        return [item]


class Unlucky(Bolt):
    """Raises for most of the inputs whose messages die, before they have an effect here."""

    def open(self, task: Task) -> None:
        self.random = task.random

    def process(self, item: Item) -> list[Item]:
        if item.n % DEAD_EVERY == 0 and self.random.random() < 0.8:
            raise ValueError("unlucky")
        return [item]


class Forgets(Bolt):
    """Acks what it has only put aside: an input that is there when its worker dies is lost."""

    def __init__(self) -> None:
        self.aside: list[Item] = []

    def process(self, item: Item) -> list[Item]:
        self.aside.append(item)
        given, self.aside = (self.aside, []) if len(self.aside) == 5 else ([], self.aside)
        return given


class Repeats(Bolt):
    """Gives one more for what it has seen before."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def process(self, item: Item) -> list[Item]:
        before = item.n in self.seen
        self.seen.append(item.n)
        return [item, Item(item.n, (1,))] if before else [item]


class Waits(Bolt):
    """Takes so long that a message is dead before, unless that is held up."""

    async def process(self, item: Item) -> list[Item]:
        await asyncio.sleep(0.3)
        return [item]


class Draws(Bolt):
    """Refuses what is dead already, as it keeps its outputs."""

    deterministic = False

    def process(self, item: Item) -> list[Item]:
        return [item]


def made(beside: Callable[[], Any], sinks: list[Captured[Item]], *, by_record: bool) -> Topology:
    """100 messages of which 10 die in one bolt, and `beside` it another one that reads them too."""
    topology = Topology("dead-effects")
    script = [one for n in range(100) for one in (Item(n), Pause(0.01 * (n % 5 == 4)))]
    items = topology.spout("items", ScriptedSpout(script), tasks=2)
    live = topology.bolt("rejects", Rejects(), items.shuffle(), tasks=2)
    other = topology.bolt("beside", beside(), items.shuffle())
    sinks.append(Captured[Item](by_record=by_record))
    topology.bolt("captured", sinks[-1], other.shuffle())
    topology.bolt("captured-live", Captured[Item](), live.shuffle())
    return topology


@pytest.mark.slow
@pytest.mark.parametrize("by_record", [False, True])
def test_effects_of_dead_messages_are_neither_owed_nor_too_many_A6(by_record: bool) -> None:
    sinks: list[Captured[Item]] = []
    names = Names.RECORD if by_record else Names.PAIR
    rows = Peace(lambda: made(Unlucky, sinks, by_record=by_record), WORKERS).rows["captured"]
    peace = names.keys(rows)
    lacking = more = 0
    for seed in range(4):
        sinks.clear()
        simulate(lambda: made(Unlucky, sinks, by_record=by_record), seed=seed, workers=WORKERS)
        last = max(sinks, key=lambda one: max(one.times, default=0.0))  # peace is over before all others
        got = names.keys(CapturedRows.of(last))
        lacking += len(peace.keys() - got.keys())
        more += len(got.keys() - peace.keys())
    assert lacking
    assert more


def held_up(sinks: list[Captured[Item]]) -> Topology:
    """The bolt that rejects is alone on its worker."""
    topology = Topology("held-up", Config(max_pending=2_000))
    items = topology.spout("items", ScriptedSpout([one for n in range(100) for one in (Item(n), Pause(0.02))]))
    live = topology.bolt("rejects", Rejects(), items.shuffle(), tasks=2)
    drawn = topology.bolt("draws", Draws(), topology.bolt("waits", Waits(), items.shuffle(), concurrency=64).shuffle())
    sinks.append(Captured[Item]())
    topology.bolt("captured", sinks[-1], drawn.shuffle())
    topology.bolt("captured-live", Captured[Item](), live.shuffle())
    return topology


@pytest.mark.slow
def test_an_effect_that_a_dead_message_has_only_if_its_death_is_held_up_is_allowed_A6() -> None:
    sinks: list[Captured[Item]] = []
    peace = Peace(lambda: held_up(sinks), WORKERS)
    more = set[Any]()
    for seed in range(8):
        sinks.clear()
        simulate(lambda: held_up(sinks), seed=seed, workers=WORKERS, faults=[Hazard.PAUSE, Hazard.LATE_FRAMES])
        got = CapturedRows.of(max(sinks, key=lambda one: max(one.times, default=0.0))).by_pair
        more |= got.keys() - peace.rows["captured"].by_pair.keys()
    assert more
    for draw in range(DRAWS_MAX):
        run_topology(held_up(sinks), seed=draw, workers=WORKERS)
        assert more.isdisjoint(CapturedRows.of(sinks[-1]).by_pair), "no luck brings it about"


def test_what_messages_owe_that_live_is_missed_although_others_die() -> None:
    with pytest.raises(SimulationFailed, match="'captured' lacks"):
        [simulate(lambda: made(Forgets, [], by_record=True), seed=n, faults=[Hazard.CRASH]) for n in range(20)]


def test_what_a_replay_adds_is_too_much_although_others_die() -> None:
    told = re.escape("that it should not: [Item(n=") + r"\d+, path=\(1,\)\)"
    with pytest.raises(SimulationFailed, match=told):
        [
            simulate(
                lambda: made(Repeats, [], by_record=False),
                seed=n,
                faults=[Hazard.REPEATED_FRAMES, Hazard.PAUSE, Hazard.CRASH],
            )
            for n in range(20)
        ]


class RepeatsTheDead(Repeats):
    def process(self, item: Item) -> list[Item]:
        return super().process(item) if item.n % DEAD_EVERY == 0 else [item]


@pytest.mark.slow
def test_an_effect_that_no_dead_message_can_have_is_too_much() -> None:
    told = re.escape("that it should not: [Item(n=") + r"\d+, path=\(1,\)\)"
    with pytest.raises(SimulationFailed, match=told):
        [simulate(lambda: made(RepeatsTheDead, [], by_record=False), seed=n, faults=[Hazard.CRASH]) for n in range(20)]
