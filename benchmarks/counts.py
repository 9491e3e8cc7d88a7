"""Keyed running counts, embedded, one task: the cost of durable bolt state, compared with state in memory.

Each input changes the state of one of 5,000 keys, and a bolt behind gets the new count. Throughput is measured with a
source that always has more. Latency, from the input to the bolt behind, is measured at 1,000 inputs per second, beside
the time of an fsync in the same directory: an output leaves once its commit is on the disk. Must not know a benchmark's
bars.
"""

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar, Final, Literal

from benchmarks.alerts import WARM_UP_S, percentile_ms
from topology import Bolt, Config, Message, Record, Spout, State, Task, Topology
from topology.runtime.asyncio_tools import settle_heap
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run.report import Report

KEYS: Final = 5_000
DRAWN: Final = 1 << 16  # inputs whose keys are drawn before the clock starts; they are reused
RATE: Final = 1_000  # inputs per second when latency is measured
SYNCS: Final = 150  # fsyncs before a run, and as many after it
PAGE_BYTES: Final = 4_096
LOOK_S: Final = 0.02  # seconds between two checks whether it has begun

Kept = Literal[
    "none", "checkpoint", "process", "disk"
]  # none: in memory, without a state directory; else Config.durability


class User(Record):
    name: str
    at: float  # when it was emitted, by perf_counter; 0 if latency is not measured


class Counted(Record):
    name: str
    count: int
    at: float


class Users(Spout):
    """Whole slices of ready messages, for ever, each under a new id."""

    def __init__(self) -> None:
        self.drawn: list[User] = []
        self.next = 0

    def open(self, task: Task, positions: object) -> None:
        self.drawn = [User(name, 0.0) for name in _names(DRAWN)]

    async def poll(self, limit: int) -> Sequence[Message[User]]:
        drawn, first = self.drawn, self.next
        self.next += limit
        return [Message(drawn[number % DRAWN], number) for number in range(first, self.next)]


class Steady(Spout):
    """RATE inputs per second, `count` in all, each stamped as it is emitted.

    Due inputs are emitted at once, also those that came due while the loop was blocked. asyncio's sleeps end up to 1 ms
    late, so that often two leave together.
    """

    delays_s: ClassVar[list[float]] = []  # seconds that each left after it was due; of the class, as tasks are copies

    def __init__(self, count: int) -> None:
        self.count = count
        self.names: list[str] = []
        self.next = 0
        self.started_at = 0.0

    def open(self, task: Task, positions: object) -> None:
        self.names = _names(self.count)

    async def poll(self, limit: int) -> Sequence[Message[User]]:
        self.started_at = self.started_at or time.perf_counter()
        first = self.next
        if first == self.count:
            return []
        if (ahead := self.started_at + first / RATE - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        now = time.perf_counter()
        self.next = min(self.count, first + limit, max(first, int((now - self.started_at) * RATE)) + 1)
        given = range(first, self.next)
        self.delays_s.extend(now - self.started_at - number / RATE for number in given)
        return [Message(User(self.names[number], now), number) for number in given]


class Count(Bolt):
    def process(self, user: User, state: State[int]) -> Iterator[Counted]:
        count = state.get(0) + 1
        state.set(count)
        yield Counted(user.name, count, user.at)


class Null(Bolt):
    def process(self, counted: Counted) -> None:
        return None


class Arrived(Bolt):
    """Writes down the time from each input's emission to its count's arrival, in seconds."""

    took: ClassVar[list[float]] = []

    def process(self, counted: Counted) -> None:
        self.took.append(time.perf_counter() - counted.at)


def counts_topology(kept: Kept, source: Users | Steady, behind: Null | Arrived) -> Topology:
    topology = Topology("counts", Config(durability="disk" if kept == "none" else kept))
    users = topology.spout("users", source)
    counts = topology.bolt("count", Count(), users.fields("name"))
    topology.bolt("behind", behind, counts.shuffle())
    return topology


# -- throughput


def counted_a_second(kept: Kept, seconds: float) -> dict[str, float]:
    """Return `value`: acked inputs per second after a warm-up; `cores` that the process took, its store's threads
    included."""
    with _state_dir(kept) as state_dir:
        settle_heap()  # as `kedge run` does
        topology = counts_topology(kept, Users(), Null())
        return asyncio.run(_counted_a_second(topology, state_dir, seconds))


async def _counted_a_second(topology: Topology, state_dir: Path | None, seconds: float) -> dict[str, float]:
    run = EmbeddedRun(topology, state_dir=state_dir)
    finished = asyncio.ensure_future(run.finish())
    while not finished.done() and not _acked(run):  # noqa: ASYNC110 – polls a counter
        await asyncio.sleep(LOOK_S)
    await asyncio.sleep(WARM_UP_S)
    acked, started_at, cpu = _acked(run), time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    took, cpu = time.perf_counter() - started_at, time.process_time() - cpu
    acked = _acked(run) - acked
    run.abort()
    await finished
    if not acked:
        raise RuntimeError(f"nothing was acked in {seconds:g} s")
    return {"value": acked / took, "cores": cpu / took}


def _acked(run: EmbeddedRun) -> int:
    snapshot = run.snapshot()
    return snapshot.total("acked") if snapshot is not None else 0


# -- latency


def count_latency(kept: Kept, seconds: float) -> dict[str, float]:
    """Return milliseconds from the emission of an input to the arrival of its count behind, at RATE, after a warm-up.

    `value` and `p50`, `p99`; `fsync` of this disk, before and after; `late_p99`: how long inputs left after they were
    due.

    Raises RuntimeError if a count is missing.
    """
    count = int(RATE * (WARM_UP_S + seconds))
    Arrived.took.clear()
    Steady.delays_s.clear()
    with _state_dir(kept) as state_dir:
        folder = state_dir or Path(tempfile.gettempdir())
        syncs = fsyncs(folder)
        settle_heap()
        report = asyncio.run(_run(counts_topology(kept, Steady(count), Arrived()), state_dir))
        syncs += fsyncs(folder)
    if report.exit_status or len(Arrived.took) != count:
        raise RuntimeError(f"{len(Arrived.took)} counts arrived of {count} inputs: the run has {report.ended}")
    warm = int(RATE * WARM_UP_S)
    p50, p99 = (percentile_ms(Arrived.took[warm:], percent) for percent in (50, 99))
    late_ms = percentile_ms(Steady.delays_s[warm:], 99)
    return {"value": p50, "p50": p50, "p99": p99, "fsync": statistics.median(syncs) * 1000, "late_p99": late_ms}


async def _run(topology: Topology, state_dir: Path | None) -> Report:
    return await EmbeddedRun(topology, state_dir=state_dir).finish()


def fsyncs(folder: Path) -> list[float]:
    """Return the seconds that each of SYNCS pages takes to the disk.

    The file has its full length already, as a store's log nearly always has.
    """
    took = []
    file = os.open(folder / "synced", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.pwrite(file, bytes(SYNCS * PAGE_BYTES), 0)
        os.fsync(file)
        for number in range(SYNCS):
            started_at = time.perf_counter()
            os.pwrite(file, os.urandom(PAGE_BYTES), number * PAGE_BYTES)
            os.fdatasync(file)
            took.append(time.perf_counter() - started_at)
    finally:
        os.close(file)
        os.unlink(folder / "synced")
    return took


# -- both


@contextlib.contextmanager
def _state_dir(kept: Kept) -> Iterator[Path | None]:
    """Yield a new directory, on the disk of temporary files; None if nothing is kept."""
    with tempfile.TemporaryDirectory() as folder:
        yield None if kept == "none" else Path(folder)


def _names(count: int) -> list[str]:
    """Return `count` keys, drawn: the same each time."""
    return Random(7).choices([f"user-{number}" for number in range(KEYS)], k=count)
