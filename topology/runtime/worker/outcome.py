"""The end of a worker: by itself, because it must stop, or because something in it broke.

Must not know what is closed.
"""

import asyncio

from topology.codes.runtime import RUNTIME_FAILED, SPOUT_RAISED, WORKER_STATE_BROKEN
from topology.errors import WorkerError
from topology.runtime.failures import Failure, Reason
from topology.runtime.telemetry.failure_log import Reporter
from topology.storage.store import StoreBroken
from topology.user_frames import described


class WorkerOutcome:
    """The end of one worker, as far as it is known.

    broken     What ended a spout, or a task of the runtime; None if nothing did.
    can_drain  False once a task of the runtime has died: its inputs are lost.
    kept       Once the worker has closed: all that was done is durable, and nothing durable is in flight.
    cut_off    Inputs that `close` has cut off, or found held.
    stopping   Set by `broke`, and by a dead message with on_dead="stop".
    """

    def __init__(self, reporter: Reporter) -> None:
        self.broken: BaseException | None = None
        self.can_drain = True
        self.kept = False
        self.cut_off = 0
        self.stopping = asyncio.Event()
        self._reporter = reporter

    def broke(self, error: BaseException, where: str, *, can_drain: bool) -> None:
        """Report an error that a source, or a part of the runtime, has raised, and end the run for it. The first error
        counts."""
        self.broken = self.broken or error
        self.can_drain = self.can_drain and can_drain
        own = error.code if isinstance(error, WorkerError) else None
        kind = own or (
            WORKER_STATE_BROKEN if isinstance(error, StoreBroken) else SPOUT_RAISED if can_drain else RUNTIME_FAILED
        )
        self._reporter.broke(Failure(Reason.RAISED, where, described(error), error, kind=kind))
        self.stopping.set()
