"""From `open` to `close`: what is told to end, or cancelled, while it opens, runs or closes; what is left. F6, F9, F10.

Nothing that a run has started outlives it, and no component is closed while a call of it still runs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from runtime_kit import Number, Same, line, numbers

from topology import Bolt, Collector, Message, Spout, StartError, Task
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import ScriptedSpout, Wait, run_topology, run_virtual


class Counting(Spout):
    """Never ends, and takes a moment to close its generator."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def __deepcopy__(self, memo: Any) -> "Counting":
        return self

    async def records(self) -> AsyncIterator[Message[Number]]:
        n = 0
        try:
            while True:
                yield Message(Number(n), n)
                n += 1
        finally:
            await asyncio.sleep(0.5)
            self.said.append("generator over")


class Told(Bolt):
    """Writes down what happens to it; an input takes a minute, and a moment to end when it is cancelled."""

    def __init__(self, said: list[str], name: str = "bolt", close_s: float = 0.0) -> None:
        self.said, self.name, self.close_s = said, name, close_s

    def __deepcopy__(self, memo: Any) -> "Told":
        return Told(self.said, self.name, self.close_s)

    async def process(self, number: Number) -> list[Number]:
        self.said.append("begun")
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            self.said.append("over")
        return [number]

    async def close(self) -> None:
        await asyncio.sleep(self.close_s)
        self.said.append(f"{self.name} closed")


class Takes(Bolt):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(self.seconds)
        return [number]


def others() -> list[str]:
    """The names of the tasks in this loop, but for the one that asks."""
    return [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}]


def alone(main: Callable[[], Awaitable[Any]]) -> list[str]:
    """Runs on virtual time; the names of the tasks that are left running afterwards."""

    async def wrapped() -> list[str]:
        await main()
        return others()

    return run_virtual(wrapped())


# -- told to end while it opens


class Opens(Told):
    """Takes a minute to open; `stubborn`: and does not mind being cancelled."""

    stubborn = False

    def __deepcopy__(self, memo: Any) -> "Opens":
        return self

    async def open(self, task: Task) -> None:
        self.said.append(f"{self.name} opens")
        until = task.clock.monotonic() + 60
        while (left := until - task.clock.monotonic()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                self.said.append(f"{self.name} cancelled")
                if not self.stubborn:
                    raise


@pytest.mark.parametrize(("how", "ended"), [("drain", "stopped"), ("abort", "aborted")])
def test_a_run_that_is_told_to_end_while_a_bolt_opens_ends_at_once_and_starts_nothing(how: str, ended: str) -> None:
    said: list[str] = []
    spout = ScriptedSpout(numbers(3))
    topology, captured = line(spout, Opens(said, "first"), Opens(said, "second"))

    async def end(run: EmbeddedRun) -> None:
        await asyncio.sleep(2)
        getattr(run, how)()

    report = run_topology(topology, during=end)
    assert said == ["second opens", "second cancelled", "second closed"]
    assert report.ended == ended
    assert report.snapshot.seconds == pytest.approx(2, abs=0.1)
    assert (report.snapshot.total("emitted"), captured.records, report.summaries) == (0, [], {})
    assert report.exit_status == (how == "abort")


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_serve_ends_at_once_where_it_is_told_to_before_everything_is_open_F10(how: str) -> None:
    said: list[str] = []
    topology, _ = line(ScriptedSpout(numbers(3)), Opens(said))

    async def main() -> None:
        if how == "stop":
            assert (await topology.serve(stop=asyncio.sleep(2))).ended == "stopped"
        else:
            serving = asyncio.ensure_future(topology.serve())
            await asyncio.sleep(2)
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
        assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.1)

    assert alone(main) == []
    assert said == ["bolt opens", "bolt cancelled", "bolt closed"]


def test_an_open_that_ignores_its_cancellation_holds_up_the_end_for_ten_seconds_F9(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: list[str] = []
    bolt = Opens(said)
    bolt.stubborn = True
    topology, _ = line(ScriptedSpout(numbers(3)), bolt)
    report = run_topology(topology, until_s=2)
    assert said[:3] == ["bolt opens", "bolt cancelled", "bolt closed"]
    assert report.ended == "stopped"
    assert report.snapshot.seconds == pytest.approx(12, abs=0.1)
    assert "it ignores that it was cancelled" in caplog.text


def test_a_run_that_was_told_to_end_opens_no_more_bolts_though_none_of_them_waits() -> None:
    opened: list[int] = []

    class Plain(Same):
        def open(self, task: Task) -> None:
            opened.append(task.index)
            if len(opened) == 2:
                runs[0].drain()

    runs: list[EmbeddedRun] = []
    topology, _ = line(ScriptedSpout(numbers(3)), Plain(), tasks=20)

    async def remember(run: EmbeddedRun) -> None:
        runs.append(run)
        await asyncio.sleep(9)

    report = run_topology(topology, during=remember)
    assert report.ended == "stopped"
    assert len(opened) < 10


# -- who else waits for `stop`


def test_a_stop_that_is_the_callers_own_is_left_alone_when_the_run_has_ended() -> None:
    short, _ = line(ScriptedSpout(numbers(1)), Same())
    endless, captured = line(ScriptedSpout[Number]([*numbers(1), Wait()]), Same())

    async def main() -> None:
        stop = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(endless.serve(stop=stop))
        assert (await short.serve(stop=stop)).ended == "ended"
        await asyncio.sleep(5)
        assert not stop.done()
        assert not serving.done()
        stop.set_result(None)
        assert (await serving).ended == "stopped"

    assert alone(main) == []
    assert captured.records == numbers(1)


def test_a_stop_that_serve_made_a_task_of_is_cancelled_when_the_run_has_ended() -> None:
    said: list[str] = []
    topology, _ = line(ScriptedSpout(numbers(1)), Same())

    async def stop() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            said.append("over")

    async def main() -> None:
        assert (await topology.serve(stop=stop())).ended == "ended"
        assert said == ["over"]

    assert alone(main) == []


# -- the end


def test_no_bolt_is_closed_while_one_of_its_calls_runs_and_nothing_outlives_the_run_A5_F10() -> None:
    said: list[str] = []
    topology, _ = line(Counting(said), Told(said), concurrency=16)

    async def main() -> None:
        run = EmbeddedRun(topology)
        asyncio.get_running_loop().call_later(1, run.abort)
        assert (await run.finish()).ended == "aborted"

    assert alone(main) == []
    assert said == ["begun"] * 16 + ["over"] * 16 + ["generator over", "bolt closed"]


def test_what_ignores_its_cancellation_at_the_end_is_named_and_does_not_hold_up_the_close_F9(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: list[str] = []

    class Stubborn(Told):
        def __deepcopy__(self, memo: Any) -> "Stubborn":
            return self

        async def process(self, number: Number) -> list[Number]:
            until = asyncio.get_running_loop().time() + 100
            while (left := until - asyncio.get_running_loop().time()) > 0:
                try:
                    await asyncio.sleep(left)
                except asyncio.CancelledError:
                    said.append("ignored")
            return [number]

    topology, captured = line(ScriptedSpout[Number]([*numbers(1), Wait()]), Stubborn(said))

    async def abort(run: EmbeddedRun) -> None:
        await asyncio.sleep(2)
        run.abort()

    report = run_topology(topology, during=abort)
    assert said[:2] == ["ignored", "bolt closed"]
    assert (report.ended, report.aborted, captured.records) == ("aborted", 1, [])
    assert report.snapshot.seconds == pytest.approx(12, abs=0.1)
    assert "'bolt.0': it ignores that it was cancelled" in caplog.text


def test_a_flush_that_an_abort_cuts_off_has_ended_before_its_bolt_is_closed() -> None:
    said: list[str] = []

    class Flushes(Told):
        def __deepcopy__(self, memo: Any) -> "Flushes":
            return self

        async def process(self, number: Number) -> list[Number]:
            return [number]

        async def flush(self, out: Collector[Number]) -> None:
            try:
                await asyncio.sleep(20)
            finally:
                await asyncio.sleep(0.1)
                said.append("flush over")

    topology, _ = line(ScriptedSpout(numbers(1)), Flushes(said))

    async def main() -> None:
        run = EmbeddedRun(topology)
        asyncio.get_running_loop().call_later(5, run.abort)
        assert (await run.finish()).ended == "aborted"

    assert alone(main) == []
    assert said == ["flush over", "bolt closed"]


# -- cancelled


def test_a_timeout_around_serve_ends_it_when_it_has_drained_and_the_body_does_not_go_on_F10() -> None:
    topology, captured = line(ScriptedSpout[Number]([*numbers(3), Wait()]), Takes(2), concurrency=3)
    went_on = False

    async def main() -> None:
        nonlocal went_on
        try:
            async with asyncio.timeout(1):
                await topology.serve()
                went_on = True
        except TimeoutError:
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
        assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.1)

    assert alone(main) == []
    assert (went_on, sorted(captured.records, key=lambda one: one.n)) == (False, numbers(3))


def test_a_second_cancellation_does_not_wait_for_the_drain_and_leaves_nothing_behind_F10() -> None:
    said: list[str] = []
    topology, _ = line(ScriptedSpout[Number]([*numbers(1), Wait()]), Told(said))

    async def main() -> None:
        serving = asyncio.ensure_future(topology.serve())
        await asyncio.sleep(1)
        serving.cancel()
        await asyncio.sleep(1)
        assert not serving.done()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert asyncio.get_running_loop().time() == pytest.approx(2.1, abs=0.1)

    assert alone(main) == []
    assert said == ["begun", "over", "bolt closed"]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_every_bolt_is_closed_though_the_run_is_cancelled_while_one_closes_F10(times: int) -> None:
    said: list[str] = []
    topology, _ = line(ScriptedSpout(numbers(0), emits=[Number]), *(Told(said, f"b{n}", close_s=5) for n in range(3)))

    async def main() -> None:
        serving = asyncio.ensure_future(topology.serve())
        for _ in range(times):
            await asyncio.sleep(1)
            serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    assert alone(main) == []
    assert said == ["b0 closed", "b1 closed", "b2 closed"]


def test_who_cancels_a_run_that_can_not_begin_sees_why_it_could_not() -> None:
    class Fails(Same):
        async def open(self, task: Task) -> None:
            await asyncio.sleep(5)
            raise ValueError("no disk")

        async def close(self) -> None:
            await asyncio.sleep(5)

    topology, _ = line(ScriptedSpout(numbers(1)), Fails())

    async def main() -> None:
        serving = asyncio.ensure_future(topology.serve())
        await asyncio.sleep(7)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await serving
        assert isinstance(raised.value.__cause__, StartError)

    assert alone(main) == []
