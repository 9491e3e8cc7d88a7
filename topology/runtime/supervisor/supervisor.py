"""A run on several processes, as a whole: state directory, run directory, workers, the end, the report.

Has the surface of `EmbeddedRun`: what starts runs need not know which one it is. `fleet` decides what is done about a
death, `checkpoints` takes checkpoints, and `messages` takes what workers say; here is what all of them share. Must not
know terminals or commands.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from topology.codes.runtime import RUNTIME_FAILED
from topology.errors import WorkerError
from topology.graph import Graph
from topology.runtime.checkpoints.manifest_updates import Noting
from topology.runtime.companions.companions import STOP_S, Companions
from topology.runtime.control.completion import settle
from topology.runtime.control.messages import Begin
from topology.runtime.os_process.output import Output
from topology.runtime.os_process.restarts import LOOK_S
from topology.runtime.run.component_files import ComponentFolder
from topology.runtime.run.lifecycle import RESUME, RunLifecycle, Takeover, cancelled
from topology.runtime.run.report import Report
from topology.runtime.run.run_dir import RunDir
from topology.runtime.run.startup import Beginning, ended
from topology.runtime.supervisor.checkpoints import Decisions, KeptDecisions, RunCheckpoints, UnkeptDecisions
from topology.runtime.supervisor.fleet import Fleet
from topology.runtime.supervisor.messages import MessageHandler
from topology.runtime.supervisor.metrics import WorkerMetrics
from topology.runtime.supervisor.monitor import Looking
from topology.runtime.supervisor.provisioning import Provisions
from topology.runtime.supervisor.queries import WorkerQueries
from topology.runtime.telemetry.metrics import CheckpointFigures, Snapshot
from topology.runtime.telemetry.stall import held, together
from topology.runtime.worker.shutdown import CLOSE_S
from topology.storage.directory.decision import NAME as DECIDED
from topology.storage.directory.decision import DecisionFile
from topology.storage.directory.state_dir import StateDir

CLOSING_S: Final = CLOSE_S + 2.0  # how long workers may take to close, before they are killed
ABORTING_S: Final = 5.0  # the same, once the run was aborted

logger = logging.getLogger("kedge")


class SupervisedRun(RunLifecycle):
    """A run on several processes; see RunLifecycle. When `finish` returns or raises, no process, socket or file of the
    run is left.

    topology   This process' own copy, which is planned; each worker makes its own.
    workers    How many processes; only those that have tasks are started.
    loader     "module:function" that makes the topology in a worker from `arguments`, which msgpack can carry.
    links      "ipc", or "tcp://host" or "tcp://host:port": where workers listen for one another.
    report     Called with lines for people, about deaths and returns; they are logged by default.
    output     Called with the lines that workers write; without it their stdout and stderr are ours.
    takeover   How it takes over the state directory.
    """

    def __init__(
        self,
        topology: Graph,
        *,
        workers: int,
        loader: str,
        arguments: Mapping[str, Any],
        state_dir: str | Path | None = None,
        takeover: Takeover = RESUME,
        links: str = "ipc",
        random: Random | None = None,
        report: Callable[[str], None] = logger.warning,
        output: Output | None = None,
        log_level: int = logging.INFO,
    ) -> None:
        super().__init__(
            topology, workers=workers, state_dir=state_dir, takeover=takeover, random=random, report=report
        )
        self._asked_for = workers
        self._loader, self._arguments = loader, dict(arguments)
        self._links = links
        self._output = output
        self._log_level = log_level
        self._metrics = WorkerMetrics(self._plan)
        self._fleet: Fleet | None = None
        self._started_at = 0.0  # when the workers were started, on the loop's clock
        self._looking: Looking | None = None
        self._snapshot: Snapshot | None = None  # the last one of all

    def snapshot(self) -> Snapshot | None:
        """The counters of all workers, added up once a second, and then a second old at most; None before any has said
        something. `limit` is that of this moment."""
        looking = self._looking
        if self._snapshot is not None and looking is not None:
            return replace(self._snapshot, limit=looking.limit())
        last = looking.snapshot if looking is not None else None
        if last is None or looking is None:
            return None
        return replace(last, limit=looking.limit(), checkpoint=self._checkpoint_figures())

    def _checkpoint_figures(self) -> CheckpointFigures | None:
        """The checkpoints of this run, if it keeps something."""
        now = asyncio.get_running_loop().time()
        return self._checkpoints.facts.figures(now) if self._state_dir is not None else None

    def by_worker(self) -> dict[int, Snapshot]:
        """The counters of each worker, with those of its processes that have died; a second old at most. `seconds` of
        each are those of the run when they were read, so that two looks give a rate."""
        return self._metrics.by_worker()

    def processes(self) -> dict[int, int]:
        """worker → the id of its process, of those that run."""
        handles = self._fleet.handles if self._fleet is not None else {}
        return {worker: one.pid for worker, one in handles.items() if not one.reaped.is_set()}

    def away(self) -> frozenset[int]:
        """Workers that are being replaced."""
        return self._fleet.away if self._fleet is not None else frozenset()

    def deaths(self) -> Mapping[int, int]:
        """Return how often each worker has died, of those that have."""
        return self._metrics.deaths

    @property
    def restarts(self) -> int:
        """The number of workers have died so far."""
        return self._fleet.restarts.total if self._fleet is not None else 0

    @property
    def pauses(self) -> int:
        """The number of times that this process was found to have stood still itself (F4)."""
        return self._fleet.vigil.pauses if self._fleet is not None else 0

    def in_flight(self) -> str:
        """Return the places of all that was not done, a second ago at most, in a sentence."""
        ailing = self._fleet.ailing() if self._fleet is not None else []
        return "; ".join([held(together([self._metrics.facts(worker) for worker in self._plan.workers])), *ailing])

    @property
    def _serving(self) -> bool:
        return self._fleet is not None and self._fleet.started and not self._fleet.closing

    # -- the run

    async def _finish(self) -> Report:
        with contextlib.ExitStack() as closing:
            state: StateDir | None = None
            beginning = Beginning(self.topology.name, {}, ())
            if self._state_dir is not None:
                state, beginning = self._begin_on(self._state_dir, closing)
            self._folder = folder = ComponentFolder(state.kept if state is not None else None)
            closing.callback(folder.close)
            self._noting = Noting(state, beginning.stores)
            self._decisions = self._decisions_in(state, beginning, closing)
            RunDir.sweep()
            self._directory = directory = RunDir()
            closing.callback(directory.close)
            self._provisions = Provisions(
                workers=self._asked_for,
                numbers=self._plan.workers,
                loader=self._loader,
                arguments=self._arguments,
                links=self._links,
                directory=directory.path,
                state=state,
                random=self._random,
                log_level=self._log_level,
                topology_id=beginning.topology_id,
                stores=beginning.stores,
                folder=folder.place,
            )
            if (used := len(self._plan.workers)) < self._asked_for:
                have = "workers has" if used == 1 else "workers have"
                why = "no others are started; tasks=2, of a component, has it run on two"
                logger.info("%d of %d %s tasks: %s", used, self._asked_for, have, why)
            report = await self._supervise()
            message_handler = self._message_handler
            drained = report.drained and message_handler.kept and (beginning.clean or message_handler.caught_up)
            was_killed = not beginning.clean or report.restarts > 0
            clean = state is None or ended(state, drained=drained, was_killed=was_killed)
            return replace(report, clean=clean)

    def _decisions_in(self, state: StateDir | None, beginning: Beginning, closing: contextlib.ExitStack) -> Decisions:
        """Return where decisions are kept. A single worker's own store has them."""
        if state is None or len(self._plan.workers) == 1:
            return UnkeptDecisions(beginning.decided)
        file = DecisionFile(state.files, state.path / DECIDED)
        closing.callback(file.close)
        return KeptDecisions(file, beginning.decided)

    async def _supervise(self) -> Report:
        """Everything between two directories that are open: workers come, run, and go."""
        loop = asyncio.get_running_loop()
        self._started_at = loop.time()
        config, beside = self.topology.config, self.topology.companions
        self._checkpoints = checkpoints = RunCheckpoints(self._decisions, every_s=config.checkpoint_s)
        self._message_handler = message_handler = MessageHandler(
            self._plan, self._metrics, self._provisions, self._noting, checkpoints, self._seconds
        )
        self._fleet = fleet = Fleet(
            self._plan,
            began=self._begun,
            environment={**os.environ, **self._provisions.environment},
            watcher=message_handler,
            report=self._report,
            output=self._output,
            before_death=checkpoints.died,
            frontier=lambda: checkpoints.frontier,
        )
        checkpoints.attach(fleet)
        self._all_workers = queries = WorkerQueries(self._plan, fleet)
        message_handler.attach(fleet, queries)
        self._companions = Companions(beside, self._folder, max_restarts=config.max_restarts, report=self._report)
        self._looking = Looking(fleet, queries, self._metrics, self._seconds, self._companions.starting)
        watching = [
            loop.create_task(self._look(), name="look"),
            loop.create_task(self._looking.forever()),
            loop.create_task(checkpoints.run(), name="checkpoints"),
            loop.create_task(self._keep_older(), name="keep older"),
            loop.create_task(self._guard_state(), name="guard state"),
        ]
        how, patience_s = "aborted", CLOSING_S
        try:
            self._companions.begin()
            fleet.begin()
            how = await self._ending(*watching)
            if how in ("stopped", "failed") and fleet.started and fleet.failed is None:
                errors = await self._drained(fleet.over.wait(), watching=watching)
                self._broke(errors)
                how = "failed" if errors else how  # nothing would notice a worker that hangs
            if self._abort.is_set():
                how = "aborted"
        except asyncio.CancelledError:
            patience_s = 0.0  # not by `finish`: the loop itself is about to end
            raise
        finally:
            await fleet.close(patience_s, self._abort, ABORTING_S, self._last_checkpoint)
            await self._companions.close(self._abort, min(STOP_S, patience_s))
            await cancelled(*watching)
        return self._reported(how, fleet, message_handler, self._looking)

    def _reported(self, how: str, fleet: Fleet, message_handler: MessageHandler, looking: Looking) -> Report:
        """Return the report of a run that is over. Raises the error of one that never began."""
        checkpoint = self._checkpoint_figures()
        self._snapshot = replace(self._metrics.whole(), seconds=self._seconds(), checkpoint=checkpoint)
        if fleet.failed is not None:
            if not fleet.started:
                raise fleet.failed
            how = "aborted" if how == "aborted" else "failed"
        unknown = message_handler.unknown if how != "aborted" else None
        if unknown is not None:
            how = "failed"
        error = message_handler.broken or fleet.failed or self._companions.failed or unknown
        how = "failed" if error is not None and how != "aborted" else how
        aborted = message_handler.aborted + self._metrics.lost
        snapshot = replace(self._snapshot, limit=looking.limit())
        letters = self._metrics.new_letters
        counts = message_handler.summaries, self.restarts
        keeps = self._state_dir is not None
        return Report(snapshot, how, aborted, error, *counts, new_letters=letters, keeps_letters=keeps)

    async def _copies(self, folder: Path) -> Mapping[int, int]:
        return await self._checkpoints.copies(folder)

    @property
    def _decided(self) -> int:
        return self._checkpoints.decided

    def _ends(self) -> Iterable[tuple[Awaitable[Any], str]]:
        assert self._fleet is not None
        yield self._abort.wait(), "aborted"
        yield self._fleet.over.wait(), "failed"
        yield self._companions.over.wait(), "failed"
        yield self._message_handler.broke.wait(), "failed"
        yield settle(self._all_workers), "ended"
        yield self._drain.wait(), "stopped"

    async def _last_checkpoint(self) -> bool:
        """Take a checkpoint of all that is done, after all workers have stopped. Return True if it is decided."""
        try:
            return await self._checkpoints.last()
        except Exception as error:
            self._broke([error])
            return False

    def _begun(self, worker: int) -> Begin:
        """Return the `Begin` of a process that takes part in the run as it is now."""
        generation = self._fleet.generation if self._fleet is not None else 1
        logged = self.topology.config.durability != "checkpoint"
        decided = self._checkpoints.decided
        return self._provisions.begin(worker, generation=generation, decided=decided, logged=logged)

    def _broke(self, errors: Sequence[BaseException]) -> None:
        for error in errors:
            if error is self._message_handler.broken:
                continue  # a task that watches is looked at again when the run has drained
            if isinstance(error, WorkerError):
                logger.error("%s (%s)", error, error.code)
            else:
                logger.error("the supervisor could not go on (%s)", RUNTIME_FAILED, exc_info=error)
            self._message_handler.broken = self._message_handler.broken or error

    # -- watching

    async def _look(self) -> None:
        assert self._fleet is not None
        while True:
            await asyncio.sleep(LOOK_S)
            self._fleet.look()
            self._directory.restore()
            self._noting.note(self._seconds())

    def _seconds(self) -> float:
        """For how long the run has gone on."""
        return asyncio.get_running_loop().time() - self._started_at
