"""A run on several processes, as a whole: state directory, run directory, workers, the end, the report.

The same surface as `EmbeddedRun`: whoever starts runs need not know which one it is. What is done about a death is the
fleet's, and `hearing` takes what workers say; here is what all of them share. Must not know terminals or commands.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from topology.checks.declaration import require_valid
from topology.codes.runtime import RUNTIME_FAILED
from topology.graph import Graph
from topology.plan import plan
from topology.runtime.asyncio_tools import finished
from topology.runtime.commits.manifest_updates import Noting
from topology.runtime.companions.companions import STOP_S, Companions
from topology.runtime.control.completion import drain, settle, within
from topology.runtime.control.dead_letters import answer_of_all, not_running
from topology.runtime.os_process.output import Output
from topology.runtime.os_process.restarts import LOOK_S
from topology.runtime.run.component_files import ComponentFolder
from topology.runtime.run.report import Report
from topology.runtime.run.run_dir import RunDir
from topology.runtime.run.startup import CARRY_ON, Beginning, Terms, ended, opened
from topology.runtime.supervisor.fleet import Fleet
from topology.runtime.supervisor.messages import MessageHandler
from topology.runtime.supervisor.metrics import WorkerMetrics
from topology.runtime.supervisor.monitor import Looking
from topology.runtime.supervisor.provisioning import Provisions
from topology.runtime.supervisor.queries import WorkerQueries
from topology.runtime.telemetry.metrics import Snapshot
from topology.runtime.telemetry.stall import held, together
from topology.runtime.worker.shutdown import CLOSE_S
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.state_dir import StateDir

CLOSING_S: Final = CLOSE_S + 2.0  # how long workers may take to close, before they are killed,
ABORTING_S: Final = 5.0  # and once the run was told to end at once

logger = logging.getLogger("kedge")


class SupervisedRun:
    """One run. Make it and `await finish()`; meanwhile `drain()`, `abort()`, and what it tells may be called.

    topology   This process' own copy, which is planned; each worker makes its own.
    workers    How many processes; only those that have tasks are started.
    loader     "module:function" that makes the topology anew in a worker, and `arguments` for it: what msgpack carries.
    links      "ipc", or "tcp://host" or "tcp://host:port": where workers listen for one another.
    told       Is given lines for people, about deaths and returns; without it they are logged.
    output     Where given, is told the lines that workers write; else their stdout and stderr are ours.
    terms      On what terms it takes over what earlier runs have left in the state directory.
    begins     Is given what people should know of that, before anything runs; without it that is logged.
    while_locked  Is entered with the state directory once that is ours, and left before it is given back.

    Raises DeclarationError when made; `finish` raises ConfigurationError or StartError where the run can't begin, and
    nothing for what goes wrong later: that is in its Report. Cancelled, `finish` drains, cancelled again it aborts;
    when it returns or raises, no process, socket or file of the run is left.
    """

    def __init__(
        self,
        topology: Graph,
        *,
        workers: int,
        loader: str,
        arguments: Mapping[str, Any],
        state_dir: str | Path | None = None,
        terms: Terms = CARRY_ON,
        links: str = "ipc",
        random: Random | None = None,
        told: Callable[[str], None] = logger.warning,
        output: Output | None = None,
        log_level: int = logging.INFO,
        while_locked: Callable[[Path], contextlib.AbstractContextManager[None]] | None = None,
        begins: Callable[[str], None] = logger.info,
    ) -> None:
        require_valid(topology)
        self.topology = topology
        self._plan = plan(topology, workers)
        self._asked_for = workers
        self._loader = loader
        self._arguments = dict(arguments)
        self._state_dir = Path(state_dir) if state_dir is not None else None
        self._terms = terms
        self._links = links
        self._random = random or Random(secrets.randbits(64))
        self._told = told
        self._output = output
        self._log_level = log_level
        self._while_locked = while_locked
        self._begins = begins
        self._figures = WorkerMetrics(self._plan)
        self._drain = asyncio.Event()
        self.patient = False  # whether draining may take however long it does
        self._abort = asyncio.Event()
        self._fleet: Fleet | None = None
        self._begun = 0.0  # when the workers were started, on the loop's clock
        self._looking: Looking | None = None
        self._snapshot: Snapshot | None = None  # the last one of all

    # -- what its caller may do and ask

    def drain(self, *, patient: bool = False) -> None:
        """Stops the sources; `finish` returns once what is under way is done, or drain_timeout_s have passed, unless
        `patient` was said by then."""
        self.patient |= patient
        self._drain.set()

    def abort(self) -> None:
        """Ends the run now; what is under way is left unfinished."""
        self._abort.set()

    def snapshot(self) -> Snapshot | None:
        """The counters of all workers, added up once a second, and then a second old at most; None before any has said
        something. `limit` is that of this moment."""
        looking = self._looking
        last = self._snapshot or (looking.snapshot if looking is not None else None)
        return replace(last, limit=looking.limit()) if last is not None and looking is not None else None

    def by_worker(self) -> dict[int, Snapshot]:
        """The counters of each worker, with those of its processes that have died; a second old at most. `seconds` of
        each are those of the run when they were read, so that two looks give a rate."""
        return self._figures.by_worker()

    def processes(self) -> dict[int, int]:
        """worker → the id of its process, of those that run."""
        handles = self._fleet.handles if self._fleet is not None else {}
        return {worker: one.pid for worker, one in handles.items() if not one.reaped.is_set()}

    def away(self) -> frozenset[int]:
        """Workers that are being replaced."""
        return self._fleet.away if self._fleet is not None else frozenset()

    def deaths(self) -> Mapping[int, int]:
        """How often each worker has died, of those that have."""
        return self._figures.deaths

    @property
    def draining(self) -> bool:
        """Whether it was told to."""
        return self._drain.is_set()

    @property
    def restarts(self) -> int:
        """How many workers have died so far."""
        return self._fleet.restarts.total if self._fleet is not None else 0

    @property
    def pauses(self) -> int:
        """How often this process was found to have stood still itself (F4)."""
        return self._fleet.vigil.pauses if self._fleet is not None else 0

    def in_flight(self) -> str:
        """Where everything was that was not done, a second ago at most, in a sentence."""
        ailing = self._fleet.ailing() if self._fleet is not None else []
        return "; ".join([held(together([self._figures.facts(one) for one in self._plan.workers])), *ailing])

    async def dead(self, ask: DeadAsk) -> DeadAnswer:
        """Answers a question about the dead letters of all workers, once what it asks for is durable. Waits a while for
        workers that are away; what could not be done is in its problem."""
        if self._fleet is None or not self._fleet.started or self._fleet.closing:
            return not_running(ask)
        return await answer_of_all(ask, self._crew.dead)

    async def finish(self) -> Report:
        """Starts, runs, and ends everything. Returns how it ended."""
        return await finished(self._finish(), self.drain, self.abort)

    # -- the run

    async def _finish(self) -> Report:
        with contextlib.ExitStack() as closing:
            state: StateDir | None = None
            beginning = Beginning(self.topology.name, {}, ())
            if self._state_dir is not None:
                state, beginning = closing.enter_context(opened(self._state_dir, self._plan, self._terms))
                if self._while_locked is not None:
                    closing.enter_context(self._while_locked(self._state_dir))
                for line in beginning.told:
                    self._begins(line)
            self._folder = folder = ComponentFolder(state.kept if state is not None else None)
            closing.callback(folder.close)
            self._noting = Noting(state, beginning.stores)
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
            heard = self._hearing
            drained = report.drained and heard.kept and (beginning.clean or heard.caught_up)
            return replace(report, clean=state is None or ended(state, drained=drained))

    async def _supervise(self) -> Report:
        """Everything between two directories that are open: workers come, run, and go."""
        loop = asyncio.get_running_loop()
        self._begun = loop.time()
        self._hearing = heard = MessageHandler(self._plan, self._figures, self._provisions, self._noting, self._seconds)
        self._fleet = fleet = Fleet(
            self._plan,
            began=self._provisions.begin,
            environment={**os.environ, **self._provisions.environment},
            watcher=heard,
            told=self._told,
            output=self._output,
        )
        self._crew = WorkerQueries(self._plan, fleet)
        heard.attach(fleet, self._crew)
        config, beside = self.topology.config, self.topology.companions
        self._companions = Companions(beside, self._folder, max_restarts=config.max_restarts, told=self._told)
        self._looking = Looking(fleet, self._crew, self._figures, self._seconds, self._companions.starting)
        watching = [loop.create_task(self._look(), name="look"), loop.create_task(self._looking.forever())]
        how, patience_s = "aborted", CLOSING_S
        try:
            self._companions.begin()
            fleet.begin()
            how = await self._ending(watching)
            if how in ("stopped", "failed") and fleet.started and fleet.failed is None:
                how = await self._drained(how, watching)
            if self._abort.is_set():
                how = "aborted"
        except asyncio.CancelledError:
            patience_s = 0.0  # not by `finish`: the loop itself is about to end
            raise
        finally:
            await fleet.close(patience_s, self._abort, ABORTING_S)
            await self._companions.close(self._abort, min(STOP_S, patience_s))
            await _cancelled(*watching)
        self._snapshot = replace(self._figures.whole(), seconds=self._seconds())
        if fleet.failed is not None:
            if not fleet.started:
                raise fleet.failed
            how = "aborted" if how == "aborted" else "failed"
        unknown = heard.unknown if how != "aborted" else None
        if unknown is not None:
            how = "failed"
        error = heard.broken or fleet.failed or self._companions.failed or unknown
        how = "failed" if error is not None and how != "aborted" else how
        aborted = heard.aborted + self._figures.lost
        snapshot = replace(self._snapshot, limit=self._looking.limit())
        letters = self._figures.new_letters
        told = heard.summaries, self.restarts
        keeps = self._state_dir is not None
        return Report(snapshot, how, aborted, error, *told, new_letters=letters, keeps_letters=keeps)

    async def _ending(self, watching: list[asyncio.Task[None]]) -> str:
        """Waits until something ends the run; returns what."""
        assert self._fleet is not None
        ends: dict[asyncio.Future[Any], str] = {
            asyncio.ensure_future(self._abort.wait()): "aborted",
            asyncio.ensure_future(self._fleet.over.wait()): "failed",
            asyncio.ensure_future(self._companions.over.wait()): "failed",
            asyncio.ensure_future(self._hearing.broke.wait()): "failed",
            asyncio.ensure_future(settle(self._crew)): "ended",
            asyncio.ensure_future(self._drain.wait()): "stopped",
        }
        try:
            await asyncio.wait({*ends, *watching}, return_when=asyncio.FIRST_COMPLETED)
            how = next((name for future, name in ends.items() if future.done()), "failed")
            if self._raised(*ends, *watching):
                how = "failed"
        finally:
            await _cancelled(*ends)
        return how

    def _raised(self, *futures: asyncio.Future[Any]) -> bool:
        """Whether one of these has raised, which is logged: the run can't go on then."""
        errors = [error for one in futures if one.done() and (error := one.exception()) is not None]
        for error in errors:
            logger.error("the supervisor could not go on (%s)", RUNTIME_FAILED, exc_info=error)
            self._hearing.broken = self._hearing.broken or error
        return bool(errors)

    async def _drained(self, how: str, watching: list[asyncio.Task[None]]) -> str:
        """Drains for at most drain_timeout_s, unless it may take longer, or until the run is aborted or can't go on, as
        nobody would notice a worker that hangs. Returns how the run has ended after all."""
        assert self._fleet is not None
        draining = asyncio.ensure_future(drain(self._crew))
        others = [asyncio.ensure_future(one.wait()) for one in (self._abort, self._fleet.over)]
        timeout = self.topology.config.drain_timeout_s
        try:
            await within({draining, *others, *watching}, timeout, lambda: self.patient)
            return "failed" if self._raised(draining, *watching) else how
        finally:
            await _cancelled(draining, *others)

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
        return asyncio.get_running_loop().time() - self._begun


async def _cancelled(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
