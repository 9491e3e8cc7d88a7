"""Workers that can die in the middle of a run, and the end of a run over such workers (`completion.Workers`).

A worker is a life on the virtual-time loop: all that it does ends with it. Must not know when a worker dies, nor what
happens then.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from topology.plan import Plan
from topology.runtime.control.completion import WorkerStatus
from topology.runtime.failures import Failure
from topology.runtime.links.protocol import Frame
from topology.runtime.poison.trials import Fallen
from topology.runtime.tasks.pending import Pending
from topology.runtime.worker.recovery import ReportCount
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.testing.virtual_time.process import SimulatedProcess
from topology.testing.virtual_time.worker import WatchedWorker

T = TypeVar("T")


class MortalWorker(WatchedWorker):
    """A worker whose calls from outside all run within its life. `gone` is set once the life is over. Code that waits
    for the worker must wait for `gone` too."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.life = SimulatedProcess()
        self.gone = asyncio.Event()
        self.started = False
        self.life.call(super().__init__, *args, **settings)

    def received(self, frame: Frame) -> None:
        """Handle a frame that came over a link."""
        self.life.reach(lambda: self.life.call(self.peers.received, frame))

    def join(self, peers: Mapping[int, int]) -> None:
        """Begin sessions with workers, each under its owner. `peers.on_linked` is called once they have welcomed this
        worker."""
        for worker, owner in peers.items():
            self.life.call(self.peers.join, worker, owner, "")
        if not peers:
            self.peers.on_linked()

    def part(self, owner: int) -> None:
        """Close the link to a dead owner."""
        self.life.call(self.peers.gone, owner)

    async def open(self) -> None:
        await self.life.task(super().open())

    def start(self, *, killed: bool = False) -> None:
        self.started = True
        self.life.call(super().start, killed=killed)

    def fail_all(self, failure: Failure) -> list[Pending]:
        return self.life.call(super().fail_all, failure)

    def fail_for(self, why: str, report: ReportCount, fallen: Fallen | None = None) -> int:
        return self.life.call(super().fail_for, why, report, fallen)

    async def flush_component(self, name: str) -> None:
        """Return when the flush is done, or the life is over: a replacement has not had the inputs."""
        if not self.life.over:
            await self._while_alive(super().flush_component(name))

    async def _while_alive(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result within this life, or None if the life ends first."""
        working, gone = self.life.task(work), asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            gone.cancel()
            working.cancel()

    def drain(self) -> None:
        self.life.call(super().drain)

    async def dead(self, ask: DeadAsk) -> DeadAnswer:
        answer = None if self.life.over else await self._while_alive(super().dead(ask))
        return answer or DeadAnswer(ask.number, problem=f"worker {self.worker} is away")

    def summaries(self) -> dict[str, list[str]]:
        return self.life.call(super().summaries)

    async def close(self) -> None:
        await self.life.task(super().close())

    def let_go(self) -> None:
        """Release all that a worker had, after its life and run are over. Its frames are kept for good, because
        otherwise they would clean up (`VirtualLoop.kill`). They refer to the whole run, with all that was sent and
        captured."""
        for part in (
            *self.executors.values(),
            *self.spout_tasks.values(),
            self.peers,
            self.group_commit,
            self.trials,
            self.dead_letters,
            self,
        ):
            vars(part).clear()


class Herd(Protocol):
    """A run whose workers may be away."""

    workers: list[Any]  # those that live
    drains: bool  # True if replacements read nothing any more

    @property
    def complete(self) -> bool:
        """Return True if all workers of the plan live and have started."""
        ...

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds. It is evaluated again when anything happens to a worker."""


class MortalWorkers:
    """Waits, as `queries.WorkerQueries` does, for workers that are away and for sources that a replacement re-reads."""

    def __init__(self, plan: Plan, herd: Herd) -> None:
        self.plan = plan
        self._herd = herd

    async def sources_ended(self) -> None:
        await self._herd.until(self._sources_ended)

    def _sources_ended(self) -> bool:
        return self._herd.complete and all(worker.sources_ended.is_set() for worker in self._herd.workers)

    async def probe(self) -> list[WorkerStatus]:
        herd = self._herd
        await herd.until(lambda: herd.complete if herd.drains else self._sources_ended())
        return [worker.status() for worker in herd.workers]

    async def flush(self, component: str) -> None:
        await self._herd.until(lambda: self._herd.complete)
        await asyncio.gather(*(worker.flush_component(component) for worker in self._herd.workers))

    async def dead(self, ask: DeadAsk) -> list[DeadAnswer]:
        return [await worker.dead(ask) for worker in self._herd.workers]

    def drain(self) -> None:
        self._herd.drains = True
        for worker in self._herd.workers:
            worker.drain()
