"""What the benchmarks run on worker processes: topologies, which each worker makes anew by their name, and figures of
runs that are under way.

Rates are made of the workers' own counters and clocks, CPU time of the processes' clocks, kernel included. Must not
know what a benchmark's bars are.
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
SETTLE_S: Final = 1.0  # from the first ack to where an idle run's CPU time is counted
UNTIL_S: Final = 60.0  # how long anything may take that is waited for
LOOK_S: Final = 0.02  # between two looks whether it is there


def identity() -> Topology:
    """As embedded, a spout in each worker; half of what they emit crosses to the other one."""
    topology = Topology("identity", Config(max_pending=2_000))
    logins = topology.spout("logins", Logins(), tasks=2)
    same = topology.bolt("same", Same(), logins.shuffle(), tasks=2)
    topology.bolt("null", Null(), same.local_or_shuffle(), tasks=2)
    return topology


def word_count() -> Topology:
    """As embedded, a spout in each worker; half of the words cross."""
    topology = Topology("word-count", Config(max_pending=2_000))
    source = topology.spout("sentences", Sentences(), tasks=2)
    words = topology.bolt("split", Split(), source.local_or_shuffle(), tasks=2)
    topology.bolt("count", Count(), words.fields("text"), tasks=2)
    return topology


class Idle(Logins):
    """One record, then nothing any more, and no end."""

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
    """A topology on worker processes, between `async with` and its end, where it is aborted unless it has ended.

    load       Makes the topology; a function that workers can import by its name.
    ends       Whether the run ends by itself: then the end of `async with` waits for it.
    state_dir  Where it keeps what is kept; else it keeps nothing.

    Raises RuntimeError at the end where a worker has died that nobody has killed: its figures are worth nothing.
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
        self.kills = 0  # of workers, by whoever measures
        self.report: Report | None = None  # at the end
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
        """Returns once this holds. Raises RuntimeError where the run ends before, or after UNTIL_S."""
        deadline = time.perf_counter() + UNTIL_S
        while not condition():
            if self._finished.done():
                raise RuntimeError(f"the run has ended ({self._finished.result().error}) before {what}")
            if time.perf_counter() > deadline:
                raise RuntimeError(f"after {UNTIL_S:g} s: not yet {what}")
            await asyncio.sleep(LOOK_S)

    async def acked(self, count: int) -> None:
        """Returns once this many messages have been acked, as the workers tell once a second."""
        await self.until(
            lambda: sum(one.total("acked") for one in self.run.by_worker().values()) >= count,
            f"{count:,} messages were acked",
        )

    async def fresh(self) -> dict[int, Snapshot]:
        """The next snapshot of each worker: counters, and seconds by its own clock, of one moment."""
        before = {worker: one.seconds for worker, one in self.run.by_worker().items()}
        await self.until(
            lambda: all(one.seconds > before[worker] for worker, one in self.run.by_worker().items()),
            "each worker has told its counters anew",
        )
        return self.run.by_worker()

    async def acked_a_second(self, seconds: float) -> float:
        """The rates of all workers together, over this long or up to a second more. Raises RuntimeError where nothing
        was acked meanwhile."""
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
        """CPU time of the supervisor, which is this process, and of all workers so far."""
        return cpu_s([os.getpid(), *self.run.processes().values()])


def cpu_s(pids: Iterable[int]) -> float:
    """CPU time of these processes so far, kernel included. What psutil reads has steps of 10 ms on Linux, which is much
    for an idle process: there each one's own clock is read."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "clock_getcpuclockid"):
        import psutil  # type: ignore[import-untyped]  # it has no stubs; not all environments have it

        times = [psutil.Process(pid).cpu_times() for pid in pids]
        return float(sum(one.user + one.system for one in times))
    total, clock = 0.0, ctypes.c_int()
    for pid in pids:
        if number := library.clock_getcpuclockid(pid, ctypes.byref(clock)):
            raise OSError(number, os.strerror(number))
        total += time.clock_gettime(clock.value)
    return total


async def acked_a_second(load: Callable[..., Topology], seconds: float) -> float:
    """Messages whose whole tree was acked, a second, on two workers, after a warm-up."""
    async with Running(load) as running:
        return await running.acked_a_second(seconds)


async def idle_percent(seconds: float) -> float:
    """CPU of supervisor and two workers that have nothing to do, in percent of one core."""
    async with Running(idle) as running:
        await running.acked(2)
        await asyncio.sleep(SETTLE_S)
        begun, cpu = time.perf_counter(), running.cpu_s()
        await asyncio.sleep(seconds)
        return 100 * (running.cpu_s() - cpu) / (time.perf_counter() - begun)
