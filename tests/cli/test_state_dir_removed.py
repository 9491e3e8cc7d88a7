"""A state directory that is removed, or replaced, under a run ends it, with a sentence; and nobody writes into another
run's one."""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_kit import ENDLESS, PATIENCE_S, started

from spouts import Tick, Ticker
from topology import Bolt, Topology
from topology.errors import WorkerError
from topology.runtime.embedded.run import EmbeddedRun


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    (tmp_path / "endless.py").write_text(ENDLESS)
    return tmp_path


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_run_whose_state_directory_is_removed_ends_and_says_why(endless: Path, workers: str) -> None:
    with started("run", "endless.py", "--state-dir", "state", "--workers", workers, cwd=endless) as one:
        one.until_said("records/s")
        shutil.rmtree(endless / "state")
        assert one.ended() == 1
        said = one.said()
    assert "resumes from here" not in (endless / "stdout.txt").read_text() + said
    assert said.count("the state directory state was removed or replaced while a run uses it (K557)") == 1, said
    assert "Traceback" not in said
    assert not (endless / "state").exists()


def test_a_worker_that_dies_then_leaves_no_run_that_never_ends(endless: Path) -> None:
    with started("run", "endless.py", "--state-dir", "state", "--workers", "2", cwd=endless) as one:
        one.until_said("worker 0  pid")
        (pid, *_) = re.findall(r"worker 0  pid (\d+)", one.said())
        shutil.rmtree(endless / "state")
        os.kill(int(pid), signal.SIGKILL)
        assert one.ended() == 1
        said = one.said()
    assert "(K557)" in said
    assert "Traceback" not in said


def test_a_run_whose_state_directory_is_replaced_writes_nothing_into_the_new_one(endless: Path) -> None:
    with started("run", "endless.py", "--state-dir", "state", cwd=endless) as one:
        one.until_said("records/s")
        (endless / "state").rename(endless / "away")
        (endless / "state").mkdir(mode=0o700)
        assert one.ended() == 1
        said = one.said()
    assert "(K557)" in said
    assert [*(endless / "state").iterdir()] == []
    assert (endless / "away" / "state.json").exists()


class Null(Bolt):
    def process(self, tick: Tick) -> None:
        return None


def ends_by_removal(tmp_path: Path, bolt: Bolt, is_ready: Callable[[EmbeddedRun], bool], *, drains: bool) -> None:
    """Run a topology with this bolt, and remove its state directory once it is ready. The run ends, and says why."""
    topology = Topology("ticks")
    topology.bolt("bolt", bolt, topology.spout("ticks", Ticker(0.01)).shuffle())
    state = tmp_path / "state"

    async def main() -> None:
        run = EmbeddedRun(topology, state_dir=state)
        finishing = asyncio.ensure_future(run.finish())
        async with asyncio.timeout(PATIENCE_S):
            while not is_ready(run):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
        if drains:
            run.drain(patient=True)  # without a limit: only the directory ends it
        await asyncio.to_thread(shutil.rmtree, state)
        async with asyncio.timeout(PATIENCE_S):
            report = await finishing
        assert report.ended == "failed"
        assert isinstance(report.error, WorkerError)
        assert str(report.error.code) == "K557"
        assert not report.clean

    asyncio.run(main())


def test_a_run_in_the_callers_process_ends_too(tmp_path: Path) -> None:
    def has_acked(run: EmbeddedRun) -> bool:
        now = run.snapshot()
        return now is not None and now.total("acked") > 0

    ends_by_removal(tmp_path, Null(), has_acked, drains=False)


class Slow(Bolt):
    """Holds its first input until the run ends."""

    async def process(self, tick: Tick) -> None:
        await asyncio.Event().wait()


def test_a_run_that_drains_ends_as_soon_as_its_directory_is_removed(tmp_path: Path) -> None:
    """It does not drain until its time is up, only to find then that nothing can be kept."""
    ends_by_removal(tmp_path, Slow(), lambda run: "in hand" in run.in_flight(), drains=True)
