"""All worker processes of a run: which are there, which know each other, and what replaces a dead one.

    spawned ─ Ready ─► ready ─ Linked ─► linked ─ Start ─► running ─ Close ─► closing ─ Closed, reaped ─► ended
       └──────────────────┴────────────────┴─ reaped ─► dead ─ after a back-off ─► a new process, spawned

When a worker gets ready, it gets the addresses of all ready workers, and they get its address. This holds at the first
start and after a death. At the first start, no worker starts before all are linked; later, each starts when it is
linked. A process that ends without Close is dead, and a new one is spawned, of the present generation of the run. Other
consequences of its death are in `deaths`. Must not know how a run ends, nor what figures and notes are for.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Protocol

from acker.frontier import EMPTY, Frontier
from topology.codes.code import Code
from topology.codes.runtime import TOO_MANY_WORKER_DEATHS
from topology.codes.startup import (
    ADDRESS_BIND_FAILED,
    COMPONENT_WAITING_TO_OPEN,
    DIFFERING_WORKER_TOPOLOGIES,
    INCOMPATIBLE_WORKERS,
    INVALID_SOCKET_PATH,
    STATE_FILE_UNUSABLE,
    TOO_FEW_FILE_DESCRIPTORS,
    TOO_FEW_PROCESSES,
    WORKER_DIED_BEFORE_START,
    WORKER_LINK_TIMEOUT,
)
from topology.errors import KedgeError, StartError, WorkerError
from topology.plan import Plan
from topology.runtime.control.frontiers import packed_notes
from topology.runtime.control.messages import (
    Beat,
    Begin,
    CannotStart,
    Close,
    Closed,
    Drain,
    Failing,
    Join,
    Linked,
    Lost,
    PeerAt,
    Ready,
    Recovered,
    Refused,
    Resume,
    SourcesEnded,
    Start,
    StopWork,
    TrialOver,
    TrialTurn,
    TrialWanted,
    Word,
    WorkStopped,
)
from topology.runtime.os_process.orphans import Orphans
from topology.runtime.os_process.output import Output
from topology.runtime.os_process.restarts import PAUSED_S, Health, Restarts, Vigil
from topology.runtime.pausable_wait import first_of
from topology.runtime.poison.turns import TurnsOfAll
from topology.runtime.supervisor.deaths import Deaths, ReportLine
from topology.runtime.supervisor.worker_handle import PRESENT, WorkerHandle, WorkerState, as_it_was
from topology.runtime.thread_limit import no_room

LINK_S: Final = 30.0  # how long workers may take to link at the first start
RELINK_S: Final = 5.0  # how long a replacement may take; its peers may be busy, and what is for them waits

# Codes of a replacement that cannot start as long as something outside is missing: descriptors, threads, a place for
# its socket, its store, a server.
OUTSIDE: Final = frozenset(
    map(
        str,
        (
            INVALID_SOCKET_PATH,
            TOO_FEW_FILE_DESCRIPTORS,
            ADDRESS_BIND_FAILED,
            STATE_FILE_UNUSABLE,
            TOO_FEW_PROCESSES,
            COMPONENT_WAITING_TO_OPEN,
        ),
    )
)

logger = logging.getLogger("kedge")


class Watcher(Protocol):
    """Receives what happens to workers."""

    def heard(self, handle: WorkerHandle, word: Word) -> None:
        """Handle a message that is not about the process itself."""

    def left(self, handle: WorkerHandle) -> None:
        """Handle a reaped process; its state says how it ended."""

    def running(self, handle: WorkerHandle) -> None:
        """Handle the start of a worker's tasks."""


async def _none_is_taken() -> bool:
    return False


class Fleet:
    """The processes. Make it in a running loop. Call `begin`, then `look` each LOOK_S, and always `close` at the end.

    `failed` and `over` are set if the run cannot continue. Before all workers have started, `failed` is a
    ConfigurationError or a StartError.

    `before_death` is called with the reason of each death, and what follows from the death: it calls that, at once or a
    little later, and by then all workers have been told of every decided checkpoint. `frontier` returns the last
    decided one.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        began: Callable[[int], Begin],
        environment: Mapping[str, str],
        watcher: Watcher,
        report: ReportLine,
        output: Output | None = None,
        before_death: Callable[[str, Callable[[], None]], None] = lambda why, then: then(),
        frontier: Callable[[], Frontier] = lambda: EMPTY,
    ) -> None:
        self.handles: dict[int, WorkerHandle] = {}  # worker → its current or last process
        self.started = False  # True after all have started once
        self.draining = False
        self.closing = False
        self.failed: KedgeError | None = None
        self.over = asyncio.Event()
        self.restarts = Restarts(plan.config.max_restarts)
        self._plan = plan
        self._began = began
        self._environment = environment
        self._watcher = watcher
        self._report = report
        self._output = output
        self._before_death, self._frontier = before_death, frontier
        self._loop = asyncio.get_running_loop()
        self.vigil = Vigil(plan.config.blocked_timeout_s, self._loop.time())
        self._away: dict[int, tuple[float, str]] = {}  # worker → since when it is away, and what it waits for outside
        self._reported_trace = ""  # the last traceback of user code in a worker that could not be replaced
        self._turns = TurnsOfAll(
            lambda owner: next(handle for handle in self.handles.values() if handle.owner == owner).say(TrialTurn()),
            lambda: self.complete and self._deaths.settled,
            self._loop.time,
        )
        self._timers: set[asyncio.TimerHandle] = set()
        self._deaths = Deaths(plan, self.handles, later=self._later, now=self._loop.time, report=report)
        self._waiting: set[asyncio.Future[None]] = set()
        self._orphans = Orphans()

    def begin(self) -> None:
        """Start all processes. Their results arrive later."""
        for worker in self._plan.workers:
            self._spawn(worker)

    @property
    def complete(self) -> bool:
        """Return True if all workers run."""
        return self._all(WorkerState.RUNNING)

    @property
    def has_stopped(self) -> bool:
        """Return True if all workers have stopped at the end of the run, and none has died."""
        return self._all(WorkerState.CLOSING) and all(handle.stopped for handle in self.handles.values())

    @property
    def generation(self) -> int:
        """Return the present generation of the run."""
        return self._deaths.generation

    @property
    def away(self) -> frozenset[int]:
        """Return the workers that are being replaced."""
        return frozenset(self._away)

    def _all(self, *states: WorkerState) -> bool:
        return len(self.handles) == len(self._plan.workers) and all(
            handle.state in states for handle in self.handles.values()
        )

    def ailing(self) -> list[str]:
        """Return one sentence for each worker that is being replaced, has no link to all others yet, or has a blocked
        loop."""
        now = self._loop.time()
        away = [
            f"worker {worker} is being replaced, for {now - at:.0f} s" + (f": it {why}" if why else "")
            for worker, (at, why) in self._away.items()
        ]
        alone = [
            f"worker {handle.worker} has no link with all others yet, for {now - handle.asked_at:.0f} s"
            for handle in self.handles.values()
            if handle.state is WorkerState.RUNNING and not handle.met
        ]
        return [*away, *alone, *(f"worker {worker}: {text}" for worker, text in self.vigil.blocked().items())]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds. It is evaluated again when a worker has begun, has ended, or reports that
        its sources have ended."""
        while not condition():
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)

    def _changed(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def fail(self, error: KedgeError) -> None:
        """End the run with this error. The first error counts."""
        if self.failed is None and not self.closing:
            self.failed = error
            self.over.set()

    def _fail(self, text: str, code: Code) -> None:
        self.fail(WorkerError(text, code=code) if self.started else StartError(text, code=code))

    # -- start

    def _spawn(self, worker: int) -> None:
        if self.closing:
            return
        try:
            begin = self._began(worker)
            self._orphans.begin(begin.directory)
            handle = WorkerHandle(begin, self._environment, heard=self._heard, ended=self._ended, output=self._output)
            self._orphans.add(handle.pid)
            self._deaths.begins(handle.owner)
        # too few descriptors or processes (F15), or no space to store an incarnation (F16)
        except (KedgeError, OSError) as error:
            if isinstance(error, KedgeError) and not self.started:
                return self.fail(error)
            if isinstance(error, OSError) and error.errno == errno.EAGAIN and not self.started:
                return self.fail(no_room(f"worker {worker} could not be started: no more processes can be made"))
            text = f"could not be started: {(isinstance(error, OSError) and error.strerror) or error}"
            self._report(f"worker {worker} {text}")
            self._again(worker, text, outside=self.started)
        else:
            self.handles[worker] = handle
            self.vigil.expect(worker, self._loop.time())

    def _heard(self, handle: WorkerHandle, word: Word) -> None:
        match word:
            case Beat(blocked_s, where):
                self.vigil.beat(handle.worker, blocked_s, where, self._loop.time())
            case Ready(address, plan):
                self._ready(handle, address, plan)
            case Linked(peers):
                handle.met = handle.met or peers >= len(handle.joined)
                if handle.state is WorkerState.READY and handle.met:
                    self._linked(handle)
            case CannotStart():
                handle.ends_as(f"could not start: {word.text}", outside=self.started and word.code in OUTSIDE)
                if not self.started:
                    self.fail(as_it_was(word))
                elif word.trace not in ("", self._reported_trace):
                    self._reported_trace = word.trace  # another one that fails in the same way logs no traceback
                    code = word.code or WORKER_DIED_BEFORE_START
                    logger.warning("worker %d could not start (%s)\n%s", handle.worker, code, word.trace)
            case TrialWanted():
                self._turns.wanted(handle.owner)
            case TrialOver():
                self._turns.over(handle.owner)
            case SourcesEnded():
                handle.sources_ended = True
                self._changed()
            case WorkStopped():
                handle.stopped = True
                self._changed()
            case Lost(owner, why):
                self._lost(owner, why)
            case Refused(owner, text):
                # messages about other processes are ignored
                if any(known.owner == owner for known in self.handles.values()):
                    self._fail(text, INCOMPATIBLE_WORKERS)
            case Failing() | Recovered():
                self._deaths.heard(handle, word)
            case _:
                if isinstance(word, Closed) and handle.state is WorkerState.CLOSING:
                    handle.become(WorkerState.ENDED)
                self._watcher.heard(handle, word)

    def _ready(self, handle: WorkerHandle, address: str, plan: str) -> None:
        if handle.state is WorkerState.CLOSING:
            return
        if plan != self._plan.fingerprint:
            self._fail(
                f"worker {handle.worker} has built another topology than this process: its file has changed since the "
                "run began, or builds a different one each time (from a clock, random numbers or the environment)",
                DIFFERING_WORKER_TOPOLOGIES,
            )
            return
        others = [present for present in self.handles.values() if present.state in PRESENT]
        handle.address = address
        handle.become(WorkerState.READY)
        if self.started:
            frontier = self._frontier()
            handle.say(Resume(frontier.checkpoint, packed_notes(frontier), (*self._deaths.over,)))
        for other in others:
            self._join(other, [handle])
        self._join(handle, others)
        if not others:
            self._linked(handle)

    def _join(self, handle: WorkerHandle, others: list[WorkerHandle]) -> None:
        if handle.state is WorkerState.LINKED:
            handle.become(WorkerState.READY)
        handle.asked_at, handle.met = self._loop.time(), not (handle.joined or others)
        handle.joined |= {other.owner for other in others}
        if others:
            peers = tuple(PeerAt(other.worker, other.owner, other.address) for other in others)
            handle.say(Join(peers, self.generation))

    def _linked(self, handle: WorkerHandle) -> None:
        handle.become(WorkerState.LINKED)
        if self.started:
            self._start(handle)
        elif self._all(WorkerState.LINKED):
            self.started = True
            for each in self.handles.values():
                self._start(each)

    def _start(self, handle: WorkerHandle) -> None:
        if self.draining:
            handle.say(Drain())  # no worker would wait for what it reads now
        handle.say(Start(self._deaths.killed(handle.worker)))
        handle.become(WorkerState.RUNNING)
        now = self._loop.time()
        self.vigil.started(handle.worker, now)
        self._turns.begun()
        self._away.pop(handle.worker, None)
        self._deaths.back(handle)
        self._watcher.running(handle)
        self._changed()

    # -- health

    def look(self) -> None:
        """Kill workers that are silent or have been blocked for too long, and report those that are blocked. Call each
        LOOK_S."""
        self._turns.look()
        now = self._loop.time()
        pauses = self.vigil.pauses
        unwell = self.vigil.look(now)
        if self.vigil.pauses > pauses:  # messages of the workers may wait to be read
            for handle in self.handles.values():
                handle.asked_at = now
        for worker, health, text in unwell:
            handle = self.handles[worker]
            if health is Health.SLOW:
                self._report(f"worker {worker} (pid {handle.pid}) lives, but {text}")
            else:
                handle.kill(text)
        present = self._all(*PRESENT)  # a link to a worker that is being replaced has to wait for the replacement
        for handle in [waiting for waiting in self.handles.values() if waiting.state is WorkerState.READY]:
            if self.started and now - handle.asked_at > RELINK_S:
                self._start(handle)
            elif not self.started and present and now - handle.asked_at > LINK_S:
                self._fail(
                    f"worker {handle.worker} could not link with the others within {LINK_S:g} s", WORKER_LINK_TIMEOUT
                )

    def _lost(self, owner: int, why: str) -> None:
        """Kill the sender of a frame that never arrived. It is not known which trees the frame carried (A11)."""
        for handle in self.handles.values():
            if handle.owner == owner and handle.state in PRESENT:
                handle.kill(f"one of its links broke: {why}")

    # -- end of a process

    def _ended(self, handle: WorkerHandle) -> None:
        """Handle a reaped process. If it was not asked to close, it is dead."""
        self.vigil.forget(handle.worker)
        self._orphans.reaped(handle.pid)
        if handle.state is not WorkerState.ENDED:
            handle.become(WorkerState.DEAD)
        self._watcher.left(handle)
        if not self.closing:
            self._died(handle)
        elif handle.state is WorkerState.DEAD:
            self._before_death(handle.why, lambda: None)  # nothing follows but that no checkpoint waits for it
            if self.failed is None:
                self._report(f"worker {handle.worker} (pid {handle.pid}) {handle.why}, while the run ended")
        self._changed()

    def _died(self, handle: WorkerHandle) -> None:
        self._turns.over(handle.owner)
        self._before_death(handle.why, partial(self._replace, handle))

    def _replace(self, handle: WorkerHandle) -> None:
        if self.closing:
            return
        self._deaths.died(handle, started=self.started, draining=self.draining)
        self._again(handle.worker, handle.why, outside=handle.outside)

    def _again(self, worker: int, why: str, *, outside: bool) -> None:
        """Spawn a worker again after its back-off, unless it has died too often."""
        now = self._loop.time()
        since, _ = self._away.get(worker, (now, ""))
        self._away[worker] = since, why if outside else ""
        after_s = self.restarts.died(worker, now, outside=outside)
        if after_s is None:
            self._fail(self.restarts.verdict(why), TOO_MANY_WORKER_DEATHS if self.started else WORKER_DIED_BEFORE_START)
        elif self.failed is None:
            self._later(after_s, lambda: self._spawn(worker))

    def _later(self, after_s: float, call: Callable[[], None], *, again: bool = True) -> None:
        def due() -> None:
            self._timers.discard(handle)
            # no message was read meanwhile: wait once more (F68)
            if again and self._loop.time() - handle.when() > PAUSED_S:
                self._later(after_s, call, again=False)
            else:
                call()

        handle = self._loop.call_later(after_s, due)
        self._timers.add(handle)

    # -- end of the run

    async def close(
        self,
        within_s: float,
        hurry: asyncio.Event,
        hurried_s: float,
        last: Callable[[], Coroutine[Any, Any, bool]] = _none_is_taken,
    ) -> None:
        """Have all workers stop, and then close. Return once all are reaped. If all of them ran, and have stopped,
        `last` is called in between: it takes the last checkpoint, and returns True if that is decided.

        A worker that has not stopped, or closed, within `within_s` is killed. After `hurry` is set, each step has only
        `hurried_s` left. If cancelled, `close` kills all at once.
        """
        run = self.complete and self.failed is None
        self.closing = True
        for timer in self._timers:
            timer.cancel()
        self._deaths.tell_all()
        for handle in self.handles.values():
            if not handle.reaped.is_set():
                handle.become(WorkerState.CLOSING)
                if run:
                    handle.say(StopWork())
        hurried: asyncio.Future[Any] = self._loop.create_task(hurry.wait())

        async def done(step: Coroutine[Any, Any, bool]) -> bool:
            """Return what this returns; False if it takes too long."""
            doing = self._loop.create_task(step)
            try:
                await first_of({doing, hurried}, within_s)
                if hurried.done():
                    await first_of({doing}, min(hurried_s, within_s))
                return doing.done() and doing.result()
            finally:
                doing.cancel()

        kept = False
        try:
            if run and await done(self._stopped()):
                kept = await done(last())
            for handle in self.handles.values():
                if handle.stopped or not run:
                    handle.say(Close(kept))
                else:
                    self._kill_late(handle)
            await done(self._quiet())
        finally:
            hurried.cancel()
            for handle in self.handles.values():
                self._kill_late(handle)
            await self._quiet()
            self._orphans.close()

    async def _stopped(self) -> bool:
        await self.until(lambda: all(handle.stopped or handle.reaped.is_set() for handle in self.handles.values()))
        return self.has_stopped

    async def _quiet(self) -> bool:
        await asyncio.gather(*(handle.quiet() for handle in self.handles.values()))
        return True

    def _kill_late(self, handle: WorkerHandle) -> None:
        if not handle.reaped.is_set():
            logger.warning("worker %d (pid %d) did not close in time, and is killed", handle.worker, handle.pid)
            handle.kill("it did not close")
