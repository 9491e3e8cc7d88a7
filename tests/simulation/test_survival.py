"""What survives a simulated run by what a bolt has kept, in the cases that random topologies seldom have."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `tests` is not installed

from tests.simulation.consistent import check
from tests.simulation.drawing import Rejects
from tests.simulation.items import Item, Unlucky
from tests.simulation.late import Lots
from tests.simulation.power_cuts import DURABILITIES, Durability
from tests.simulation.surviving import CapturedCounts, Draws, Rings, Seconds, Tallies
from topology import Config, Stream, Topology
from topology.storage.directory.decision import NAME
from topology.testing import Captured, Hazard, Pause, ScriptedSpout, SimulationFailed, simulate
from topology.testing.simulator.fate import STATE_DIR, Fate
from topology.testing.simulator.faults import Strike
from topology.testing.simulator.steps import Step

DEATHS = (Hazard.KILL_ALL, Hazard.POWER_LOSS, Hazard.CRASH)


def items(topology: Topology, *, every: int = 20) -> Stream[Item]:
    script = [one for n in range(200) for one in (Item(n), *([Pause(0.02)] if n % every == every - 1 else []))]
    return topology.spout("items", ScriptedSpout[Item](script))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fields", "global_", "shuffle"])
def test_what_was_drawn_stays_whatever_way_inputs_come_and_however_many_tasks_there_are_B2_D7(way: str) -> None:
    def make() -> Topology:
        topology = Topology("drawn")
        stream: Any = items(topology)
        read = stream.fields("n") if way == "fields" else getattr(stream, way)()
        topology.bolt("captured", Captured[Item](), topology.bolt("draws", Draws(0.0), read, tasks=3).shuffle())
        return topology

    for seed in range(6):
        simulate(make, seed=seed, faults=DEATHS, rescale=seed % 2 == 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_timers_that_fail_when_all_inputs_have_ended_fire_all_the_same_B10(seed: int) -> None:
    def make() -> Topology:
        topology = Topology("rung")
        rung = topology.bolt("rings", Rings(0.3), items(topology).fields("n"), tasks=2)
        topology.bolt("captured", captured, rung.shuffle())
        return topology

    for captured in (CapturedCounts(), CapturedCounts()):
        report = simulate(make, seed=seed, faults=DEATHS)
        assert {(one.key, one.count) for one in captured.distinct.values()} == {(n, 1) for n in range(200)}
        assert sum(report.faults.values())


@pytest.mark.parametrize("seed", range(3))
def test_a_timer_that_was_done_before_a_clean_end_has_no_effect_in_the_next_run_B10_D17(seed: int) -> None:
    def make() -> Topology:
        topology = Topology("rung-again")
        stream = items(topology)
        topology.bolt("captured", Captured[Item](), topology.bolt("rejects", Rejects(0.0), stream.shuffle()).shuffle())
        rung = topology.bolt("rings", Rings(0.0), stream.fields("n"), tasks=2)
        topology.bolt("captured-rings", CapturedCounts(), rung.shuffle())
        again = topology.bolt("again", Tallies(0.0), rung.fields("key"), tasks=2)
        topology.bolt("captured-again", CapturedCounts(), again.shuffle())
        return topology

    report = simulate(make, seed=seed, faults=[Hazard.PAUSE])
    assert report.runs == 2, "the dead letters were replayed, in a run of their own"


def counted(durability: Durability = "disk", *, every: int = 20) -> Topology:
    topology = Topology("counted", Config(max_replays=1_000, durability=durability))
    lots = topology.bolt("lots", Lots(0.01), items(topology, every=every).shuffle(), tasks=2)
    counts = topology.bolt("tally", Tallies(0.01), lots.fields("key"), tasks=2, concurrency=8)
    topology.bolt("captured", CapturedCounts(), counts.shuffle())
    second = topology.bolt("second", Seconds(0.01), counts.fields("count"), tasks=2)
    topology.bolt("captured-second", CapturedCounts(), second.shuffle())
    return topology


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_each_count_of_a_key_comes_once_while_workers_and_tasks_change_between_runs_D7(seed: int) -> None:
    report = simulate(counted, seed=seed, faults=(Hazard.KILL_ALL, Hazard.POWER_LOSS), rescale=True)
    assert report.runs > 1
    assert any("it begins again with" in one for one in report.told)


STEPPED = (Hazard.CRASH, Hazard.KILL_ALL, Hazard.POWER_LOSS, Hazard.DISK_FULL, Hazard.HANG)
QUICK = {("disk", Hazard.CRASH), ("process", Hazard.POWER_LOSS), ("checkpoint", Hazard.KILL_ALL)}


@pytest.mark.parametrize(
    ("durability", "hazard"),
    [
        pytest.param(durability, hazard, marks=[] if (durability, hazard) in QUICK else [pytest.mark.slow])
        for durability in DURABILITIES
        for hazard in STEPPED
    ],
)
def test_a_fault_at_each_step_of_a_checkpoint_and_of_the_next_one_leaves_each_count_once_p1_p5_p14(
    durability: Durability, hazard: Hazard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between a decision and telling it, and when all have kept their parts and nothing is decided."""
    struck = 0
    for number, step in enumerate(Step):
        strikes = [
            Strike(hazard, 40, number % 2, 3.5, step),
            Strike(Hazard.CRASH, 40, 1 - number % 2, 0.1, step),
            Strike(hazard, 90, 0, 0.5, step),
        ]
        monkeypatch.setattr("topology.testing.simulator.simulate.draw_strikes", lambda *given, s=strikes: ([*s], {}))
        report = simulate(partial(counted, durability, every=1), seed=number, faults={hazard, Hazard.CRASH})
        check(report, dead=False)
        struck += report.paths[f"struck as {step.value}"]
    assert struck >= len(Step), "most of these strikes come as the step is done"


def test_without_the_decision_nothing_begins_where_a_checkpoint_may_be_decided_p5(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All have kept their parts, and are killed; then the file is gone that says whether that is decided."""
    strikes = [Strike(Hazard.KILL_ALL, 40, 0, 0.1, Step.PREPARED)]
    monkeypatch.setattr("topology.testing.simulator.simulate.draw_strikes", lambda *given: ([*strikes], {}))
    new_machine = Fate.new_machine

    def without(fate: Fate, *, power: bool) -> None:
        new_machine(fate, power=power)
        if fate.files.look(STATE_DIR / NAME) is not None:
            fate.files.remove(STATE_DIR / NAME)

    monkeypatch.setattr(Fate, "new_machine", without)
    with pytest.raises(SimulationFailed, match=r"which says whether checkpoint \d+ is decided"):
        simulate(partial(counted, every=5), seed=1, faults=[Hazard.KILL_ALL])


class CountsInVain(Tallies):
    recovery = "none"


def test_state_in_memory_alone_is_compared_by_what_it_lets_be_compared() -> None:
    def make() -> Topology:
        topology = Topology("in-memory")
        lots = topology.bolt("lots", Lots(0.0), items(topology).shuffle())
        counts = topology.bolt("tally", CountsInVain(0.0), lots.fields("key"))
        topology.bolt("captured", CapturedCounts(), counts.shuffle())
        return topology

    simulate(make, seed=1, faults=[Hazard.KILL_ALL])
    with pytest.raises(SimulationFailed, match="'captured'"):
        simulate(make, seed=1, faults=[Hazard.KILL_ALL], exact=True)


class DrawsInVain(Unlucky):
    """Says that it is deterministic, and is not."""

    def process(self, item: Item) -> list[Item]:
        return [Item(item.n, (self.random.getrandbits(30),))]


def test_an_output_that_changes_is_told_of_below_a_bolt_that_keeps_its_outputs_too_B2() -> None:
    def make() -> Topology:
        topology = Topology("in-vain")
        drawn = topology.bolt("draws", Draws(0.0), items(topology).shuffle())
        topology.bolt("captured", Captured[Item](), topology.bolt("in-vain", DrawsInVain(0.0), drawn.shuffle()).all())
        return topology

    with pytest.raises(SimulationFailed, match="one key with two records"):
        [simulate(make, seed=seed, faults=DEATHS) for seed in range(20)]
