"""Trees with joins, copies, keys and taps: rules A1, A2, A17, A18, B1, B3, B7, with the real runtime."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_kit import Doing, Number, Pair, Same, balanced, line, numbers

from acker.identity import message_pair, partition_seed
from topology import Bolt, Collector, Config, EmitError, Record, Topology, Tuple
from topology.testing import Captured, Pause, ScriptedSpout, Watch, run_bolt, run_topology


class Left(Record):
    n: int


class Right(Record):
    n: int


class Lefts(Bolt):
    def process(self, number: Number) -> Iterator[Left]:
        yield Left(number.n)


class Rights(Bolt):
    def process(self, number: Number) -> Iterator[Right]:
        yield Right(number.n)


class Join(Bolt):
    """Pairs a left and a right one of the same number, whichever comes first, anchored to both."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[type, int], Tuple[Any]] = {}

    def execute(self, tup: Tuple[Left | Right], out: Collector[Pair]) -> None:
        record = tup.record
        other = Right if isinstance(record, Left) else Left
        partner = self.waiting.pop((other, record.n), None)
        if partner is None:
            self.waiting[type(record), record.n] = tup
            return
        out.emit(Pair(record.n, record.n), anchors=[tup, partner])
        out.ack(tup)
        out.ack(partner)


class Slower(Bolt):
    """Takes as long as it is told before it gives what it takes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(self.seconds)
        return [number]


def joined(
    left_s: float, right_s: float, sink_s: float = 0.0, spouts: int = 1
) -> tuple[Topology, Captured[Pair], list[Any]]:
    """A diamond (or, with two spouts, a join of two sources) whose sides are delayed by so many seconds."""
    topology, captured = Topology("joined"), Captured[Pair]()
    sources = [ScriptedSpout(numbers(10)) for _ in range(spouts)]
    streams = [topology.spout(f"numbers{i}", spout) for i, spout in enumerate(sources)]
    slow_left = topology.bolt("slow_left", Slower(left_s), streams[0].shuffle(), concurrency=20)
    slow_right = topology.bolt("slow_right", Slower(right_s), streams[-1].shuffle(), concurrency=20)
    lefts = topology.bolt("lefts", Lefts(), slow_left.shuffle())
    rights = topology.bolt("rights", Rights(), slow_right.shuffle())
    pairs = topology.bolt("join", Join(), lefts.fields("n"), rights.fields("n"), tasks=2)

    class Late(Bolt):
        async def process(self, pair: Pair) -> list[Pair]:
            await asyncio.sleep(sink_s)
            return [pair]

    late = topology.bolt("late", Late(), pairs.shuffle(), concurrency=20)
    topology.bolt("captured", captured, late.shuffle())
    return topology, captured, sources


@pytest.mark.parametrize("seed", range(4))
def test_a_diamond_that_joins_its_two_sides_completes_each_tree_once_A1(seed: int) -> None:
    topology, captured, (spout,) = joined(0.1, 0.3)
    report = run_topology(topology, seed=seed)
    assert sorted(pair.left for pair in captured.records) == list(range(10)), f"seed {seed}"
    assert sorted(spout.acked) == list(range(10))
    assert report.snapshot.spouts["numbers0"].failed == 0


def test_a_tree_is_not_complete_while_what_a_join_has_emitted_is_under_way_A1() -> None:
    topology, captured, (spout,) = joined(0.1, 0.1, sink_s=5.0)
    seen: list[int] = []

    async def look(run: Any) -> None:
        await asyncio.sleep(4)  # both anchors were acked by the join long ago
        seen.append(len(spout.acked))

    run_topology(topology, during=look)
    assert seen == [0]
    assert len(spout.acked) == len(captured.records) == 10


def test_the_identity_of_a_join_result_does_not_depend_on_which_side_came_first_B7() -> None:
    for spouts in (1, 2):
        left_first, right_first = joined(0.1, 0.3, spouts=spouts), joined(0.3, 0.1, spouts=spouts)
        run_topology(left_first[0])
        run_topology(right_first[0])
        assert left_first[1].distinct == right_first[1].distinct
        assert len(left_first[1].distinct) == 10


def test_what_is_joined_of_one_message_has_the_origin_of_that_message_E1() -> None:
    topology, captured, _ = joined(0.1, 0.3)
    run_topology(topology)
    seed = partition_seed(topology.name, "numbers0", "", "")
    assert {tup.origin for tup in captured.tuples} == {message_pair(number, seed)[0] for number in range(10)}


def test_a_tuple_of_two_trees_completes_both_only_when_it_is_done_B7() -> None:
    topology, captured, (lefts, rights) = joined(0.1, 0.3, sink_s=5.0, spouts=2)
    seen: list[tuple[int, int]] = []

    async def look(run: Any) -> None:
        await asyncio.sleep(4)
        seen.append((len(lefts.acked), len(rights.acked)))

    report = run_topology(topology, during=look)
    assert seen == [(0, 0)]
    assert sorted(lefts.acked) == sorted(rights.acked) == list(range(10))
    assert {len(tup.roots) for tup in captured.tuples} == {2}
    assert balanced(report)


def test_a_tuple_of_two_trees_that_fails_fails_both() -> None:
    failed: list[int] = []

    class Once(Bolt):
        def process(self, pair: Pair) -> list[Pair]:
            if not failed:
                failed.append(pair.left)
                raise ValueError("once")
            return [pair]

    topology, (lefts, rights) = Topology("two"), (ScriptedSpout(numbers(3)), ScriptedSpout(numbers(3)))
    captured = Captured[Pair]()
    left = topology.bolt("lefts", Lefts(), topology.spout("left", lefts).shuffle())
    right = topology.bolt("rights", Rights(), topology.spout("right", rights).shuffle())
    pairs = topology.bolt("join", Join(), left.global_(), right.global_())
    topology.bolt("captured", captured, topology.bolt("once", Once(), pairs.shuffle()).shuffle())
    report = run_topology(topology)
    spouts = report.snapshot.spouts
    assert (spouts["left"].replayed, spouts["right"].replayed) == (1, 1)
    assert len(captured.distinct) == 3
    assert sorted(lefts.acked) == sorted(rights.acked) == [0, 1, 2]


def test_an_anchor_given_twice_counts_once_A2() -> None:
    def twice(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        out.emit(tup.record, anchors=[tup, tup])
        out.ack(tup)

    topology, captured = line(ScriptedSpout(numbers(3)), Doing(twice), Slower(2.0))
    spout_acked: list[int] = []

    async def look(run: Any) -> None:
        await asyncio.sleep(1)
        spout_acked.append(run.snapshot().total("acked"))

    run_topology(topology, during=look)
    assert spout_acked == [0]
    assert sorted(one.n for one in captured.records) == [0, 1, 2]


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_each_task_of_a_broadcast_may_emit_and_the_tree_waits_for_all_A18(tasks: int) -> None:
    topology, spout, captured = Topology("broadcast"), ScriptedSpout(numbers(5)), Captured[Number]()
    same = topology.bolt("same", Same(), topology.spout("numbers", spout).all(), tasks=tasks)
    slow = topology.bolt("slow", Slower(3.0), same.shuffle(), concurrency=100)
    topology.bolt("captured", captured, slow.shuffle())
    early: list[int] = []

    async def look(run: Any) -> None:
        await asyncio.sleep(2)
        early.append(len(spout.acked))

    run_topology(topology, during=look)
    assert early == [0]
    assert len(captured.records) == 5 * tasks
    assert len(captured.distinct) == 5 * tasks  # an idempotent sink keeps what each of them has emitted
    assert sorted(spout.acked) == list(range(5))


def test_two_subscriptions_of_one_stream_by_one_bolt_and_by_two_are_all_waited_for_A18() -> None:
    topology, spout = Topology("several"), ScriptedSpout(numbers(5))
    captured = Captured[Number]()
    stream = topology.spout("numbers", spout)
    first = topology.bolt("first", Slower(1.0), stream.shuffle(), concurrency=9)
    second = topology.bolt("second", Slower(2.0), stream.fields("n"), tasks=2, concurrency=9)
    topology.bolt("captured", captured, first.shuffle(), second.shuffle(), stream.all(), tasks=3)
    report = run_topology(topology)
    assert len(captured.records) == 5 * (1 + 1 + 3)
    assert sorted(spout.acked) == list(range(5))
    assert report.snapshot.spouts["numbers"].failed == 0


def test_a_new_subscriber_changes_no_identity_B1() -> None:
    def run(tapped: bool) -> dict[tuple[int, int], Number]:
        topology, captured = Topology("tapped"), Captured[Number]()
        stream = topology.spout("numbers", ScriptedSpout(numbers(5)))
        same = topology.bolt("same", Same(), stream.shuffle(), tasks=3 if tapped else 1)
        topology.bolt("captured", captured, same.shuffle())
        if tapped:
            topology.bolt("tap", Captured[Number](), same.all(), tasks=2)
            topology.bolt("tap2", Captured[Number](), stream.shuffle())
        run_topology(topology)
        return captured.distinct

    assert run(False) == run(True)


def test_what_is_emitted_without_an_anchor_neither_delays_nor_numbers_anything_A17() -> None:
    def tapping(unanchored: bool) -> tuple[Captured[Number], ScriptedSpout[Number], list[Any]]:
        def execute(bolt: Any, tup: Tuple[Number], out: Any) -> None:
            if unanchored:
                out.emit(Number(100 + tup.record.n), anchors=())
            out.emit(tup.record)
            if unanchored:
                out.emit(Number(200 + tup.record.n), anchors=())
            out.ack(tup)

        spout = ScriptedSpout(numbers(5))
        topology, captured = line(spout, Doing(execute))
        report = run_topology(topology)
        return captured, spout, [report.exit_status, report.snapshot.spouts["numbers"].acked]

    plain, tapped = tapping(False), tapping(True)
    assert plain[2] == tapped[2] == [0, 5]
    anchored = {key: record for key, record in tapped[0].distinct.items() if record.n < 100}
    assert anchored == plain[0].distinct
    loose = [tup for tup in tapped[0].tuples if tup.record.n >= 100]
    assert len(loose) == 10
    assert all(tup.roots == () and tup.identity for tup in loose)
    assert len({tup.identity for tup in loose}) == 10


def test_a_key_repeated_for_one_input_raises_and_fails_that_input_A18() -> None:
    def keyed(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        out.emit(Number(1), key="a")
        out.emit(Number(2), key="a" if tup.record.n == 0 else "b")
        out.ack(tup)

    done = run_bolt(Doing(keyed), numbers(2))
    assert [one.record for one in done.failed] == [Number(0)]
    assert isinstance(done.failed[0].error, EmitError)
    assert "'a'" in str(done.failed[0].error)
    assert done.acked == [Number(1)]


def test_keys_name_emissions_whatever_their_order_B2() -> None:
    def keyed(first: str, second: str) -> dict[tuple[int, int], Number]:
        def execute(bolt: Any, tup: Tuple[Number], out: Any) -> None:
            for key in (first, second):
                out.emit(Number(ord(key)), key=key)
            out.ack(tup)

        topology, captured = line(ScriptedSpout(numbers(3)), Doing(execute))
        run_topology(topology)
        return captured.distinct

    assert keyed("a", "b") == keyed("b", "a")


class Concurrent(Bolt):
    """Emits from two asyncio tasks for one input."""

    def __init__(self, keys: bool) -> None:
        self.keys = keys

    async def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        async def emit(n: int) -> None:
            await asyncio.sleep(0)
            out.emit(Number(n), key=n if self.keys else None)

        await asyncio.gather(emit(1), emit(2))
        out.ack(tup)


def test_several_asyncio_tasks_that_emit_for_one_input_without_a_key_raise_B3() -> None:
    done = run_bolt(Concurrent(keys=False), numbers(1))
    assert isinstance(done.failed[0].error, EmitError)
    assert "key=" in done.failed[0].error.next


def test_several_asyncio_tasks_that_emit_with_keys_have_identities_that_no_order_changes_B3() -> None:
    found = []
    for seed in range(6):
        topology, captured = line(ScriptedSpout(numbers(3)), Concurrent(keys=True))
        run_topology(topology, seed=seed)
        found.append(captured.distinct)
    assert all(one == found[0] for one in found)
    assert len(found[0]) == 6


def test_a_tuple_names_up_to_eight_trees_and_for_more_one_of_its_own_A16() -> None:
    def gather(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        bolt.kept.append(tup)
        if len(bolt.kept) == 9:
            kept, bolt.kept = bolt.kept, []
            out.emit(Number(9), anchors=kept)
            out.emit(Number(8), anchors=kept[:8])
            for one in kept:
                out.ack(one)

    topology, captured = line(ScriptedSpout(numbers(9)), Doing(gather))
    report = run_topology(topology)
    assert {tup.record.n: len(tup.roots) for tup in captured.tuples} == {9: 1, 8: 8}
    assert report.snapshot.spouts["numbers"].acked == 9


def test_a_batch_is_anchored_to_all_its_inputs_and_waited_for() -> None:
    class Batches(Bolt):
        def __init__(self) -> None:
            self.kept: list[Tuple[Number]] = []

        def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            self.kept.append(tup)
            if len(self.kept) == 4:
                self.flush(out)

        def flush(self, out: Collector[Number]) -> None:
            kept, self.kept = self.kept, []
            if kept:
                out.emit(Number(sum(one.record.n for one in kept)), anchors=kept)
            for one in kept:
                out.ack(one)

    spout = ScriptedSpout[Number]([*numbers(10), Pause(1)])
    topology, captured = line(spout, Batches())
    watch = Watch()
    report = run_topology(topology, watch=watch)
    assert captured.records == [Number(0 + 1 + 2 + 3), Number(4 + 5 + 6 + 7), Number(8 + 9)]
    assert sorted(spout.acked) == list(range(10))
    assert watch.failures == []
    assert report.exit_status == 0
    assert Config().max_pending >= 10


def test_an_emission_without_anchors_goes_to_the_task_that_a_direct_grouping_is_told() -> None:
    def send(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        out.emit(Number(7), anchors=(), task=1)
        out.ack(tup)

    captured = Captured[Number]()
    topology = Topology("direct")
    stream = topology.spout("numbers", ScriptedSpout(numbers(1)))
    sent = topology.bolt("send", Doing(send), stream.shuffle())
    topology.bolt("captured", captured, sent.direct(), tasks=2)
    assert run_topology(topology, seed=1).exit_status == 0
    assert captured.records == [Number(7)]


def test_a_key_without_anchors_is_refused_for_it_would_name_nothing() -> None:
    def send(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        out.emit(Number(7), anchors=(), key="a")

    done = run_bolt(Doing(send), numbers(1))
    assert "has none" in done.failed[0].reason


def test_an_emission_that_could_not_be_sent_can_be_tried_again_under_its_key() -> None:
    def send(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        with contextlib.suppress(EmitError):
            out.emit(Number(7), key="a", task=9)  # there is no such task
        out.emit(Number(7), key="a", task=0)
        out.ack(tup)

    captured = Captured[Number]()
    topology = Topology("direct", Config(max_replays=0))
    stream = topology.spout("numbers", ScriptedSpout(numbers(1)))
    sent = topology.bolt("send", Doing(send), stream.shuffle())
    topology.bolt("captured", captured, sent.direct())
    assert run_topology(topology, seed=1).exit_status == 0
    assert captured.records == [Number(7)]
