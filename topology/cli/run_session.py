"""One run from the command line: signals, progress, the end of the run, and the summary.

All output for people goes to stderr, except the summary. With `--json` stdout has one line, the figures of the run.
Must not know workers or executors beyond their reports.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol

from topology.checks.declaration import require_valid, warnings
from topology.cli.next_steps import again, dead_list
from topology.cli.output import terminal
from topology.cli.output.progress import Display, display
from topology.cli.output.rates import Now, RateShape, busy
from topology.cli.output.summary import described, summary
from topology.config import Config
from topology.graph import Graph
from topology.runtime.asyncio_tools import asyncio_run, settle_heap
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.embedded.watchdog import watched
from topology.runtime.os_process.output import Output
from topology.runtime.run.command_socket import CommandSocket, Ended, ended
from topology.runtime.run.lifecycle import Takeover
from topology.runtime.run.report import Report
from topology.runtime.run.signals import handled_signals
from topology.runtime.run.startup import CARRY_ON, RESUMING, Terms
from topology.runtime.telemetry.bottleneck import Queues, limit_of
from topology.runtime.telemetry.metrics import Snapshot
from topology.runtime.thread_limit import OF_A_RUN, check_threads
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.savepoints import Savepoint
from topology.text import printable

logger = logging.getLogger("kedge")

LOADER: Final = "topology.loading.load:again"  # the function that makes the topology again, in a worker process
HINT: Final = "KEDGE_HINT"  # this variable turns hints on without a terminal
NEXT: Final = "KEDGE_NEXT"  # this variable holds a further command, which the summary ends with
LIMIT_AFTER_S: Final = 1.0  # seconds; a shorter run is mostly start and end, and shows no bottleneck
HINT_LOOK_S: Final = 0.1  # seconds between two checks whether a worker can be killed; the hint is printed at the start
BLOCKED_S: Final = 1.0  # seconds; a loop that has not handled a signal after this time is blocked

NOT_STARTED: Final = Ended("failed", 0, 0, 3, 0.0, False, "it could not start")  # the end of a run that has raised

Locked = contextlib.AbstractContextManager[None]  # entered while the state directory is locked
Recipe = Callable[[Config], dict[str, Any]]  # a configuration → arguments for LOADER


@dataclass(frozen=True)
class WorkerProcesses:
    """A run on `workers` processes, connected by `links`, which make the topology from the arguments of `recipe`."""

    workers: int
    links: str
    recipe: Recipe


@dataclass(frozen=True)
class Options:
    """The options of `kedge run`.

    `state_dir`: None keeps nothing on the disk. `for_s`: the run drains after this many seconds; None: when the sources
    end, or on a signal. `processes`: None for a run in this process alone. `try_next`: the command that the summary
    ends with, and its purpose; empty for the same command again.
    """

    state_dir: Path | None = None
    terms: Terms = CARRY_ON
    for_s: float | None = None
    as_json: bool = False
    log_level: int = logging.INFO
    processes: WorkerProcesses | None = None
    try_next: str = ""

    @property
    def workers(self) -> int:
        return self.processes.workers if self.processes is not None else 1


class Run(Protocol):
    """The interface of both kinds of run; see `EmbeddedRun`."""

    def drain(self, *, patient: bool = False) -> None: ...
    def abort(self) -> None: ...
    def in_flight(self) -> str: ...
    async def dead(self, ask: DeadAsk) -> DeadAnswer: ...
    async def save(self, name: str = "") -> Savepoint: ...
    def snapshot(self) -> Snapshot | None: ...
    def by_worker(self) -> Mapping[int, Snapshot]: ...
    def processes(self) -> Mapping[int, int]: ...
    def away(self) -> frozenset[int]: ...
    def deaths(self) -> Mapping[int, int]: ...

    patient: bool

    @property
    def draining(self) -> bool: ...
    @property
    def restarts(self) -> int: ...
    async def finish(self) -> Report: ...


class InOneProcess(EmbeddedRun):
    """A run in this process, which is its only worker."""

    restarts = 0

    def by_worker(self) -> Mapping[int, Snapshot]:
        snapshot = self.snapshot()
        return {0: snapshot} if snapshot is not None else {}

    def processes(self) -> Mapping[int, int]:
        return {}

    def away(self) -> frozenset[int]:
        return frozenset()

    def deaths(self) -> Mapping[int, int]:
        return {}


def run(topology: Graph, options: Options) -> int:
    """Run a topology; block until its end. Return the exit status. Raise DeclarationError, ConfigurationError or
    StartError if the run can't start, and OSError if the output of workers can't be written."""
    require_valid(topology)
    state_dir = options.state_dir
    many = f"; {options.workers} worker{'s' * (options.workers != 1)}" if options.processes is not None else ""
    kept = f"{printable(str(state_dir))}{' (fresh)' * options.terms.fresh}"
    where = kept if state_dir is not None else "memory, for this run only"
    terminal.say(f"{topology.name}: {described(topology)}{many}; state in {where}")
    for warning in warnings(topology):
        logger.warning("%s", warning)
    relay = Relay()
    # After this call, signals change nothing: the run is over.
    report, restarts, limit, shares = asyncio_run(_run(topology, state_dir, options, relay))
    times = restarts if options.processes is not None else None
    try_next = options.try_next or f"{again(sys.argv)}   # {_next(topology, state_dir)}"
    letters = dead_list(state_dir) if state_dir is not None else ""
    lines = [*summary(report, try_next, restarts=times, limit=limit, busy=shares, dead_list=letters)]
    if further := os.environ.get(NEXT):
        lines.append(f"     and: {printable(further)}")
    figures = {**report.snapshot.as_json(), "restarts": restarts}
    if terminal.VOICE.as_event is not None:
        status = report.exit_status
        terminal.say(lines[0], level="error" if status else "info", exit_status=status, **figures)
    elif options.as_json:
        terminal.say("\n".join(lines))
    terminal.put(json.dumps(figures) if options.as_json else "\n".join(lines))
    if relay.problem is not None:
        raise relay.problem
    return report.exit_status


def _made(
    topology: Graph,
    state_dir: Path | None,
    options: Options,
    relay: "Relay",
    while_locked: Callable[[Path], Locked],
    taking_over: "TakingOver",
) -> Run:
    processes = options.processes
    takeover = Takeover(options.terms, report=taking_over, while_locked=while_locked)
    if processes is None:
        check_threads(OF_A_RUN)
        return InOneProcess(topology, state_dir=state_dir, takeover=takeover)
    from topology.runtime.supervisor.supervisor import SupervisedRun

    return SupervisedRun(
        topology,
        workers=processes.workers,
        loader=LOADER,
        arguments=processes.recipe(topology.config),
        state_dir=state_dir,
        takeover=takeover,
        links=processes.links,
        output=_relayed(relay),
        log_level=options.log_level,
    )


class TakingOver:
    """Prints the lines on what the run takes over. `resumes`: True if sources resume where an earlier run stopped."""

    def __init__(self) -> None:
        self.resumes = False

    def __call__(self, line: str) -> None:
        self.resumes = self.resumes or line.startswith(RESUMING)
        terminal.say(printable(line))


def _relayed(relay: "Relay") -> Output | None:
    """Return the output for workers if their writes would break the live view, or lines of the JSON log. Otherwise
    return None, and workers write directly."""
    if terminal.live(sys.stderr):
        return Output(relay.line)
    watched = sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()
    return None if watched and terminal.VOICE.as_event is None else Output(relay.line, ("stderr",))


class Relay:
    """Writes the output of workers. `problem`: the error if stdout can no longer be written; calls `failed` then."""

    def __init__(self) -> None:
        self.problem: OSError | None = None
        self.failed: Callable[[], None] = lambda: None

    def line(self, worker: int, stream: str, text: str) -> None:
        if stream == "stderr":
            terminal.write(text)
        elif self.problem is None:
            try:
                terminal.put(text)
            except OSError as error:
                self.problem = error
                self.failed()


def _next(topology: Graph, state_dir: Path | None) -> str:
    """Return what a second run does, and its guarantee if sinks drop replays, as all of Kedge's sinks do."""
    sinks = [sink for sink in topology.components if getattr(sink.prototype, "drops_replays", False)]
    is_kept = state_dir is not None and state_dir.is_dir()  # it may have been removed
    goes_on = "resumes from here" if is_kept else "reads everything again"
    return goes_on + ": stored records are not stored twice" * bool(sinks)


async def _run(
    topology: Graph, state_dir: Path | None, options: Options, relay: "Relay"
) -> tuple[Report, int, str, dict[str, float]]:
    """Return the report of the run, the number of restarted workers, the bottleneck, and the load of each bolt."""
    settle_heap()
    taking_over = TakingOver()
    run = _made(topology, state_dir, options, relay, lambda directory: commands.listening(directory), taking_over)
    commands = CommandSocket(run, report=terminal.say)
    relay.failed = run.drain
    shape = RateShape.of(topology, options.workers)
    queues = Queues(shape.tasks)
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None
    if options.for_s is not None:
        timer = loop.call_later(options.for_s, _time_is_up, run, options.for_s)
    signals = Signals(run, alone=options.processes is None)
    early = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in early.items():
        signal.signal(number, partial(signals.outside, handler))
    with display(shape) as shown, handled_signals(run, signals.report), signals.last_resort(), signals.watched():
        showing = loop.create_task(_show(run, shown, shape, queues), name="progress")
        hinting = loop.create_task(_hint(run, options), name="hint")
        how = NOT_STARTED
        try:
            report = await run.finish()
            signals.over = True
            how = ended(report)
        finally:
            await commands.over(how)
            showing.cancel()
            hinting.cancel()
            await asyncio.gather(showing, hinting, return_exceptions=True)
            if timer is not None:
                timer.cancel()
    shown.last(report.snapshot)
    if taking_over.resumes and not report.snapshot.total("emitted") and report.ended == "ended":
        terminal.say("no new input since the last run")
    workers = run.by_worker()
    long_enough = report.snapshot.seconds >= LIMIT_AFTER_S
    limit = limit_of({}, workers, shape.tasks, queues.mean()) if long_enough else ""
    return report, run.restarts, limit, busy(workers, shape)


def _time_is_up(run: Run, seconds: float) -> None:
    terminal.say(f"{seconds:g} s have passed: draining")
    run.drain()


def _hints(options: Options) -> bool:
    """Return True if the hint to kill a worker is printed: on a live terminal, or on request, as by `make run`."""
    return not options.as_json and (terminal.live(sys.stderr) or bool(os.environ.get(HINT)))


async def _hint(run: Run, options: Options) -> None:
    """Print how to kill a worker, as soon as the run has something to lose. Ends then, or at once without hints."""
    if not _hints(options) or options.workers < 2:
        return
    while not run.draining:
        processes = run.processes()
        if len(processes) > 1 and any(snapshot.total("emitted") for snapshot in run.by_worker().values()):
            worker, pid = max(processes.items())
            terminal.say(f"try: kill -9 {pid}   (worker {worker}), and watch it come back")
            return
        await asyncio.sleep(HINT_LOOK_S)


async def _show(run: Run, shown: Display, shape: RateShape, queues: Queues) -> None:
    """Show the run until cancelled. An error while showing is logged once, and does not end the run."""
    well = True
    while True:
        try:
            snapshot = run.snapshot()
            if snapshot is None:
                shown.show(Now(shape.starting(), {}, draining=run.draining, patient=run.patient))
            else:
                now = Now(
                    snapshot, run.by_worker(), run.processes(), run.away(), run.deaths(), run.draining, run.patient
                )
                queues.look(now.workers)
                shown.show(now)
        except Exception:
            if well:
                logger.warning("the run continues, but can't be shown", exc_info=True)
            well = False
        await asyncio.sleep(shown.every_s)


class Signals:
    """Prints the effect of a signal, and ends a process whose loop can't handle one: a bolt never returns."""

    def __init__(self, run: Run, *, alone: bool = True) -> None:
        self._run = run
        self._alone = alone  # True if the whole run is in this process
        self._reported = 0
        self.over = False  # True if the run has ended, and its exit status is known

    def outside(self, handler: Any, number: int, frame: FrameType | None) -> None:
        """Handle a signal while the loop does not: call the usual handler before the run, do nothing after it."""
        if not self.over and callable(handler):
            handler(number, frame)

    def report(self, text: str) -> None:
        """Print the effect of a signal. Called on the loop, before the effect; the second one ends the run."""
        self._reported += 1
        terminal.say(text)
        if self._reported > 1:
            terminal.say(self._run.in_flight())

    def watched(self) -> contextlib.AbstractContextManager[None]:
        """Report code that blocks the loop, and handle signals for the loop, if user code runs in it."""
        return watched(terminal.say, _end_now) if self._alone else contextlib.nullcontext()

    @contextlib.contextmanager
    def last_resort(self) -> Iterator[None]:
        """Handle signals between two lines of any running code, as the interpreter does, in addition to the loop."""
        received: list[float] = []
        loop = asyncio.get_running_loop()

        def hard(number: int, frame: FrameType | None) -> None:
            now = loop.time()
            slow = (
                bool(received) and not self._reported and now - received[0] >= BLOCKED_S
            )  # in one process, the watchdog handles this
            received.append(now)
            if (slow and not self._alone) or len(received) > 2:
                _end_now(f"the event loop was busy {_place(frame)}" if self._alone else "its workers end by themselves")

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, hard)
        yield


def _place(frame: FrameType | None) -> str:
    return f"at {frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}" if frame is not None else ""


def _end_now(why: str) -> None:
    """End the process from within a signal handler: take no lock, flush nothing."""
    shown = "\x1b[?25h\n" if terminal.live(sys.__stderr__) else ""  # shows the cursor again, which the live view hides
    text = f"ended now; {why}"
    if terminal.VOICE.as_event is not None:
        text = terminal.VOICE.as_event("error", text, {})
    with contextlib.suppress(OSError):
        os.write(2, f"{shown}{text}\n".encode(errors="backslashreplace"))
    os._exit(1)
