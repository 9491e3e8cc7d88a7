"""A whole topology in one event loop: what `topology.run()`, `await topology.serve()` and `kedge run` do.

Start-up, signals and the end of a run are here; the work is the worker's. Loop, clock and randomness are passed in, so
that a virtual-time loop drives all of it.
"""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from acker.identity import KEY_BYTES
from topology.graph import Topology
from topology.plan import plan
from topology.runtime.clock import LoopClock
from topology.runtime.metrics import Snapshot
from topology.runtime.report import Report
from topology.runtime.reporting import Reporter
from topology.runtime.statedir import MemoryNotes, StateDir
from topology.runtime.worker import Worker


class EmbeddedRun:
    """One run. Make it and `await finish()`; meanwhile `drain()`, `abort()` and `snapshot()` may be called.

    Raises DeclarationError when made; `finish` raises ConfigurationError or StartError where it can't begin, and
    nothing for what goes wrong later: that is in its Report. Cancelled, it drains.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        state_dir: str | Path | None = None,
        fresh: bool = False,
        random: Random | None = None,
        utc: Callable[[], datetime] | None = None,
        worker_kind: Callable[..., Worker] = Worker,
    ) -> None:
        topology.validate()
        self.topology = topology
        self.worker: Worker | None = None
        self._state_dir = Path(state_dir) if state_dir is not None else None
        self._fresh = fresh
        self._random = random or Random(secrets.randbits(64))
        self._utc = utc
        self._worker_kind = worker_kind
        self._drain = asyncio.Event()
        self._abort = asyncio.Event()
        self._last: Snapshot | None = None

    def drain(self) -> None:
        """Stops the sources; `finish` returns once what is under way is done, or drain_timeout_s have passed."""
        self._drain.set()

    def abort(self) -> None:
        """Ends the run now; what is under way is left unfinished."""
        self._abort.set()

    def snapshot(self) -> Snapshot | None:
        """The counters at this moment; None before everything is open."""
        return self.worker.snapshot() if self.worker is not None else self._last

    async def finish(self) -> Report:
        """Opens, runs, and closes everything. Returns how it ended."""
        state = None
        if self._state_dir is not None:
            state = StateDir(self._state_dir, self.topology.name, fresh=self._fresh)
        try:
            worker = self._worker_kind(
                plan(self.topology),
                worker=0,
                incarnation=state.next_incarnation() if state else self._random.getrandbits(12),
                renew=state.next_incarnation if state else _counted(self._random.getrandbits(12)),
                topology_id=self.topology.name,
                clock=LoopClock(asyncio.get_running_loop(), self._utc),
                random=self._random,
                notes=state or MemoryNotes(),
                key=state.key if state else self._random.randbytes(KEY_BYTES),
                reporter=Reporter(),
            )
            try:
                await worker.open()
                self.worker = worker
                ended = await self._serve(worker)
            finally:
                await worker.close()
            self._last = worker.snapshot()
            return Report(self._last, ended, worker.pending, worker.broken)
        finally:
            if state is not None:
                state.close()

    async def _serve(self, worker: Worker) -> str:
        """Runs until the end, however it comes; returns how."""
        worker.start()
        settled = asyncio.ensure_future(worker.settle())
        ends = {
            settled: "ended",
            asyncio.ensure_future(worker.stopping.wait()): "failed",
            asyncio.ensure_future(self._drain.wait()): "stopped",
            asyncio.ensure_future(self._abort.wait()): "aborted",
        }
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._drain.set()
        how = next((name for future, name in ends.items() if future.done()), "stopped")
        for future in ends:
            future.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        if how in ("stopped", "failed") and worker.broken is None:
            await self._drained(worker)
        return how

    async def _drained(self, worker: Worker) -> None:
        """Drains for at most drain_timeout_s, or until the run is aborted."""
        draining = asyncio.ensure_future(worker.drain())
        aborted = asyncio.ensure_future(self._abort.wait())
        timeout = self.topology.config.drain_timeout_s
        await asyncio.wait({draining, aborted}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for future in (draining, aborted):
            future.cancel()
        await asyncio.gather(draining, aborted, return_exceptions=True)


def _counted(first: int) -> Callable[[], int]:
    """Incarnations of a run that keeps no state."""
    count = first

    def renew() -> int:
        nonlocal count
        count += 1
        return count

    return renew


async def serve(
    topology: Topology, *, state_dir: str | Path | None = None, stop: Awaitable[Any] | None = None
) -> Report:
    """See `Topology.serve`."""
    run = EmbeddedRun(topology, state_dir=state_dir)
    if stop is None:
        return await run.finish()
    stopping = asyncio.ensure_future(stop)
    stopping.add_done_callback(lambda _: run.drain())
    try:
        return await run.finish()
    finally:
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stopping


def run(topology: Topology, *, state_dir: str | Path | None = None) -> Report:
    """See `Topology.run`."""

    async def main() -> Report:
        one = EmbeddedRun(topology, state_dir=state_dir)
        with handled_signals(one):
            return await one.finish()

    return asyncio.run(main())


@contextlib.contextmanager
def handled_signals(run: EmbeddedRun, told: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """SIGINT and SIGTERM drain the run, a second one ends it. Only in the main thread, where signals arrive."""
    loop = asyncio.get_running_loop()
    count = 0

    def received(number: int) -> None:
        nonlocal count
        count += 1
        name = signal.Signals(number).name
        if count == 1:
            told(f"{name}: draining; once more ends it now")
            run.drain()
        else:
            told(f"{name} again: ending now")
            run.abort()

    installed = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not the main thread, or Windows
            loop.add_signal_handler(number, received, number)
            installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
