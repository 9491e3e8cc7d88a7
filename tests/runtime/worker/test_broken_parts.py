"""Broken parts and other hosts: what open, tick, flush and close raise, executors that die, serve, threads. F6, F7."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from runtime_kit import Number, Same, line, numbers

from acker.identity import MessageId
from topology import Bolt, Collector, Config, ConfigurationError, Message, Spout, StartError, Task
from topology.runtime import asyncio_tools
from topology.runtime.failures import Reason
from topology.runtime.run.report import Report
from topology.runtime.worker import worker
from topology.runtime.worker.worker import Worker
from topology.testing import (
    Pause,
    ScriptedSpout,
    Wait,
    Watch,
    run_bolt,
    run_topology,
    run_virtual,
)


class Slow(Bolt):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(self.seconds)
        return [number]


def test_an_executor_that_dies_ends_the_run_with_an_error_F7() -> None:
    def kill(worker: Worker) -> None:
        def dies(count: int) -> int:
            raise MemoryError("in the runtime itself")

        worker.executors["bolt", 0].slice = dies  # type: ignore[method-assign]

    topology, _ = line(ScriptedSpout[Number]([*numbers(5), Wait()]), Same())
    report = run_topology(topology, watch=Watch(before=kill))
    assert (report.ended, report.exit_status) == ("failed", 1)
    assert isinstance(report.error, MemoryError)
    assert report.aborted == 5


def test_a_sync_bolt_that_cancels_the_task_it_runs_in_does_not_stop_the_flow_in_silence_F7() -> None:
    class CancelsItsExecutor(Bolt):
        def process(self, number: Number) -> list[Number]:
            if number.n == 2:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            return [number]

    topology, captured = line(ScriptedSpout[Number]([*numbers(500), Wait()]), CancelsItsExecutor())
    report = run_topology(topology, until_s=5)
    assert report.ended == "failed" or len(captured.records) == 500
    assert report.exit_status == (report.ended == "failed")


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("where", ["flush", "tick", "close"])
def test_whatever_flush_tick_and_close_raise_is_told_and_ends_nothing_F6(
    where: str, error: type[BaseException]
) -> None:
    class Raises(Bolt):
        def process(self, number: Number) -> Iterator[Number]:
            yield number

        def raise_at(self, here: str) -> None:
            if where == here:
                raise error("here")

        def flush(self, out: Collector[Number]) -> None:
            self.raise_at("flush")

        def tick(self, now: datetime) -> None:
            self.raise_at("tick")

        def close(self) -> None:
            self.raise_at("close")

    done = run_bolt(Raises(), [Number(0), Pause(5), Number(1)], every="1s")
    assert done.outputs == done.acked == numbers(2)
    assert [type(one) for one in done.errors] == [error] * (5 if where == "tick" else 1)


def test_tick_is_called_every_so_often_with_the_time_and_emits_unanchored() -> None:
    class Clock(Bolt):
        def process(self, number: Number) -> list[Number]:
            return []

        def tick(self, now: datetime) -> Iterator[Number]:
            ticks.append(now)
            yield Number(len(ticks))

    ticks: list[datetime] = []
    done = run_bolt(Clock(), numbers(1), every="10s", until_s=35, start=datetime(2026, 5, 1, tzinfo=UTC))
    assert ticks == [datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=10 * n) for n in (1, 2, 3)]
    assert done.outputs == [Number(1), Number(2), Number(3)]


@pytest.mark.parametrize(
    ("error", "raised"), [(ValueError("no"), StartError), (ConfigurationError("mend it"), ConfigurationError)]
)
def test_an_open_that_raises_is_told_before_anything_runs_and_all_is_closed(
    error: Exception, raised: type[Exception]
) -> None:
    closed: list[str] = []

    class Opens(Bolt):
        def __init__(self, name: str, error: Exception | None = None) -> None:
            self.name, self.error = name, error

        def open(self, task: Task) -> None:
            if self.error is not None:
                raise self.error

        def process(self, number: Number) -> list[Number]:
            return [number]

        def close(self) -> None:
            closed.append(self.name)

    topology, captured = line(ScriptedSpout(numbers(3)), Opens("bad", error), Opens("good"))
    with pytest.raises(raised, match=str(error)):
        run_topology(topology)
    assert captured.records == []
    assert sorted(closed) == ["bad", "good"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("part", [Bolt, Spout])
def test_an_open_that_raises_what_would_end_the_process_is_a_start_error_F6(
    part: type[Bolt] | type[Spout], error: type[BaseException]
) -> None:
    class Opens(Same):
        def open(self, task: Task) -> None:
            if part is Bolt:
                raise error(0)

    class Reads(ScriptedSpout[Number]):
        async def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:  # type: ignore[override]
            if part is Spout:
                raise error(0)

    topology, captured = line(Reads(numbers(3)), Opens())
    with pytest.raises(StartError, match=f"could not be opened: {error.__name__}"):
        run_topology(topology)
    assert captured.records == []


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("by", ["poll", "records", "records at once"])
def test_a_source_that_would_end_the_process_ends_the_run_with_status_1_after_a_drain_F6(
    by: str, error: type[BaseException]
) -> None:
    class Polls(Spout):
        def __init__(self) -> None:
            self.left = numbers(5)

        async def poll(self, limit: int) -> list[Message[Number]]:
            if not self.left:
                raise error(0)
            taken, self.left = self.left, []
            return [Message(one, one.n) for one in taken]

    class Generates(Spout):
        async def records(self) -> AsyncIterator[Message[Number]]:
            for one in numbers(5):
                yield Message(one, one.n)
            raise error(0)

    class Returns(Spout):
        def records(self) -> AsyncIterator[Message[Number]]:
            raise error(0)

    closed: list[str] = []

    class Closes(Slow):
        def close(self) -> None:
            closed.append("bolt")

    spout = {"poll": Polls, "records": Generates, "records at once": Returns}[by]()
    topology, captured = line(spout, Closes(2.0), concurrency=9)
    report = run_topology(topology)
    assert (report.ended, report.exit_status, report.aborted) == ("failed", 1, 0)
    assert isinstance(report.error, error)
    assert sorted(one.n for one in captured.records) == ([] if by == "records at once" else [0, 1, 2, 3, 4])
    assert closed == ["bolt"]


def test_open_and_close_may_be_async_and_each_task_has_its_own_copy() -> None:
    closed: list[tuple[int, int]] = []

    class Counts(Bolt):
        async def open(self, task: Task) -> None:
            await asyncio.sleep(1)
            self.index, self.count = task.index, 0

        def process(self, number: Number) -> list[Number]:
            self.count += 1
            return [number]

        async def close(self) -> None:
            await asyncio.sleep(1)
            closed.append((self.index, self.count))

    topology, captured = line(ScriptedSpout(numbers(30)), Counts(), tasks=3)
    run_topology(topology)
    assert sorted(closed) == [(0, 10), (1, 10), (2, 10)]
    assert len(captured.records) == 30


def test_serve_in_a_running_loop_drains_when_stop_is_done() -> None:
    async def main() -> Report:
        return await topology.serve(stop=asyncio.sleep(3))

    spout = ScriptedSpout[Number]([*numbers(5), Wait()])
    topology, captured = line(spout, Slow(2.0), concurrency=2)
    report = run_virtual(main())
    assert (report.ended, report.aborted) == ("stopped", 0)
    assert len(captured.records) == 5


def test_serve_drains_when_it_is_cancelled_and_is_cancelled_then() -> None:
    async def main() -> float:
        serving = asyncio.ensure_future(topology.serve())
        await asyncio.sleep(3)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        return asyncio.get_running_loop().time()

    spout = ScriptedSpout[Number]([*numbers(5), Wait()])
    topology, captured = line(spout, Slow(2.0), concurrency=2)
    assert run_virtual(main()) == pytest.approx(6, abs=0.1)
    assert len(captured.records) == len(spout.acked) == 5


def test_serve_whose_stop_raises_drains_too() -> None:
    async def broken() -> None:
        await asyncio.sleep(1)
        raise OSError("the stop itself broke")

    async def main() -> None:
        await topology.serve(stop=broken())

    topology, captured = line(ScriptedSpout[Number]([*numbers(5), Wait()]), Same())
    with pytest.raises(OSError, match="the stop itself broke"):
        run_virtual(main())
    assert len(captured.records) == 5


def test_run_works_in_a_thread_where_no_signal_arrives() -> None:
    reports: list[Report] = []
    topology, captured = line(ScriptedSpout(numbers(50)), Same())
    thread = threading.Thread(target=lambda: reports.append(topology.run()))
    thread.start()
    thread.join(20)
    assert [one.ended for one in reports] == ["ended"]
    assert sorted(one.n for one in captured.records) == list(range(50))


def test_signals_are_handled_during_a_run_and_afterwards_as_before_it_F10() -> None:
    received: list[int] = []

    def host(number: int, frame: object) -> None:
        received.append(number)

    class Signals(Bolt):
        def process(self, number: Number) -> list[Number]:
            signal.raise_signal(signal.SIGTERM)
            return [number]

    topology, captured = line(ScriptedSpout[Number]([*numbers(1), Wait()]), Signals())
    before = {number: signal.signal(number, host) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        report = topology.run()
        assert (report.ended, received, captured.records) == ("stopped", [], numbers(1))
        for number in before:
            signal.raise_signal(number)
        assert received == [signal.SIGINT, signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_one_topology_may_be_run_twice() -> None:
    topology, captured = line(ScriptedSpout(numbers(5)), Same())
    run_topology(topology)
    run_topology(topology)
    assert len(captured.records) == 10
    assert len(captured.distinct) == 5


@pytest.mark.parametrize("seed", range(4))
def test_the_same_seed_gives_the_same_run(seed: int) -> None:
    def trace() -> list[Any]:
        class Uncertain(Bolt):
            def open(self, task: Task) -> None:
                self.random = task.random

            async def process(self, number: Number) -> list[Number]:
                await asyncio.sleep(self.random.choice([0, 0, 0.1, 1]))
                if self.random.random() < 0.2:
                    raise ValueError("unlucky")
                return [number] * self.random.randrange(3)

        watch = Watch()
        topology, captured = line(
            ScriptedSpout(numbers(60)), Uncertain(), Slow(0.1), tasks=3, concurrency=4, config=Config(max_replays=2)
        )
        report = run_topology(topology, seed=seed, watch=watch)
        return [
            [(tup.record, tup.root, tup.identity, at) for tup, at in zip(captured.tuples, captured.times, strict=True)],
            [(one.id, str(one.failure)) for one in watch.dead],
            [(one.reason, one.text) for one in watch.failures],
            report.snapshot.as_json(),
        ]

    first = trace()
    assert first == trace(), f"seed {seed}"
    assert first[0]
    assert any(reason is Reason.RAISED for reason, _ in first[2])


@pytest.mark.slow
def test_run_returns_although_a_bolt_ignores_every_cancellation_F9(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio_tools, "GIVE_UP_S", 0.2)
    monkeypatch.setattr(worker, "CLOSE_S", 0.2)

    class Stubborn(Bolt):
        async def process(self, number: Number) -> list[Number]:
            while number.n == 1:
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    continue
            return [number]

    topology, captured = line(
        ScriptedSpout(numbers(3)), Stubborn(), config=Config(process_timeout_s=0.2, max_replays=0)
    )
    report = topology.run()
    assert (report.ended, report.snapshot.total("dead"), report.exit_status) == ("ended", 1, 1)
    assert sorted(one.n for one in captured.records) == [0, 2]


async def test_run_in_a_running_loop_says_to_await_serve() -> None:
    topology, _ = line(ScriptedSpout(numbers(1)), Same())
    with pytest.raises(RuntimeError, match="await `serve`"):
        topology.run()
