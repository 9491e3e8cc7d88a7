"""Threads of bolts with `blocking = True` that can't be made, don't return, or are under way at the end of a run."""

import asyncio
import signal
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import pytest

from bridge.engine.mapping import mistakes
from spouts import Items
from topology import Bolt, Record, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.worker import shutdown

sys.path.append(str(Path(__file__).parents[2] / "cli"))


class Number(Record):
    value: int


class Held(Bolt):
    """Its thread waits until the test lets it go."""

    blocking: ClassVar[bool] = True
    go: ClassVar[threading.Event] = threading.Event()
    said: ClassVar[list[str]] = []

    def process(self, number: Number) -> None:
        self.said.append("begun")
        self.go.wait(60)
        self.said.append("returned")

    def close(self) -> None:
        self.said.append("closed")


@pytest.fixture
def held() -> type[Held]:
    Held.go.clear()
    Held.said.clear()
    return Held


def made(count: int = 1) -> Topology:
    topology = Topology("held")
    topology.bolt("held", Held(), topology.spout("numbers", Items([Number(n) for n in range(count)])).shuffle())
    return topology


async def said(held: type[Held], word: str) -> None:
    async with asyncio.timeout(10):
        while word not in held.said:  # noqa: ASYNC110 - a thread says it
            await asyncio.sleep(0.01)


async def begun(held: type[Held], run: EmbeddedRun) -> "asyncio.Task[object]":
    task: asyncio.Task[object] = asyncio.ensure_future(run.finish())
    await said(held, "begun")
    return task


async def test_a_thread_that_can_not_be_made_fails_its_input_which_is_tried_again_f75(
    held: type[Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    start = threading.Thread.start

    def none_at_first(thread: threading.Thread) -> None:
        if thread.name.startswith("kedge held") and len(refused) < 3:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", none_at_first)
    held.go.set()
    async with asyncio.timeout(30):
        report = await EmbeddedRun(made(3)).finish()
    assert report.exit_status == 0
    assert len(refused) == report.snapshot.total("failed") == 3
    assert report.snapshot.total("acked") == 3


async def test_close_comes_after_the_last_thread_has_returned_though_the_run_is_aborted_a5(held: type[Held]) -> None:
    run = EmbeddedRun(made())
    task = await begun(held, run)
    run.abort()
    asyncio.get_running_loop().call_later(0.2, held.go.set)
    await task
    assert held.said == ["begun", "returned", "closed"]


async def test_a_thread_that_does_not_return_is_left_behind_and_named_and_is_no_trouble_later(
    held: type[Held], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shutdown, "CLOSE_S", 0.2)
    run = EmbeddedRun(made())
    task = await begun(held, run)
    run.abort()
    async with asyncio.timeout(10):
        await task
    assert "its `process` is still under way in 1 thread, and is left behind" in caplog.text
    assert held.said == ["begun", "closed"]
    held.go.set()
    await said(held, "returned")
    assert "exception calling callback" not in caplog.text


async def test_a_drain_waits_for_a_thread_under_way_and_acks_its_input(held: type[Held]) -> None:
    run = EmbeddedRun(made())
    task = await begun(held, run)
    run.drain()
    asyncio.get_running_loop().call_later(0.2, held.go.set)
    await task
    snapshot = run.snapshot()
    assert snapshot is not None
    assert (snapshot.total("acked"), snapshot.total("failed")) == (1, 0)


def test_spark_runs_such_a_bolt_as_any_other() -> None:
    assert mistakes(made()) == []


STUCK = """
import time
from pathlib import Path
from kedge import Bolt, Items, Record, Topology


class Number(Record):
    value: int


class Stuck(Bolt):
    blocking = True

    def process(self, number: Number) -> None:
        if number.value == 3 and not Path("stuck").exists():
            Path("stuck").touch()
            time.sleep(600)


class Relay(Bolt):
    def process(self, number: Number) -> list[Number]:
        return [number]


def topology(concurrency: int = 1) -> Topology:
    topology = Topology("stuck")
    numbers = topology.spout("numbers", Items([Number(n) for n in range(20)]))
    relay = topology.bolt("relay", Relay(), numbers.shuffle(), tasks=2)
    topology.bolt("stuck", Stuck(), relay.shuffle(), tasks=2, concurrency=concurrency)
    return topology
"""


@pytest.mark.slow
def test_an_input_over_its_time_limit_is_done_in_another_thread_on_two_workers_f9(tmp_path: Path) -> None:
    from cli_kit import kedge  # pyright: ignore[reportMissingImports]

    (tmp_path / "stuck.py").write_text(STUCK)
    options = ("--workers", "2", "--set", "concurrency=2", "--config", "process_timeout_s=0.5")
    result = kedge("run", "stuck.py", *options, cwd=tmp_path)
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    assert "not done after 0.5 s" in said
    assert "is still under way in 1 thread, and is left behind" in said
    assert "stuck has read everything" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("workers", [(), pytest.param(("--workers", "2"), marks=pytest.mark.slow)])
def test_ctrl_c_ends_a_run_whose_thread_does_not_return_within_its_bound_f10(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    from cli_kit import started, wait_for  # pyright: ignore[reportMissingImports]

    (tmp_path / "stuck.py").write_text(STUCK)
    with started("run", "stuck.py", *workers, "--config", "drain_timeout_s=1", cwd=tmp_path) as run:
        wait_for((tmp_path / "stuck").exists, "a thread")
        run.process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert run.ended() != 0, run.said()
        assert time.monotonic() - begin < 30
    assert "is still under way in 1 thread, and is left behind" in run.said()
    assert "Traceback" not in run.said()
