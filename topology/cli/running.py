"""One run from the command line: signals, progress, its end, and what is said about it.

Everything for people goes to stderr, but for the summary; with `--json` stdout has one line, the run in figures. What
the run does is the runtime's; this file must not know workers or executors beyond what they tell.
"""

import asyncio
import contextlib
import json
import logging
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

from topology.cli import logs, terminal
from topology.cli.progress import Display, display
from topology.cli.summary import described, summary
from topology.graph import Topology
from topology.runtime.embedded import EmbeddedRun, handled_signals
from topology.runtime.hosting import run_to_end, settle_heap
from topology.runtime.report import Report
from topology.validate import warnings

logger = logging.getLogger("kedge")

BLOCKED_S: Final = 1.0  # a loop that has not taken note of a signal after this long is blocked


@dataclass(frozen=True)
class Options:
    """What `kedge run` was told. `for_s`: drains after so many seconds; None: when the sources end, or a signal."""

    state_dir: Path | None = None
    fresh: bool = False
    for_s: float | None = None
    as_json: bool = False
    debug: bool = False


def run(topology: Topology, options: Options) -> int:
    """Runs a topology; blocks until its end. Returns the exit status. Raises DeclarationError, ConfigurationError or
    StartError where it can't begin."""
    topology.validate()
    state_dir = options.state_dir or Path(".kedge") / topology.name
    terminal.say(f"{topology.name}: {described(topology)}; state in {state_dir}{' (fresh)' * options.fresh}")
    logs.configure(debug=options.debug)
    for warning in warnings(topology):
        logger.warning("%s", warning)
    report = run_to_end(_run(topology, state_dir, options))  # from here on signals change nothing: the run is over
    say = terminal.say if options.as_json else terminal.put
    say("\n".join(summary(report, again(sys.argv))))
    if options.as_json:
        terminal.put(json.dumps(report.snapshot.as_json()))
    return report.exit_status


def again(argv: list[str]) -> str:
    """The command line once more, as it can be typed."""
    command = argv[0]
    if Path(command).name == "kedge.py":
        command = "python -m kedge"
    elif shutil.which("kedge") == command:
        command = "kedge"
    elif (path := Path(command)).is_absolute() and path.is_relative_to(Path.cwd()):
        command = str(path.relative_to(Path.cwd()))
    words = [word for word in argv[1:] if word != "--fresh"]
    return f"{command} {shlex.join(words)}"


async def _run(topology: Topology, state_dir: Path, options: Options) -> Report:
    settle_heap()
    one = EmbeddedRun(topology, state_dir=state_dir, fresh=options.fresh)
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None
    if options.for_s is not None:
        timer = loop.call_later(options.for_s, _time_is_up, one, options.for_s)
    signals = Signals(one)
    early = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in early.items():
        signal.signal(number, partial(signals.outside, handler))
    with display() as shown, handled_signals(one, signals.told), signals.last_resort():
        showing = loop.create_task(_show(one, shown), name="progress")
        try:
            report = await one.finish()
            signals.over = True
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
            if timer is not None:
                timer.cancel()
    shown.last(report.snapshot)
    return report


def _time_is_up(run: EmbeddedRun, seconds: float) -> None:
    terminal.say(f"{seconds:g} s are over: draining")
    run.drain()


async def _show(run: EmbeddedRun, shown: Display) -> None:
    while True:
        snapshot = run.snapshot()
        if snapshot is not None:
            shown.show(snapshot)
        await asyncio.sleep(shown.every_s)


class Signals:
    """Says what a signal does, and ends a process whose loop can't take note of one: a bolt that never returns."""

    def __init__(self, run: EmbeddedRun) -> None:
        self._run = run
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

    @contextlib.contextmanager
    def last_resort(self) -> Iterator[None]:
        """Takes signals as the interpreter does, between two lines of whatever runs, besides the loop's own way."""
        received: list[float] = []
        loop = asyncio.get_running_loop()

        def hard(number: int, frame: FrameType | None) -> None:
            now = loop.time()
            blocked = bool(received) and not self._told and now - received[0] >= BLOCKED_S
            received.append(now)
            if blocked or len(received) > 2:
                _end_now(frame)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, hard)
        yield


def _end_now(frame: FrameType | None) -> None:
    """Ends the process from within a signal handler: no lock is taken, nothing is flushed."""
    where = f"at {frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}" if frame is not None else ""
    shown = "\x1b[?25h\n" if terminal.live(sys.__stderr__) else ""  # the cursor, which the live progress hides
    with contextlib.suppress(OSError):
        os.write(2, f"{shown}ended now; the event loop was busy {where}\n".encode(errors="backslashreplace"))
    os._exit(1)
