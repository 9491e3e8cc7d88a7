"""Workers that can die in the middle of a run, and the end of a run as it is seen over them (`ending.Crew`).

A worker is a life on the virtual-time loop: what it does ends with it. Must not know when one dies, nor what
comes then.
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
from topology.runtime.worker.recovery import Told
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.testing.virtual_time.process import SimulatedProcess
from topology.testing.virtual_time.worker import WatchedWorker

T = TypeVar("T")


class MortalWorker(WatchedWorker):
    """Everything that is called from outside runs within its life. `gone` is set once that is over; who waits for what
    a worker does has to wait for `gone` beside it."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.life = SimulatedProcess()
        self.gone = asyncio.Event()
        self.started = False
        self.life.call(super().__init__, *args, **settings)

    def received(self, frame: Frame) -> None:
        """A frame has come over a link."""
        self.life.reach(lambda: self.life.call(self.peers.received, frame))

    def join(self, peers: Mapping[int, int]) -> None:
        """Begins sessions with workers, each under its owner; tells `peers.on_linked` once they have welcomed it."""
        for worker, owner in peers.items():
            self.life.call(self.peers.join, worker, owner, "")
        if not peers:
            self.peers.on_linked()

    def part(self, owner: int) -> None:
        """Closes the link to an owner that is dead."""
        self.life.call(self.peers.gone, owner)

    async def open(self) -> None:
        await self.life.task(super().open())

    def start(self, *, killed: bool = False) -> None:
        self.started = True
        self.life.call(super().start, killed=killed)

    def fail_all(self, failure: Failure) -> list[Pending]:
        return self.life.call(super().fail_all, failure)

    def fail_for(self, why: str, told: Told, fallen: Fallen | None = None) -> int:
        return self.life.call(super().fail_for, why, told, fallen)

    async def flush_component(self, name: str) -> None:
        """Returns when that is done, or its life is over: a replacement has not had the inputs."""
        if not self.life.over:
            await self._while_alive(super().flush_component(name))

    async def _while_alive(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What it comes to within its life; None where that is over before."""
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
        """Lets go of all that it had. For one whose life and run are over: its frames are kept for good, or they would
        clean up (`VirtualLoop.kill`), and from them hangs the whole run, with all that was sent and captured."""
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
    drains: bool  # whether replacements read nothing any more

    @property
    def complete(self) -> bool:
        """Whether all workers of the plan live and have started."""
        ...

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns once this holds; asked again whenever something has become of a worker."""


class MortalWorkers:
    """As `crew.WorkerCrew`: waits for workers that are away, and for sources that a replacement reads again."""

    def __init__(self, plan: Plan, herd: Herd) -> None:
        self.plan = plan
        self._herd = herd

    async def sources_ended(self) -> None:
        await self._herd.until(self._sources_ended)

    def _sources_ended(self) -> bool:
        return self._herd.complete and all(one.sources_ended.is_set() for one in self._herd.workers)

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
