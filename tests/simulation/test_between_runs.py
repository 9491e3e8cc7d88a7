"""Between two runs of a simulation: drains at any time, starts in vain, a clock that is set. What may be left at the
end. Sources with partitions, which the drawn topologies read."""

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

from tests.simulation.items import Item
from tests.simulation.partitioned import FIRST, Partitioned
from topology import Bolt, Message, State, Topology
from topology.components import Positions
from topology.testing import Captured, Hazard, SimulationFailed, run_virtual, simulate

SEEDS = 12
BETWEEN = (Hazard.DRAIN, Hazard.VAIN_STARTS, Hazard.CLOCK_STEP)
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
