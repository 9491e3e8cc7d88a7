"""A whole topology in one event loop: what `topology.run()`, `await topology.serve()` and `kedge run` do by default.

Start-up and the end of a run are here; the work is the worker's. Loop, clock and randomness are passed in, so
that a virtual-time loop drives all of it.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from acker.identity import KEY_BYTES
from topology.checks.declaration import require_valid
from topology.graph import Graph
from topology.plan import Plan, plan
from topology.runtime.asyncio_tools import finished
from topology.runtime.clock import LoopClock
from topology.runtime.companions.companions import Companions
from topology.runtime.control.completion import Workers, WorkerStatus, drain, settle, within
from topology.runtime.control.dead_letters import answer_of_all, not_running
from topology.runtime.failures import Failure, Reason
from topology.runtime.links.memory import ByReference, Faults, MemoryNetwork, faultless
from topology.runtime.links.peers import Wiring
from topology.runtime.run import startup
from topology.runtime.run.component_files import ComponentFolder
from topology.runtime.run.report import Report
from topology.runtime.run.startup import CARRY_ON, Terms
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.telemetry.metrics import Snapshot, merged
from topology.runtime.telemetry.stall import LOOK_S, RunFacts, StallWatch, held
from topology.runtime.worker.facts import facts_of
from topology.runtime.worker.shutdown import CLOSE_S
from topology.runtime.worker.worker import Worker
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.state_dir import MemoryNotes, StateDir
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import Store


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


class EmbeddedRun:
    """One run. Make it and `await finish()`; meanwhile `drain()`, `abort()` and `snapshot()` may be called.

    Raises DeclarationError when made; `finish` raises ConfigurationError or StartError where it can't begin, and
    nothing for what goes wrong later: that is in its Report. Cancelled, `finish` drains, cancelled again it aborts;
    only when everything is closed it raises CancelledError. Told to end while it opens, it starts nothing.

    `workers` may be more than one: all in this loop, joined by memory links that do as `faults` says to their frames.
    `terms` say how it takes over what earlier runs have left in the state directory, `begins` is given what people
    should know of that before it runs. `stores` opens the store of a worker where that is no file of the state
    directory. `while_locked` is entered with the directory once that is ours, and left before it is given back.
    `folder` is for files of components where that is not in the state directory, and outlives the run. `companions`:
    whether those of the topology are started, which virtual time can't have; `told` is given lines about them.
    """

    def __init__(
        self,
        topology: Graph,
        *,
        state_dir: str | Path | None = None,
        fresh: bool = False,
        terms: Terms = CARRY_ON,
        begins: Callable[[str], None] = logger.info,
        stores: Callable[[int], Store | None] | None = None,
        workers: int = 1,
        random: Random | None = None,
        utc: Callable[[], datetime] | None = None,
        worker_kind: Callable[..., Worker] = Worker,
        faults: Faults = faultless,
        while_locked: Callable[[Path], contextlib.AbstractContextManager[None]] | None = None,
        folder: ComponentFolder | None = None,
        companions: bool = True,
        told: Callable[[str], None] = logger.warning,
    ) -> None:
        require_valid(topology)
        self.topology = topology
        self._folder = folder
        self._beside, self._told = topology.companions if companions else [], told
        self.workers: list[Worker] = []
        self._while_locked = while_locked
        self._plan = plan(topology, workers)
        self._state_dir = Path(state_dir) if state_dir is not None else None
        self._terms = Terms(fresh=True) if fresh else terms
        self._begins = begins
        self._stores = stores or (lambda worker: None)
        self._lives: dict[int, int] = {}  # worker → its incarnation
        self._topology_id, self._clean = topology.name, True
        self._random = random or Random(secrets.randbits(64))
        self._utc = utc
        self._worker_kind = worker_kind
        self._network = MemoryNetwork(faults)
        self._opens = startup.opened
        self._watch = StallWatch()
        self._drain = asyncio.Event()
        self.patient = False  # whether draining may take however long it does
        self._abort = asyncio.Event()
        self._serving = False  # whether its workers can be asked something

    def drain(self, *, patient: bool = False) -> None:
        """Stops the sources; `finish` returns once what is under way is done, or drain_timeout_s have passed, unless
        `patient` was said by then."""
        self.patient |= patient
        self._drain.set()

    def abort(self) -> None:
        """Ends the run now; what is under way is left unfinished."""
        self._abort.set()

    @property
    def draining(self) -> bool:
        """Whether it was told to."""
        return self._drain.is_set()

    def snapshot(self) -> Snapshot | None:
        """The counters at this moment, and at the end once it has ended; None before everything is built."""
        if not self.workers:
            return None
        totals = self._totals()
        return replace(totals, limit=self._watch.text_with(totals))

    def _totals(self) -> Snapshot:
        return merged([worker.snapshot() for worker in self.workers])

    def in_flight(self) -> str:
        """Where everything is that is not done, in a sentence. For who ends the run by force."""
        return held(self._facts())

    def _facts(self) -> RunFacts:
        return facts_of(asyncio.get_running_loop().time(), self.workers)

    async def dead(self, ask: DeadAsk) -> DeadAnswer:
        """Answers a question about the dead letters of all workers, once what it asks for is durable."""
        return await answer_of_all(ask, self._crew.dead) if self._serving else not_running(ask)

    async def finish(self) -> Report:
        """Opens, runs, and closes everything. Returns how it ended."""
        return await finished(self._finish(), self.drain, self.abort)

    async def _finish(self) -> Report:
        with contextlib.ExitStack() as closing:
            state = self._taken_over(closing) if self._state_dir is not None else None
            if self._folder is None:
                self._folder = ComponentFolder(state.kept if state is not None else None)
                closing.callback(self._folder.close)
            summaries: dict[str, list[str]] = {}
            most = self.topology.config.max_restarts
            self._companions = Companions(self._beside, self._folder, max_restarts=most, told=self._told)
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
                for worker in self.workers:
                    await worker.close()
                await self._companions.close(self._abort)
                done = all(worker.kept and not worker.aborted for worker in self.workers)
                drained = done and (self._clean or all(worker.markings.caught_up for worker in self.workers))
                clean = state is None or startup.ended(state, drained=drained)
            broken = next((worker.broken for worker in self.workers if worker.broken is not None), None)
            broken = broken or self._companions.failed
            how = "failed" if broken is not None and how != "aborted" else how
            snapshot = self.snapshot()
            assert snapshot is not None
            aborted = sum(worker.aborted for worker in self.workers)
            keeps = self._state_dir is not None
            return Report(snapshot, how, aborted, broken, summaries, clean=clean, keeps_letters=keeps)

    def _taken_over(self, closing: contextlib.ExitStack) -> StateDir:
        """The state directory, as this run may begin on it; given back when `closing` ends."""
        assert self._state_dir is not None
        state, begun = closing.enter_context(self._opens(self._state_dir, self._plan, self._terms))
        if self._while_locked is not None:
            closing.enter_context(self._while_locked(self._state_dir))
        self._topology_id, self._clean = begun.topology_id, begun.clean
        opens = partial(SqliteStore, state.files, checked=True)
        self._stores = lambda worker: opens(begun.stores[worker], owner=(worker, self._lives[worker]))
        for text in begun.told:
            self._begins(text)
        return state

    def _build(self, state: StateDir | None) -> None:
        key = state.key if state else self._random.randbytes(KEY_BYTES)
        renew = state.next_incarnation if state else _counted(self._random.getrandbits(12))
        incarnation = renew()
        self._renew = renew
        self._make = partial(
            self._worker_kind,
            self._plan,
            renew=renew,
            topology_id=self._topology_id,
            clock=LoopClock(asyncio.get_running_loop(), self._utc),
            notes=state or MemoryNotes(),
            key=key,
            reporter=Reporter(),
            folder=self._folder,
            wiring=Wiring(incarnation, self._network, ByReference(), self._session_lost, self._refused),
        )
        for number in self._plan.workers:
            self.workers.append(self._made(number, incarnation))
        self._crew = self._crew_of_all()
        self._join()

    def _made(self, number: int, incarnation: int) -> Worker:
        """A worker, and the end of its links."""
        random = Random(self._random.getrandbits(64))
        self._lives[number] = incarnation
        store = self._stores(number)
        settings: dict[str, Any] = {} if store is None else {"store": store}
        try:
            worker = self._make(worker=number, incarnation=incarnation, random=random, **settings)
        except BaseException:
            if store is not None:
                store.close()
            raise
        self._network.attach(number, worker.peers.received)
        return worker

    def _crew_of_all(self) -> Workers:
        return LocalWorkers(self._plan, self.workers)

    def _join(self) -> None:
        """Begins sessions between all workers, in place of those that there were."""
        for one in self.workers:
            for other in self.workers:
                if other is not one:
                    one.peers.join(other.worker, other.owner, "")

    def _session_lost(self, owner: int, why: str) -> None:
        """A frame was lost: which trees it carried nobody knows, so all fail, and sessions begin anew (A11)."""
        self._join()
        for one in self.workers:
            one.fail_all(Failure(Reason.PEER_LOST, "links", why))

    def _refused(self, owner: int, text: str) -> None:
        raise AssertionError(f"the workers of one loop disagree: {text}")

    async def _opened(self) -> bool:
        """Opens every component, one after the other; False where the run was told to end before that was done. An
        `open` that ignores its cancellation is left behind after CLOSE_S."""
        told = [asyncio.ensure_future(one.wait()) for one in (self._drain, self._abort)]
        opening = asyncio.create_task(self._open(), name="open")
        try:
            await asyncio.wait({opening, *told}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opening.cancel()
            await asyncio.wait({opening}, timeout=CLOSE_S)
            await _cancelled(*told)
        if not opening.done():
            self.workers[0].reported(Failure(Reason.CUT_OFF, "open", "it ignores that it was cancelled"))
        elif not opening.cancelled():
            opening.result()
        return not self._told_to_end

    async def _open(self) -> None:
        for worker in self.workers:
            if not self._told_to_end:
                await worker.open()

    @property
    def _told_to_end(self) -> bool:
        return self._drain.is_set() or self._abort.is_set()

    async def _serve(self) -> str:
        """Runs until the end, however it comes; returns how."""
        for worker in self.workers:
            worker.start(killed=True)  # how the process of an earlier run has died, nobody knows (E7)
        self._serving = True
        watching = asyncio.ensure_future(self._look())
        try:
            how = await self._ending(watching)
            if how in ("stopped", "failed") and all(worker.can_drain for worker in self.workers):
                await self._drained()
        finally:
            self._serving = False
            await _cancelled(watching)
        return "aborted" if self._abort.is_set() else how

    async def _ending(self, watching: asyncio.Future[Any]) -> str:
        """Waits until something ends the run; returns what."""
        ends: dict[asyncio.Future[Any], str] = {asyncio.ensure_future(settle(self._crew)): "ended"}
        stopping = [*self._stopping(), self._companions.over.wait()]
        ends |= {asyncio.ensure_future(one): "failed" for one in stopping}
        ends[asyncio.ensure_future(self._drain.wait())] = "stopped"
        ends[asyncio.ensure_future(self._abort.wait())] = "aborted"
        try:
            await asyncio.wait({*ends, watching}, return_when=asyncio.FIRST_COMPLETED)
            how = next((name for future, name in ends.items() if future.done()), "stopped")
            for future in (*ends, watching):
                if future.done() and (error := future.exception()) is not None:
                    self.workers[0].broke(error, "the run's end")
                    how = "failed"
        finally:
            await _cancelled(*ends)
        return how

    def _stopping(self) -> list[Coroutine[Any, Any, Any]]:
        """What ends the run from within: each is done once it has."""
        return [worker.stopping.wait() for worker in self.workers]

    async def _look(self) -> None:
        """Never silent: says why, where nothing is acked."""
        while True:
            now = asyncio.get_running_loop().time()
            self._watch.look(now, self._totals(), self._facts, self._companions.starting())
            await asyncio.sleep(LOOK_S)

    async def _drained(self) -> None:
        """Drains for at most drain_timeout_s, unless it may take longer, or until the run is aborted."""
        draining = asyncio.ensure_future(drain(self._crew))
        aborted = asyncio.ensure_future(self._abort.wait())
        timeout = self.topology.config.drain_timeout_s
        try:
            await within({draining, aborted}, timeout, lambda: self.patient)
        finally:
            await _cancelled(draining, aborted)


async def _cancelled(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)


def _counted(first: int) -> Callable[[], int]:
    """Incarnations of a run that keeps no state."""
    count = first

    def renew() -> int:
        nonlocal count
        count += 1
        return count

    return renew
