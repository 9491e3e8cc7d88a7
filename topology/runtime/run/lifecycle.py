"""The life of a run, in one process or in several: what ends it, how it is drained, and what it may be asked meanwhile.

Both kinds of run share it, so whatever starts a run need not know which kind it is. Must not know how workers are made,
nor where they are.
"""

import asyncio
import contextlib
import logging
import secrets
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Final

from topology.checks.declaration import require_valid
from topology.codes.savepoints import SAVEPOINT_FAILED
from topology.errors import StartError, WorkerError
from topology.graph import Graph
from topology.plan import plan
from topology.runtime.asyncio_tools import finished
from topology.runtime.clock import LoopClock
from topology.runtime.control.completion import Workers, drain, within
from topology.runtime.control.dead_letters import answer_of_all, not_running
from topology.runtime.run import startup
from topology.runtime.run.report import Report
from topology.runtime.run.savepoints import RunSavepoints
from topology.runtime.run.startup import CARRY_ON, Beginning, Terms
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.savepoints import Savepoint
from topology.storage.directory.state_dir import StateDir

GUARD_S: Final = 1.0  # between two looks at whether the state directory is still there

logger = logging.getLogger("kedge")


@dataclass(frozen=True)
class Takeover:
    """The way in which a run takes over a state directory that earlier runs have used.

    terms         The terms for what they have left.
    report        Called with each line that people should know of it, before anything runs; it is logged by default.
    while_locked  Entered with the directory once it is locked, and left before it is unlocked.
    """

    terms: Terms = CARRY_ON
    report: Callable[[str], None] = logger.info
    while_locked: Callable[[Path], contextlib.AbstractContextManager[None]] | None = None


RESUME: Final = Takeover()  # resume where earlier runs ended, or begin


class RunLifecycle:
    """One run. Make it in a running loop and `await finish()`; meanwhile the other methods may be called.

    Raises DeclarationError when made. `finish` raises ConfigurationError or StartError if the run can't begin. What
    goes wrong later is in its Report. If the task is cancelled, `finish` drains; cancelled again, it aborts; only when
    everything is closed it raises CancelledError.

    `patient`: draining may take however long it does. `report` is called with lines for people.
    """

    _all_workers: Workers  # all workers, once they are made

    def __init__(
        self,
        topology: Graph,
        *,
        workers: int,
        state_dir: str | Path | None,
        takeover: Takeover,
        random: Random | None,
        report: Callable[[str], None],
        utc: Callable[[], datetime] | None = None,
    ) -> None:
        require_valid(topology)
        self.topology = topology
        self.patient = False
        self._plan = plan(topology, workers)
        self._state_dir = Path(state_dir) if state_dir is not None else None
        self._takeover, self._opens = takeover, startup.opened
        self._random = random or Random(secrets.randbits(64))
        self._report = report
        self._utc = utc
        self._savepoints: RunSavepoints | None = None  # of a run with a state directory
        self._check_in_place: Callable[[], None] = lambda: None  # of the state directory
        self._drain = asyncio.Event()
        self._abort = asyncio.Event()

    # -- what its caller may do and ask

    def drain(self, *, patient: bool = False) -> None:
        """Stop the sources. `finish` returns once everything in flight is done, or drain_timeout_s have passed, unless
        `patient` was given by then."""
        self.patient |= patient
        self._drain.set()

    def abort(self) -> None:
        """End the run now. What is in flight is left unfinished."""
        self._abort.set()

    @property
    def draining(self) -> bool:
        """True once `drain` was called."""
        return self._drain.is_set()

    @abstractmethod
    def in_flight(self) -> str:
        """Return where everything is that is not done, in a sentence."""

    async def dead(self, ask: DeadAsk) -> DeadAnswer:
        """Answer a question about the dead letters of all workers, once what it asks for is durable.

        Waits a while for workers that are away. A problem is in the answer.
        """
        return await answer_of_all(ask, self._all_workers.dead) if self._serving else not_running(ask)

    async def save(self, name: str = "") -> Savepoint:
        """Keep a decided checkpoint under a name while the run goes on. Without a name, its time is the name. Raises
        StartError if there is none to keep, ConfigurationError for an invalid name."""
        if not self._serving or self._savepoints is None or self.draining:
            raise StartError("the run has not begun yet, is ending, or keeps no state", code=SAVEPOINT_FAILED)
        return await self._savepoints.keep(name)

    async def finish(self) -> Report:
        """Start, run, and end everything. Return how it ended."""
        return await finished(self._finish(), self.drain, self.abort)

    # -- what the kinds of run define

    @abstractmethod
    async def _finish(self) -> Report: ...

    @property
    @abstractmethod
    def _serving(self) -> bool:
        """True while the workers can be asked something."""

    @abstractmethod
    async def _copies(self, folder: Path) -> Mapping[int, int]:
        """Take a checkpoint, and copy all workers' stores into this folder: `Coordinator.copies`."""

    @property
    @abstractmethod
    def _decided(self) -> int:
        """The number of the last decided checkpoint."""

    @abstractmethod
    def _ends(self) -> Iterable[tuple[Awaitable[Any], str]]:
        """Return what may end the run, with the word for it in the Report. If several are over, the first counts."""

    @abstractmethod
    def _broke(self, errors: Sequence[BaseException]) -> None:
        """Take note of errors that the run can't continue after."""

    # -- what they share

    def _begin_on(self, path: Path, closing: contextlib.ExitStack) -> tuple[StateDir, Beginning]:
        """Take over the state directory. It is given back when `closing` ends."""
        state, beginning = closing.enter_context(self._opens(path, self._plan, self._takeover.terms))
        if self._takeover.while_locked is not None:
            closing.enter_context(self._takeover.while_locked(path))
        for text in beginning.notices:
            self._takeover.report(text)
        self._check_in_place = state.check_in_place
        utc = LoopClock(asyncio.get_running_loop(), self._utc).utc
        self._savepoints = RunSavepoints(
            state, self._plan.workers, self._copies, decided=lambda: self._decided, utc=utc
        )
        return state, beginning

    async def _keep_older(self) -> None:
        """Keep older checkpoints, as many as the settings ask for. Never returns."""
        if self._savepoints is not None and (count := self.topology.config.keep_checkpoints - 1):
            await self._savepoints.keep_older(count)
        await asyncio.Event().wait()

    async def _guard_state(self) -> None:
        """Raise WorkerError once the state directory is no longer in its place. Never returns."""
        while True:
            await asyncio.sleep(GUARD_S)
            try:
                self._check_in_place()
            except StartError as error:
                raise WorkerError(str(error), code=error.code) from error

    async def _ending(self, *watching: asyncio.Future[Any]) -> str:
        """Wait until something ends the run. Return what: a task in `watching` never ends by itself."""
        ends = {asyncio.ensure_future(over): how for over, how in self._ends()}
        try:
            await asyncio.wait({*ends, *watching}, return_when=asyncio.FIRST_COMPLETED)
            how = next((how for future, how in ends.items() if future.done()), "failed")
            if errors := errors_of(*ends, *watching):
                self._broke(errors)
                how = "failed"
        finally:
            await cancelled(*ends)
            if self._savepoints is not None:
                await self._savepoints.close()
        return how

    async def _drained(
        self, *others: Awaitable[Any], watching: Sequence[asyncio.Future[Any]] = ()
    ) -> list[BaseException]:
        """Drain for at most drain_timeout_s, unless it may take longer, or until the run is aborted, or one of `others`
        or `watching` is over. Return the errors of the draining, and of `watching`."""
        draining = asyncio.ensure_future(drain(self._all_workers))
        ends = [asyncio.ensure_future(over) for over in (self._abort.wait(), *others)]
        try:
            await within({draining, *ends, *watching}, self.topology.config.drain_timeout_s, lambda: self.patient)
            return errors_of(draining, *watching)
        finally:
            await cancelled(draining, *ends)


def errors_of(*futures: asyncio.Future[Any]) -> list[BaseException]:
    """Return the errors of those futures that have raised."""
    return [error for future in futures if future.done() and (error := future.exception()) is not None]


async def cancelled(*futures: asyncio.Future[Any]) -> None:
    """Cancel these futures and wait for their ends. Their errors are dropped."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
