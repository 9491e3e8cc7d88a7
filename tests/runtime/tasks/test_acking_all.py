"""A sink's acks of a whole batch, with the real runtime: rules A1, A3 and A4, joins, workers, and tuples of no tree."""

from collections.abc import Iterable
from typing import Any, Never

import pytest
from runtime_kit import Doing, Number, Overlapping, Pair, balanced, numbers

from topology import Bolt, Collector, Config, Topology, Tuple, TupleStateError
from topology.runtime.tasks.collector import CollectingExecutor
from topology.testing import ScriptedSpout, Watch, run_topology


def ack_all(out: Any, tuples: Iterable[Tuple[Any]]) -> list[Tuple[Any]]:
    """The runtime's own, as sinks use it."""
    finished: list[Tuple[Any]] = out.ack_all(tuples)
    return finished


class Gathers(Bolt):
    """Keeps what it takes until the end of input, and acks all of it at once."""

    def __init__(self) -> None:
        self.kept: list[Tuple[Any]] = []

    def execute(self, tup: Tuple[Number | Pair], out: Collector[Never]) -> None:
        self.kept.append(tup)

    def flush(self, out: Collector[Never]) -> None:
        kept, self.kept = self.kept, []
        assert not ack_all(out, kept)


def of_four(function: Any, config: Config | None = None) -> tuple[Topology, Watch]:
    """A bolt that keeps three of four inputs; with the fourth `function(all four, out)` is called."""

    def execute(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        bolt.kept.append(tup)
        if len(bolt.kept) == 4:
            function(bolt.kept, out)

    topology = Topology("many", config)
    topology.bolt("acks", Doing(execute), topology.spout("numbers", ScriptedSpout(numbers(4))).shuffle())
    return topology, Watch()


def misused(watch: Watch) -> int:
    executor = watch.executor("acks")
    assert isinstance(executor, CollectingExecutor)
    return executor.misused


def test_a3_a4_acking_several_at_once_completes_those_that_are_open_and_tells_the_others() -> None:
    def acks(kept: list[Tuple[Any]], out: Any) -> None:
        out.ack(kept[0])
        assert ack_all(out, kept) == kept[:1], "the first was done already"

    topology, watch = of_four(acks)
    report = run_topology(topology, watch=watch)
    assert report.snapshot.total("acked") == 4
    assert not report.snapshot.total("failed")
    assert misused(watch) == 1
    assert balanced(report)


def test_a4_an_input_that_is_named_twice_is_acked_once() -> None:
    def acks(kept: list[Tuple[Any]], out: Any) -> None:
        assert ack_all(out, [*kept, kept[2]]) == [kept[2]]
        assert ack_all(out, kept) == kept

    topology, watch = of_four(acks)
    report = run_topology(topology, watch=watch)
    assert report.snapshot.total("acked") == 4
    assert misused(watch) == 5
    assert balanced(report)


def test_a3_what_was_acked_at_once_can_neither_be_acked_nor_failed_nor_emitted_on() -> None:
    def acks(kept: list[Tuple[Any]], out: Any) -> None:
        assert not ack_all(out, kept)
        for act in (out.ack, lambda tup: out.fail(tup, "late"), lambda tup: out.emit(Number(1), anchors=[tup])):
            with pytest.raises(TupleStateError):
                act(kept[1])

    topology, watch = of_four(acks)
    report = run_topology(topology, watch=watch)
    assert report.snapshot.total("acked") == 4
    assert not report.snapshot.total("failed"), str(watch.failures)
    assert balanced(report)


def test_a4_of_a_batch_what_was_failed_before_is_replayed_and_the_others_are_done() -> None:
    attempts: list[int] = []

    def acks(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        attempts.append(tup.record.n)
        bolt.kept.append(tup)
        if len(attempts) == 4:
            out.fail(bolt.kept[1], "not this one")
            assert ack_all(out, bolt.kept) == [bolt.kept[1]]
        elif len(attempts) > 4:
            assert not ack_all(out, [tup])

    topology = Topology("many")
    topology.bolt("acks", Doing(acks), topology.spout("numbers", ScriptedSpout(numbers(4))).shuffle())
    report = run_topology(topology, seed=None)
    assert attempts == [0, 1, 2, 3, 1]
    assert report.snapshot.total("acked") == 4
    assert report.snapshot.total("failed") == 1
    assert balanced(report)


@pytest.mark.parametrize("workers", [1, 2])
def test_a1_acks_at_once_of_what_is_in_several_trees_go_to_each_of_their_homes(workers: int) -> None:
    topology = Topology("joined")
    lines = [topology.spout(name, ScriptedSpout(numbers(20))) for name in ("left", "right")]
    joined = topology.bolt("pairs", Overlapping(), *(line.global_() for line in lines))
    topology.bolt("gathers", Gathers(), joined.shuffle(), tasks=2)
    report = run_topology(topology, workers=workers)
    assert report.exit_status == 0
    assert report.snapshot.total("acked") == 40
    assert not report.snapshot.total("failed")
    assert balanced(report)


def test_what_is_in_no_tree_is_let_go_at_once() -> None:
    topology = Topology("at-most-once", Config(guarantee="at-most-once"))
    topology.bolt("gathers", Gathers(), topology.spout("numbers", ScriptedSpout(numbers(8))).shuffle())
    watch = Watch()
    report = run_topology(topology, watch=watch)
    assert report.exit_status == 0
    assert not watch.executor("gathers").held()
    assert not report.aborted
