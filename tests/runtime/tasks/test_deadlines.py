"""Deadlines on virtual time: what is queued is not stuck, a stall fails nobody, what hangs or is forgotten fails."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_kit import Doing, Given, Number, Poisoned, Same, balanced, line, numbers

from topology import Bolt, Collector, Config, State, Tuple
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.failures import Reason
from topology.runtime.worker.worker import Worker
from topology.testing import Pause, ScriptedSpout, VirtualTimeLimit, Watch, run_bolt, run_topology, spend
from topology.testing.virtual_time.loop import VirtualLoop


class Slow(Bolt):
    """Takes a virtual second for each input, waiting."""

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(1)
        return [number]


class Busy(Bolt):
    """Takes half a virtual second for each input, computing: the loop stands still meanwhile."""

    def process(self, number: Number) -> Iterator[Number]:
        spend(0.5)
        yield number


@pytest.mark.parametrize("bolt", [Slow(), Busy()], ids=["waiting", "computing"])
def test_tuples_that_wait_in_a_queue_for_five_timeouts_do_not_time_out_A9(bolt: Bolt) -> None:
    count = 20 if isinstance(bolt, Slow) else 40
    topology, captured = line(ScriptedSpout(numbers(count)), bolt, config=Config(tree_timeout_s=4))
    watch = Watch()
    report = run_topology(topology, watch=watch)
    assert report.snapshot.seconds >= 20
    assert watch.failures == []
    assert len(captured.records) == count


def test_a_tuple_that_was_lost_is_replayed_after_one_to_two_timeouts_A8() -> None:
    def lossy(worker: Worker) -> None:
        executor = worker.executors["bolt", 0]
        slice_ = executor.slice

        def lose(count: int) -> int:
            executor.queue.clear()
            executor.slice = slice_  # type: ignore[method-assign]
            return 1

        executor.slice = lose  # type: ignore[method-assign]

    for seed in range(20):
        watch = Watch(before=lossy)
        spout = ScriptedSpout[Number]([Pause(seed / 7), Number(1)])
        topology, captured = line(spout, Same(), config=Config(tree_timeout_s=3))
        report = run_topology(topology, watch=watch)
        assert [one.reason for one in watch.failures] == [Reason.TIMED_OUT]
        assert report.snapshot.spouts["numbers"].replayed == 1
        assert 3 <= captured.times[0] - seed / 7 <= 6.3, f"after {seed / 7} s"
        assert report.exit_status == 0


def test_a_clock_that_jumps_fails_nothing_A10_F5() -> None:
    async def jump(run: EmbeddedRun) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        await asyncio.sleep(2.5)
        loop.pass_time(3600)

    watch = Watch()
    config = Config(tree_timeout_s=5, process_timeout_s=5, max_replays=0)
    topology, captured = line(ScriptedSpout(numbers(40)), Slow(), concurrency=10, config=config)
    report = run_topology(topology, watch=watch, during=jump, limit_s=10_000)
    assert report.snapshot.seconds >= 3600
    assert watch.failures == []
    assert watch.workers[0].ledger.stalls == 1
    assert len(captured.records) == 40


def test_a_blocked_loop_fails_nothing_A10() -> None:
    class Blocks(Bolt):
        def process(self, number: Number) -> Iterator[Number]:
            if number.n == 5:
                spend(100)
            yield number

    watch = Watch()
    config = Config(tree_timeout_s=5, process_timeout_s=5)
    topology, captured = line(ScriptedSpout(numbers(20)), Slow(), Blocks(), concurrency=4, config=config)
    run_topology(topology, watch=watch)
    assert watch.failures == []
    assert len(captured.records) == 20


def test_a_bolt_that_never_returns_fails_after_its_limit_and_frees_its_slot_F9() -> None:
    class Hangs(Bolt):
        async def process(self, number: Number) -> list[Number]:
            if number.n == 1:
                await asyncio.get_running_loop().create_future()
            return [number]

    done = run_bolt(Hangs(), numbers(5), config=Config(process_timeout_s=7))
    assert [one.record for one in done.failed] == [Number(1)]
    assert done.failed[0].reason == "over the time limit in 'bolt': not done after 7 s"
    assert done.acked == [Number(0), Number(2), Number(3), Number(4)]


def test_a_bolt_that_ignores_its_cancellation_still_frees_its_slot_F9() -> None:
    class Stubborn(Bolt):
        async def process(self, number: Number) -> list[Number]:
            while number.n == 1:
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    continue
            return [number]

    done = run_bolt(Stubborn(), numbers(3), config=Config(process_timeout_s=7))
    assert [one.record for one in done.failed] == [Number(1)]
    assert done.acked == [Number(0), Number(2)]


def test_an_execute_that_never_returns_fails_its_input_F9() -> None:
    async def hangs(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        if tup.record.n == 0:
            await asyncio.get_running_loop().create_future()
        out.ack(tup)

    class Hangs(Doing):
        async def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            await self.function(self, tup, out)

    done = run_bolt(Hangs(hangs), numbers(2), config=Config(process_timeout_s=3))
    assert [one.record for one in done.failed] == [Number(0)]
    assert done.acked == [Number(1)]


def test_a_stateful_bolt_that_never_returns_frees_its_key_and_keeps_its_state_F9_D9() -> None:
    class Hangs(Bolt):
        async def process(self, number: Number, state: State[int]) -> list[Number]:
            state.set(state.get(0) + 1)
            if state.get(0) == 1:
                await asyncio.sleep(0)
            if number.n == 0 and state.get(0) == 1 and not hung:
                hung.append(1)
                await asyncio.get_running_loop().create_future()
            return [Number(state.get(0))]

    hung: list[int] = []
    done = run_bolt(Hangs(), [Number(0)] * 3, by=("n",), concurrency=2, config=Config(process_timeout_s=3))
    assert len(done.failed) == 1
    assert done.outputs == [Number(1), Number(2)]
    assert done.state == {0: 2}


def test_a_tuple_that_was_held_and_forgotten_fails_by_the_hard_cap_naming_its_holder_A13() -> None:
    def forgets(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        if tup.record.n != 3 or forgotten:
            out.emit(tup.record)
            out.ack(tup)
        else:
            forgotten.append(tup)

    forgotten: list[Any] = []
    watch = Watch()
    topology, captured = line(ScriptedSpout(numbers(5)), Doing(forgets), config=Config(tree_timeout_s=1))
    report = run_topology(topology, watch=watch)
    assert sorted(one.n for one in captured.records) == [0, 1, 2, 3, 4]
    assert 20 <= captured.times[-1] <= 25
    assert report.snapshot.spouts["numbers"].replayed == 1
    assert [str(one) for one in watch.failures] == ["held and forgotten in 'bolt': no other ack in its tree for 20 s"]
    assert (report.ended, report.exit_status) == ("ended", 0)


def test_an_ack_that_is_always_forgotten_ends_in_a_dead_message_and_the_run_in_its_end_A13() -> None:
    def forgets_one(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        if tup.record.n:
            out.ack(tup)

    watch = Watch()
    config = Config(tree_timeout_s=1, max_replays=2)
    topology, _ = line(ScriptedSpout(numbers(3)), Doing(forgets_one), config=config)
    report = run_topology(topology, watch=watch)
    assert [(one.id, one.failure.reason, one.failure.component) for one in watch.dead] == [
        (0, Reason.FORGOTTEN, "bolt")
    ]
    assert report.snapshot.spouts["numbers"].replayed == 2
    assert report.snapshot.spouts["numbers"].acked == 2
    assert 3 * 20 <= report.snapshot.seconds <= 3 * 23
    assert report.ended == "ended"
    assert watch.executor("bolt").held() == []


def test_all_tuples_of_a_tree_that_a_bolt_forgot_are_freed_and_fail_its_message_once_A13() -> None:
    def forgets_all(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        pass

    watch = Watch()
    topology, _ = line(
        ScriptedSpout(numbers(2)),
        Given(lambda number: [number] * 5),
        Doing(forgets_all),
        config=Config(tree_timeout_s=1, max_replays=0),
    )
    report = run_topology(topology, watch=watch)
    assert sorted(one.id for one in watch.dead) == [0, 1]
    assert report.snapshot.spouts["numbers"].failed == 2
    assert len(watch.failures) == 10
    assert watch.executor("bolt1").held() == []


def test_a_forgotten_tuple_of_several_trees_fails_all_of_them_A13() -> None:
    def joins(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        bolt.kept.append(tup)
        if len(bolt.kept) == 3:
            out.emit(Number(6), anchors=bolt.kept)
            for one in bolt.kept:
                out.ack(one)

    def forgets(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        pass

    watch = Watch()
    config = Config(tree_timeout_s=1, max_replays=0)
    topology, _ = line(ScriptedSpout(numbers(3)), Doing(joins), Doing(forgets), config=config)
    run_topology(topology, watch=watch)
    assert sorted(one.id for one in watch.dead) == [0, 1, 2]
    assert {one.failure.reason for one in watch.dead} == {Reason.FORGOTTEN}
    assert len(watch.failures) == 1
    assert watch.executor("bolt1").held() == []


def test_touching_or_holding_for_less_than_the_hard_cap_fails_nothing_A13() -> None:
    class Holds(Bolt):
        def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            async def later() -> None:
                await asyncio.sleep(15)
                out.emit(tup.record)
                out.ack(tup)

            self.task = asyncio.ensure_future(later())

    done = run_bolt(Holds(), numbers(1), config=Config(tree_timeout_s=1))
    assert done.acked == done.outputs == numbers(1)


def test_a_run_whose_bolt_forgets_a_tuple_for_ever_names_who_waits() -> None:
    topology, _ = line(ScriptedSpout(numbers(1)), Doing(lambda bolt, tup, out: None))
    with pytest.raises(VirtualTimeLimit, match="not done after 100 virtual seconds"):
        run_topology(topology, limit_s=100)


def test_a_late_ack_of_an_earlier_attempt_changes_nothing() -> None:
    def keeps_the_first(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        kept.append(tup)
        out.emit(Number(len(kept)))
        if len(kept) == 2:
            out.ack(kept[0])  # its tree has failed below
            out.ack(kept[1])

    kept: list[Any] = []
    below = Poisoned(1, ValueError)
    topology, captured = line(ScriptedSpout(numbers(1)), Doing(keeps_the_first), below)
    report = run_topology(topology)
    assert captured.records == [Number(2)]
    assert report.snapshot.spouts["numbers"].acked == 1
    assert balanced(report)
