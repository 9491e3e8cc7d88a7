"""Workers that can die in the middle of a run, and the end of a run over such workers (`completion.Workers`).

A worker is a life on the virtual-time loop: all that it does ends with it. Must not know when a worker dies, nor what
happens then.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from acker.frontier import Frontier, Note
from topology.plan import Plan
from topology.runtime.control.completion import WorkerStatus
from topology.runtime.links.protocol import Frame
from topology.runtime.poison.trials import Fallen
from topology.runtime.worker.recovery import ReportCount
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.checks import store_name
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

    def join(self, peers: Mapping[int, int], generation: int = 1) -> None:
        """Begin sessions with workers, each under its owner, in this generation. `peers.on_linked` is called once they
        have welcomed this worker."""
        if generation > self.peers.generation:
            self.life.call(self.peers.begin_generation, generation)
        for worker, owner in peers.items():
            self.life.call(self.link, worker, owner, "")
        if not peers:
            self.peers.on_linked()

    async def open(self) -> None:
        await self.life.task(super().open())

    def start(self, *, killed: bool = False) -> None:
        self.started = True
        self.life.call(super().start, killed=killed)

    def begin_generation(
        self, generation: int, why: str, report: ReportCount, fallen: Fallen | None = None, *, gone: int | None = None
    ) -> int:
        return self.life.call(super().begin_generation, generation, why, report, fallen, gone=gone)

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

    async def stop(self) -> None:
        await self.life.task(super().stop())

    async def close(self, *, kept: bool = False) -> None:
        await self.life.task(super().close(kept=kept))

    def let_go(self) -> None:
        """Release all that a worker had, after its life and run are over. Its frames are kept for good, because
        otherwise they would clean up (`VirtualLoop.kill`). They refer to the whole run, with all that was sent and
        captured."""
        for part in (
            *self.executors.values(),
            *self.spout_tasks.values(),
            self.peers,
            self.checkpoints,
            self.trials,
            self.dead_letters,
            self,
        ):
            vars(part).clear()


class CheckpointVoice(Protocol):
    """The coordinator, as far as a worker answers it."""

    def noted(self, worker: int, checkpoint: int, note: Note, quiet: bool) -> None: ...
    def prepared(self, worker: int, checkpoint: int, size: int, seconds: float) -> None: ...
    def unprepared(self, worker: int, checkpoint: int, why: str) -> None: ...
    def settled(self, worker: int, checkpoint: int) -> None: ...
    def copied(self, worker: int, checkpoint: int, commits: int, problem: str) -> None: ...
    def wanted(self) -> None: ...


class DistantMember:
    """A worker, as the coordinator reaches it (`coordinator.Member`): orders and answers take a moment.

    `order` has something done within the worker's life, later. `answer` has something said to the coordinator, later.
    """

    def __init__(
        self,
        worker: MortalWorker,
        coordinator: Callable[[], CheckpointVoice],
        order: Callable[[Callable[[], object]], None],
        answer: Callable[[Callable[[], object]], None],
    ) -> None:
        self._mortal = worker
        self._coordinator = coordinator
        self._order = order
        self._answer = answer

    @property
    def worker(self) -> int:
        return self._mortal.worker

    def listen(self) -> None:
        """Have the answers of the worker reach the coordinator."""
        number, to, checkpoints = self.worker, self._coordinator, self._mortal.checkpoints
        checkpoints.answers.prepared = lambda *told: self._answer(lambda: to().prepared(number, *told))
        checkpoints.answers.unprepared = lambda *told: self._answer(lambda: to().unprepared(number, *told))
        checkpoints.answers.settled = lambda *told: self._answer(lambda: to().settled(number, *told))
        checkpoints.answers.copied = lambda *told: self._answer(lambda: to().copied(number, *told))
        checkpoints.answers.wanted = lambda: self._answer(lambda: to().wanted())

    def ask_note(self, checkpoint: int) -> None:
        def note() -> None:
            noted, quiet = self._mortal.life.call(self._mortal.checkpoints.note, checkpoint)
            self._answer(lambda: self._coordinator().noted(self.worker, checkpoint, noted, quiet))

        self._order(note)

    def send_barrier(self, frontier: Frontier, *, alone: bool) -> None:
        self._tell(partial(self._mortal.checkpoints.gather, frontier, alone=alone))

    def send_decided(self, checkpoint: int) -> None:
        self._tell(partial(self._mortal.checkpoints.decided, checkpoint))

    def send_given_up(self, checkpoint: int) -> None:
        self._tell(partial(self._mortal.checkpoints.given_up, checkpoint))

    def send_copy(self, checkpoint: int, folder: Path) -> None:
        self._tell(partial(self._mortal.checkpoints.copy, checkpoint, folder / store_name(self.worker)))

    def _tell(self, call: Callable[[], object]) -> None:
        self._order(partial(self._mortal.life.call, call))


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
