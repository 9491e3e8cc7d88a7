"""`Spout.ends_last`: a bounded run that reads what its own bolts have put elsewhere ends by itself; those sources end
last, after the flush of what they depend on, whoever dies meanwhile."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elsewhere_kit import made, supervised
from runtime_kit import Number, numbers

from topology import Bolt, Collector, Message, Spout, Topology, Tuple
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run.report import Report
from topology.testing import Captured, Crash, ScriptedSpout, run_topology, simulate

PATIENCE_S = 30.0


def stored(directory: Path) -> list[int]:
    if not (directory / "store.db").exists():
        return []
    with contextlib.closing(sqlite3.connect(directory / "store.db")) as connection:
        try:
            return sorted(n for (n,) in connection.execute("SELECT n FROM number"))
        except sqlite3.OperationalError:  # the table is not there yet
            return []


async def ended(run: Any, during: Callable[[], bool] | None = None, kill: int | None = None) -> Report:
    """The report of a run that ends by itself; once `during()` holds its worker `kill` is killed."""
    finishing = asyncio.ensure_future(run.finish())
    deadline = time.monotonic() + PATIENCE_S
    try:
        while during is not None and not during():
            assert time.monotonic() < deadline, run.in_flight()
            assert not finishing.done(), finishing.result()
            await asyncio.sleep(0.005)
        if kill is not None:
            os.kill(run.processes()[kill], signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.shield(finishing)
    finally:
        if not finishing.done():
            run.abort()
            await finishing


def test_a_run_that_reads_what_it_has_put_elsewhere_ends_by_itself_in_one_process(tmp_path: Path) -> None:
    async def main() -> None:
        report = await ended(EmbeddedRun(made(str(tmp_path)), state_dir=tmp_path / "state"))
        assert (report.ended, report.exit_status, report.aborted, report.clean) == ("ended", 0, 0, True)

    asyncio.run(main())
    assert stored(tmp_path) == [*range(400)]


def test_a_run_that_reads_what_it_has_put_elsewhere_ends_by_itself_on_two_workers(tmp_path: Path) -> None:
    async def main() -> None:
        report = await ended(supervised(tmp_path))
        assert (report.ended, report.exit_status, report.restarts, report.clean) == ("ended", 0, 0, True)

    asyncio.run(main())
    assert stored(tmp_path) == [*range(400)]


@pytest.mark.parametrize("count", [0, 400])
def test_a_bolt_whose_worker_dies_in_its_flush_is_flushed_again(tmp_path: Path, count: int) -> None:
    """Also where nothing is read again that would bring it an input."""
    stuck = tmp_path / "state" / "kept" / "hand" / "stuck"

    async def main() -> None:
        report = await ended(supervised(tmp_path, count=count, stuck=True), stuck.exists, kill=0)
        assert (report.ended, report.exit_status, report.restarts) == ("ended", 0, 1)

    asyncio.run(main())
    assert stored(tmp_path) == [*range(count)]


def test_a_source_that_ends_last_reads_on_when_its_worker_dies(tmp_path: Path) -> None:
    async def main() -> None:
        run = supervised(tmp_path, pause_s=0.05)
        report = await ended(run, lambda: len(stored(tmp_path)) >= 60, kill=1)
        assert (report.ended, report.exit_status, report.restarts) == ("ended", 0, 1)

    asyncio.run(main())
    assert stored(tmp_path) == [*range(400)]


@pytest.mark.parametrize("dies", ["hand", "back"])
def test_on_virtual_time_it_ends_too_whoever_dies(tmp_path: Path, dies: str) -> None:
    store = Captured[Number]()
    topology = made(str(tmp_path), pause_s=0.05, store=store)
    report = run_topology(topology, workers=2, crashes=[Crash(dies, acked=50)], state_dir=tmp_path / "state")
    assert (report.ended, report.exit_status, report.restarts) == ("ended", 0, 1)
    assert sorted(one.n for one in store.distinct.values()) == [*range(400)]


@pytest.mark.parametrize("seed", range(8))
def test_a_simulated_run_ends_whatever_befalls_it(seed: int, tmp_path: Path) -> None:
    """Runs of one simulation share the folder, as those of one state directory do."""

    def make() -> Topology:
        return made(str(tmp_path), count=300, pause_s=0.05, store=Captured[Number](by_record=True))

    simulate(make, seed=seed)


def test_a_drain_waits_for_no_source_that_ends_last(tmp_path: Path) -> None:
    """It would be waited for in vain: nobody is flushed."""
    report = run_topology(made(str(tmp_path), count=100, stuck=True), until_s=5.0)
    assert (report.ended, report.exit_status) == ("stopped", 0)


class Gathers(Bolt):
    """Gives at its flush how many it had, and notes that it was flushed."""

    def __init__(self, name: str, flushed: list[str]) -> None:
        self.name, self.flushed = name, flushed
        self.kept: list[Tuple[Number]] = []

    def __deepcopy__(self, memo: Any) -> "Gathers":
        return Gathers(self.name, self.flushed)

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        self.kept.append(tup)

    def flush(self, out: Collector[Number]) -> None:
        self.flushed.append(self.name)
        for one in self.kept:
            out.emit(one.record, anchors=[one])
            out.ack(one)
        self.kept.clear()


class After(Spout):
    """One number, once all of these were flushed."""

    ends_last = True

    def __init__(self, flushed: list[str], names: set[str]) -> None:
        self.flushed, self.names, self.done = flushed, names, False

    def __deepcopy__(self, memo: Any) -> "After":
        return After(self.flushed, self.names)

    async def poll(self, limit: int) -> list[Message[Number]]:
        while not self.names <= set(self.flushed):  # noqa: ASYNC110 - as with a file, nobody tells
            await asyncio.sleep(0.01)
        before, self.done = self.done, True
        return [] if before else [Message(Number(7), 1)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_chain_of_stages_is_flushed_stage_by_stage(workers: int) -> None:
    """Results of one are what another one waits for, and the declaration names them in the wrong order."""
    flushed: list[str] = []
    captured = Captured[Number]()
    topology = Topology("stages")
    third = topology.spout("third", After(flushed, {"second"}))
    second = topology.spout("second-source", After(flushed, {"first"}))
    first = topology.spout("first-source", ScriptedSpout(numbers(5)))
    last = topology.bolt("last", Gathers("last", flushed), third.shuffle())
    topology.bolt("captured", captured, last.shuffle())
    topology.bolt("second", Gathers("second", flushed), second.shuffle())
    topology.bolt("first", Gathers("first", flushed), first.shuffle())
    report = run_topology(topology, workers=workers)
    assert (report.ended, report.exit_status) == ("ended", 0)
    assert [name for name in flushed if name != "captured"] == ["first", "second", "last"]
    assert captured.records == [Number(7)]
