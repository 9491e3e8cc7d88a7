"""The supervisor itself is killed; two of them want the same state directory, or only the same machine."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chaos_kit import ENDLESS, KEDGE, exactly, rows, running, seeded, wait_for
from proc_kit import cgroup_of, left_over, state_of

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
            assert len(left_over(folder)) == 3 + 4, "a run directory, two sockets, three processes and a guard"
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


@pytest.mark.slow
def test_workers_that_are_blocked_end_with_their_supervisor_too_f3(folder: Path) -> None:
    """A bolt blocks the loop, so that only threads can notice."""
    with running(folder, count=FEWER, trouble="always sleep", at=4_000, seconds=60.0) as run:
        run.until_done(1_000)
        wait_for(lambda: run.pending() > 0 and stands_still(run.done), "a blocked loop")
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
        wait_for(lambda: not left_over(folder), "the end of workers, sockets and the run directory", within_s=3)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["stopped", "hung with the interpreter's lock"])
def test_workers_that_can_not_notice_it_are_ended_when_their_supervisor_is_killed_f67(
    folder: Path, trouble: str
) -> None:
    """They read no end of a file; who outlives the supervisor kills them, so that the next run has their stores."""
    values: dict[str, Any] = {"trouble": "hang", "at": 1_500, "seconds": 60.0} if trouble != "stopped" else {}
    with running(folder, count=FEWER, rate=2_000, layout="apart", **values) as run:
        run.until_done(500)
        workers = run.workers()
        if trouble == "stopped":
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: {state_of(pid) for pid in workers} == {"T"}, "their stop")
        else:
            wait_for(lambda: list(folder.rglob("trouble")), "a worker that hangs")
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
        wait_for(lambda: not [pid for pid in workers if state_of(pid)], "the end of the workers", within_s=5)
    with running(folder, count=FEWER, layout="apart") as run:
        run.ended().well()
    exactly(folder, FEWER)


@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_frozen_workers_are_ended_or_named_with_what_to_do_when_their_supervisor_is_killed_f67(
    folder: Path, version: int
) -> None:
    """In a cgroup of the first version no signal ends them before it is thawed."""
    with cgroup_of(version) as cgroup:
        if cgroup is None:
            pytest.skip(f"no cgroup of version {version} with a freezer that this user may write")
        with running(folder, count=FEWER, rate=2_000, layout="apart") as run:
            run.until_done(500)
            workers = run.workers()
            cgroup.freeze(workers)
            wait_for(lambda: cgroup.frozen, "the frozen workers")
            os.kill(run.process.pid, signal.SIGKILL)
            run.process.wait()
            if version == 1:
                with running(folder, count=FEWER, layout="apart") as again:
                    refused = again.ended()
                assert refused.status == 3
                holder = rf"another process has it open \(pid ({'|'.join(map(str, workers))}): python"
                assert re.search(holder, refused.sentence())
                assert "its cgroup may be frozen: thaw it" in refused.said
                cgroup.thaw()
            wait_for(lambda: not [pid for pid in workers if state_of(pid)], "the end of the workers", within_s=5)
    with running(folder, count=FEWER, layout="apart") as run:
        run.ended().well()
    exactly(folder, FEWER)


@pytest.mark.slow
def test_a_guard_that_was_killed_is_replaced_with_the_next_worker_f67(folder: Path) -> None:
    with running(folder, count=ENDLESS, rate=2_000, layout="apart") as run:
        run.until_done(500)
        first = run.workers()
        (guard,) = run.guards()
        os.kill(guard, signal.SIGKILL)
        # a busy machine may need longer for the guard's death than for the worker's, and only a new worker is looked at
        wait_for(lambda: state_of(guard) in ("", "Z"), "the end of the guard")
        os.kill(first[0], signal.SIGKILL)
        wait_for(
            lambda: len(run.workers()) == 2 and run.guards() != [guard] and sum(map(guarded, run.guards())) == 2,
            "another guard, which was told of both workers",
        )
        workers = run.workers()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
        wait_for(lambda: not [pid for pid in workers if state_of(pid)], "the end of the workers", within_s=5)


@pytest.mark.slow
def test_a_worker_that_nobody_could_end_is_ended_by_the_next_run_which_says_so_f67(folder: Path) -> None:
    """Its guard was killed as well. `kedge state` ends nobody, and names it."""
    with running(folder, count=FEWER, rate=2_000, layout="apart") as run:
        run.until_done(500)
        (guard,) = run.guards()
        stopped = run.workers()
        for pid in (*stopped, guard):
            os.kill(pid, signal.SIGSTOP if pid in stopped else signal.SIGKILL)
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
        shown = subprocess.run(
            [*KEDGE, "state", "export", "--state-dir", str(folder / "state")], capture_output=True, text=True
        )
        assert shown.returncode == 3
        assert re.search(rf"another process has it open \(pid ({'|'.join(map(str, stopped))}): python", shown.stderr)
        assert "kill -9 PID" in shown.stderr
        assert {state_of(pid) for pid in stopped} == {"T"}
        with running(folder, count=FEWER, layout="apart") as again:
            outcome = again.ended().well()
        assert not [pid for pid in stopped if state_of(pid) not in ("", "Z")]
    for pid in stopped:
        assert f"worker process {pid} of an earlier run, whose supervisor is gone" in outcome.said
    exactly(folder, FEWER)


def test_another_program_that_reads_a_store_is_named_and_left_alone_f67(folder: Path) -> None:
    with running(folder, count=100, layout="apart") as run:
        run.ended().well()
    code = f"import apsw, sys; one = apsw.Connection({str(folder / 'state' / 'worker-0.db')!r}); " + (
        "[*one.execute('PRAGMA locking_mode=EXCLUSIVE; BEGIN IMMEDIATE')]; "
        "print('locked', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == b"locked\n"
        with running(folder, count=FEWER, layout="apart") as run:
            outcome = run.ended()
        assert outcome.status == 3
        assert f"worker-0.db can't be used: another process has it open (pid {other.pid}: python" in outcome.sentence()
        assert other.poll() is None
    finally:
        other.kill()
        other.communicate()


def guarded(guard: int) -> int:
    """How many processes it holds."""
    try:
        links = [os.readlink(entry) for entry in Path(f"/proc/{guard}/fd").iterdir()]
    except OSError:  # it has ended, or one of them was closed meanwhile
        return 0
    return links.count("anon_inode:[pidfd]")


def stands_still(count: Callable[[], int]) -> bool:
    before = count()
    time.sleep(0.5)
    return count() == before


@pytest.mark.slow
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
