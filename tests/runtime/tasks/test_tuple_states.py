"""A tuple has a state, and what a bolt may do follows from it: rules A3, A4, A5, A6."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import pytest
from runtime_kit import Doing, Given, Number, Poisoned, balanced, line, numbers

from topology import Bolt, Collector, Config, Grouping, Topology, Tuple, TupleStateError
from topology.testing import Captured, Pause, ScriptedSpout, Wait, Watch, run_bolt, run_topology


@pytest.mark.parametrize("act", ["emit", "ack", "fail", "touch"])
@pytest.mark.parametrize("first", ["ack", "fail"])
def test_acting_on_a_finished_tuple_raises_and_is_counted_A3_A4(first: str, act: str) -> None:
    raised: list[BaseException] = []

    def twice(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        out.ack(tup) if first == "ack" else out.fail(tup, "asked for")
        try:
            {
                "emit": lambda: out.emit(Number(9)),
                "ack": lambda: out.ack(tup),
                "fail": lambda: out.fail(tup, "again"),
                "touch": lambda: out.touch(tup),
            }[act]()
        except TupleStateError as error:
            raised.append(error)

    watch = Watch()
    topology, captured = line(ScriptedSpout(numbers(1)), Doing(twice), config=Config(max_replays=0))
    report = run_topology(topology, watch=watch)
    assert len(raised) == 1
    assert "has acked or failed already" in str(raised[0])
    assert watch.executor("bolt").misused == 1  # type: ignore[attr-defined]
    assert captured.records == []
    assert report.snapshot.spouts["numbers"].acked == (first == "ack")


def test_emitting_from_a_background_task_after_the_ack_raises_A3() -> None:
    raised: list[str] = []

    class Background(Bolt):
        def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            async def later() -> None:
                await asyncio.sleep(1)
                try:
                    out.emit(tup.record)
                except TupleStateError as error:
                    raised.append(str(error))

            self.task = asyncio.ensure_future(later())
            out.ack(tup)

    topology, captured = line(ScriptedSpout([Number(0), Pause(5)]), Background())
    report = run_topology(topology)
    assert len(raised) == 1
    assert captured.records == []
    assert report.snapshot.spouts["numbers"].acked == 1


def test_an_input_that_raises_after_its_ack_stays_acked_and_is_told() -> None:
    def wrong(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        out.ack(tup)
        raise ValueError("too late")

    done = run_bolt(Doing(wrong), numbers(1))
    assert done.acked == numbers(1)
    assert [str(error) for error in done.errors] == ["too late"]


def test_an_anchor_of_another_bolt_or_a_finished_one_is_refused_A3() -> None:
    def late_anchor(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        if bolt.kept:
            out.emit(Number(5), anchors=[tup, bolt.kept[0]])
        bolt.kept.append(tup)
        out.ack(tup)

    done = run_bolt(Doing(late_anchor), numbers(2))
    assert done.acked == [Number(0)]
    assert [type(one.error) for one in done.failed] == [TupleStateError]
    assert done.outputs == []


def test_outputs_of_a_failed_input_never_leave_A6() -> None:
    def half(number: Number) -> Iterator[Number]:
        yield Number(1)
        yield Number(2)
        raise ValueError("after two")

    done = run_bolt(Given(half), numbers(1))
    assert done.outputs == []
    assert len(done.failed) == 1


def test_outputs_of_a_failed_async_generator_never_leave_A6() -> None:
    class Half(Bolt):
        async def process(self, number: Number) -> AsyncIterator[Number]:
            yield Number(1)
            await asyncio.sleep(1)
            raise ValueError("after one")

    done = run_bolt(Half(), numbers(1))
    assert done.outputs == []
    assert len(done.failed) == 1


def test_a_custom_grouping_that_raises_lets_nothing_leave_A6() -> None:
    class Picky(Grouping):
        def choose(self, record: Number, tasks: int) -> list[int]:
            if record.n == 2:
                raise ValueError("no task for 2")
            return [0]

    class Three(Bolt):
        def process(self, number: Number) -> list[Number]:
            return [Number(0), Number(1), Number(2)]

    topology = Topology("custom", Config(max_replays=0))
    three = topology.bolt("three", Three(), topology.spout("numbers", ScriptedSpout(numbers(1))).shuffle())
    plain, chosen = Captured[Number](), Captured[Number]()
    topology.bolt("plain", plain, three.shuffle())
    topology.bolt("chosen", chosen, three.custom(Picky()))
    report = run_topology(topology)
    assert plain.records == chosen.records == []
    assert report.snapshot.spouts["numbers"].dead == 1


def test_a_custom_grouping_that_raises_at_the_spout_fails_that_message_alone_A6() -> None:
    class Picky(Grouping):
        def choose(self, record: Number, tasks: int) -> list[int]:
            if record.n == 2:
                raise ValueError("no task for 2")
            return [record.n % tasks]

    topology = Topology("custom", Config(max_replays=1))
    captured = Captured[Number]()
    topology.bolt("captured", captured, topology.spout("numbers", ScriptedSpout(numbers(5))).custom(Picky()), tasks=2)
    report = run_topology(topology)
    assert sorted(one.n for one in captured.records) == [0, 1, 3, 4]
    assert (report.snapshot.spouts["numbers"].dead, report.snapshot.spouts["numbers"].replayed) == (1, 1)


def test_a_message_that_a_custom_grouping_sends_to_nobody_is_done() -> None:
    class Nobody(Grouping):
        def choose(self, record: Number, tasks: int) -> list[int]:
            return []

    topology = Topology("custom")
    captured = Captured[Number]()
    topology.bolt("captured", captured, topology.spout("numbers", ScriptedSpout(numbers(5))).custom(Nobody()))
    report = run_topology(topology)
    assert captured.records == []
    assert report.snapshot.spouts["numbers"].acked == 5


def test_a_coroutine_returned_by_a_sync_process_is_awaited_A5() -> None:
    finished: list[int] = []

    async def later(number: Number) -> list[Number]:
        await asyncio.sleep(1)
        finished.append(number.n)
        return [number]

    class Sync(Bolt):
        def process(self, number: Number) -> Awaitable[list[Number]]:
            return later(number)

    done = run_bolt(Sync(), numbers(3))
    assert finished == [0, 1, 2]
    assert done.outputs == done.acked == numbers(3)


def test_an_async_process_that_awaits_for_records_gives_them() -> None:
    class Slow(Bolt):
        async def process(self, number: Number) -> AsyncIterator[Number]:
            await asyncio.sleep(0.5)
            yield number
            yield Number(number.n + 10)

    assert run_bolt(Slow(), numbers(2)).outputs == [Number(0), Number(10), Number(1), Number(11)]


def test_a_swallowed_cancellation_at_the_end_of_a_drain_is_a_failure_A5_F10() -> None:
    cancelled: list[int] = []

    class Swallows(Bolt):
        async def process(self, number: Number) -> list[Number]:
            try:
                await asyncio.get_running_loop().create_future()
            except BaseException:
                cancelled.append(number.n)
            return [number]

    spout = ScriptedSpout[Number]([Number(0), Wait()])
    topology, captured = line(spout, Swallows(), config=Config(drain_timeout_s=5))
    report = run_topology(topology, until_s=1)
    assert cancelled == [0]
    assert captured.records == []
    assert spout.acked == []
    assert (report.ended, report.aborted, report.exit_status) == ("stopped", 1, 1)
    assert balanced(report)


def test_a_swallowed_cancellation_at_the_time_limit_is_a_failure_A5_F9() -> None:
    class Swallows(Bolt):
        async def process(self, number: Number) -> list[Number]:
            with contextlib.suppress(BaseException):
                await asyncio.get_running_loop().create_future()
            return [number]

    done = run_bolt(Swallows(), numbers(1), config=Config(process_timeout_s=3))
    assert done.outputs == []
    assert [one.reason for one in done.failed] == ["over the time limit in 'bolt': not done after 3 s"]


def test_a_bolt_that_cancels_its_own_task_fails_its_input_A5() -> None:
    class CancelsItself(Bolt):
        async def process(self, number: Number) -> list[Number]:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            return [number]

    done = run_bolt(CancelsItself(), numbers(1))
    assert done.outputs == []
    assert len(done.failed) == 1


HOSTILE = [
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    MemoryError,
    RecursionError,
    GeneratorExit,
    StopIteration,
]


@pytest.mark.parametrize("error", HOSTILE)
def test_whatever_a_sync_bolt_raises_fails_only_that_tuple_F6(error: type[BaseException]) -> None:
    done = run_bolt(Poisoned(1, error), numbers(3))
    assert done.acked == done.outputs == [Number(0), Number(2)]
    assert [(one.record, type(one.error)) for one in done.failed] == [(Number(1), error)]


@pytest.mark.parametrize("error", [one for one in HOSTILE if one is not StopIteration])
def test_whatever_an_async_bolt_raises_fails_only_that_tuple_F6(error: type[BaseException]) -> None:
    class Late(Bolt):
        async def process(self, number: Number) -> list[Number]:
            await asyncio.sleep(0.1)
            if number.n == 1:
                raise error
            return [number]

    done = run_bolt(Late(), numbers(3))
    assert done.acked == done.outputs == [Number(0), Number(2)]
    assert [one.record for one in done.failed] == [Number(1)]


@pytest.mark.parametrize("error", HOSTILE)
def test_whatever_execute_raises_fails_only_that_tuple_F6(error: type[BaseException]) -> None:
    def hostile(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        if tup.record.n == 1:
            raise error
        out.ack(tup)

    done = run_bolt(Doing(hostile), numbers(3))
    assert done.acked == [Number(0), Number(2)]
    assert [one.record for one in done.failed] == [Number(1)]


def test_endless_recursion_in_a_bolt_fails_only_that_tuple_F6() -> None:
    class Deep(Bolt):
        def process(self, number: Number) -> list[Number]:
            return [number] if number.n != 1 else self.process(number)

    done = run_bolt(Deep(), numbers(3))
    assert done.acked == [Number(0), Number(2)]
    assert isinstance(done.failed[0].error, RecursionError)


def test_what_process_returned_but_can_not_be_iterated_fails_the_input_and_says_so() -> None:
    done = run_bolt(Given(lambda number: number), numbers(1))
    assert "`process` returned Number(n=0)" in done.failed[0].reason


def test_process_that_yields_without_end_fails_its_input() -> None:
    def endless(number: Number) -> Iterator[Number]:
        while True:
            yield number

    done = run_bolt(Given(endless), numbers(1))
    assert "more than 100000 records" in done.failed[0].reason
    assert done.outputs == []
