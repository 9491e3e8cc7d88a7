"""`kedge run` killed as a whole, again and again, and started again: nothing is skipped, and only what was in flight is
read again (E3, E4). Real processes, the real command."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

KEDGE = Path(sys.executable).parent / "kedge"
TOPOLOGY = Path(__file__).parents[1] / "kits" / "killed_topology.py"
COUNT = 8_000
KILLS = 3
IN_FLIGHT_MAX = 500  # max_pending, of each task
SINCE_A_COMMIT_MAX = 1_500  # read between two commits, and while a slow one holds the mark


def begun(folder: Path, workers: int) -> subprocess.Popen[bytes]:
    command = [str(KEDGE), "run", str(TOPOLOGY), "--set", f"folder={folder}", "--set", f"count={COUNT}"]
    command += ["--set", f"tasks={workers}", "--state-dir", str(folder / "state")]
    command += ["--workers", str(workers)] if workers > 1 else []
    with (folder / "said").open("ab") as said:
        return subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True, cwd=folder)


def killed(process: subprocess.Popen[bytes]) -> None:
    """All of its session, at once: the supervisor and its workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def lives_of(folder: Path, task: int) -> list[list[int]]:
    """What each life of a spout task has read."""
    text = (folder / f"read-{task}").read_text() if (folder / f"read-{task}").exists() else ""
    return [[int(line) for line in life.split()] for life in text.split("-\n")[1:]]


def read_so_far(folder: Path, tasks: int) -> int:
    return sum(len(life) for task in range(tasks) for life in lives_of(folder, task))


def stored(folder: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(folder / "rows.db")) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM row ORDER BY n")]


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_run_that_is_killed_as_a_whole_goes_on_where_it_was(tmp_path: Path, workers: int) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    random = Random(seed)
    for _ in range(KILLS):
        process = begun(tmp_path, workers)
        try:
            wanted = read_so_far(tmp_path, workers) + random.randrange(200, 800)
            deadline = time.monotonic() + 60
            while read_so_far(tmp_path, workers) < wanted:
                assert process.poll() is None, (tmp_path / "said").read_text()
                assert time.monotonic() < deadline, (tmp_path / "said").read_text()
                time.sleep(0.01)
            time.sleep(0.4 + random.random() * 0.3)  # some commits, and slow ones that are done
        finally:
            killed(process)
    last = begun(tmp_path, workers)
    try:
        assert last.wait(120) == 0, (tmp_path / "said").read_text()
    finally:
        killed(last)
    assert stored(tmp_path) == [*range(COUNT)]
    assert "resuming at 'numbers'" in (tmp_path / "said").read_text()
    for task in range(workers):
        lives = lives_of(tmp_path, task)
        assert lives[-1][0] > task, "the last one has not begun at the start"
        for before, after in pairwise(lives):
            assert after[0] <= before[-1] + workers, "nothing is skipped"
            again = [n for n in before if n >= after[0]]
            print(f"task {task} has read {len(before)}, and {len(again)} of them again")
            assert len(again) <= IN_FLIGHT_MAX + SINCE_A_COMMIT_MAX, "only what was in flight"
