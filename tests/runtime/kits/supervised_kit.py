"""What the tests of worker processes share: topologies that workers make by name, and a run that can be waited for.

Everything is real: processes, sockets, signals, and SQLite at the end, whose rows are what a run is judged by.
"""

import asyncio
import contextlib
import os
import resource
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from bolts import SqliteSink
from topology import (
    Bolt,
    Collector,
    Config,
    ConfigurationError,
    Message,
    Record,
    Spout,
    State,
    Task,
    Topology,
    Tuple,
)
from topology.groupings import Grouping
from topology.runtime.os_process.output import Output
from topology.runtime.run.report import Report
from topology.runtime.supervisor.supervisor import SupervisedRun
from topology.runtime.telemetry.metrics import Snapshot

LOADER = f"{__name__}:made"
ENDLESS: dict[str, Any] = {"count": None, "rate": 4_000}
PATIENCE_S = 30.0  # after which a test that waits for something has failed


class Number(Record):
    n: int


class Doubled(Record):
    n: int
    twice: int


class Count(Record):
    n: int
    seen: int


class Paced(Spout):
    """Emits the numbers below `count`, about `rate` a second, and ends; without a count it does not."""

    def __init__(self, count: int | None, rate: int, evil: str = "") -> None:
        self.count, self.rate, self.evil = count, rate, evil
        self.next = 0

    def open(self, task: Task, positions: Mapping[str, Any]) -> None:
        if self.evil == "note":
            task.notes.set("opened", f"{task.notes.get('opened') or ''}+")
            print(f"notes: {task.notes.get('opened')}")

    async def poll(self, limit: int) -> list[Message[Number]]:
        await asyncio.sleep(0.005)
        if self.evil == "raise" and self.next >= 100:
            raise OSError("the source is dry")
        if self.evil == "late" and self.next >= 100:
            await asyncio.sleep(1)
            limit = 1
        elif self.evil == "late":
            limit = min(limit, 100 - self.next)
        step = min(limit, max(1, self.rate // 200))
        last = self.next + step if self.count is None else min(self.count, self.next + step)
        first, self.next = self.next, last
        return [Message(Number(n), n) for n in range(first, last)]


class Double(Bolt):
    """`evil` says what one of the tasks does, once in all runs on this directory, at its hundredth input."""

    def __init__(self, directory: str, evil: str = "") -> None:
        self.directory, self.evil = directory, evil
        self.seen = 0

    def open(self, task: Task) -> None:
        self.index = task.index
        if self.evil == "die in open":
            os._exit(13)
        if self.evil == "raise in open":
            raise OSError("no such device")
        if self.evil == "refuse in open":
            raise ConfigurationError("there is no such device; name another one")
        if self.evil == "die in second open" and not once(self.directory, f"opened {task.index}"):
            os._exit(13)
        print(f"task {task.index} is open, hash {hash('kedge')}")

    def process(self, number: Number) -> list[Doubled]:
        self.seen += 1
        if self.evil and self.seen == 100 and once(self.directory, self.evil):
            self.act()
        return [Doubled(number.n, 2 * number.n)]

    def close(self) -> None:
        if self.evil == "no room at the end":
            resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))

    def act(self) -> None:
        if self.evil == "exit":
            os._exit(13)
        if self.evil == "block":
            time.sleep(60)  # the loop, and that is the point


class Tally(Bolt):
    """Counts each key in memory."""

    def process(self, doubled: Doubled, state: State[int]) -> list[Count]:
        state.set(state.get(0) + 1)
        return [Count(doubled.n, state.get(0))]


def once(directory: str, what: str) -> bool:
    """Whether nobody has asked for this in this directory before, in whatever process."""
    try:
        os.close(os.open(Path(directory) / what.replace(" ", "-"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def made(
    directory: str,
    count: int | None = 2_000,
    rate: int = 10_000,
    evil: str = "",
    source: str = "",
    tally: bool = False,
    bolts: int = 2,
    config: Mapping[str, Any] | None = None,
) -> Topology:
    """numbers → double (on both workers) → store. What a worker calls, and a test for the supervisor's own copy."""
    topology = Topology("supervised", Config(**(config or {})))
    numbers = topology.spout("numbers", Paced(count, rate, source))
    name = f"double{os.getpid()}" if evil == "change" else "double"
    doubled: Any = topology.bolt(name, Double(directory, evil), numbers.shuffle(), tasks=bolts)
    if tally:
        doubled = topology.bolt("tally", Tally(), doubled.fields("n"), tasks=bolts)
    topology.bolt("store", SqliteSink(Path(directory) / "store.db"), doubled.global_())
    return topology


class Keeps(Bolt):
    """Never done with what it has."""

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        """Keeps it."""


class Second(Grouping):
    def choose(self, record: Number, tasks: int) -> list[int]:
        return [1]


def holding() -> Topology:
    """numbers (on worker 0) → keeps, whose task on worker 1 has them all."""
    topology = Topology("holding", Config())
    topology.bolt("keeps", Keeps(), topology.spout("numbers", Paced(3, 1_000)).custom(Second()), tasks=2)
    return topology


class Running:
    """A run under way, and what it has told."""

    def __init__(self, directory: Path, *, workers: int = 2, state: bool = True, **arguments: Any) -> None:
        self.directory = directory
        self.told: list[str] = []
        self.lines: list[tuple[int, str, str]] = []
        given = {"directory": str(directory), **arguments}
        self.run = SupervisedRun(
            made(**given),
            workers=workers,
            loader=LOADER,
            arguments=given,
            state_dir=directory / "state" if state else None,
            random=Random(20),
            report=self.told.append,
            output=Output(lambda *line: self.lines.append(line)),
        )

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        """Waits for a condition; fails with all that was told where it does not come."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} has not come; told: {self.told}; output: {self.lines}"
            await asyncio.sleep(0.01)

    def acked(self) -> int:
        snapshot = self.run.snapshot()
        return snapshot.total("acked") if snapshot is not None else 0

    def stored(self) -> list[int]:
        """The numbers in the store, one a row."""
        try:
            with contextlib.closing(sqlite3.connect(self.directory / "store.db")) as store:
                return [n for (n,) in store.execute("SELECT n FROM doubled ORDER BY n")]
        except sqlite3.OperationalError:  # no row yet, so no table
            return []


@contextlib.asynccontextmanager
async def running(directory: Path, **arguments: Any) -> AsyncIterator[tuple[Running, "asyncio.Task[Report]"]]:
    """A run beside the test's body. Ended by force where the body fails; nothing of it may be left."""
    one = Running(directory, **arguments)
    task = asyncio.ensure_future(one.run.finish())
    try:
        yield one, task
    finally:
        if not task.done():
            one.run.abort()
        await asyncio.gather(task, return_exceptions=True)
        assert not children(), "processes are left"


def children() -> list[int]:
    """Our child processes, dead or alive."""
    found: list[int] = []
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found


def kill(one: Running, worker: int, how: signal.Signals = signal.SIGKILL) -> int:
    pid = one.run.processes()[worker]
    os.kill(pid, how)
    return pid


async def stuck(one: Running) -> None:
    """Stops a worker, and waits until messages are known to be under way that can't get on. It is killed 3 s later.
    Figures are a second old at most: those from before it was stopped tell of messages that have got on since."""

    def reading() -> Snapshot:
        return one.run.by_worker()[0]

    kill(one, 1, signal.SIGSTOP)
    await asyncio.sleep(0.05)  # for figures that were on their way
    before = reading().seconds
    await one.until(lambda: reading().seconds > before and reading().total("pending") > 100, "messages in flight")


async def replaced(one: Running, worker: int, pid: int) -> None:
    """Waits until another process runs in place of this one."""
    await one.until(lambda: any(f"worker {worker} is back" in line for line in one.told), "a replacement")
    assert one.run.processes()[worker] != pid
