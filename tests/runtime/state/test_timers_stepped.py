"""Timers of runs whose clock was stepped back between them, as by NTP after a boot with a wrong clock: no two timers
have one identity, or a sink would drop what the second emits as a replay of the first. Rule B15."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from topology import Bolt, Record, State, Topology
from topology.testing import Captured, Crash, Pause, ScriptedSpout, run_topology

AT = datetime(2026, 1, 1, 12, 1, tzinfo=UTC)
BEFORE = AT - timedelta(seconds=10)


class Order(Record):
    key: str
    n: int


class Alarm(Record):
    key: str
    n: int


class Alarms(Bolt):
    """Each order sets the timer of its key for one and the same time."""

    fires_at_end = False

    def process(self, order: Order, state: State[int]) -> None:
        state.set(order.n)
        state.timer(AT)

    def on_timer(self, key: tuple[str], name: str, state: State[int]) -> Iterator[Alarm]:
        yield Alarm(key[0], state.get(0))


def run(path: Path, script: Sequence[Any], start: datetime, *, tasks: int = 1, **how: Any) -> Captured[Alarm]:
    topology, captured = Topology("alarms"), Captured[Alarm]()
    orders = topology.spout("orders", ScriptedSpout(script))
    alarms = topology.bolt("alarms", Alarms(), orders.fields("key"), tasks=tasks)
    topology.bolt("captured", captured, alarms.shuffle())
    run_topology(topology, state_dir=path, start=start, **how)
    return captured


KEYS = [f"k{n}" for n in range(12)]


def orders(upto: int) -> list[Any]:
    """Those of the runs before, which the spout has again, and one more of each key; then the timers are waited for."""
    return [*(Order(key, n) for n in range(1, upto + 1) for key in KEYS), Pause(90)]


@pytest.mark.parametrize(("tasks", "workers"), [(1, 1), (3, 1), (3, 2)])
def test_a_timer_that_is_set_again_by_a_later_run_whose_clock_was_stepped_back_is_another_one_B15(
    tmp_path: Path, tasks: int, workers: int
) -> None:
    first = run(tmp_path, orders(1), BEFORE, tasks=tasks, workers=workers)
    second = run(tmp_path, orders(2), BEFORE - timedelta(seconds=20), tasks=tasks, workers=workers)
    third = run(tmp_path, orders(3), BEFORE - timedelta(seconds=40), tasks=tasks, workers=workers)
    for of, captured in enumerate((first, second, third), 1):
        assert sorted((one.key, one.n) for one in captured.distinct.values()) == sorted((key, of) for key in KEYS)
    assert len({*first.distinct, *second.distinct, *third.distinct}) == 3 * len(KEYS)


@pytest.mark.parametrize(("before", "after"), [((1, 1), (4, 2)), ((4, 2), (1, 1)), ((4, 2), (3, 3))])
def test_it_is_another_one_whichever_task_of_whichever_worker_has_its_key_now_B15(
    tmp_path: Path, before: tuple[int, int], after: tuple[int, int]
) -> None:
    first = run(tmp_path, orders(1), BEFORE, tasks=before[0], workers=before[1])
    second = run(tmp_path, orders(2), BEFORE - timedelta(seconds=20), tasks=after[0], workers=after[1])
    assert len(first.distinct) == len(second.distinct) == len(KEYS)
    assert not {*first.distinct} & {*second.distinct}


def test_a_worker_that_has_died_since_a_timer_fired_knows_that_it_has_B15(tmp_path: Path) -> None:
    early, late = [Order(key, 1) for key in KEYS], Order("late", 1)
    first = run(tmp_path, [*early, Pause(30), late, Pause(5)], BEFORE, crashes=[Crash(0, at_s=25)])
    again = [*early, late, *(Order(key, 2) for key in KEYS), Pause(90)]
    second = run(tmp_path, again, BEFORE - timedelta(seconds=20))
    assert sorted(one.key for one in first.distinct.values()) == [*sorted(KEYS), "late"]
    assert sorted((one.key, one.n) for one in second.distinct.values()) == [(key, 2) for key in sorted(KEYS)]
    assert not {*first.distinct} & {*second.distinct}
