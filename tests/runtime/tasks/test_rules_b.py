"""Halves of the rules B that no other test sees alone: B1, B2, B6, B7, B8, B13."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Never

import pytest
from runtime_kit import Doing, Number, Pair, Same, line, numbers

from topology import Bolt, Collector, Record, Task, Topology, Tuple
from topology.testing import Captured, Divergence, Pause, ScriptedSpout, run_bolt, run_topology

SEEDS = range(8)


class FailsOnce(Bolt):
    """Raises at the first sight of each record by any of its tasks, so that each message is replayed."""

    def __init__(self) -> None:
        self.seen: set[Record] = set()

    def __deepcopy__(self, memo: object) -> "FailsOnce":
        return self

    def process(self, number: Number) -> list[Number]:
        if number in self.seen:
            return [number]
        self.seen.add(number)
        raise ValueError("once")


class Three(Bolt):
    def process(self, number: Number) -> Iterator[Number]:
        for k in range(3):
            yield Number(10 * number.n + k)


# -- B1, B8: what an identity depends on, and what not


def test_two_components_that_emit_for_one_input_have_identities_of_their_own_B1() -> None:
    topology, captured = Topology("two"), Captured[Number]()
    stream = topology.spout("numbers", ScriptedSpout(numbers(5)))
    both = [topology.bolt(name, Same(), stream.shuffle()) for name in ("left", "right")]
    topology.bolt("captured", captured, *(one.shuffle() for one in both))
    run_topology(topology)
    assert len(captured.distinct) == 10


def test_records_of_another_stream_in_between_change_no_identity_B1() -> None:
    class Talks(Bolt):
        def __init__(self, aside: bool) -> None:
            self.aside = aside

        def process(self, number: Number) -> Iterator[Number | Pair]:
            for k in range(3):
                if self.aside:
                    yield Pair(number.n, k)
                yield Number(10 * number.n + k)

    def identities(aside: bool) -> dict[tuple[int, int], Number]:
        topology, captured = Topology("aside"), Captured[Number]()
        talks = topology.bolt("talks", Talks(aside), topology.spout("numbers", ScriptedSpout(numbers(4))).shuffle())
        topology.bolt("captured", captured, talks[Number].shuffle())
        run_topology(topology)
        return captured.distinct

    assert identities(False) == identities(True)


def test_how_many_read_a_stream_changes_no_identity_of_its_emissions_B1() -> None:
    def identities(readers: int) -> dict[tuple[int, int], Number]:
        topology, captured = Topology("readers"), Captured[Number]()
        three = topology.bolt("three", Three(), topology.spout("numbers", ScriptedSpout(numbers(4))).shuffle())
        for index in range(readers):
            topology.bolt(f"captured{index}", captured if index == 0 else Captured[Number](), three.all(), tasks=1)
        run_topology(topology)
        return captured.distinct

    assert identities(1) == identities(2) == identities(5)
    assert len(identities(1)) == 12


@pytest.mark.parametrize("grouping", ["shuffle", "local_or_shuffle", "partial_key", "fields"])
def test_whichever_task_a_tuple_goes_to_its_identity_stays_B8(grouping: str) -> None:
    """By another number of tasks, another seed, and by replays that meet another task than before."""
    found = []
    for tasks, seed in ((1, 0), (2, 1), (3, 2), (3, 3)):
        topology, captured = Topology("targets"), Captured[Number]()
        stream = topology.spout("numbers", ScriptedSpout(numbers(12)))
        keys = ["n"] if grouping in ("partial_key", "fields") else []
        once = topology.bolt("once", FailsOnce(), getattr(stream, grouping)(*keys), tasks=tasks)
        same = topology.bolt("same", Three(), getattr(once, grouping)(*keys), tasks=tasks)
        topology.bolt("captured", captured, same.shuffle())
        assert run_topology(topology, seed=seed).snapshot.total("replayed") == 12
        found.append(captured.distinct)
    assert len(found[0]) == 36
    assert all(one == found[0] for one in found)


# -- B2: bolts that are not deterministic


def test_a_replay_meets_the_task_of_a_non_deterministic_bolt_that_did_the_work_before_B2() -> None:
    met: defaultdict[int, set[int]] = defaultdict(set)

    class Guess(Bolt):
        deterministic = False

        def open(self, task: Task) -> None:
            self.index = task.index

        def process(self, number: Number) -> list[Number]:
            met[number.n].add(self.index)
            return [number]

    topology, captured = line(ScriptedSpout(numbers(40)), Guess(), FailsOnce(), tasks=4)
    report = run_topology(topology)
    assert report.snapshot.total("replayed") == 40
    assert {len(tasks) for tasks in met.values()} == {1}
    assert {task for tasks in met.values() for task in tasks} == {0, 1, 2, 3}
    assert len(captured.distinct) == 40


def test_the_kit_finds_a_bolt_that_gives_a_replay_something_else_B2() -> None:
    class Dices(Bolt):
        def open(self, task: Task) -> None:
            self.random = task.random

        def process(self, number: Number) -> list[Number]:
            return [Number(self.random.randrange(1_000_000))]

    topology, _ = line(ScriptedSpout(numbers(3)), Dices())
    with pytest.raises(Divergence, match="'captured' got one key with other records"):
        run_topology(topology, replay_all=True)


# -- B7, B13: joins, and records handed over


def test_several_results_of_one_pair_have_the_same_identities_in_any_order_of_anchors_B7() -> None:
    def joined(flips: bool) -> dict[tuple[int, int], Number]:
        def execute(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
            bolt.kept.append(tup)
            if len(bolt.kept) == 2:
                anchors = bolt.kept
                for k in range(4):
                    out.emit(Number(k), anchors=anchors[::-1] if flips and k % 2 else anchors)
                for one in anchors:
                    out.ack(one)

        topology, captured = line(ScriptedSpout(numbers(2)), Doing(execute))
        run_topology(topology)
        return captured.distinct

    assert joined(False) == joined(True)
    assert len(joined(True)) == 4


def test_results_of_a_pair_are_numbered_apart_from_those_of_each_side_whichever_comes_first_B7() -> None:
    def given(pair_first: bool) -> dict[int, tuple[int, int]]:
        def execute(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
            bolt.kept.append(tup)
            if len(bolt.kept) == 2:
                sets = [bolt.kept, *([one] for one in bolt.kept)]
                for anchors in sets if pair_first else sets[::-1]:
                    out.emit(Number(sum(10**one.record.n for one in anchors)), anchors=anchors)
                for one in bolt.kept:
                    out.ack(one)

        topology, captured = line(ScriptedSpout(numbers(2)), Doing(execute))
        run_topology(topology)
        return {one.n: pair for pair, one in captured.distinct.items()}

    assert given(True) == given(False)
    assert sorted(given(True)) == [1, 10, 11]


class Amount(Record):
    value: float


def test_the_kit_gives_each_task_a_record_of_its_own_from_its_bytes_B13() -> None:
    emitted: list[Number] = []

    class Keeps(Bolt):
        def process(self, number: Number) -> list[Number]:
            emitted.append(number)
            return [number]

    topology, captured = line(ScriptedSpout(numbers(3)), Keeps())
    run_topology(topology)
    assert captured.records == emitted
    assert not {id(one) for one in captured.records} & {id(one) for one in emitted}


def test_the_kit_refuses_a_value_that_its_bytes_do_not_keep_naming_the_emitter_B13() -> None:
    class Whole(Bolt):
        def process(self, number: Number) -> list[Amount]:
            return [Amount(number.n if number.n == 1 else 0.5)]

    done = run_bolt(Whole(), numbers(2))
    assert [one.record for one in done.failed] == [Number(1)]
    assert "'bolt' emitted Amount(value=1): Amount.value holds 1, a int" in done.failed[0].reason
    assert done.outputs == [Amount(0.5)]


# -- B6: order


def arrivals(seed: int | None) -> list[tuple[int, int]]:
    """The order in which ten numbers arrive by two ways, of one task each."""

    class Side(Bolt):
        def __init__(self, side: int) -> None:
            self.side = side

        def process(self, number: Number) -> list[Pair]:
            return [Pair(self.side, number.n)]

    topology, captured = Topology("order"), Captured[Pair]()
    stream = topology.spout("numbers", ScriptedSpout([one for n in range(10) for one in (Number(n), Pause(1))]))
    sides = [topology.bolt(f"side{side}", Side(side), stream.global_()) for side in range(2)]
    topology.bolt("captured", captured, *(one.global_() for one in sides))
    run_topology(topology, seed=seed)
    return [(pair.left, pair.right) for pair in captured.records]


def test_the_kit_shuffles_what_the_runtime_does_not_order_and_the_same_seed_alike_B6() -> None:
    found = [arrivals(seed) for seed in SEEDS]
    assert len({tuple(one) for one in found}) >= 3, "of as many orders as seeds, at least a few"
    assert [arrivals(seed) for seed in SEEDS] == found
    assert len({tuple(arrivals(None)) for _ in SEEDS}) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_tuples_from_one_task_to_one_task_arrive_in_order_B6(seed: int) -> None:
    class From(Bolt):
        """Says which task the numbers came from."""

        def open(self, task: Task) -> None:
            self.index = task.index

        def process(self, number: Number) -> Iterator[Pair]:
            yield Pair(self.index, 2 * number.n)
            yield Pair(self.index, 2 * number.n + 1)

    class Held(Bolt):
        """Reads the same stream, so that each emission has several targets."""

        def execute(self, tup: Tuple[Pair], out: Collector[Never]) -> None:
            out.ack(tup)

    topology, captured = Topology("order"), Captured[Pair]()
    stream = topology.bolt("from", From(), topology.spout("numbers", ScriptedSpout(numbers(300))).shuffle(), tasks=2)
    for index in range(2):
        topology.bolt(f"held{index}", Held(), stream.shuffle())
    topology.bolt("captured", captured, stream.global_(), tasks=3)
    run_topology(topology, seed=seed)
    for task in range(2):
        seen = [pair.right for pair in captured.records if pair.left == task]
        assert seen == sorted(seen), f"seed {seed}"
        assert len(seen) == 300
