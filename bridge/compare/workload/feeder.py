"""Releases messages when they are due, in a process of its own: its sleeps and its CPU time affect no other process.

A release is a number in a mapped file, which all processes read, and a byte in the FIFO that each reader waits for. The
feeder is an open loop: it never waits for an answer, and releases late messages at once. It paces itself by
`time.sleep`. As a sleep ends up to 0.1 ms too late, it polls the clock at the end of each wait; asyncio's sleeps are
rounded up to a millisecond. Commands are JSON lines on stdin, and each has an answer. The feeder ends with stdin, and
its readers end with its end of the FIFOs.
"""

import contextlib
import ctypes
import gc
import json
import mmap
import os
import subprocess
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bridge.compare.results import percentile

RELEASED: Final = "released"  # the file: two native numbers of 8 bytes: how many are released, and 1 once that is all
FIFO: Final = "wake-"  # name of a FIFO, followed by the number of a source
SPIN_S: Final = 0.000_150  # seconds for which it is awake before each message: a sleep may end this much too late
SPIN_CORES_MAX: Final = 0.25  # cores that polling the clock may take; at a higher rate it only sleeps
PR_SET_PDEATHSIG: Final = 1
PR_SET_TIMERSLACK: Final = 29
SIGKILL: Final = 9
ANSWER_S: Final = 30.0  # seconds for an answer to a command that takes no time
LATE_MAX: Final = 4_000_000  # lags that are kept


def make(folder: Path, sources: int) -> None:
    """Make the files of a run, before any process opens them."""
    (folder / RELEASED).write_bytes(bytes(16))
    for number in range(sources):
        os.mkfifo(folder / f"{FIFO}{number}", 0o600)


def mapped(folder: Path, *, writes: bool = False) -> "memoryview[int]":
    """Map the two numbers: released, and 1 once that is all. Writing one is a single store of the machine's."""
    with open(folder / RELEASED, "r+b") as file:
        content = mmap.mmap(file.fileno(), 16, access=mmap.ACCESS_WRITE if writes else mmap.ACCESS_READ)
    return memoryview(content).cast("Q")


class Feeder:
    """In the feeder's process: the numbers, and the FIFOs.

    It holds the FIFOs open at both ends, so that a reader which is killed and restarted finds them.
    """

    def __init__(self, folder: Path, sources: int) -> None:
        self._numbers = mapped(folder, writes=True)
        self._fifos = [os.open(folder / f"{FIFO}{n}", os.O_RDWR | os.O_NONBLOCK) for n in range(sources)]

    def release(self, until: int, rate: float | None, start: float) -> list[float]:
        """Release messages up to `until`, the first of them at `start`; return how many seconds each was late."""
        first = self._numbers[0]
        if rate is None:
            self._to(until)
            return []
        spin_s = SPIN_S if rate * SPIN_S < SPIN_CORES_MAX else 0.0
        delays_s, number = array("d"), first
        while number < until:
            due = start + (number - first) / rate
            while (ahead := due - time.monotonic()) > 0:
                if ahead > spin_s:
                    time.sleep(ahead - spin_s)
            now = time.monotonic()
            until_now = min(until, max(number + 1, first + int((now - start) * rate) + 1))
            self._to(until_now)
            if len(delays_s) < LATE_MAX:
                delays_s.extend(now - start - (message - first) / rate for message in range(number, until_now))
            number = until_now
        return sorted(delays_s)

    def end(self) -> None:
        """Mark the end: no more messages come."""
        self._numbers[1] = 1
        self._wake()

    def _to(self, number: int) -> None:
        self._numbers[0] = number
        self._wake()

    def _wake(self) -> None:
        for fifo in self._fifos:
            with contextlib.suppress(BlockingIOError):  # full: its reader has enough wake-ups
                os.write(fifo, b"\n")


def lags(delays_s: Sequence[float]) -> dict[str, float]:
    """Return p50, p99 and max of sorted lags, in milliseconds; empty for no lags."""
    if not delays_s:
        return {}
    return {
        "p50": percentile(delays_s, 50) * 1000,
        "p99": percentile(delays_s, 99) * 1000,
        "max": delays_s[-1] * 1000,
    }


def stood(folder: Path, count: int, late_s: float) -> str:
    """Return why a round has ended if not all messages were offered this long after the last one was due."""
    late = f"{round(late_s, 1):g} s after the last message was due"
    return f"the feeder was the limit: {late} it had offered {mapped(folder)[0]:,} of {count:,}"


class Feeding:
    """The feeder, seen from its parent. `close` ends it, and may be called twice."""

    def __init__(self, folder: Path, sources: int, environment: dict[str, str]) -> None:
        """Start it; block until it is ready. Raises FeederError."""
        command = [sys.executable, "-P", "-m", "bridge.compare.workload.feeder", str(folder), str(sources)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        assert self._process.stdout is not None
        self.pid = self._process.pid
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""
        self._owed = 1  # outstanding answers; its first one says that it is ready
        try:
            self._waited()
        except BaseException:
            self.close()
            raise

    def release(self, until: int, rate: float | None, start: float) -> None:
        """Let it release up to `until`, from `start` on, by the monotonic clock; `answer` returns a result
        afterwards."""
        self._say({"until": until, "rate": rate, "start": start})

    def answer(self) -> dict[str, float] | None:
        """Return its lags, once, when it is done with the last command; else None.

        Answers to earlier commands are dropped. Raises FeederError if the feeder is gone.
        """
        assert self._process.stdout is not None
        with contextlib.suppress(BlockingIOError):
            self._rest += os.read(self._process.stdout.fileno(), 65_536)
        *lines, self._rest = self._rest.split(b"\n")
        self._owed -= len(lines)
        if lines and not self._owed:
            answer: dict[str, float] = json.loads(lines[-1])
            return answer
        if self._process.poll() is not None:
            raise FeederError(f"the feeder has ended by itself, with status {self._process.returncode}")
        return None

    def end(self) -> None:
        """Mark the end: sources end once they have given the released messages."""
        self._say({"end": True})
        self._waited()

    def close(self) -> None:
        """Kill it, and wait."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _say(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._owed += 1
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise FeederError(f"the feeder was lost: {error.strerror}") from error

    def _waited(self) -> None:
        ends = time.monotonic() + ANSWER_S
        while self.answer() is None:
            if time.monotonic() > ends:
                raise FeederError(f"the feeder has not answered for {ANSWER_S:g} s")
            time.sleep(0.005)


class FeederError(Exception):
    """The feeder cannot continue; the text is a sentence."""


def sharpen() -> None:
    """Let Linux wake this process when its sleep is over, not up to 50 µs later, and end it with its parent."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
            libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)


def main() -> None:
    """Run the feeder's process. Arguments: FOLDER SOURCES."""
    feeder = Feeder(Path(sys.argv[1]), int(sys.argv[2]))
    sharpen()
    gc.disable()
    print("{}", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        delays_s: list[float] = []
        if command.get("end"):
            feeder.end()
        else:
            delays_s = feeder.release(command["until"], command["rate"], command["start"])
        print(json.dumps(lags(delays_s)), flush=True)


if __name__ == "__main__":
    main()
