"""The switch interval is the process's, not ours: shorter while a store is written, and then what it was, however runs
overlap and whatever becomes of one.
"""

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from letters_kit import until
from runtime_kit import Number, line

from topology.runtime.embedded.run import EmbeddedRun
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes
from topology.testing import Crash, ScriptedSpout, Wait, run_topology


@pytest.fixture
def before() -> Iterator[float]:
    """An interval of the test's own, whatever ran before it."""
    found = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    yield sys.getswitchinterval()
    sys.setswitchinterval(found)


class Writing:
    """Holds stores up in the midst of their checkpoints, in their threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.intervals: list[float] = []
        self.go_on = threading.Event()
        conclude = SqliteStore.conclude

        def held_up(store: SqliteStore, checkpoint: int, changes: Changes) -> None:
            self.intervals.append(sys.getswitchinterval())
            assert self.go_on.wait(20)
            conclude(store, checkpoint, changes)

        monkeypatch.setattr(SqliteStore, "conclude", held_up)


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Writing]:
    one = Writing(monkeypatch)
    yield one
    one.go_on.set()


def endless(state: Path) -> EmbeddedRun:
    return EmbeddedRun(line(ScriptedSpout([Number(1), Wait()]))[0], state_dir=state)


async def test_threads_are_switched_sooner_while_stores_are_written_and_as_before_when_all_are_done(
    tmp_path: Path, before: float, writing: Writing
) -> None:
    runs = [endless(tmp_path / str(number)) for number in range(2)]
    endings = [asyncio.ensure_future(run.finish()) for run in runs]
    await until(lambda: len(writing.intervals) == 2)
    assert max(writing.intervals) == sys.getswitchinterval() < before
    writing.go_on.set()
    await until(lambda: sys.getswitchinterval() == before)
    for run in runs:
        run.drain()
    assert [ending.ended for ending in await asyncio.gather(*endings)] == ["stopped"] * 2
    assert sys.getswitchinterval() == before


def test_a_loop_that_closes_over_a_run_leaves_the_switch_interval_as_it_was(
    tmp_path: Path, before: float, writing: Writing
) -> None:
    async def leaves() -> None:
        ending = asyncio.ensure_future(endless(tmp_path).finish())
        await until(lambda: bool(writing.intervals))
        assert sys.getswitchinterval() < before
        assert not ending.done()
        writing.go_on.set()

    asyncio.run(leaves())
    assert sys.getswitchinterval() == before


def test_a_worker_that_dies_leaves_the_switch_interval_as_it_was(tmp_path: Path, before: float) -> None:
    topology = line(ScriptedSpout([Number(n) for n in range(400)]))[0]
    report = run_topology(topology, workers=2, crashes=[Crash(0, acked=100)], state_dir=tmp_path / "state")
    assert report.ended == "ended"
    assert sys.getswitchinterval() == before
