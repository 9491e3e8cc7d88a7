"""A user's limit of processes and threads, `ulimit -u`: one sentence at the start, and patience later.

The limit binds no root, so that the command runs as a user of its own, which may still read what is root's.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from chaos_kit import KEDGE, exactly, running

CAPABILITIES: Final = "-all,+dac_override,+dac_read_search"
USERS: Final = 700_000  # a number that no user of a machine has; a process' own comes on top


def limited(count: int) -> tuple[str, ...]:
    """The command, for a user who has no other process, and may have so many processes and threads."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None or shutil.which("prlimit") is None:
        pytest.skip("needs root, setpriv and prlimit, to run the command as a user who has no other process")
    caps = [f"--{which}-caps={CAPABILITIES}" for which in ("inh", "ambient")]
    as_user = ["setpriv", f"--reuid={USERS + os.getpid()}", "--clear-groups", *caps, f"--bounding-set={CAPABILITIES}"]
    line = ("prlimit", f"--nproc={count}:{count}", *as_user)
    if subprocess.run([*line, "true"], check=False, capture_output=True).returncode:
        pytest.skip("the system lets no process run as another user with capabilities")
    return (*line, *KEDGE)


def lower(pid: int, count: int) -> None:
    """Sets the limit of a process that runs: as its user, whom it lets do so."""
    user = os.stat(f"/proc/{pid}").st_uid
    limit = ["prlimit", f"--pid={pid}", f"--nproc={count}:200"]
    subprocess.run(["setpriv", f"--reuid={user}", "--clear-groups", *limit], check=True)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("limit", [1, 2, 4, 6, 9])
def test_too_few_processes_and_threads_are_one_sentence_f74(folder: Path, limit: int, workers: int) -> None:
    with running(folder, command=limited(limit), count=200, workers=workers) as run:
        outcome = run.ended(within_s=30)
    assert outcome.status == 3, outcome.said
    assert "K468" in outcome.said
    assert "ulimit -u" in outcome.said
    assert "Traceback" not in outcome.said


def test_a_supervisor_that_can_make_no_process_waits_until_it_can_f74(folder: Path) -> None:
    """Its limit is lowered while it runs, so that a worker that dies can't be replaced. 8,000 records."""
    with running(folder, command=limited(200), count=8_000, rate=4_000, layout="apart") as run:
        run.until_done(1_000)
        pid = run.process.pid
        lower(pid, 1)
        run.kill_in_flight(run.with_sink())
        run.until_said("worker 0 could not be started: Resource temporarily unavailable")
        lower(pid, 200)
        outcome = run.ended().well()
    exactly(folder, 8_000)
    assert outcome.total("replayed") > 0


def test_a_replacement_that_can_make_no_thread_is_tried_again_f74(folder: Path) -> None:
    """The supervisor may make its process and no more, so the replacement itself has to say so. 8,000 records."""
    with running(folder, command=limited(200), count=8_000, rate=4_000, layout="apart") as run:
        run.until_done(1_000)
        pid = run.process.pid
        killed = run.with_sink()
        threads = _threads_of(os.stat(f"/proc/{pid}").st_uid) - len(os.listdir(f"/proc/{killed}/task"))
        lower(pid, threads + 4)
        run.kill_in_flight(killed)
        run.until_said("could not start: a process of this run needs")
        lower(pid, 200)
        outcome = run.ended().well()
    exactly(folder, 8_000)
    assert "Traceback" not in outcome.said
    assert outcome.total("replayed") > 0


def _threads_of(user: int) -> int:
    """All threads of this user."""
    count = 0
    for one in Path("/proc").glob("[0-9]*"):
        try:
            if one.stat().st_uid == user:
                count += len(os.listdir(one / "task"))
        except OSError:  # it has ended meanwhile
            continue
    return count
