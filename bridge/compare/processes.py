"""Processes of a comparison: what they are given, and that none is left, whatever has become of their parents."""

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
    """Within `taken`, a SIGINT, SIGTERM or SIGHUP is noted as `came`. The first one raises KeyboardInterrupt, once: at
    that moment within `raising`, else at the next one's begin, or at the next `check`. In another thread than the main
    one, where there are none, it changes nothing."""

    def __init__(self) -> None:
        self.came = False
        self._told = False
        self._raising = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Takes the signals; gives them back as they were. May be within another one."""
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
        """For what may end at any point. Who catches what it raises does so around it."""
        self._raising = True
        try:
            self.check()
            yield
        finally:
            self._raising = False

    def check(self) -> None:
        """Raises KeyboardInterrupt where a signal came that has raised nothing yet."""
        if self.came and not self._told:
            self._told = True
            raise KeyboardInterrupt

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        if self._raising:
            self.check()


MARK: Final = "COMPARED_BY_KEDGE"  # a variable of all processes of one comparison, which tells whose they are
GONE_S: Final = 15.0  # for processes that were killed to be gone
LOOK_S: Final = 0.02
RUN_OPTIONS: Final = (  # of `kedge run`: as variables of the user's they would change every mode
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
    """One that no other comparison has."""
    return secrets.token_hex(8)


def environment(mark: str, beside: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's own, but for options of `kedge run`. Packages are found where ours are, too."""
    kept = {name: value for name, value in os.environ.items() if name not in OPTION_VARIABLES}
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH", ""), str(HOME))))
    return {**kept, "PYTHONPATH": path, MARK: mark, **(beside or {})}


def started(command: Sequence[str], environment: Mapping[str, str], said: Path) -> "subprocess.Popen[bytes]":
    """Starts one in a session of its own, so that a Ctrl-C is not its; what it says goes to `said`, with .out and .err.
    Where it was started before, that is appended. Raises OSError."""
    with open(said.with_suffix(".out"), "ab") as out, open(said.with_suffix(".err"), "ab") as err:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )


def marked(mark: str) -> list[psutil.Process]:
    """All processes of a comparison that live, but for this one."""
    return [one for one in psutil.process_iter() if one.pid != os.getpid() and _mark_of(one) == mark]


def end_all(mark: str) -> None:
    """Kills them until there is none; for GONE_S at most, as one that the disk holds can't be killed."""
    ends = time.monotonic() + GONE_S
    while (left := marked(mark)) and time.monotonic() < ends:
        for one in left:
            try:
                one.kill()
            except psutil.Error:
                continue
        time.sleep(LOOK_S)


def children(pid: int) -> Iterator[psutil.Process]:
    """All that a process has started, directly or not, the oldest first."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return
    yield from sorted(found, key=_began)


def command_of(process: psutil.Process) -> str:
    """Its command line; empty where it is gone."""
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
