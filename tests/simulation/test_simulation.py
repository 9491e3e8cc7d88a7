"""The simulator over our own runtime: 200 seeds, each a random topology through faults; what it promises of itself."""

import asyncio
import os
import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `tests` is not installed

from tests.simulation.drawing import MESSAGES_MIN, Item, draw, faults_of
from tests.simulation.seeds import run_seeds
from topology import Bolt, Topology
from topology.testing import Captured, Hazard, ScriptedSpout, SimulationFailed, simulate
from topology.testing.simulator.faults import Strike, draw_strikes

SEEDS = 200
PATHS = (  # rare ways, which 200 seeds have to go
    *("a session was lost", "a store broke", "a worker died", "a worker died while another was away"),
    *("foreign frames", "full", "late or unknown acks", "lost write", "repeated frames", "replays"),
    *("letters replayed by hand while all went on", "letters replayed by hand while a worker was away", "sub-trees"),
    *("stale tuples refused",),
    *("resumed from marks", "stalls of the loop", "sync fails", "the whole run began again", "torn write"),
)


async def test_twenty_other_seeds_lose_nothing_and_double_nothing() -> None:
    seen = await run_seeds(SEEDS, 20, jobs=os.cpu_count() or 1)
    print(seen.table())
    assert not seen.failed, "\n\n".join(list(seen.failed.values())[:3])
    assert seen.seeds == 20


@pytest.mark.slow
@pytest.mark.timeout(480)  # a minute and a half of CPU time
async def test_two_hundred_seeds_lose_nothing_and_double_nothing() -> None:
    """Each has at least 200 messages, 3 components, 2 workers, and is hit by two kinds of fault."""
    seen = await run_seeds(0, SEEDS, jobs=os.cpu_count() or 1)
    print(seen.table())
    assert not seen.failed, "\n\n".join(list(seen.failed.values())[:3])
    assert seen.seeds == SEEDS
    assert seen.messages_min is not None
    assert seen.messages_min >= MESSAGES_MIN
    assert seen.kinds_min is not None
    assert seen.kinds_min >= 2
    assert [one.name for one in Hazard if not seen.faults[one.name]] == []
    assert [one for one in PATHS if not seen.paths[one]] == []


LONG = pytest.mark.slow  # these simulate ten times as much as most


@pytest.mark.parametrize("seed", [1, 4, 11, pytest.param(0, marks=LONG), pytest.param(3, marks=LONG)])
def test_the_same_seed_gives_the_same_trace_and_another_seed_another(seed: int) -> None:
    def once(seed: int) -> tuple[object, ...]:
        report = simulate(lambda: draw(seed), seed=seed, faults=faults_of(seed))
        return report.trace, report.told, report.faults, report.seconds

    first = once(seed)
    assert first == once(seed)
    assert first != once(seed + 1)


@pytest.mark.parametrize("first", [Hazard.KILL_ALL, Hazard.POWER_LOSS, Hazard.CRASH, Hazard.SYNC_FAILS])
@pytest.mark.parametrize("second", [Hazard.KILL_ALL, Hazard.POWER_LOSS, Hazard.CRASH])
def test_a_second_death_during_the_recovery_from_the_first_converges_F56(
    first: Hazard, second: Hazard, monkeypatch: pytest.MonkeyPatch
) -> None:
    strikes = [Strike(first, 60, 0, 0.1), Strike(second, 60, 1, 0.1), Strike(second, 60, 0, 0.1)]
    monkeypatch.setattr("topology.testing.simulator.simulate.draw_strikes", lambda *given: (strikes[:], {}))
    report = simulate(lambda: draw(1), seed=1, faults={first, second})
    assert sum(report.faults.values()) == 3
    assert report.faults[second.name] >= 2


@pytest.mark.parametrize("seed", range(50))
def test_each_seed_draws_two_kinds_of_strikes_at_least(seed: int) -> None:
    strikes, chances = draw_strikes(Random(seed), Hazard, [0, 1], 200)
    assert len({one.hazard for one in strikes}) >= 2
    assert chances
    assert strikes == sorted(strikes, key=lambda one: one.after)


# -- of a user's own topology


class Forgets(Bolt):
    """Acks what it has only put aside: an input that is there when its worker dies is lost."""

    def __init__(self) -> None:
        self.aside: list[Item] = []

    def process(self, item: Item) -> list[Item]:
        self.aside.append(item)
        if len(self.aside) < 5:
            return []
        given, self.aside = self.aside, []
        return given


class Slow(Bolt):
    async def process(self, item: Item) -> list[Item]:
        await asyncio.sleep(0.001)
        return [item]


def forgetful() -> Topology:
    topology = Topology("forgetful")
    items = topology.spout("items", ScriptedSpout([Item(n) for n in range(100)]))
    slow = topology.bolt("slow", Slow(), items.global_())
    kept = topology.bolt("forgets", Forgets(), slow.global_())
    topology.bolt("captured", Captured[Item](), kept.shuffle())
    return topology


def test_what_a_topology_does_wrong_is_told_with_the_seed_and_all_that_has_happened() -> None:
    with pytest.raises(SimulationFailed) as caught:
        [simulate(forgetful, seed=seed, faults=[Hazard.CRASH]) for seed in range(20)]
    text = str(caught.value)
    assert text.startswith("seed ")
    assert "'captured'" in text
    assert "a worker is killed" in text


class CountsInAttributes(Bolt):
    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def process(self, item: Item) -> list[Item]:
        self.counts[item.n % 7] = self.counts.get(item.n % 7, 0) + 1
        return [Item(item.n, (self.counts[item.n % 7],))]


def test_a_bolt_that_counts_in_its_attributes_is_named_B4() -> None:
    def make() -> Topology:
        topology = Topology("counting")
        items = topology.spout("items", ScriptedSpout([Item(n) for n in range(100)]))
        counted = topology.bolt("counts", CountsInAttributes(), items.fields("n"), tasks=2)
        topology.bolt("captured", Captured[Item](), counted.shuffle())
        return topology

    with pytest.raises(SimulationFailed, match=r"'counts' \(self\.counts\); take `state` for it"):
        [simulate(make, seed=seed) for seed in range(20)]


def test_a_topology_without_captured_is_refused() -> None:
    topology = Topology("blind")
    topology.bolt("waits", Forgets(), topology.spout("items", ScriptedSpout([Item(1)])).global_())
    with pytest.raises(ValueError, match="none"):
        simulate(lambda: topology, seed=0)


def test_only_the_faults_that_were_asked_for_happen() -> None:
    report = simulate(lambda: draw(2), seed=2, faults=[Hazard.PAUSE, Hazard.REPEATED_FRAMES])
    assert set(report.faults) <= {"PAUSE", "REPEATED_FRAMES"}
    assert report.faults["PAUSE"]
    assert report.runs == 1
