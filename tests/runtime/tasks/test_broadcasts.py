"""Emissions that go to several tasks of one bolt: each copy is a tuple of its own; none hides another (A18)."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from runtime_kit import Number, Same

from topology import Bolt, Config, Grouping, Topology
from topology.testing import Captured, ScriptedSpout, run_topology


class AlwaysRaises(Bolt):
    def process(self, number: Number) -> None:
        raise ValueError("always")


class Everybody(Grouping):
    def choose(self, record: Any, tasks: int) -> Sequence[int]:
        return range(tasks)


class OneOfThem(Grouping):
    """Another task at each call: what a load-dependent grouping does to a replay."""

    def __init__(self) -> None:
        self.calls = 0

    def choose(self, record: Any, tasks: int) -> Sequence[int]:
        self.calls += 1
        return [self.calls % tasks]


class FailsOnce(Bolt):
    """Raises at the first sight of each number by any of its tasks, so that each message is replayed."""

    seen: set[int]

    def __init__(self) -> None:
        self.seen = set()

    def __deepcopy__(self, memo: object) -> "FailsOnce":
        return self

    def process(self, number: Number) -> Iterator[Number]:
        if number.n not in self.seen:
            self.seen.add(number.n)
            raise ValueError("once")
        yield number


@pytest.mark.parametrize("grouping", [None, Everybody()], ids=["all", "custom"])
def test_a_message_is_not_acked_while_what_the_copies_led_to_has_failed_a18(grouping: Grouping | None) -> None:
    topology = Topology("broadcast", Config(max_replays=0))
    numbers = topology.spout("numbers", ScriptedSpout([Number(n) for n in range(10)]))
    copies = topology.bolt("same", Same(), numbers.custom(grouping) if grouping else numbers.all(), tasks=2)
    topology.bolt("raises", AlwaysRaises(), copies.shuffle())
    report = run_topology(topology, seed=1)
    assert report.snapshot.total("acked") == 0
    assert report.snapshot.total("dead") == 10


def test_each_copy_of_a_broadcast_has_an_identity_of_its_own_and_the_first_keeps_the_emissions_a18_b1() -> None:
    identities: dict[int, list[set[int]]] = {}
    for tasks in (1, 2, 3):
        captured: Captured[Number] = Captured()
        topology = Topology("broadcast")
        numbers = topology.spout("numbers", ScriptedSpout([Number(1)]))
        same = topology.bolt("same", Same(), numbers.all(), tasks=tasks)
        topology.bolt("captured", captured, same.shuffle())
        run_topology(topology, seed=1)
        identities[tasks] = [{tup.identity} for tup in captured.tuples]
        assert len(set.union(*identities[tasks])) == tasks
    assert set.union(*identities[1]) < set.union(*identities[2]) < set.union(*identities[3])


def test_a_custom_grouping_that_chooses_another_task_for_the_replay_changes_no_identity_b1() -> None:
    seen: list[set[int]] = []
    for grouping in (OneOfThem(), None):
        captured: Captured[Number] = Captured()
        topology = Topology("custom")
        numbers = topology.spout("numbers", ScriptedSpout([Number(n) for n in range(20)]))
        once = topology.bolt("once", FailsOnce(), numbers.custom(grouping) if grouping else numbers.global_(), tasks=3)
        topology.bolt("captured", captured, once.shuffle())
        assert run_topology(topology, seed=2).snapshot.total("replayed") == 20
        seen.append({tup.identity for tup in captured.tuples})
    assert seen[0] == seen[1]
