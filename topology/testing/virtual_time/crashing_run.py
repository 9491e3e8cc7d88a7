"""A run in one loop whose workers crash, and are replaced by the rules of the supervisor, on virtual time.

A worker that crashes does nothing more, not even clean up, as after SIGKILL. The run tells all others to begin the
next generation, and they hear it a little later, each at its own time (A14). After a back-off a new worker begins, with
the next incarnation, in the present generation. Orders take a moment, drawn by the seed, and so do answers. Must not
know processes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final

from topology.codes.runtime import TOO_MANY_WORKER_DEATHS
from topology.errors import WorkerError
from topology.runtime.checkpoints.coordinator import Member
from topology.runtime.control.completion import Workers
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.os_process.restarts import LOOK_S, Restarts
from topology.runtime.poison.trials import Fallen
from topology.runtime.poison.turns import TurnsOfAll
from topology.runtime.run.report import Report
from topology.runtime.supervisor.checkpoints import DecisionGate
from topology.runtime.supervisor.fleet import RELINK_S
from topology.runtime.supervisor.metrics import WorkerMetrics
from topology.runtime.telemetry.metrics import Snapshot
from topology.runtime.worker.worker import Worker
from topology.storage.store import Store
from topology.testing.virtual_time.loop import VirtualLoop
from topology.testing.virtual_time.mortal_worker import DistantMember, MortalWorker, MortalWorkers
from topology.testing.virtual_time.slow_control import Generations, SlowControl
from topology.testing.virtual_time.worker import Death, Watch
from topology.user_frames import described

BEGIN_S: Final = 0.3  # that a new process takes until its components are opened

logger = logging.getLogger("kedge")


@dataclass(frozen=True)
class Crash:
    """One death of a worker: of that number, or of the one that has task 0 of the named component.

    It dies at the first moment at which it has something under way, not before `at_s` seconds of the run, nor before
    `acked` messages are done, over all spouts: a crash that hits nothing would show nothing.

        Crash("alerts", acked=10)
        Crash(1, at_s=0.5)
    """

    worker: int | str
    at_s: float = 0.0
    acked: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.at_s < float("inf") or self.acked < 0:
            raise ValueError(f"{self}: at_s is a number of seconds from 0 on, acked one of messages")


class CrashMissed(AssertionError):
    """The run was over before a crash could hit anything; the text names it, and says what helps."""


def missed(crashes: Sequence[Crash], seconds: float) -> CrashMissed:
    """The error for crashes that did not come to pass in a run of so many seconds."""
    return CrashMissed(
        f"the run was over after {seconds:g} s, and its worker had nothing under way by then: "
        + ", ".join(map(str, crashes))
        + "; let it come earlier, or give the spout more to read, or pauses"
    )


def worker_of(placement: Any, of: int | str) -> int:
    """The number of a crash's worker. Raises ValueError where the plan has no such worker, or component."""
    found = placement.get((of, 0)) if isinstance(of, str) else of
    if found not in placement.values():
        workers, names = sorted(set(placement.values())), sorted({name for name, _ in placement})
        raise ValueError(f"no worker can be crashed for {of!r}: the plan has workers {workers} for {', '.join(names)}")
    return int(found)


class _Changes:
    """Those that wait for a condition, which is looked at each time something has changed."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}  # in their order, which no set keeps

    async def until(self, condition: Callable[[], bool], check: Callable[[], None]) -> None:
        """Wait until the condition holds. `check` is called before each wait, and may raise."""
        while not condition():
            check()
            future = asyncio.get_running_loop().create_future()
            self._waiting[future] = None
            try:
                await future
            finally:
                del self._waiting[future]

    def changed(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


class CrashingRun(EmbeddedRun):
    """As `EmbeddedRun`, with several workers that are `MortalWorker`s, on a `VirtualLoop`. Raises ValueError for a
    crash of a worker that the plan does not have; `finish` raises CrashMissed."""

    workers: list[Any]

    def __init__(self, *args: Any, crashes: Sequence[Crash], watch: Watch, orders: Random, **settings: Any) -> None:
        super().__init__(*args, companions=False, **settings)
        self.drains = False
        self._left = [(crash, worker_of(self._plan.placement, crash.worker)) for crash in crashes]
        self._deaths = watch.deaths
        self._watching = watch.workers
        self._restarts = Restarts(self._plan.config.max_restarts)
        self._counts = WorkerMetrics(self._plan)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        self._outside = copy_context()  # of no worker's life
        self._closing = False
        self._control = SlowControl(self._outside, orders, self.workers, lambda: self._closing)
        self._generations = Generations(self._control, self.workers, lambda why: self._coordinator.give_up(why))

        async def decide(checkpoint: int) -> None:
            await asyncio.sleep(self._control.takes_s())
            await EmbeddedRun._decide(self, checkpoint)

        self._gate = DecisionGate(decide, lambda: self._closing)
        self._killed: dict[int, bool] = {}  # worker → whether it was, where it has died
        self._turns = TurnsOfAll(self._control.grant, lambda: self.complete and self._generations.settled, self._now)
        self._changes = _Changes()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._failed: BaseException | None = None
        self._over = asyncio.Event()
        self._dead: list[MortalWorker] = []
        self._owners_over: dict[int, None] = {}
        self._built = False

    # -- in place of what a run without deaths does

    def _made(self, number: int, incarnation: int) -> MortalWorker:
        self._generation = self._generations.number
        worker = super()._made(number, incarnation)
        assert isinstance(worker, MortalWorker)
        self._network.attach(number, worker.received)
        self._member(worker).listen()
        worker.trials.turns = self._turns.of(worker.owner)
        return worker

    def _every_worker(self) -> Workers:
        self._built = True
        return MortalWorkers(self._plan, self)

    def _join(self) -> None:
        for worker in self.workers:
            worker.join({other.worker: other.owner for other in self.workers if other is not worker})

    def _members(self) -> Sequence[Member] | None:
        if self._closing:  # the last checkpoint: no worker dies any more; those that have not heard of a death lag
            all_there = len(self.workers) == len(self._plan.workers) and self._generations.settled
            return super()._members() if all_there else None
        return [self._member(worker) for worker in self.workers] if self.complete else None

    def _attach(self, worker: Worker) -> None:
        if self._closing:
            super()._attach(worker)
        elif isinstance(worker, MortalWorker):
            self._member(worker).listen()

    async def _closed(self) -> None:
        self._closing = True
        for worker in self.workers:
            self._attach(worker)
        await super()._closed()

    def _member(self, worker: MortalWorker) -> DistantMember:
        return DistantMember(
            worker,
            lambda: self._coordinator,
            partial(self._control.tell, worker, at_end=True),
            partial(self._control.hear, worker, at_end=True),
        )

    async def _decide(self, checkpoint: int) -> None:
        await self._gate.decide(checkpoint)

    def _session_lost(self, owner: int, why: str) -> None:
        """As after a death: it is unknown which trees the lost frame carried (A11)."""
        self._gate.pass_on(lambda: None if self._closing else self._generations.begin(why))

    def snapshot(self) -> Snapshot | None:
        if not self._built:
            return None
        return replace(self._totals(), limit=self._watch.text, checkpoint=self._checkpoint_figures())

    def _totals(self) -> Snapshot:
        now = self._now()
        for worker in self.workers:
            self._counts.take(worker.worker, worker.snapshot(), now - self._started_at)
        return self._counts.whole()

    def _stopping(self) -> list[Coroutine[Any, Any, Any]]:
        return [self._over.wait()]

    async def _serve(self) -> str:
        for crash, _ in self._left:
            self._loop.call_later(crash.at_s, lambda: None)  # so that the loop turns then
        self._loop.between_turns = self._crash_who_is_due
        for worker in self.workers:
            self._attend(worker)
        self._spawn(self._look_at_turns())
        try:
            return await super()._serve()
        finally:
            self._loop.between_turns = None
            await self._coordinator.settle()  # its orders are on their way
            self._closing = True
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _finish(self) -> Report:
        self._started_at = asyncio.get_running_loop().time()
        try:
            report = await super()._finish()
        finally:
            for worker in self._dead:
                worker.let_go()
        if self._left and report.ended != "failed":
            raise missed([crash for crash, _ in self._left], self._now() - self._started_at)
        ended = "failed" if self._failed is not None and report.ended != "aborted" else report.ended
        return replace(
            report,
            ended=ended,
            aborted=report.aborted + self._counts.lost,
            error=self._failed or report.error,
            restarts=self._restarts.total,
        )

    def _all_done(self) -> bool:
        """As in a run of processes, what a worker had in flight is not done while the worker is away, or until its
        replacement has read as far (B11)."""
        if not self.complete or self._failed is not None or self._counts.lost:
            return False
        again = all(worker.markings.caught_up or not worker.checkpoints.loaded.deaths for worker in self.workers)
        return again and super()._all_done()

    @property
    def _was_killed(self) -> bool:
        return super()._was_killed or bool(self._dead)

    # -- who is there (`mortal_worker.Herd`)

    @property
    def complete(self) -> bool:
        return len(self.workers) == len(self._plan.workers) and all(worker.started for worker in self.workers)

    async def until(self, condition: Callable[[], bool]) -> None:
        def check() -> None:
            if self._failed is not None and self.drains:
                raise self._failed  # there is nothing to wait for

        await self._changes.until(condition, check)

    def _attend(self, worker: MortalWorker) -> None:
        """Takes note when its sources have ended, and when it ends the run."""

        async def sources_ended() -> None:
            await worker.sources_ended.wait()
            self._changes.changed()

        async def stopping() -> None:
            await worker.stopping.wait()
            self._stopped(worker)

        self._spawn(sources_ended())
        self._spawn(stopping())

    def _broke(self, errors: Sequence[BaseException]) -> None:
        """The run itself can't go on: none of the workers is to blame."""
        self._failed = self._failed or errors[0]
        self._over.set()

    def _stopped(self, worker: MortalWorker) -> None:
        """It can't go on, and the run ends."""
        self._over.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # -- going

    def _crash_who_is_due(self) -> None:
        """Kill the workers that are due. Called between two turns of the loop, when none of them runs."""
        for worker in [worker for worker in self.workers if worker.life.ending]:
            self._died(worker, "ended by itself", killed=False)
        for due in [*self._left]:
            crash, number = due
            worker = next((other for other in self.workers if other.worker == number and other.started), None)
            if worker is None or self._loop.time() - self._started_at < crash.at_s or not self._would_hit(worker):
                continue
            if not crash.acked or self._totals().total("acked") >= crash.acked:
                self._left.remove(due)
                self._died(worker, "crashed")

    def _would_hit(self, worker: MortalWorker) -> bool:
        """Return whether its death loses something: messages that it has read, inputs, acks that have not left yet, or
        frames that are on their way to it or from it while messages are pending."""
        mine = worker.status()
        if mine.pending or mine.busy or (mine.waits and worker.peers.linked):
            return True
        others = [other.status() for other in self.workers if other is not worker]
        frames = any(
            sender.sent.get(receiver.worker, 0) > receiver.received.get(sender.worker, 0)
            for other in others
            for sender, receiver in ((mine, other), (other, mine))
        )
        return frames and any(other.pending for other in others)

    def _died(self, worker: MortalWorker, why: str, *, killed: bool = True) -> None:
        """End its life, as `supervisor.fleet.Fleet` does: all others begin a generation, and a new worker takes its
        place."""
        now = self._loop.time()
        at_s = now - self._started_at
        self._counts.take(worker.worker, worker.snapshot(), at_s)
        self._counts.died(worker.worker)
        self._deaths.append(Death(worker.worker, at_s, self.in_flight()))
        self._loop.kill(worker.life)
        if worker.checkpoints.store is not None:
            self._let_go(worker, worker.checkpoints.store)
        self._dead.append(worker)
        self._owners_over[worker.owner] = None
        worker.gone.set()
        self._network.detach(worker.worker)
        self.workers.remove(worker)
        self._watching.remove(worker)
        logger.warning("worker %d %s at %.3f s of virtual time", worker.worker, why, at_s)
        self._turns.over(worker.owner)
        self._killed[worker.worker] = killed
        self._generations.left(worker.owner)
        fallen = Fallen(worker.owner, killed, worker.started)

        def replaced() -> None:
            if not self._closing:  # else no replacement comes, as in `Fleet`
                self._generations.begin(f"worker {worker.worker} {why}", fallen)
                self._again(worker.worker, why)

        self._gate.pass_on(replaced)
        self._changes.changed()

    def _let_go(self, worker: MortalWorker, store: Store) -> None:
        """A process that ends lets go of its file."""
        store.close()

    async def _look_at_turns(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._turns.look()

    # -- coming

    def _again(self, number: int, why: str) -> None:
        after_s = self._restarts.died(number, self._loop.time())
        if after_s is None:
            self._failed = WorkerError(self._restarts.verdict(why), code=TOO_MANY_WORKER_DEATHS)
            self._over.set()
        else:
            self._spawn(self._come(number, after_s + BEGIN_S))

    async def _come(self, number: int, after_s: float) -> None:
        """A replacement: opened, then joined with all that are there, then started."""
        await asyncio.sleep(after_s)
        worker = self._made(number, self._renew())
        try:
            await worker.open()
        except BaseException as error:
            await worker.close()
            self._watching.remove(worker)
            if isinstance(error, asyncio.CancelledError):
                raise
            self._again(number, f"could not start: {described(error)}")
            return

        def linked() -> None:  # called within its life; what is begun there must outlive that
            self._loop.call_soon(self._start, worker, context=self._outside)

        worker.peers.on_linked = linked
        others = [*self.workers]
        self.workers.append(worker)
        self.workers.sort(key=lambda one: one.worker)
        for other in others:
            self._control.tell(other, partial(other.join, {number: worker.owner}, self._generations.number))
        self._owners_over.pop(worker.owner, None)
        over = (*self._owners_over,)
        self._control.tell(worker, partial(worker.decided.resume, self._coordinator.frontier, over))
        known = {other.worker: other.owner for other in others}
        self._control.tell(worker, partial(worker.join, known, self._generations.number))
        self._loop.call_later(RELINK_S, self._start, worker)

    def _start(self, worker: MortalWorker) -> None:
        if self._closing or worker.started or worker.life.over:
            return
        if self.drains:
            worker.drain()  # the run would not wait for what it reads now
        else:
            self._counts.resumed(worker.worker)
        worker.start(killed=self._killed.get(worker.worker, True))
        self._attend(worker)
        self._changes.changed()
        self._turns.begun()
