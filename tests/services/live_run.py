"""A run of `kedge run --workers 2` beside the test, which kills its processes and ends it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WAIT_S = 60.0  # for a condition, on a busy machine
FEW, MANY = 5_000, 100_000
SLOW = (pytest.mark.slow, pytest.mark.timeout(600))


def cases(*killed: str) -> list[Any]:
    """Parameters `count` and `killed`: each with few messages, and the second with many."""
    return [*((FEW, each) for each in killed), pytest.param(MANY, killed[1], marks=SLOW)]


def patience(count: int) -> float:
    """Seconds for so many messages, on a busy machine."""
    return max(WAIT_S, count / 400)


def until(condition: Callable[[], bool], what: str, within_s: float = WAIT_S) -> None:
    """Waits for a condition. Fails if it takes longer."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {within_s:g} s for {what}"
        time.sleep(0.05)


class LiveRun:
    """One run; its state directory is in the folder."""

    def __init__(self, file: Path, folder: Path, settings: dict[str, object], options: tuple[str, ...]) -> None:
        self.log = folder / "run.log"
        command = [sys.executable, "-m", "kedge", "run", str(file), "--state-dir", str(folder / "state"), *options]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def workers(self) -> list[int]:
        """The ids of the worker processes."""
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, task.read_text().split())
        return [pid for pid in found if _is_worker(pid)]

    def kill_worker(self) -> None:
        """Kills one worker, once there are two."""
        until(lambda: len(self.workers()) >= 2, "two workers")
        os.kill(self.workers()[0], signal.SIGKILL)

    def kill_all(self) -> None:
        """Kills the supervisor and all workers at once."""
        pids = [self.process.pid, *self.workers()]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        until(lambda: not any(map(_is_worker, pids)), "the end of the workers")

    def stop(self) -> str:
        """Drains the run; returns what it has said. Fails if its status is not 0."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(WAIT_S)
        said = self.log.read_text()
        assert status == 0, said
        return said


def _is_worker(pid: int) -> bool:
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
            return False
        return b"orphan_guard" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@contextmanager
def live(file: Path, folder: Path, *options: str, **settings: object) -> Iterator[LiveRun]:
    """A run that is gone at the end of the block."""
    run = LiveRun(file, folder, settings, options or ("--workers", "2"))
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.kill_all()
