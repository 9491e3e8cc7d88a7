"""Handle what workers report while a run is going on: figures, log entries, notes and last messages.

Also record which worker died with work that may be unfinished. Must not know how a process is started, replaced or
ended, nor how the run ends.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from topology.codes.catalogue import CODES
from topology.codes.runtime import SINK_FILE_DAMAGED, SPOUT_RAISED, WORKER_DIED_WHILE_ENDING
from topology.errors import StartError, WorkerError
from topology.plan import Plan
from topology.runtime.checkpoints.manifest_updates import Noting
from topology.runtime.control.messages import (
    Broke,
    CheckpointSettled,
    CheckpointWanted,
    Closed,
    Done,
    HomeNote,
    Incarnations,
    KeepNote,
    Log,
    Looked,
    Metrics,
    NeedIncarnation,
    Noted,
    Prepared,
    Status,
    StoreCopied,
    Unprepared,
    Word,
    unpacked_entry,
)
from topology.runtime.supervisor.checkpoints import RunCheckpoints
from topology.runtime.supervisor.fleet import Fleet
from topology.runtime.supervisor.metrics import WorkerMetrics
from topology.runtime.supervisor.provisioning import Provisions
from topology.runtime.supervisor.queries import WorkerQueries
from topology.runtime.supervisor.worker_handle import WorkerHandle, WorkerState
from topology.runtime.telemetry.log_entries import record_of
from topology.runtime.telemetry.metrics import unpacked
from topology.storage.dead_questions import DeadAnswer

logger = logging.getLogger("kedge")


class MessageHandler:
    """The run's `fleet.Watcher`; call `attach` before the fleet begins. `seconds` returns the age of the run.

    broken     The error after which a worker cannot continue, or None. `broke` is set when there is one.
    aborted    Messages that workers had not finished when they closed. `summaries` are what their components said then.
    kept       True if all workers have saved what they had finished.
    caught_up  True if all sources have re-read what an earlier run may have read.
    """

    def __init__(
        self,
        plan: Plan,
        figures: WorkerMetrics,
        provisions: Provisions,
        noting: Noting,
        checkpoints: RunCheckpoints,
        seconds: Callable[[], float],
    ) -> None:
        self.broken: BaseException | None = None
        self.broke = asyncio.Event()
        self.aborted = 0
        self.kept = self.caught_up = True
        self.summaries: dict[str, list[str]] = {}
        self._plan = plan
        self._figures = figures
        self._provisions = provisions
        self._noting = noting
        self._checkpoints = checkpoints
        self._seconds = seconds
        # worker → error: the worker died, and no other reads its sources again
        self._unknown: dict[int, WorkerError] = {}

    def attach(self, fleet: Fleet, queries: WorkerQueries) -> None:
        """Set who starts and ends workers, and who waits for answers."""
        self._fleet = fleet
        self._queries = queries

    @property
    def unknown(self) -> WorkerError | None:
        """Return the error for a worker whose last work may be unfinished, or None."""
        return next(iter(self._unknown.values()), None)

    def heard(self, handle: WorkerHandle, word: Word) -> None:
        match word:
            case Metrics(snapshot, commits):
                self._figures.take(handle.worker, unpacked(snapshot), self._seconds())
                self._noting.seen(handle.worker, commits)
            case Status() | Looked() | Done() | DeadAnswer():
                self._queries.answered(handle, word)
            case HomeNote() | Prepared() | Unprepared() | CheckpointSettled() | CheckpointWanted() | StoreCopied():
                self._checkpoints.heard(handle, word)
            case Log():
                self._log(handle.worker, word)
            case Broke(text, code) if code == str(SINK_FILE_DAMAGED):
                self._fleet.fail(WorkerError(text, code=SINK_FILE_DAMAGED))  # no sink is left to drain into
            case Broke(text, code):
                self.broken = self.broken or (WorkerError(text, code=CODES.get(code, SPOUT_RAISED)) if text else None)
                self.broke.set()
            case KeepNote(number, name, text):
                handle.say(Noted(number, *self._provisions.keep(name, text)))
            case NeedIncarnation():
                try:
                    handle.say(Incarnations((self._provisions.next_incarnation(),)))
                except StartError as error:
                    handle.kill(str(error))
            case Closed(snapshot, aborted, summaries, kept, caught_up):
                self._figures.take(handle.worker, unpacked(snapshot), self._seconds())
                self.aborted += aborted
                self.kept = self.kept and kept
                self.caught_up = self.caught_up and caught_up
                again = f" (since worker {handle.worker} came back)" if self._figures.deaths.get(handle.worker) else ""
                for name, (first, *lines) in ((name, lines) for name, lines in summaries.items() if lines):
                    # the figures of this process only
                    self.summaries.setdefault(name, []).extend([f"{first}{again}", *lines])
            case _:
                raise ValueError(f"unexpected message from a running worker: {type(word).__name__}")

    def _log(self, worker: int, word: Log) -> None:
        if logger.isEnabledFor(word.level):
            logger.handle(record_of(unpacked_entry(word, worker)))

    def left(self, handle: WorkerHandle) -> None:
        """Handle the end of a worker's process. What it had not reported is lost."""
        self._queries.left(handle.worker)
        if handle.address.startswith("ipc://"):
            with contextlib.suppress(OSError):  # a read-only directory must not stop the replacement (F71)
                Path(handle.address.removeprefix("ipc://")).unlink()
        if not self._fleet.closing:
            self._figures.died(handle.worker)
        elif handle.state is WorkerState.DEAD:
            self._figures.cut_off(handle.worker)
        placed = self._plan.placement.items()
        reads = any(self._plan.components[name].kind == "spout" for (name, _), at in placed if at == handle.worker)
        if handle.state is WorkerState.DEAD and (self._fleet.closing or reads) and self._fleet.started:
            ending = self._fleet.closing or self._fleet.draining
            when = "while the run ended" if ending else "and no replacement read on before the run ended"
            text = f"worker {handle.worker} {handle.why} {when}; it is unknown whether all its messages were done"
            self._unknown.setdefault(handle.worker, WorkerError(text, code=WORKER_DIED_WHILE_ENDING))

    def running(self, handle: WorkerHandle) -> None:
        """Handle the start of a worker's tasks. Unless the run is draining, the worker reads its sources."""
        if not self._fleet.draining:
            self._figures.resumed(handle.worker)
            self._unknown.pop(handle.worker, None)
