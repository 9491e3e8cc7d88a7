"""The processes of a comparison: their environment, and the guarantee that none is left, even if its parent has
died."""

import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import psutil  # type: ignore[import-untyped]  # it has no stubs

from topology.user_frames import HOME

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Within `taken`, notes a SIGINT, SIGTERM or SIGHUP as `received`.

    The first signal raises KeyboardInterrupt, once: at once within `raising`, else when the next `raising` begins, or
    at the next `check`. Outside the main thread, where no signals come, it changes nothing.
    """

    def __init__(self) -> None:
        self.received = False
        self._raised = False
        self._raising = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the signals, and restore their handlers at the end. May be nested."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {number: signal.signal(number, self._signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Mark code that may be ended at any point. Code that catches the exception does so around this block."""
        self._raising = True
        try:
            self.check()
            yield
        finally:
            self._raising = False

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal came that has raised nothing yet."""
        if self.received and not self._raised:
            self._raised = True
            raise KeyboardInterrupt

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        if self._raising:
            self.check()


MARK: Final = "COMPARED_BY_KEDGE"  # a variable of all processes of one comparison, which identifies the comparison
GONE_S: Final = 15.0  # seconds for killed processes to be gone
LOOK_S: Final = 0.02
RUN_OPTIONS: Final = (  # options of `kedge run`: set by the user as variables they would change every mode
    *("SET", "CONFIG", "WORKERS", "FOR", "STATE_DIR", "FRESH", "RUN_ID", "ACCEPT_DUPLICATES", "ACCEPT_LOSS", "LINKS"),
    *(
        "NO_STATE",
        "CHECK_TYPES",
        "ENGINE",
        "JSON",
        "LOG_FORMAT",
        "LOG_LEVEL",
        "DEBUG",
        "SPARK",
        "SPARK_CONF",
        "TRIGGER",
    ),
)
OPTION_VARIABLES: Final = frozenset(f"KEDGE_{name}" for name in RUN_OPTIONS)


def new_mark() -> str:
    """Return a mark that no other comparison has."""
    return secrets.token_hex(8)


def environment(mark: str, beside: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without the options of `kedge run`. It includes the path of our packages."""
    kept = {name: value for name, value in os.environ.items() if name not in OPTION_VARIABLES}
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH", ""), str(HOME))))
    return {**kept, "PYTHONPATH": path, MARK: mark, **(beside or {})}


def started(command: Sequence[str], environment: Mapping[str, str], said: Path) -> "subprocess.Popen[bytes]":
    """Start a process in its own session, so that a Ctrl-C does not reach it.

    Its output goes to `said` with .out and .err; a second start appends. Raises OSError.
    """
    with open(said.with_suffix(".out"), "ab") as out, open(said.with_suffix(".err"), "ab") as err:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )


def marked(mark: str) -> list[psutil.Process]:
    """Return all living processes of a comparison, except this one."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _mark_of(process) == mark]


def end_all(mark: str) -> None:
    """Kill them until none is left; for at most GONE_S, as a process that waits for the disk cannot be killed."""
    ends = time.monotonic() + GONE_S
    while (left := marked(mark)) and time.monotonic() < ends:
        for process in left:
            try:
                process.kill()
            except psutil.Error:
                continue
        time.sleep(LOOK_S)


def children(pid: int) -> Iterator[psutil.Process]:
    """Yield all processes that a process has started, directly or not, oldest first."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return
    yield from sorted(found, key=_began)


def command_of(process: psutil.Process) -> str:
    """Return the process's command line; empty if it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _began(process: psutil.Process) -> float:
    try:
        return float(process.create_time())
    except psutil.Error:
        return 0.0


def _mark_of(process: psutil.Process) -> str:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return str(process.environ().get(MARK, ""))
    except (psutil.Error, OSError):
        return ""
