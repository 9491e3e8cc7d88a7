"""One run from the command line: signals, progress, its end, and what is said about it.

Everything for people goes to stderr, but for the summary; with `--json` stdout has one line, the run in figures. What
the run does is the runtime's; this file must not know workers or executors beyond what they tell.
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
from topology.runtime.run.report import Report
from topology.runtime.run.signals import handled_signals
from topology.runtime.run.startup import CARRY_ON, RESUMING, Terms
from topology.runtime.tasks.bolt_threads import OF_A_RUN, check_threads
from topology.runtime.telemetry.bottleneck import Queues, limit_of
from topology.runtime.telemetry.metrics import Snapshot
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.text import printable

logger = logging.getLogger("kedge")

LOADER: Final = "topology.loading.load:again"  # what makes a topology anew, in a worker process
HINT: Final = "KEDGE_HINT"  # this variable asks for hints where nobody watches a terminal,
NEXT: Final = "KEDGE_NEXT"  # and this one is a further command that the summary ends with
LIMIT_AFTER_S: Final = 1.0  # of a shorter run, mostly start and end, nothing can be told
HINT_LOOK_S: Final = 0.1  # between two looks whether there is something to kill: it is told at the start
BLOCKED_S: Final = 1.0  # a loop that has not taken note of a signal after this long is blocked

NOT_STARTED: Final = Ended("failed", 0, 0, 3, 0.0, False, "it could not start")  # a run that has raised

Locked = contextlib.AbstractContextManager[None]  # entered while the state directory is
Recipe = Callable[[Config], dict[str, Any]]  # a configuration → arguments for LOADER


@dataclass(frozen=True)
class WorkerProcesses:
    """Runs on `workers` processes, joined by `links`, that make the topology by what `recipe` gives."""

    workers: int
    links: str
    recipe: Recipe


@dataclass(frozen=True)
class Options:
    """What `kedge run` was told. `state_dir`: None keeps nothing on the disk. `for_s`: drains after so many seconds;
    None: when the sources end, or a signal. `processes`: None for a run in this process alone. `try_next`: the command
    that the summary ends with, and why; the same again unless given."""

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
    """What both kinds of run can do; see `EmbeddedRun`."""

    def drain(self, *, patient: bool = False) -> None: ...
    def abort(self) -> None: ...
    def in_flight(self) -> str: ...
    async def dead(self, ask: DeadAsk) -> DeadAnswer: ...
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
    """Runs a topology; blocks until its end. Returns the exit status. Raises DeclarationError, ConfigurationError or
    StartError where it can't begin, and OSError where what workers have printed can't be written."""
    require_valid(topology)
    state_dir = options.state_dir
    many = f"; {options.workers} worker{'s' * (options.workers != 1)}" if options.processes is not None else ""
    kept = f"{printable(str(state_dir))}{' (fresh)' * options.terms.fresh}"
    where = kept if state_dir is not None else "memory, for this run only"
    terminal.say(f"{topology.name}: {described(topology)}{many}; state in {where}")
    for warning in warnings(topology):
        logger.warning("%s", warning)
    relay = Relay()
    # From the end of this on signals change nothing: the run is over.
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
    if processes is None:
        check_threads(OF_A_RUN)
        return InOneProcess(
            topology, state_dir=state_dir, terms=options.terms, while_locked=while_locked, begins=taking_over
        )
    from topology.runtime.supervisor.supervisor import SupervisedRun

    return SupervisedRun(
        topology,
        workers=processes.workers,
        loader=LOADER,
        arguments=processes.recipe(topology.config),
        state_dir=state_dir,
        terms=options.terms,
        links=processes.links,
        output=_relayed(relay),
        log_level=options.log_level,
        while_locked=while_locked,
        begins=taking_over,
    )


class TakingOver:
    """Says what the run takes over. `resumes`: whether sources go on where an earlier run was."""

    def __init__(self) -> None:
        self.resumes = False

    def __call__(self, line: str) -> None:
        self.resumes = self.resumes or line.startswith(RESUMING)
        terminal.say(printable(line))


def _relayed(relay: "Relay") -> Output | None:
    """What workers write goes through here where it would tear something: the live view, or a long line of JSON, which
    the log is wherever nobody watches."""
    if terminal.live(sys.stderr):
        return Output(relay.line)
    watched = sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()
    return None if watched and terminal.VOICE.as_event is None else Output(relay.line, ("stderr",))


class Relay:
    """Writes what workers have written. `problem`: why stdout can't be written any more; `failed` is called then."""

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
    """What a second run does; and what is promised of it, where sinks drop what they have seen, as all of ours do."""
    sinks = [one for one in topology.components if getattr(one.prototype, "drops_replays", False)]
    goes_on = "goes on from here" if state_dir is not None else "reads everything again"
    return goes_on + ": what is stored is not stored twice" * bool(sinks)


async def _run(
    topology: Graph, state_dir: Path | None, options: Options, relay: "Relay"
) -> tuple[Report, int, str, dict[str, float]]:
    """Returns how the run has ended, how many workers were restarted, who was the limit, and how busy each bolt was."""
    settle_heap()
    taking_over = TakingOver()
    one = _made(topology, state_dir, options, relay, lambda directory: commands.listening(directory), taking_over)
    commands = CommandSocket(one, told=terminal.say)
    relay.failed = one.drain
    shape = RateShape.of(topology, options.workers)
    queues = Queues(shape.tasks)
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None
    if options.for_s is not None:
        timer = loop.call_later(options.for_s, _time_is_up, one, options.for_s)
    signals = Signals(one, alone=options.processes is None)
    early = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in early.items():
        signal.signal(number, partial(signals.outside, handler))
    with display(shape) as shown, handled_signals(one, signals.told), signals.last_resort(), signals.watched():
        showing = loop.create_task(_show(one, shown, shape, queues), name="progress")
        hinting = loop.create_task(_hint(one, options), name="hint")
        how = NOT_STARTED
        try:
            report = await one.finish()
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
        terminal.say("nothing new since")
    workers = one.by_worker()
    told = report.snapshot.seconds >= LIMIT_AFTER_S
    limit = limit_of({}, workers, shape.tasks, queues.mean()) if told else ""
    return report, one.restarts, limit, busy(workers, shape)


def _time_is_up(run: Run, seconds: float) -> None:
    terminal.say(f"{seconds:g} s are over: draining")
    run.drain()


def _hints(options: Options) -> bool:
    """Whether to say how a worker can be killed: to who watches, or has asked for it (`make run` does)."""
    return not options.as_json and (terminal.live(sys.stderr) or bool(os.environ.get(HINT)))


async def _hint(run: Run, options: Options) -> None:
    """Says how a worker can be killed, as soon as the run has something to lose. Ends then, or where nobody asks."""
    if not _hints(options) or options.workers < 2:
        return
    while not run.draining:
        processes = run.processes()
        if len(processes) > 1 and any(one.total("emitted") for one in run.by_worker().values()):
            worker, pid = max(processes.items())
            terminal.say(f"try: kill -9 {pid}   (worker {worker}), and watch it come back")
            return
        await asyncio.sleep(HINT_LOOK_S)


async def _show(run: Run, shown: Display, shape: RateShape, queues: Queues) -> None:
    """Shows the run until cancelled. What goes wrong in that is told once, and ends nothing."""
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
                logger.warning("the run goes on, but can't be shown", exc_info=True)
            well = False
        await asyncio.sleep(shown.every_s)


class Signals:
    """Says what a signal does, and ends a process whose loop can't take note of one: a bolt that never returns."""

    def __init__(self, run: Run, *, alone: bool = True) -> None:
        self._run = run
        self._alone = alone  # whether all of the run is in this process
        self._told = 0
        self.over = False  # whether the run has ended, and its exit status is known

    def outside(self, handler: Any, number: int, frame: FrameType | None) -> None:
        """A signal while the loop does not take them: as ever before the run, and nothing once it is over."""
        if not self.over and callable(handler):
            handler(number, frame)

    def told(self, text: str) -> None:
        """Called on the loop at each signal, before it takes effect; the second one ends the run."""
        self._told += 1
        terminal.say(text)
        if self._told > 1:
            terminal.say(self._run.in_flight())

    def watched(self) -> contextlib.AbstractContextManager[None]:
        """Names what blocks the loop, and answers for it, where user code runs in it."""
        return watched(terminal.say, _end_now) if self._alone else contextlib.nullcontext()

    @contextlib.contextmanager
    def last_resort(self) -> Iterator[None]:
        """Takes signals as the interpreter does, between two lines of whatever runs, besides the loop's own way."""
        received: list[float] = []
        loop = asyncio.get_running_loop()

        def hard(number: int, frame: FrameType | None) -> None:
            now = loop.time()
            slow = bool(received) and not self._told and now - received[0] >= BLOCKED_S  # alone: the watchdog's matter
            received.append(now)
            if (slow and not self._alone) or len(received) > 2:
                _end_now(f"the event loop was busy {_place(frame)}" if self._alone else "its workers end by themselves")

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, hard)
        yield


def _place(frame: FrameType | None) -> str:
    return f"at {frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}" if frame is not None else ""


def _end_now(why: str) -> None:
    """Ends the process from within a signal handler: no lock is taken, nothing is flushed."""
    shown = "\x1b[?25h\n" if terminal.live(sys.__stderr__) else ""  # the cursor, which the live progress hides
    text = f"ended now; {why}"
    if terminal.VOICE.as_event is not None:
        text = terminal.VOICE.as_event("error", text, {})
    with contextlib.suppress(OSError):
        os.write(2, f"{shown}{text}\n".encode(errors="backslashreplace"))
    os._exit(1)
