"""`CountWithin` in the real runtime, on virtual time: its timers, the end of a bounded run, replays, crashes, and the
run after.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from counting_kit import Alert, Event, Events, plainly, told

from topology import Topology
from topology.testing import Captured, Crash, Pause, ScriptedSpout, run_bolt, run_topology

DISORDERED = [Event(float(second), name=str(second)) for second in (3, 1, 2, 0, 8, 30, 29, 28, 31, 27, 60, 58, 52)]


def test_what_waits_is_decided_when_the_input_ends_whatever_order_it_came_in() -> None:
    done = run_bolt(Events(3, 5, lateness_s=10), DISORDERED, by=("key",)).well()
    assert told(done.outputs) == plainly(DISORDERED, 3, 5)
    assert len(done.outputs) == 2


def test_what_waits_is_decided_by_the_wall_clock_where_nothing_newer_comes() -> None:
    done = run_bolt(Events(3, 5, lateness_s=10), [*DISORDERED[:4], Pause(11), Event(2.5)], by=("key",)).well()
    assert told(done.outputs) == [("2", 3, 0, 2)], "2.5 came when that was decided"


def test_records_in_order_are_decided_as_they_come() -> None:
    done = run_bolt(Events(2, 5), [Event(0.0), Event(1.0), Pause(0.1), Event(2.0)], by=("key",)).well()
    assert told(done.outputs) == [("", 2, 0, 1)]


def counting(events: Sequence[Event | Pause], alerts: Captured[Alert]) -> Topology:
    topology = Topology("counts")
    given = topology.spout("events", ScriptedSpout[Event](events))
    raised = topology.bolt("alerts", Events(3, 5, lateness_s=60), given.fields("key"), tasks=2)
    topology.bolt("captured", alerts, raised.global_())
    return topology


MANY = [Event(one.second, name=one.name, key=key) for one in DISORDERED for key in "abc"]
DUE = sorted([(*one, key) for one in plainly(DISORDERED, 3, 5) for key in "abc"])


def raised(alerts: Captured[Alert]) -> list[tuple[str, int, float, float, str]]:
    return sorted((*one, alert.key) for alert in alerts.records for one in told([alert]))


@pytest.mark.parametrize("seed", range(5))
def test_replays_of_everything_raise_the_same_bursts_d2(seed: int) -> None:
    alerts = Captured[Alert]()
    report = run_topology(counting(MANY, alerts), seed=seed, replay_all=True)
    assert report.exit_status == 0
    assert raised(alerts) == DUE


@pytest.mark.parametrize("seed", range(5))
def test_a_worker_that_dies_raises_the_same_bursts_d1(seed: int, tmp_path: Path) -> None:
    alerts = Captured[Alert]()
    report = run_topology(counting(MANY, alerts), seed=seed, workers=2, crashes=[Crash(1, acked=6)], state_dir=tmp_path)
    assert report.exit_status == 0
    assert raised(alerts) == DUE


def test_at_the_end_of_a_bounded_run_all_that_waits_is_decided_however_many_keys_there_are() -> None:
    events = [Event(float(second), key=str(key)) for key in range(3_000) for second in (2, 0, 1)]
    alerts = Captured[Alert]()
    report = run_topology(counting(events, alerts))
    assert report.exit_status == 0
    assert sorted(one.key for one in alerts.records) == sorted(str(key) for key in range(3_000))
    assert report.snapshot.bolts["alerts"].executed == len(events), "timers are no inputs"
