"""The supervisor itself is killed; two of them want the same state directory, or only the same machine."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos_kit import ENDLESS, exactly, rows, running, seeded, wait_for
from proc_kit import left_over

FEWER = 8_000


def test_workers_end_with_their_supervisor_and_the_next_run_completes_f3(folder: Path) -> None:
    """They end within three seconds of kill -9, and leave neither sockets nor a run directory. 8,000 records, in
    three runs on one state directory and store."""
    random = seeded(301)
    for _ in range(2):
        with running(folder, count=FEWER, rate=FEWER, layout="apart") as run:
            run.until_done(random.randint(500, 2_500))
            run.until(lambda: run.pending() > 0, "messages in flight")
            workers = run.workers()
            assert len(workers) == 2
            assert len(left_over(folder)) == 3 + 3, "a run directory, two sockets, three processes"
            os.kill(run.process.pid, signal.SIGKILL)
            since = time.monotonic()
            run.process.wait()
            wait_for(lambda: not left_over(folder), "the end of workers, sockets and the run directory", within_s=3)
            print(f"{time.monotonic() - since:.2f} s after the kill nothing was left")
        assert rows(folder) > 0
    with running(folder, count=FEWER, layout="apart") as run:
        outcome = run.ended().well()
    exactly(folder, FEWER)
    assert outcome.figures["restarts"] == 0


def test_workers_that_are_blocked_end_with_their_supervisor_too_f3(folder: Path) -> None:
    """A bolt blocks the loop, so that only threads can notice."""
    with running(folder, count=FEWER, trouble="always sleep", at=4_000, seconds=60.0) as run:
        run.until_done(1_000)
        wait_for(lambda: run.pending() > 0 and stands_still(run.done), "a blocked loop")
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
        wait_for(lambda: not left_over(folder), "the end of workers, sockets and the run directory", within_s=3)


def stands_still(count: Callable[[], int]) -> bool:
    before = count()
    time.sleep(0.5)
    return count() == before


def test_a_second_run_on_one_state_directory_is_refused_and_disturbs_nothing_f24(folder: Path) -> None:
    """Also by another path to the directory."""
    (folder / "alias").symlink_to(folder)
    with running(folder, count=ENDLESS, rate=2_000, layout="apart") as run:
        run.until_done(1_000)
        workers = sorted(run.workers())
        for name in ("state", "alias/state"):
            with running(folder, count=FEWER, state=name) as second:
                refused = second.ended()
            assert refused.status == 3, refused.said
            assert "is in use by another run" in refused.sentence()
        run.until_done(1_000)
        assert sorted(run.workers()) == workers
        outcome = run.drained()
    assert (outcome.figures["restarts"], outcome.total("failed")) == (0, 0)


def test_two_runs_beside_each_other_are_both_exact_f24(folder: Path) -> None:
    """With run directories in the same place: neither takes a socket of the other's, nor sweeps its directory."""
    other = folder / "other"
    (other / "books").mkdir(parents=True)
    (other / "r").symlink_to(folder / "r")
    values: dict[str, Any] = {"count": ENDLESS, "rate": 2_000, "layout": "apart"}
    with running(folder, **values) as one, running(other, **values) as two:
        one.until_done(500)
        two.until_done(500)
        assert len(list((folder / "r").glob("kedge-*"))) == 2
        one.until_done(500)
        for run in (one, two):
            outcome = run.drained()
            assert (outcome.figures["restarts"], outcome.total("failed")) == (0, 0)
