"""Runs the installed command as a user does: in a process and a folder of its own. Topologies are real files."""

import io
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

import structlog

from topology.cli.main import status_of
from topology.cli.output.terminal import VOICE
from topology.codes.catalogue import CODES
from topology.runtime.telemetry.log_capture import KEDGE as KEDGE_LOGGER
from topology.runtime.telemetry.log_capture import WARNINGS
from topology.user_frames import HOME, PACKAGES

KEDGE = str(Path(sys.executable).parent / "kedge")
PATIENCE_S = 60.0  # for what takes a second on a quiet machine
Result = subprocess.CompletedProcess[str]

COUNTING = """
from collections.abc import Iterator
from topology import Bolt, Message, Record, Spout, Topology


class Number(Record):
    value: int


class Numbers(Spout):
    def __init__(self, count: int) -> None:
        self.left = list(range(count))

    async def poll(self, limit: int) -> list[Message[Number]]:
        taken, self.left = self.left[:limit], self.left[limit:]
        return [Message(Number(value), value) for value in taken]


class Odd(Bolt):
    def __init__(self, fail_at: int) -> None:
        self.fail_at = fail_at

    def process(self, number: Number) -> Iterator[Number]:
        if number.value == self.fail_at:
            raise ValueError(f"no {number.value}, [red]please[/red] \\x1b]0;pwn\\x07")
        if number.value % 2:
            yield number


class Forget(Bolt):
    def process(self, number: Number) -> None:
        return None

    def summary(self) -> list[str]:
        return ["nothing is kept \\x1b[31m[bold]", "by design"]


def topology(count: int = 1000, fail_at: int = -1) -> Topology:
    topology = Topology("counting")
    numbers = topology.spout("numbers", Numbers(count))
    odd = topology.bolt("odd", Odd(fail_at), numbers.shuffle())
    topology.bolt("forget", Forget(), odd.shuffle())
    return topology
"""

ENDLESS = '''
import asyncio
import time
from spouts import Tick, Ticker
from topology import Bolt, Topology


class Hold(Bolt):
    """Takes `seconds` for each tick; `block` holds up the whole loop."""

    def __init__(self, seconds: float, block: bool) -> None:
        self.seconds, self.block = seconds, block

    async def process(self, tick: Tick) -> None:
        if self.block:
            time.sleep(self.seconds)
        await asyncio.sleep(self.seconds)


def topology(every_s: float = 0.01, seconds: float = 0.0, block: bool = False) -> Topology:
    topology = Topology("endless")
    ticks = topology.spout("ticks", Ticker(every_s))
    topology.bolt("hold", Hold(seconds, block), ticks.shuffle())
    return topology
'''


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, without what would change the command's behaviour, and with `kedge` found by its name, as it is for who has
    activated the environment."""
    removed = {"NO_COLOR", "FORCE_COLOR", "PYTHONPATH", "TERM", "COLUMNS", "LINES", "MAKEFLAGS", "MAKELEVEL", "LOG"}
    kept = {key: value for key, value in os.environ.items() if key not in removed and not key.startswith("KEDGE_")}
    found = os.pathsep.join([str(Path(KEDGE).parent), kept.get("PATH", os.defpath)])
    return kept | {"PATH": found} | dict(changes or {})


def kedge(
    *arguments: object, cwd: Path, command: tuple[str, ...] = (KEDGE,), env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs the command to its end, with no terminal. `env`: variables that it has besides."""
    return subprocess.run(
        [*command, *map(str, arguments)],
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def kedge_here(*arguments: object, cwd: Path, env: Mapping[str, str] | None = None) -> Result:
    """As `kedge`, in this process, which is ten times as fast: for commands that run no topology. What they import of
    the folder is forgotten, as another test has files of the same names."""
    before, handled = dict(os.environ), {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    out, err = io.StringIO(), io.StringIO()
    os.environ.clear()
    os.environ.update(environment(env))
    try:
        with logging_as_before(), imports_as_before(cwd), chdir(cwd), redirect_stdout(out), redirect_stderr(err):
            status = copy_context().run(status_of, [*map(str, arguments)])
    finally:
        os.environ.clear()
        os.environ.update(before)
        for number, handler in handled.items():
            signal.signal(number, handler)
    return Result(arguments, status, out.getvalue(), err.getvalue())


@contextmanager
def logging_as_before() -> Iterator[None]:
    """Undoes what a command sets up for the log of its process, which it takes for its own: its handlers would print
    the entries of later tests, once for each command, and a test that looks at entries would get none."""
    of_kedge, warned, root = map(logging.getLogger, (KEDGE_LOGGER, WARNINGS, ""))
    loggers = [(one, [*one.handlers], one.level, one.propagate) for one in (of_kedge, warned, root)]
    kind, last, as_event, configured = of_kedge.__class__, logging.lastResort, VOICE.as_event, structlog.is_configured()
    try:
        yield
    finally:
        for one, handlers, level, propagate in loggers:
            one.handlers[:] = handlers
            one.setLevel(level)
            one.propagate = propagate
        for name in [KEDGE_LOGGER, *(one for one in logging.root.manager.loggerDict if one.startswith("kedge."))]:
            logging.getLogger(name).__class__ = kind
        logging.lastResort, VOICE.as_event = last, as_event
        logging.captureWarnings(False)
        if not configured:
            structlog.reset_defaults()


@contextmanager
def imports_as_before(folder: Path) -> Iterator[None]:
    path, modules = [*sys.path], {*sys.modules}
    try:
        yield
    finally:
        sys.path[:] = path
        for name in {*sys.modules} - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).resolve().is_relative_to(folder.resolve()):
                del sys.modules[name]


class Started:
    """A command that is running; what it has said so far is in `said()`."""

    def __init__(self, process: "subprocess.Popen[bytes]", stderr: Path) -> None:
        self.process = process
        self._stderr = stderr

    def said(self) -> str:
        return self._stderr.read_text(errors="replace")

    def until_said(self, text: str) -> None:
        """Waits until stderr has this text."""
        wait_for(lambda: text in self.said() or self.process.poll() is not None, f"{text!r} on stderr")
        assert text in self.said(), self.said()

    def ended(self) -> int:
        """Waits for the end; returns the exit status."""
        return self.process.wait(PATIENCE_S)


@contextmanager
def started(*arguments: object, cwd: Path) -> Iterator[Started]:
    """Starts the command in the background; ends it by force if the test has not."""
    stderr = cwd / "stderr.txt"
    with stderr.open("wb") as file, (cwd / "stdout.txt").open("wb") as out:
        process = subprocess.Popen(
            [KEDGE, *map(str, arguments)],
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=file,
        )
        try:
            yield Started(process, stderr)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Waits until the condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(0.02)


@dataclass(frozen=True)
class Told:
    """How an error was told: the user's traceback, the sentence, what to do next, its code. Empty where not said."""

    frames: str
    sentence: str
    next: str
    code: str


ADVICE = re.compile(r"  next: (.+)   \((K\d{3}): `kedge explain \2`\)")


def told(stderr: str) -> Told:
    """Takes apart what stderr ends in: frames of the user's, indented; one sentence; where; what next with a code that
    there is. Whatever else is there fails, and so does a frame of ours."""
    lines = [line for line in stderr.splitlines() if not line.startswith("kedge 0")]
    (at,) = (number for number, line in enumerate(lines) if line.startswith("kedge: "))
    begins = next((number for number, line in enumerate(lines) if line.startswith(("  Traceback", "    File"))), at)
    frames, behind = lines[begins:at], [line for line in lines[at + 1 :] if not line.startswith("  at: ")]
    assert all(line.startswith("  ") for line in (*frames, *behind)), stderr
    assert not any(f'File "{HOME / package}' in line for line in frames for package in PACKAGES), stderr
    advice = ADVICE.fullmatch(behind[-1]) if behind else None
    assert advice is None or advice[2] in CODES, stderr
    said = (advice[1], advice[2]) if advice is not None else ("", "")
    return Told("\n".join(frames), lines[at].removeprefix("kedge: "), *said)


def one_sentence(result: "subprocess.CompletedProcess[str]", *, ours: bool = True) -> str:
    """What an error has said: a sentence with a code and with what to do, and no traceback. Returns the sentence. A
    user's own error has no code (`ours=False`)."""
    found = told(result.stderr)
    assert found.frames == "", result.stderr
    assert bool(found.code) == ours, result.stderr
    return found.sentence
