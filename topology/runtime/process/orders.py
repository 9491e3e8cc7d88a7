"""The loop of a worker process: build, open, and obey the supervisor's orders, one after the other.

Orders come from `heartbeat`, and answers go back through it. Must not know threads, signals, or how the process ends.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NoReturn

import msgspec

from topology.codes.runtime import SINK_FILE_DAMAGED
from topology.components import no_folder
from topology.errors import KedgeError
from topology.filesystem.files import DiskFiles
from topology.plan import Plan
from topology.runtime.asyncio_tools import settle_heap, to_next
from topology.runtime.clock import LoopClock
from topology.runtime.control.frontiers import frontier_of, packed_note
from topology.runtime.control.messages import (
    Barrier,
    Begin,
    Broke,
    CheckpointDecided,
    CheckpointGivenUp,
    CheckpointSettled,
    CheckpointWanted,
    Close,
    Closed,
    CopyStore,
    Done,
    Drain,
    Failing,
    Flush,
    Generation,
    HomeNote,
    Join,
    Linked,
    Look,
    Looked,
    Lost,
    Order,
    Prepared,
    Probe,
    Ready,
    Recovered,
    Refused,
    Resume,
    SourcesEnded,
    Start,
    Status,
    StopWork,
    StoreCopied,
    TakeNote,
    TrialOver,
    TrialTurn,
    TrialWanted,
    Unprepared,
    WorkStopped,
)
from topology.runtime.failures import Failure, Reason
from topology.runtime.links.carrier import WireCarrier
from topology.runtime.links.codec import WireCodec
from topology.runtime.links.peers import Wiring
from topology.runtime.links.zeromq import CurveKeys
from topology.runtime.poison.trials import Fallen
from topology.runtime.poison.turns import TurnsOfOne
from topology.runtime.process.heartbeat import Heartbeat, safe
from topology.runtime.process.supervisor_notes import SupervisorNotes
from topology.runtime.run import run_dir
from topology.runtime.run.component_files import ComponentFolder
from topology.runtime.telemetry import metrics
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.worker.context import RunContext
from topology.runtime.worker.facts import facts_of
from topology.runtime.worker.shutdown import CLOSE_S
from topology.runtime.worker.worker import Worker
from topology.storage.dead_questions import DeadAsk
from topology.storage.store import Store, StoreBroken
from topology.storage.worker_store import open_store
from topology.user_frames import described

CHECK_S: Final = 0.2  # seconds between two looks for something that the links have overlooked

_encode: Final = msgspec.msgpack.Encoder().encode


class WorkerLoop:
    """One worker between Begin and its last message. Make it in a running loop.

    Raises StartError if its address can't be bound, and what the making of the worker raises; then nothing is left
    bound. `die` is called with an error in the runtime, and ends the process. Any thread may call `unlink` and `leave`,
    and wait for `closed`.
    """

    def __init__(
        self,
        begin: Begin,
        plan: Plan,
        pulse: Heartbeat,
        notes: SupervisorNotes,
        die: Callable[[BaseException], NoReturn],
    ):
        self.closed = threading.Event()
        self.ready = False  # True if all is open, and the supervisor knows it
        self.abandoned = False  # True if no process is left to answer
        self._pulse, self._die = pulse, die
        self.loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._summaries: dict[str, list[str]] = {}
        self._stopping: asyncio.Task[None] | None = None
        self._kept = False  # whether all that was done is in a decided checkpoint
        self._joined: set[int] = set()  # owners that live
        random = Random(begin.seed)
        self._directory = begin.directory
        self._address = address = _address_of(begin, random)
        self._carrier = WireCarrier(
            begin.run,
            lambda frame: self.worker.peers.received(frame),
            lambda worker: self.worker.peers.writable(worker),
            peers=len(plan.workers) - 1,
            keys=CurveKeys(begin.public, begin.secret, begin.keys) if begin.public else None,
        )
        store: Store | None = None
        try:
            store = _store_of(begin)
            self.worker = Worker(
                plan,
                worker=begin.worker,
                incarnation=begin.incarnations[0],
                context=_context_of(begin, plan, notes, self.loop),
                store=store,
                random=random,
                reporter=Reporter(),
                wiring=self._wiring(begin, plan),
            )
            self.worker.peers.on_linked = self._linked
            self._tell_of_checkpoints()
            self._address = self._carrier.bind(address)
        except BaseException:
            self._carrier.close()
            if store is not None:
                store.close()
            raise
        if store is not None:
            pulse.commits = lambda: store.commits
        pulse.snapshot = lambda: metrics.packed(self.worker.snapshot())
        self._turns = TurnsOfOne(partial(pulse.say, TrialWanted()), partial(pulse.say, TrialOver()))
        pulse.attach(self.loop, self._obey)
        self._check()

    def _wiring(self, begin: Begin, plan: Plan) -> Wiring:
        say = self._pulse.say
        return Wiring(
            begin.run,
            self._carrier,
            WireCodec(plan),
            lost=lambda owner, why: say(Lost(owner, safe(why))),
            refused=lambda owner, text: say(Refused(owner, safe(text))),
            generation=begin.generation,
        )

    async def live(self) -> None:
        """Open, run and close everything. Raises what keeps the worker from starting, after everything is closed."""
        try:
            await self._open()
            if not self._closing.is_set():
                self._pulse.say(Ready(self._address, self.worker.plan.fingerprint))
                self.ready = True
                settle_heap()
                self._spawn(self._tell_broken(), "stopping")
                await self._closing.wait()
                if not self.abandoned and self._stopping is None:
                    self._summaries = self.worker.summaries()
        finally:
            await self._close()
        if isinstance(self.worker.broken, StoreBroken):  # found at its last commit: this must not count as done
            self._die(self.worker.broken)

    async def _open(self) -> None:
        """Open every component, unless the worker is closed meanwhile. An `open` that ignores its cancellation is
        abandoned after CLOSE_S."""
        opening = self.loop.create_task(self.worker.open(), name="open")
        closing = self.loop.create_task(self._closing.wait())
        try:
            await asyncio.wait({opening, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opening.cancel()
            closing.cancel()
            await asyncio.wait({opening, closing}, timeout=CLOSE_S)
        if not opening.done():
            self.worker.reported(Failure(Reason.CUT_OFF, "open", "it ignores that it was cancelled"))
        elif not opening.cancelled():
            opening.result()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._stopping is not None:
            await self._stopping
        await self.worker.close(kept=self._kept)
        self._carrier.close()

    async def _stop(self) -> None:
        self._summaries = self.worker.summaries()
        await self.worker.stop()
        self._pulse.say(WorkStopped())

    def _check(self) -> None:
        self._carrier.check(self.loop.time())
        self.loop.call_later(to_next(self.loop.time(), CHECK_S), self._check)

    def last_word(self) -> Closed:
        """Return the last message, after all is closed."""
        summaries = {name: [safe(line) for line in lines] for name, lines in self._summaries.items()}
        worker, caught_up = self.worker, self.worker.caught_up
        kept = worker.kept and (caught_up or not worker.checkpoints.loaded.deaths)
        return Closed(metrics.packed(worker.snapshot()), worker.aborted, summaries, kept, caught_up)

    def abandon(self) -> None:
        """Close without a message, because no process listens any more."""
        self.abandoned = True
        self._closing.set()

    def unlink(self) -> None:
        """Remove this worker's socket. The directory stays, because another worker may come. May be called twice."""
        with contextlib.suppress(OSError):
            os.unlink(self._address.removeprefix("ipc://"))

    def leave(self) -> None:
        """Remove this worker's files, and the run's directory with the last of them, because no other process will."""
        run_dir.leave(self._directory, self._address)

    # -- orders

    def _obey(self, order: Order) -> None:
        """Obey an order. Called on the loop, in order. Slow work gets a task of its own."""
        match order:
            case Probe(number):
                self._pulse.say(Status(number, _encode(self.worker.status())))
            case Look(number, root):
                self._pulse.say(Looked(number, facts_of(self.loop.time(), [self.worker], root)))
            case Resume(checkpoint, notes, over):
                self.worker.decided.resume(frontier_of(checkpoint, notes), over)
            case Join():
                self._join(order)
            case Generation():
                self._begin_generation(order)
            case TakeNote(checkpoint):
                note, quiet = self.worker.checkpoints.note(checkpoint)
                self._pulse.say(HomeNote(checkpoint, packed_note(note), quiet))
            case Barrier(checkpoint, notes, alone):
                self.worker.checkpoints.gather(frontier_of(checkpoint, notes), alone=alone)
            case CheckpointDecided(checkpoint):
                self.worker.checkpoints.decided(checkpoint)
            case CheckpointGivenUp(checkpoint):
                self.worker.checkpoints.given_up(checkpoint)
            case CopyStore(checkpoint, path):
                self.worker.checkpoints.copy(checkpoint, Path(path))
            case TrialTurn():
                self._turns.granted()
            case Start(killed):
                self.worker.trials.turns = self._turns
                self.worker.start(killed=killed)
                self._spawn(self._tell_sources_ended(), "sources ended")
            case Flush():
                self._spawn(self._flush(order), "flush")
            case DeadAsk():
                self._spawn(self._answer(order), "dead letters")
            case Drain():
                self.worker.drain()
            case StopWork():
                self._stopping = self.loop.create_task(self._stop(), name="stop")
                self._stopping.add_done_callback(self._ended)
            case Close(kept):
                self._kept = kept
                self._closing.set()
            case _:
                raise ValueError(f"unexpected order for a running worker: {type(order).__name__}")

    def _join(self, order: Join) -> None:
        peers = self.worker.peers
        if order.generation > peers.generation:  # of a death while this worker was not known to others
            peers.begin_generation(order.generation)
        for at in order.peers:
            self._joined.add(at.owner)
            self.worker.link(at.worker, at.owner, at.address)
        if not order.peers and peers.linked:  # no peer is going to welcome it
            self._linked()

    def _begin_generation(self, order: Generation) -> None:
        owner = order.owner
        self._joined.discard(owner)
        fallen = Fallen(owner, order.killed, order.ran)
        recovered = partial(self._recovered, owner)
        trees = self.worker.begin_generation(order.number, order.why, recovered, fallen, gone=owner)
        self._pulse.say(Failing(owner, trees))

    def _tell_of_checkpoints(self) -> None:
        """Have the worker's checkpoints tell the supervisor what becomes of each."""
        checkpoints, say = self.worker.checkpoints, self._pulse.say
        checkpoints.answers.prepared = lambda checkpoint, size, seconds: say(Prepared(checkpoint, size, seconds))
        checkpoints.answers.unprepared = lambda checkpoint, why: say(Unprepared(checkpoint, safe(why)))
        checkpoints.answers.settled = lambda checkpoint: say(CheckpointSettled(checkpoint))
        checkpoints.answers.copied = lambda checkpoint, commits, problem: say(
            StoreCopied(checkpoint, commits, safe(problem))
        )
        checkpoints.answers.wanted = lambda: say(CheckpointWanted())

    def _linked(self) -> None:
        self._pulse.say(Linked(len(self._joined)))

    def _recovered(self, owner: int, left: int) -> None:
        self._pulse.say(Recovered(owner, left))

    # -- slow work

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._die(error)

    async def _flush(self, order: Flush) -> None:
        await self.worker.flush_component(order.component)
        self._pulse.say(Done(order.number))

    async def _answer(self, ask: DeadAsk) -> None:
        self._pulse.say(await self.worker.dead(ask))

    async def _tell_sources_ended(self) -> None:
        await self.worker.sources_ended.wait()
        self._pulse.say(SourcesEnded())

    async def _tell_broken(self) -> None:
        """Report what ends the run: a source that raised, or a sink whose file is damaged, as it would be for a
        successor too. A dead task of the runtime ends this process at once (A14)."""
        await self.worker.stopping.wait()
        broken = self.worker.broken
        code = str(broken.code or "") if isinstance(broken, KedgeError) else ""
        if broken is not None and not self.worker.can_drain and code != str(SINK_FILE_DAMAGED):
            self._die(broken)
        self._pulse.say(Broke(safe(described(broken)) if broken is not None else "", code))


def _address_of(begin: Begin, random: Random) -> str:
    """Return the address that this life binds."""
    if begin.links != "ipc":
        return begin.links
    return run_dir.socket_path(begin.directory, begin.worker, begin.incarnations[0], random)


def _context_of(begin: Begin, plan: Plan, notes: SupervisorNotes, loop: asyncio.AbstractEventLoop) -> RunContext:
    return RunContext(
        topology_id=begin.topology_id or plan.topology,
        key=begin.key,
        renew=notes.renew,
        clock=LoopClock(loop),
        notes=notes,
        folder=ComponentFolder(Path(begin.folder)) if begin.folder else no_folder,
    )


def _store_of(begin: Begin) -> Store | None:
    """Return the store of this life, which the supervisor has checked. Raises StartError."""
    if not begin.store:
        return None
    owner = begin.worker, begin.incarnations[0]
    return open_store(DiskFiles(), Path(begin.store), owner=owner, decided=begin.decided, logged=begin.logged)
