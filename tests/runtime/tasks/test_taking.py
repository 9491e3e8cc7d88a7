"""Bolts that take many inputs in one call, as our sinks do, with the real runtime: whose `execute` is called, room,
what raises, what is asked of an input after it was given (A1, A3, A4, D5), and what counts as held (A13)."""

from collections.abc import Sequence
from typing import Any, Never

import pytest
from runtime_kit import Number, Overlapping, Pair, balanced, numbers

from acker.frontier import Decided, Frontier, Note
from acker.roots import NUMBER_SHIFT, owner
from bolts import SqliteSink
from topology import Bolt, Collector, Config, Reject, Topology, Tuple, TupleStateError
from topology.core.source import Source
from topology.runtime.tasks.batch_executor import BatchExecutor, takes_many
from topology.runtime.tasks.collector import CollectingExecutor
from topology.testing import Captured, ScriptedSpout, Watch, run_topology


class Takes(Bolt):
    """Keeps what it is given, up to `most`; acks by the batch when it is full, and in the end."""

    def __init__(self, most: int = 8) -> None:
        self.most = most
        self.kept: list[Tuple[Any]] = []
        self.calls: list[int] = []  # inputs of each call

    def inputs_room(self) -> int:
        return self.most - len(self.kept)

    def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Never]) -> None:
        assert 0 < len(tuples) <= self.inputs_room()
        self.calls.append(len(tuples))
        self.kept += tuples
        if not self.inputs_room():
            self.done(out)

    def execute(self, tup: Tuple[Number | Pair], out: Collector[Never]) -> None:
        raise AssertionError("there was room")

    def done(self, out: Any) -> None:
        kept, self.kept = self.kept, []
        assert not out.ack_all(kept)

    def flush(self, out: Collector[Never]) -> None:
        self.done(out)


def taken(bolt: Any, count: int = 20, config: Config | None = None) -> tuple[Topology, Watch]:
    topology = Topology("taking", config)
    topology.bolt("takes", bolt, topology.spout("numbers", ScriptedSpout(numbers(count))).shuffle())
    return topology, Watch()


def executor_of(watch: Watch) -> BatchExecutor:
    executor = watch.executor("takes")
    assert isinstance(executor, BatchExecutor)
    return executor


def test_inputs_come_many_at_once_as_far_as_there_is_room_and_all_are_acked() -> None:
    topology, watch = taken(Takes())
    report = run_topology(topology, watch=watch)
    executor = executor_of(watch)
    assert sum(executor.bolt.calls) == report.snapshot.total("acked") == 20
    assert max(executor.bolt.calls) > 1
    assert executor.kept == 20
    assert executor.in_hand == 0
    assert balanced(report)


def test_without_room_execute_is_asked_for_one_and_waited_for() -> None:
    class Full(Takes):
        waited = 0

        async def makes_room(self, tup: Tuple[Any], out: Any) -> None:
            self.done(out)
            self.kept.append(tup)

        def execute(self, tup: Tuple[Number | Pair], out: Collector[Never]) -> Any:
            self.waited += 1
            return self.makes_room(tup, out)

        def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Never]) -> None:
            assert 0 < len(tuples) <= self.inputs_room()
            self.kept += tuples

    topology, watch = taken(Full(4))
    report = run_topology(topology, watch=watch)
    assert report.snapshot.total("acked") == 20
    assert watch.executor("takes").bolt.waited >= 3
    assert balanced(report)


def test_a_nearer_execute_is_called_for_each_input() -> None:
    class Looks(Takes):
        seen = 0

        def execute(self, tup: Tuple[Number | Pair], out: Collector[Never]) -> None:
            self.seen += 1
            self.take_inputs([tup], out)

    class Both(Looks):
        def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Never]) -> None:
            super().take_inputs(tuples, out)

    topology, watch = taken(Looks())
    run_topology(topology, watch=watch)
    executor = watch.executor("takes")
    assert type(executor) is CollectingExecutor
    assert executor.bolt.seen == 20
    assert takes_many(Takes())
    assert takes_many(Both())
    patched: Any = Takes()
    patched.execute = lambda tup, out: None
    assert not takes_many(patched)
    assert not takes_many(Captured[Number]())
    assert takes_many(SqliteSink("x.db"))


def test_a_users_method_of_that_name_and_nonsense_about_room_cost_no_run_f6() -> None:
    class Named(Bolt):
        """Nothing of ours but the name of a method."""

        def execute(self, tup: Tuple[Number | Pair], out: Collector[Never]) -> None:
            self.take_inputs(out, tup)

        def take_inputs(self, out: Any, tup: Any) -> None:
            out.ack(tup)

    class Nonsense(Takes):
        def inputs_room(self) -> Any:
            return "kitchen"

        def flush(self, out: Collector[Never]) -> None:
            """Nothing was taken."""

    topology, watch = taken(Named())
    assert run_topology(topology, watch=watch).snapshot.total("acked") == 20
    assert type(watch.executor("takes")) is CollectingExecutor
    topology, watch = taken(Nonsense(), 3, Config(max_replays=0))
    report = run_topology(topology, watch=watch)
    assert report.snapshot.total("dead") == 3, "`execute` says that there was room"
    assert balanced(report)


def test_an_execute_that_the_bolt_is_given_when_it_opens_is_called() -> None:
    class Late(Takes):
        seen = 0

        def open(self, task: Any) -> None:
            self.execute = self.looks  # type: ignore[method-assign]

        def looks(self, tup: Tuple[Any], out: Any) -> None:
            self.seen += 1
            out.ack(tup)

    topology, watch = taken(Late())
    assert run_topology(topology, watch=watch).snapshot.total("acked") == 20
    assert watch.executor("takes").bolt.seen == 20


@pytest.mark.parametrize("error", [ValueError("not now"), SystemExit(3), Reject("never")])
def test_what_it_raises_fails_each_of_these_inputs_and_they_come_again_f6(error: BaseException) -> None:
    class Raises(Takes):
        def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Never]) -> None:
            if not self.calls:
                self.calls.append(len(tuples))
                raise error
            super().take_inputs(tuples, out)

    topology, watch = taken(Raises(64))
    report = run_topology(topology, watch=watch)
    first = watch.executor("takes").bolt.calls[0]
    assert first > 1
    assert report.snapshot.total("failed") == first
    assert report.snapshot.total("dead") == (first if isinstance(error, Reject) else 0)
    assert report.snapshot.total("acked") == 20 - report.snapshot.total("dead")
    assert balanced(report)


def test_a3_a4_each_input_may_be_acked_failed_or_touched_alone_but_once() -> None:
    class Alone(Takes):
        looked_at = False

        def done(self, out: Any) -> None:
            kept, self.kept = self.kept, []
            if len(kept) < 4:
                assert not out.ack_all(kept)
                return
            out.touch(kept[0])
            out.ack(kept[0])
            out.fail(kept[1], "not this one")
            assert out.ack_all([*kept, kept[3]]) == [kept[0], kept[1], kept[3]]
            for act in (out.ack, out.touch, lambda tup: out.fail(tup, "late")):
                for tup in kept:
                    with pytest.raises(TupleStateError):
                        act(tup)
            self.looked_at = True

    topology, watch = taken(Alone(4), 4)
    report = run_topology(topology, watch=watch)
    assert executor_of(watch).bolt.looked_at
    assert report.snapshot.total("acked") == 4
    assert report.snapshot.total("failed") == 1
    assert balanced(report)


def test_a1_it_may_emit_anchored_to_what_it_was_given() -> None:
    class Pairs(Takes):
        def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Any]) -> None:
            super().take_inputs(tuples, out)  # as a nearer class's own `execute` alone would be called

        def execute(self, tup: Tuple[Number | Pair], out: Collector[Pair]) -> None:  # type: ignore[override]
            raise AssertionError("there was room")

        def done(self, out: Any) -> None:
            for left, right in zip(self.kept[::2], self.kept[1::2], strict=True):
                out.emit(Pair(left.record.n, right.record.n), anchors=[left, right])
            super().done(out)

    topology = Topology("pairs")
    pairs: Any = topology.bolt("takes", Pairs(), topology.spout("numbers", ScriptedSpout(numbers(20))).shuffle())
    captured = Captured[Pair]()
    topology.bolt("captured", captured, pairs.shuffle())
    report = run_topology(topology)
    assert len(captured.records) == 10
    assert report.snapshot.total("acked") == 20
    assert balanced(report)


@pytest.mark.parametrize("workers", [1, 2])
def test_a1_what_is_in_several_trees_is_acked_at_each_of_their_homes(workers: int) -> None:
    topology = Topology("joined")
    lines = [topology.spout(name, ScriptedSpout(numbers(20))) for name in ("left", "right")]
    joined = topology.bolt("pairs", Overlapping(), *(one.global_() for one in lines))
    topology.bolt("takes", Takes(), joined.shuffle(), tasks=2)
    topology.bolt("twice", Takes(), joined.shuffle())
    report = run_topology(topology, workers=workers)
    assert report.snapshot.total("acked") == 40
    assert not report.snapshot.total("failed")
    assert balanced(report)


def test_without_acks_what_is_in_no_tree_is_let_go() -> None:
    topology, watch = taken(Takes(), config=Config(guarantee="at-most-once"))
    report = run_topology(topology, watch=watch)
    assert report.exit_status == 0
    assert not watch.executor("takes").held()
    assert not report.aborted


def test_a13_what_it_has_forgotten_fails_at_the_hard_cap_and_is_told_of_as_held_until_then() -> None:
    held: list[int] = []

    class Forgets(Takes):
        def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Never]) -> None:
            first = not self.calls
            super().take_inputs(tuples, out)
            if first:
                held.append(executor_of(watch).in_hand)
                del self.kept[0]

        def flush(self, out: Collector[Never]) -> None:
            held.append(executor_of(watch).in_hand)
            super().flush(out)

    topology, watch = taken(Forgets(64), 5, Config(tree_timeout_s=5.0))
    report = run_topology(topology, watch=watch)
    assert held[0] > 1
    assert report.snapshot.total("acked") == 5
    assert report.snapshot.total("failed") == 1
    assert balanced(report)


def test_d5_what_is_of_finished_trees_is_left_out_and_counted() -> None:
    topology, watch = taken(Takes())
    run_topology(topology, watch=watch)
    executor = executor_of(watch)
    life = owner(0, 1)
    done, fresh, newest = (life << 32 | number for number in (3, 9, 6))
    decided = Decided()
    decided.frontier = Frontier(1, {0: Note((life,), newest, frozenset({life << 32 | 5}))})

    def of(*messages: int) -> Tuple[Any]:
        first, *others = (message << NUMBER_SHIFT for message in messages)
        return Tuple(Number(1), 1, 1, first, tuple(others), Source("numbers", "Number"))

    given = [of(done), of(fresh), of(fresh, done), of(fresh + 1, fresh), of(life << 32 | 5)]
    assert executor._fresh(given, decided) == [given[1], given[3], given[4]]
    assert executor.stale == 2
    only_fresh = [of(fresh), of(fresh + 1)]
    assert executor._fresh(only_fresh, decided) is only_fresh, "the quick way"
    joined = [of(fresh), of(fresh + 1, done)]
    assert executor._fresh(joined, decided) == joined[:1]
    assert executor.stale == 3


def test_d5_what_is_anchored_to_finished_trees_alone_is_dropped_and_counted() -> None:
    topology, watch = taken(Takes())
    run_topology(topology, watch=watch)
    executor = executor_of(watch)
    life = owner(0, 1)
    roots = [(life << 32 | number) << NUMBER_SHIFT for number in (3, 9)]
    executor.decided = None
    assert not executor.are_stale(roots[:1]), "nothing below remembers inputs"
    executor.decided = Decided()
    assert not executor.are_stale(roots[:1]), "nothing is decided yet"
    executor.decided.frontier = Frontier(1, {0: Note((life,), life << 32 | 6)})
    assert executor.are_stale(roots[:1])
    assert not executor.are_stale(roots), "a tree waits for it"
    assert executor.stale == 1
