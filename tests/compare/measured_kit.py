"""Topologies for comparisons, and comparisons in a process of their own, as Ctrl-C needs one."""

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from bridge.compare.job import ComparisonJob, ComparisonRow
from bridge.compare.results import ModeResult

PATIENCE_S = 60.0
TOKEN = "COMPARE_TEST"

COUNTING = '''
import os
import sys
from collections.abc import Iterator
from topology import Bolt, Message, Record, Spout, State, Topology


class Number(Record):
    value: int


class Fifth(Record):
    digit: int
    count: int


class Numbers(Spout):
    def __init__(self, count: int, fail: str) -> None:
        self.count, self.fail, self.next = count, fail, 0

    def open(self, task, positions) -> None:
        if self.fail == "open":
            raise RuntimeError("the tape is torn")

    async def poll(self, limit: int) -> list[Message[Number]]:
        if self.fail == "poll" and self.next >= 30:
            raise RuntimeError("the tape has ended in noise")
        if self.fail == "silent":
            import asyncio

            await asyncio.sleep(3600)
        given = range(self.next, min(self.count, self.next + limit))
        self.next += len(given)
        return [Message(Number(number), number) for number in given]


class Digits(Bolt):
    def __init__(self, crash: bool) -> None:
        self.crash = crash

    def process(self, number: Number) -> Iterator[Number]:
        if self.crash and "-c" in sys.orig_argv:  # a worker process
            os._exit(7)
        yield Number(number.value % 10)


class Count(Bolt):
    def process(self, number: Number, state: State[int]) -> Iterator[Fifth]:
        count = state.get(0) + 1
        state.set(count)
        if count % 5 == 0:
            yield Fifth(number.value, count)


class Touch(Bolt):
    """A sink that leaves a trace."""

    def __init__(self, trace: str) -> None:
        self.trace = trace

    def process(self, fifth: Fifth) -> None:
        with open(self.trace, "a") as file:
            file.write("x")


def topology(count: int = 1_000_000, fail: str = "", crash: bool = False, trace: str = "trace") -> Topology:
    topology = Topology("fifths")
    numbers = topology.spout("numbers", Numbers(count, fail))
    digits = topology.bolt("digits", Digits(crash), numbers.shuffle(), tasks=2)
    fifths = topology.bolt("count", Count(), digits.fields("value"), tasks=2)
    topology.bolt("touch", Touch(trace), fifths.shuffle())
    return topology
'''


def counting(folder: Path) -> Path:
    """The file of a topology: of every five numbers with the same last digit one result."""
    path = folder / "fifths.py"
    path.write_text(COUNTING)
    return path


def auth_log(folder: Path) -> Path:
    """The log of an sshd in which address after address fails five times, two lines each time."""
    path = folder / "auth.log"
    with open(path, "w") as file:
        for attempt in range(400):
            address, begin = (
                f"10.0.0.{attempt // 5 + 1}",
                f"Dec 10 06:{attempt // 60:02}:{attempt % 60:02} gate sshd[7]: ",
            )
            file.write(f"{begin}pam_unix(sshd:auth): authentication failure; rhost={address}  user=root\n")
            file.write(f"{begin}Failed password for root from {address} port 4711 ssh2\n")
    return path


def job_of(target: Path, *values: str, **more: Any) -> ComparisonJob:
    """A short one: two seconds at 200 messages a second."""
    plain: dict[str, Any] = {"rate": 200.0, "seconds": 2.0, "warm_up_s": 0.5, "rounds": 1}
    return ComparisonJob(str(target), values, **{**plain, **more})


class Told:
    """A Progress that writes down what it is told, and does `then` at each word of a phase."""

    def __init__(self, then: Callable[[ComparisonRow, str], None] | None = None) -> None:
        self.rows: list[str] = []
        self.turns: list[tuple[str, int]] = []
        self.phases: list[str] = []
        self.results: list[ModeResult] = []
        self.notes: list[str] = []
        self._then = then

    def planned(self, rows: Sequence[ComparisonRow]) -> None:
        self.rows = [row.title for row in rows]

    def begun(self, row: ComparisonRow, round: int) -> None:
        self.turns.append((row.mode, round))

    def phase(self, row: ComparisonRow, phase: str, done_s: float, of_s: float) -> None:
        assert 0 <= done_s <= of_s
        if phase not in self.phases:
            self.phases.append(phase)
        if self._then is not None:
            self._then(row, phase)

    def ended(self, row: ComparisonRow, result: ModeResult) -> None:
        self.results.append(result)

    def note(self, text: str) -> None:
        self.notes.append(text)


SCRIPT = """
import json, sys
from bridge.compare.job import ComparisonJob
from bridge.compare.measure import Quiet, compare

class Telling(Quiet):
    def phase(self, row, phase, done_s, of_s):
        print(json.dumps([row.mode, phase]), flush=True)

told = json.loads(sys.argv[1])
told = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
made = compare(ComparisonJob(**told), Telling())
print(json.dumps(made.as_json()), flush=True)
"""


class Apart:
    """A comparison in a process of its own."""

    def __init__(self, job: ComparisonJob, folder: Path) -> None:
        self.token = uuid.uuid4().hex
        self._err = open(folder / f"{self.token}.err", "w+")  # noqa: SIM115 – until `close`
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, json.dumps(asdict(job))],
            stdout=subprocess.PIPE,
            stderr=self._err,
            text=True,
            cwd=folder,
            env={**os.environ, TOKEN: self.token},
        )

    def until(self, mode: str, phase: str) -> None:
        """Returns once this is told."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if json.loads(line) == [mode, phase]:
                return
        raise AssertionError(f"{mode} never came to {phase}: {self.said()}")

    def made(self) -> dict[str, Any]:
        """The comparison, once it has ended."""
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, self.said()
        made: dict[str, Any] = json.loads(out.splitlines()[-1])
        return made

    def said(self) -> str:
        self._err.seek(0)
        return self._err.read()

    def left(self) -> list[str]:
        """The command lines of all processes that it has started, and that are still there."""
        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if one.environ().get(TOKEN) == self.token and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(one.cmdline()))
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._err.close()


@contextmanager
def apart(job: ComparisonJob, folder: Path) -> Iterator[Apart]:
    one = Apart(job, folder)
    try:
        yield one
    finally:
        one.close()


def until(holds: Callable[[], bool], what: str) -> None:
    """Waits for a condition."""
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends, what
        time.sleep(0.02)
