"""Runs of the command with Spark beside them, as tests watch them: their lines, and the processes of theirs."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

KEDGE = str(Path(sys.executable).with_name("kedge"))
WAIT_S = 300.0  # for anything that Spark does: a start takes 5 to 120 s, as busy as the machine is
REFUSED_S = 150.0  # for a run that ends because Spark does not start: 10 s on a quiet machine


class Run:
    """One `kedge run` in `folder`, whose lines are kept in a file. `before`: a command that runs it."""

    def __init__(
        self,
        topology: Path,
        folder: Path,
        *settings: str,
        environment: dict[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.log = folder / f"run-{len([*folder.glob('run-*')])}"
        command = [*before, KEDGE, "run", str(topology), "--state-dir", str(folder / "state")]
        command += ["--set", f"store={folder / 'counted.db'}"]
        for setting in settings:
            command += setting.split(" ", 1) if setting.startswith("--") else ["--set", setting]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **(environment or {})}, start_new_session=True
            )

    def text(self) -> str:
        return self.log.read_text()

    def until(
        self, condition: Callable[[], bool], within_s: float = WAIT_S, what: str = "what the test waits for"
    ) -> None:
        pause, ends = threading.Event(), time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < ends, f"waited {within_s:.0f} s in vain for {what}\n{self.text()}"
            assert self.process.poll() is None, self.text()
            pause.wait(0.02)

    def until_said(self, text: str) -> None:
        self.until(lambda: text in self.text(), what=f"{text!r}")

    def starts(self) -> list[int]:
        """Pids of the driver's lives."""
        parts = self.text().split("spark: it starts (pid ")[1:]
        return [int(part.split(")")[0]) for part in parts]

    def hurry(self, until: int | None = None) -> None:
        """To a `Slowly` beside the store: up to this item it need not be slow, or to the last one."""
        beside = self.folder / ".hurry"
        beside.write_text("" if until is None else str(until))
        beside.rename(self.folder / "hurry")

    def until_ready(self, lives: int) -> psutil.Process:
        """The driver in this life of its."""
        self.until(lambda: self.text().count("spark: it is ready") >= lives, what=f"life {lives} of the driver")
        return psutil.Process(self.starts()[-1])

    def batches(self, query: str) -> int:
        """The number of the newest batch of a query's results; -1 before there is one."""
        names = (self.folder / "state" / "kept" / "spark" / query / "results").glob("batch-*")
        return max((int(one.stem.split("-")[1]) for one in names), default=-1)

    def end(self, within_s: float = WAIT_S) -> int:
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"waited {within_s:.0f} s in vain for the end of the run\n{self.text()}")

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def runs_of(topology: Path, folder: Path) -> Iterator[Callable[..., Run]]:
    """For a fixture: begins runs, and kills those that have not ended."""
    runs: list[Run] = []

    def begin(
        *settings: str, environment: dict[str, str] | None = None, before: Sequence[str] = (), program: Path = topology
    ) -> Run:
        runs.append(Run(program, folder, *settings, environment=environment, before=before))
        return runs[-1]

    yield begin
    for one in runs:
        one.kill()


def java_of(driver: psutil.Process) -> psutil.Process:
    return next(one for one in driver.children(recursive=True) if one.name() == "java")


READER, PLANNER = "pyspark.worker", "pyspark.sql.streaming.python_streaming_source_runner"


def python_of(driver: psutil.Process, module: str) -> psutil.Process | None:
    """A Python process in which Spark runs this module of its own: one that a daemon has forked, or none."""
    for one in driver.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words, parent = one.cmdline(), one.parent()
            forked = parent is not None and "pyspark.daemon" in parent.cmdline()
            if module in words and ("pyspark.daemon" not in words or forked):
                return one
    return None
