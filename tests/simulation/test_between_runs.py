"""Between two runs of a simulation: drains at any time, starts in vain, a clock that is set, and runs that begin from a
checkpoint that was kept. What may be left at the end. Sources with partitions, which the drawn topologies read."""

import asyncio
import contextlib
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `tests` is not installed

from tests.simulation.consistent import check
from tests.simulation.items import Item
from tests.simulation.late import Lots
from tests.simulation.partitioned import FIRST, Partitioned
from tests.simulation.power_cuts import DURABILITIES, Durability
from tests.simulation.surviving import CapturedCounts, Tallies
from topology import Bolt, Config, Message, State, Topology
from topology.components import Positions
from topology.testing import Captured, Hazard, Pause, ScriptedSpout, SimulationFailed, run_virtual, simulate
from topology.testing.simulator.sinks import SimulatedSinks
from topology.testing.virtual_time.process import SimulatedProcess

SEEDS = 12
BETWEEN = (Hazard.DRAIN, Hazard.VAIN_STARTS, Hazard.CLOCK_STEP)
FROM_KEPT = (Hazard.SAVEPOINT, Hazard.DRAIN, Hazard.KILL_ALL, Hazard.CRASH)
ITEMS = [Item(n) for n in range(60)]


class Counts(Bolt):
    def process(self, item: Item, state: State[int]) -> list[Item]:
        state.set(state.get(0) + 1)
        return [Item(item.n, (state.get(0),))]


def counted(**settings: Any) -> Topology:
    topology = Topology("counted")
    items = topology.spout("items", Partitioned(ITEMS, 4, waits={1: 1.0}, **settings), tasks=3)
    counts = topology.bolt("counts", Counts(), items.fields("n"), tasks=2)
    topology.bolt("captured", Captured[Item](), counts.shuffle())
    return topology


@pytest.mark.slow
@pytest.mark.parametrize("texts", [False, True])
def test_each_input_counts_once_in_runs_that_are_drained_between_others_B11(texts: bool) -> None:
    faults, runs = Counter[str](), 0
    for seed in range(SEEDS):
        made = partial(counted, texts=texts, as_met=texts)
        report = simulate(made, seed=seed, faults=[*BETWEEN, Hazard.KILL_ALL])
        faults.update(report.faults)
        runs += report.runs
    assert runs > SEEDS
    assert all(faults[one.name] for one in BETWEEN), faults


@pytest.mark.slow
def test_nothing_happens_between_runs_that_was_not_asked_for() -> None:
    for seed in range(SEEDS):
        report = simulate(counted, seed=seed, faults=[Hazard.KILL_ALL])
        assert set(report.faults) <= {"KILL_ALL"}


def tallied(durability: Durability) -> Topology:
    """A running count of each key, which depends on the order of inputs; its sink has every count of a key once."""
    topology = Topology("tallied", Config(durability=durability, max_restarts=1_000, max_replays=1_000))
    script = [one for item in ITEMS for one in ((item, Pause(0.1)) if item.n % 3 == 0 else (item,))]
    items = topology.spout("items", ScriptedSpout(script), tasks=2)
    lots = topology.bolt("lots", Lots(0.0), items.shuffle(), tasks=2)
    counts = topology.bolt("tally", Tallies(0.0), lots.fields("key"), tasks=2, concurrency=8)
    topology.bolt("captured", CapturedCounts(), counts.shuffle(), tasks=2)
    return topology


def from_kept(durability: Durability, seeds: range) -> Counter[str]:
    paths = Counter[str]()
    for seed in seeds:
        report = simulate(partial(tallied, durability), seed=seed, faults=FROM_KEPT)
        check(report, dead=False)
        paths.update({**report.paths, **report.faults})
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("durability", DURABILITIES)
def test_each_count_comes_once_in_runs_that_begin_from_a_kept_checkpoint_P15(durability: Durability) -> None:
    paths = from_kept(durability, range(40))
    assert paths["checkpoints kept"] >= 10, paths
    assert paths["SAVEPOINT"] >= 10, paths


def test_each_count_comes_once_when_a_run_begins_from_a_kept_checkpoint_P15() -> None:
    seed = 5
    assert from_kept("disk", range(seed, seed + 1))["SAVEPOINT"]


def test_a_sink_goes_back_to_what_each_worker_had_got_when_it_gathered() -> None:
    captured, lives = Captured[Item](), [SimulatedProcess(), SimulatedProcess()]
    captured.open(SimpleNamespace(clock=SimpleNamespace(monotonic=lambda: 0.0)))  # type: ignore[arg-type]
    sinks = SimulatedSinks({"captured": captured})
    out = SimpleNamespace(ack=lambda tup: None)
    workers = [SimpleNamespace(before_gather=lambda number: None, copy=lambda number, path: None) for _ in lives]
    for worker, life in zip(workers, lives, strict=True):
        sinks.watch(worker, life)

    def get(n: int, worker: int) -> None:
        lives[worker].call(captured.execute, SimpleNamespace(record=Item(n), origin=n, identity=0), out)

    get(0, worker=0)
    workers[0].before_gather(1)
    get(1, worker=0)
    get(2, worker=1)
    workers[1].before_gather(1)
    get(3, worker=1)
    for worker in workers:
        worker.copy(1, Path("checkpoints/kept/worker.db"))
    get(4, worker=0)
    sinks.keep("kept")
    assert sinks.go_back("kept") == {"captured": 2}
    assert captured.records == [Item(0), Item(2)]
    assert [*captured.by_pair.values()] == [Item(0), Item(2)]


def test_what_is_remembered_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topology.testing.simulator.run.remembered", lambda *workers, **how: Counter({"trees": 3}))
    with pytest.raises(SimulationFailed, match="10 s after all was done it remembers 3 trees"):
        simulate(counted, seed=1, faults=[Hazard.PAUSE])


# -- sources with partitions


def opened(source: Partitioned, positions: Positions, *, index: int = 0, tasks: int = 1) -> Partitioned:
    source.open(SimpleNamespace(index=index, tasks=tasks), positions)  # type: ignore[arg-type]
    return source


def test_each_partition_is_read_by_one_task_and_some_tasks_have_none() -> None:
    async def read(index: int) -> list[tuple[str, Any]]:
        source = opened(Partitioned(ITEMS[:6], 2), Positions(), index=index, tasks=3)
        given = [(one.partition, one.id) for one in await source.poll(4)]
        return given + [(one.partition, one.id) for one in await source.poll(4)]

    read_by = [run_virtual(read(index)) for index in range(3)]
    assert read_by[0] == [("lane0", FIRST + n) for n in (0, 2, 4)]
    assert read_by[1] == [("lane1", FIRST + n) for n in (1, 3, 5)]
    assert read_by[2] == []


def test_it_resumes_at_ids_that_are_texts_and_names_partitions_as_they_are_met() -> None:
    async def read() -> tuple[list[str], list[Message[Any]], list[str]]:
        source = opened(Partitioned(ITEMS[:9], 3, texts=True, as_met=True), Positions({"lane1": str(FIRST + 7)}))
        before = [*source.partitions()]
        return before, await source.poll(2), [*source.partitions()]

    before, given, after = run_virtual(read())
    assert before == ["lane1"]
    assert [(one.partition, one.id) for one in given] == [("lane0", "980"), ("lane1", "987")]
    assert after == ["lane1", "lane0"]


def test_a_poll_that_is_cancelled_while_it_waits_loses_nothing_and_waits_no_longer() -> None:
    async def read() -> tuple[int, float]:
        source = opened(Partitioned(ITEMS, 1, waits={0: 2.0}), Positions())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(source.poll(100), 1.5)
        return len(await source.poll(100)), asyncio.get_running_loop().time()

    assert run_virtual(read()) == (60, 2.0)
