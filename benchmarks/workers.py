"""The benchmarks on worker processes: topologies, which each worker makes itself by their name, and figures of running
runs.

Rates come from the workers' own counters and clocks, CPU time from the processes' clocks, kernel included. Must not
know a benchmark's bars.
"""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self

from benchmarks.embedded import WARM_UP_S, Count, Login, Logins, Null, Same, Sentences, Split
from topology import Config, Message, Topology
from topology.runtime.run.report import Report
from topology.runtime.supervisor.supervisor import SupervisedRun
from topology.runtime.telemetry.metrics import Snapshot

WORKERS: Final = 2
SETTLE_S: Final = 1.0  # seconds from the first ack until an idle run's CPU time is counted
UNTIL_S: Final = 60.0  # seconds that any wait may take
LOOK_S: Final = 0.02  # seconds between two checks of a condition


def identity() -> Topology:
    """Like the embedded one, with a spout in each worker; half of their records cross to the other worker."""
    topology = Topology("identity", Config(max_pending=2_000))
    logins = topology.spout("logins", Logins(), tasks=2)
    same = topology.bolt("same", Same(), logins.shuffle(), tasks=2)
    topology.bolt("null", Null(), same.local_or_shuffle(), tasks=2)
    return topology


def word_count() -> Topology:
    """Like the embedded one, with a spout in each worker; half of the words cross."""
    topology = Topology("word-count", Config(max_pending=2_000))
    source = topology.spout("sentences", Sentences(), tasks=2)
    words = topology.bolt("split", Split(), source.local_or_shuffle(), tasks=2)
    topology.bolt("count", Count(), words.fields("text"), tasks=2)
    return topology


class Idle(Logins):
    """One record, then no further record, and no end."""

    async def poll(self, limit: int) -> Sequence[Message[Login]]:
        if self.next >= self.step:
            await asyncio.Event().wait()
        return await super().poll(1)


def idle() -> Topology:
    topology = Topology("idle")
    logins = topology.spout("logins", Idle(), tasks=2)
    same = topology.bolt("same", Same(), logins.shuffle(), tasks=2)
    topology.bolt("null", Null(), same.local_or_shuffle(), tasks=2)
    return topology


class Running:
    """A topology on worker processes, as an async context manager. At the end the run is aborted unless it has ended.

    load       makes the topology; a function that workers can import by its name.
    ends       True if the run ends by itself: then the end of `async with` waits for it.
    state_dir  the state directory; None to keep nothing.

    Raises RuntimeError at the end if a worker has died that the benchmark did not kill: its figures are invalid.
    """

    def __init__(
        self,
        load: Callable[..., Topology],
        *,
        workers: int = WORKERS,
        ends: bool = False,
        state_dir: str | None = None,
        **arguments: Any,
    ) -> None:
        self.run = SupervisedRun(
            load(**arguments),
            workers=workers,
            loader=f"{load.__module__}:{load.__qualname__}",
            arguments=arguments,
            state_dir=state_dir,
        )
        self.kills = 0  # of workers, by the benchmark
        self.report: Report | None = None  # set at the end
        self._ends = ends

    async def __aenter__(self) -> Self:
        self._finished = asyncio.ensure_future(self.run.finish())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None or not self._ends:
            self.run.abort()
        self.report = await self._finished
        if error is None and self.run.restarts != self.kills:
            raise RuntimeError(f"{self.run.restarts} workers died, and {self.kills} were killed")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Return once this holds. Raises RuntimeError if the run ends before, or after UNTIL_S."""
        deadline = time.perf_counter() + UNTIL_S
        while not condition():
            if self._finished.done():
                raise RuntimeError(f"the run has ended ({self._finished.result().error}) before {what}")
            if time.perf_counter() > deadline:
                raise RuntimeError(f"after {UNTIL_S:g} s: not yet {what}")
            await asyncio.sleep(LOOK_S)

    async def acked(self, count: int) -> None:
        """Return once this many messages have been acked; workers report once per second."""
        await self.until(
            lambda: sum(worker.total("acked") for worker in self.run.by_worker().values()) >= count,
            f"{count:,} messages were acked",
        )

    async def fresh(self) -> dict[int, Snapshot]:
        """Return the next snapshot of each worker: counters, and seconds by its own clock, of one moment."""
        before = {worker: one.seconds for worker, one in self.run.by_worker().items()}
        await self.until(
            lambda: all(one.seconds > before[worker] for worker, one in self.run.by_worker().items()),
            "each worker has reported its counters again",
        )
        return self.run.by_worker()

    async def acked_a_second(self, seconds: float) -> float:
        """Return the summed rate of all workers, over `seconds` or up to a second more.

        Raises RuntimeError if nothing was acked meanwhile.
        """
        await self.acked(1)
        await asyncio.sleep(WARM_UP_S)
        before = await self.fresh()
        await asyncio.sleep(seconds)
        after = await self.fresh()
        rate = sum(
            (after[worker].total("acked") - one.total("acked")) / (after[worker].seconds - one.seconds)
            for worker, one in before.items()
        )
        if not rate:
            raise RuntimeError(f"nothing was acked in {seconds:g} s; in flight: {self.run.in_flight()}")
        return rate

    def cpu_s(self) -> float:
        """Return the CPU time so far of the supervisor, which is this process, and of all workers."""
        return cpu_s([os.getpid(), *self.run.processes().values()])


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU time of these processes so far, kernel included.

    psutil's values have steps of 10 ms on Linux, which is much for an idle process: there each process's own clock is
    read.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "clock_getcpuclockid"):
        import psutil  # type: ignore[import-untyped]  # it has no stubs; not all environments have it

        times = [psutil.Process(pid).cpu_times() for pid in pids]
        return float(sum(worker.user + worker.system for worker in times))
    total, clock = 0.0, ctypes.c_int()
    for pid in pids:
        if number := library.clock_getcpuclockid(pid, ctypes.byref(clock)):
            raise OSError(number, os.strerror(number))
        total += time.clock_gettime(clock.value)
    return total


async def acked_a_second(load: Callable[..., Topology], seconds: float) -> float:
    """Return messages per second whose whole tree was acked, on two workers, after a warm-up."""
    async with Running(load) as running:
        return await running.acked_a_second(seconds)


async def idle_percent(seconds: float) -> float:
    """Return the CPU of the supervisor and two idle workers, in percent of one core."""
    async with Running(idle) as running:
        await running.acked(2)
        await asyncio.sleep(SETTLE_S)
        started_at, cpu = time.perf_counter(), running.cpu_s()
        await asyncio.sleep(seconds)
        return 100 * (running.cpu_s() - cpu) / (time.perf_counter() - started_at)
