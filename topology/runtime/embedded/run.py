"""A whole topology in one event loop: what `topology.run()`, `await topology.serve()` and `kedge run` do by default.

Start-up and the end of a run are here; the work is the worker's. Loop, clock and randomness are passed in, so
that a virtual-time loop drives all of it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from acker.identity import KEY_BYTES
from topology.components import no_folder
from topology.graph import Graph
from topology.plan import Plan
from topology.runtime.checkpoints.coordinator import Coordinator, Member, report_no_last
from topology.runtime.clock import LoopClock
from topology.runtime.companions.companions import Companions
from topology.runtime.control.completion import Workers, WorkerStatus, settle
from topology.runtime.embedded.checkpoints import LocalMember, attach
from topology.runtime.failures import Failure, Reason
from topology.runtime.links.memory import ByReference, Faults, MemoryNetwork, faultless
from topology.runtime.links.peers import Wiring
from topology.runtime.run import startup
from topology.runtime.run.component_files import ComponentFolder
from topology.runtime.run.lifecycle import RESUME, RunLifecycle, Takeover, cancelled
from topology.runtime.run.report import Report
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.telemetry.metrics import CheckpointFigures, Snapshot, merged
from topology.runtime.telemetry.stall import LOOK_S, RunFacts, StallWatch, held
from topology.runtime.worker.context import RunContext
from topology.runtime.worker.facts import facts_of
from topology.runtime.worker.shutdown import CLOSE_S
from topology.runtime.worker.worker import Worker
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.decision import NAME as DECIDED
from topology.storage.directory.decision import DecisionFile
from topology.storage.directory.state_dir import MemoryNotes, StateDir
from topology.storage.store import Store
from topology.storage.worker_store import open_store


class LocalWorkers:
    """Nothing here waits for anybody but the sources, and bolts that flush."""

    def __init__(self, plan: Plan, workers: Sequence[Worker]) -> None:
        self.plan = plan
        self._workers = workers

    async def sources_ended(self) -> None:
        for worker in self._workers:
            await worker.sources_ended.wait()

    async def probe(self) -> list[WorkerStatus]:
        return [worker.status() for worker in self._workers]

    async def flush(self, component: str) -> None:
        for worker in self._workers:
            await worker.flush_component(component)

    async def dead(self, ask: DeadAsk) -> list[DeadAnswer]:
        return [await worker.dead(ask) for worker in self._workers]

    def drain(self) -> None:
        for worker in self._workers:
            worker.drain()


logger = logging.getLogger("kedge")


class EmbeddedRun(RunLifecycle):
    """A run in this event loop; see RunLifecycle. Meanwhile `snapshot()` may be called. If it is ended while it opens,
    it starts nothing.

    workers      May be more than one: all in this loop, joined by memory links. `faults` says what these do to frames.
    takeover     How it takes over the state directory.
    stores       Opens the store of a worker, if that is no file of the state directory.
    folder       For files of components, if that is not in the state directory. It outlives the run.
    companions   Whether the companions of the topology are started; virtual time can't have them.
    report       Called with lines about the companions.
    """

    def __init__(
        self,
        topology: Graph,
        *,
        state_dir: str | Path | None = None,
        takeover: Takeover = RESUME,
        stores: Callable[[int], Store | None] | None = None,
        workers: int = 1,
        random: Random | None = None,
        utc: Callable[[], datetime] | None = None,
        worker_kind: Callable[..., Worker] = Worker,
        faults: Faults = faultless,
        folder: ComponentFolder | None = None,
        companions: bool = True,
        report: Callable[[str], None] = logger.warning,
    ) -> None:
        super().__init__(
            topology, workers=workers, state_dir=state_dir, takeover=takeover, random=random, report=report, utc=utc
        )
        self.workers: list[Worker] = []
        self._folder = folder
        self._declared_companions = topology.companions if companions else []
        self._stores = stores or (lambda worker: None)
        self._incarnations: dict[int, int] = {}  # worker → its incarnation
        self._topology_id, self._clean = topology.name, True
        self._worker_kind = worker_kind
        self._network = MemoryNetwork(faults)
        self._watch = StallWatch()
        self._has_started = False
        self._is_serving = False
        self._generation = 1
        self._first_checkpoint = 0  # the last decided one of the runs before
        self._decision_file: DecisionFile | None = None  # of a run with several workers that keeps something

    def snapshot(self) -> Snapshot | None:
        """Return the counters at this moment, or at the end once it has ended. None before everything is built."""
        if not self.workers:
            return None
        totals = self._totals()
        return replace(totals, limit=self._watch.text_with(totals), checkpoint=self._checkpoint_figures())

    def _checkpoint_figures(self) -> CheckpointFigures | None:
        """The checkpoints of this run, if it keeps something."""
        if all(worker.checkpoints.store is None for worker in self.workers):
            return None
        return self._coordinator.facts.figures(self.workers[0].clock.monotonic())

    def _totals(self) -> Snapshot:
        return merged([worker.snapshot() for worker in self.workers])

    def in_flight(self) -> str:
        return held(self._facts())

    def _facts(self) -> RunFacts:
        return facts_of(asyncio.get_running_loop().time(), self.workers)

    @property
    def _serving(self) -> bool:
        return self._is_serving

    async def _finish(self) -> Report:
        with contextlib.ExitStack() as closing:
            state = self._taken_over(closing) if self._state_dir is not None else None
            if self._folder is None:
                self._folder = ComponentFolder(state.kept if state is not None else None)
                closing.callback(self._folder.close)
            summaries: dict[str, list[str]] = {}
            most = self.topology.config.max_restarts
            self._companions = Companions(
                self._declared_companions, self._folder, max_restarts=most, report=self._report
            )
            try:
                self._build(state)
                self._companions.begin()
                if await self._opened():
                    how = await self._serve()
                    for worker in self.workers:
                        for name, lines in worker.summaries().items():
                            summaries.setdefault(name, []).extend(lines)
                else:
                    how = "aborted" if self._abort.is_set() else "stopped"
            finally:
                await self._closed()
                await self._companions.close(self._abort)
                clean = state is None or startup.ended(state, drained=self._all_done(), was_killed=self._was_killed)
            broken = next((worker.broken for worker in self.workers if worker.broken is not None), None)
            broken = broken or self._companions.failed
            how = "failed" if broken is not None and how != "aborted" else how
            snapshot = self.snapshot()
            assert snapshot is not None
            aborted = sum(worker.aborted for worker in self.workers)
            keeps = self._state_dir is not None
            return Report(snapshot, how, aborted, broken, summaries, clean=clean, keeps_letters=keeps)

    async def _closed(self) -> None:
        """End all workers, with a last checkpoint of what is done then (E10). A run that has started nothing needs
        none: the store has all that there is."""
        for worker in self.workers:
            await worker.stop()
        kept = not self._has_started
        if self._has_started and all(worker.can_drain for worker in self.workers):
            try:
                kept = await self._coordinator.take_last()
            except Exception as error:  # it is unknown what is decided
                self._broke([error])
            if not kept and not any(worker.broken for worker in self.workers):
                why = next((worker.checkpoints.why_full for worker in self.workers), "") or "a worker is away"
                report_no_last(why)
        for worker in self.workers:
            await worker.close(kept=kept)

    def _all_done(self) -> bool:
        """Return True if all that was read is done and stored, and all that an earlier run had in flight came again."""
        done = all(worker.kept and not worker.aborted for worker in self.workers)
        return done and (self._clean or all(worker.caught_up for worker in self.workers))

    @property
    def _was_killed(self) -> bool:
        """True if an earlier run was killed, or one of the workers."""
        return not self._clean

    def _taken_over(self, closing: contextlib.ExitStack) -> StateDir:
        """Take over the state directory. It is given back when `closing` ends."""
        assert self._state_dir is not None
        state, beginning = self._begin_on(self._state_dir, closing)
        self._topology_id, self._clean = beginning.topology_id, beginning.clean
        self._first_checkpoint = beginning.decided
        if len(self._plan.workers) > 1:
            self._decision_file = decisions = DecisionFile(state.files, state.path / DECIDED)
            closing.callback(decisions.close)
        opens = partial(open_store, state.files, logged=self.topology.config.durability != "checkpoint")
        self._stores = lambda worker: opens(
            beginning.stores[worker], owner=(worker, self._incarnations[worker]), decided=self._decided
        )
        return state

    @property
    def _decided(self) -> int:
        """The last decided checkpoint."""
        coordinator = getattr(self, "_coordinator", None)
        return coordinator.facts.checkpoint if coordinator is not None else self._first_checkpoint

    async def _copies(self, folder: Path) -> Mapping[int, int]:
        return await self._coordinator.copies(folder)

    def _build(self, state: StateDir | None) -> None:
        key = state.key if state else self._random.randbytes(KEY_BYTES)
        renew = state.next_incarnation if state else _counted(self._random.getrandbits(12))
        incarnation = renew()
        self._renew = renew
        self._make = partial(
            self._worker_kind,
            self._plan,
            context=RunContext(
                topology_id=self._topology_id,
                key=key,
                renew=renew,
                clock=LoopClock(asyncio.get_running_loop(), self._utc),
                notes=state or MemoryNotes(),
                folder=self._folder or no_folder,
            ),
            reporter=Reporter(),
        )
        self._wiring = Wiring(incarnation, self._network, ByReference(), self._session_lost, self._refused)
        for number in self._plan.workers:
            self.workers.append(self._made(number, incarnation))
        self._coordinator = self._new_coordinator()
        for worker in self.workers:
            self._attach(worker)
        self._all_workers = self._every_worker()
        self._join()

    def _new_coordinator(self) -> Coordinator:
        every_s = self.topology.config.checkpoint_s
        return Coordinator(self._members, self._decide, first=self._first_checkpoint, every_s=every_s)

    async def _decide(self, checkpoint: int) -> None:
        """Make a decision durable."""
        if self._decision_file is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._decision_file.decide, checkpoint)

    def _members(self) -> Sequence[Member] | None:
        """Return all workers, as the coordinator reaches them; None while one of them is away."""
        return [LocalMember(worker) for worker in self.workers]

    def _attach(self, worker: Worker) -> None:
        """Have the answers of a worker reach the coordinator."""
        attach(worker, self._coordinator)

    def _made(self, number: int, incarnation: int) -> Worker:
        """A worker, and the end of its links."""
        random = Random(self._random.getrandbits(64))
        self._incarnations[number] = incarnation
        store = self._stores(number)
        settings: dict[str, Any] = {} if store is None else {"store": store}
        try:
            wiring = replace(self._wiring, generation=self._generation)
            worker = self._make(worker=number, incarnation=incarnation, random=random, wiring=wiring, **settings)
        except BaseException:
            if store is not None:
                store.close()
            raise
        self._network.attach(number, worker.peers.received)
        return worker

    def _every_worker(self) -> Workers:
        return LocalWorkers(self._plan, self.workers)

    def _join(self) -> None:
        """Begins sessions between all workers, in place of those that there were."""
        for worker in self.workers:
            for other in self.workers:
                if other is not worker:
                    worker.peers.join(other.worker, other.owner, "")

    def _session_lost(self, owner: int, why: str) -> None:
        """Begin a new generation: a frame was lost, and the trees that it carried are unknown (A11)."""
        self._coordinator.give_up(why)
        self._generation += 1
        for worker in self.workers:
            worker.begin_generation(self._generation, why, lambda left: None)

    def _refused(self, owner: int, text: str) -> None:
        raise AssertionError(f"the workers of one loop disagree: {text}")

    async def _opened(self) -> bool:
        """Open every component, one after the other. Return False if `drain` or `abort` came before that was done.

        An `open` that ignores its cancellation is left behind after CLOSE_S.
        """
        ends = [asyncio.ensure_future(event.wait()) for event in (self._drain, self._abort)]
        opening = asyncio.create_task(self._open(), name="open")
        try:
            await asyncio.wait({opening, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opening.cancel()
            await asyncio.wait({opening}, timeout=CLOSE_S)
            await cancelled(*ends)
        if not opening.done():
            self.workers[0].reported(Failure(Reason.CUT_OFF, "open", "it ignores that it was cancelled"))
        elif not opening.cancelled():
            opening.result()
        return not self._is_ending

    async def _open(self) -> None:
        for worker in self.workers:
            if not self._is_ending:
                await worker.open()

    @property
    def _is_ending(self) -> bool:
        return self._drain.is_set() or self._abort.is_set()

    async def _serve(self) -> str:
        """Runs until the end, however it comes; returns how."""
        self._has_started = True
        for worker in self.workers:
            worker.start(killed=True)  # how the process of an earlier run has died is unknown (E7)
        self._is_serving = True
        watching = [
            asyncio.ensure_future(forever)
            for forever in (self._look(), self._coordinator.run(), self._keep_older(), self._guard_state())
        ]
        try:
            how = await self._ending(*watching)
            drains = how in ("stopped", "failed") and all(worker.can_drain for worker in self.workers)
            unended = [task for task in watching if not task.done()]
            if drains and (errors := await self._drained(watching=unended)):
                self._broke(errors)
                how = "failed"
        finally:
            self._is_serving = False
            await cancelled(*watching)
        return "aborted" if self._abort.is_set() else how

    def _ends(self) -> Iterable[tuple[Awaitable[Any], str]]:
        yield settle(self._all_workers), "ended"
        for stopping in (*self._stopping(), self._companions.over.wait()):
            yield stopping, "failed"
        yield self._drain.wait(), "stopped"
        yield self._abort.wait(), "aborted"

    def _broke(self, errors: Sequence[BaseException]) -> None:
        for error in errors:
            self.workers[0].broke(error, "the run's end")

    def _stopping(self) -> list[Coroutine[Any, Any, Any]]:
        """Return what ends the run from within: each is done once it has."""
        return [worker.stopping.wait() for worker in self.workers]

    async def _look(self) -> None:
        """Report, as long as nothing is acked, why."""
        while True:
            now = asyncio.get_running_loop().time()
            self._watch.look(now, self._totals(), self._facts, self._companions.starting())
            await asyncio.sleep(LOOK_S)


def _counted(first: int) -> Callable[[], int]:
    """Incarnations of a run that keeps no state."""
    count = first

    def renew() -> int:
        nonlocal count
        count += 1
        return count

    return renew
