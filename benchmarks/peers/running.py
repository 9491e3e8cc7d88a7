"""One run of a peer as a process: its duration, its CPU time and its memory; bounded, and no process is left behind.

Must not know what runs, nor its output.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
OURS: Final = ("KEDGE_", "BYTEWAX_", "PYTHON")  # variables that would change the measurement
SAID: Final = 3  # last lines of a failed run's output that are shown


class RunError(Exception):
    """A run that failed or took too long; the text has the end of its output."""


@dataclass(frozen=True)
class Ran:
    """The cost of a run: seconds from start to end, CPU time of all its processes, the memory of its largest
    process."""

    seconds: float
    cpu_s: float
    memory_mb: float


def ran(command: Sequence[str], log: Path, limit_s: float) -> Ran:
    """Run it in the repository, in a session of its own, while this process sleeps. Raises RunError, and OSError."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    with log.open("wb") as said:
        started_at = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=ROOT, env=kept, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        timer = threading.Timer(limit_s, _kill, (process.pid,))
        timer.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started_at
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            _kill(process.pid)
            process.wait()
            raise
        finally:
            timer.cancel()
            timer.join()
    if process.returncode:
        _kill(process.pid)  # child processes that it has left running
        how = f"was ended after {limit_s:g} s" if seconds >= limit_s else f"ended with status {process.returncode}"
        raise RunError(f"{how}: {_end_of(log)}")
    return Ran(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _end_of(log: Path) -> str:
    said = log.read_text("utf-8", "replace").strip().splitlines()
    return " / ".join(said[-SAID:]) or "nothing said"
