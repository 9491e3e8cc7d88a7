"""One round of a JVM-only mode, from the start of its driver to its last result. Knows processes and files, no mode.

The feeder and the clock are those of all modes. Message 0 shows that all is up, whatever the filter is. Then comes the
warm-up, and once its results are there the measured part. In it the driver and its JVM may be killed, and started again
with the same checkpoint.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any, Final

from bridge.compare.folder import unmade
from bridge.compare.job import ComparisonRow
from bridge.compare.processes import Interrupts, end_all, environment
from bridge.compare.results import ModeResult, RoundProblem
from bridge.compare.rounds.judge import Arrival, MeasuredRound, figures
from bridge.compare.rounds.logs import why_driver_ended
from bridge.compare.rounds.resources import Usage
from bridge.compare.workload.feeder import FIFO, RELEASED, FeederError, Feeding, make, mapped, stood
from bridge.compare.workload.script import Script, Tell
from bridge.files.process_log import title

START_S: Final = 180.0  # seconds for Spark to start and the first message to arrive
LEAD_S: Final = 0.3  # seconds from the command to the feeder to the first message
LOOK_S: Final = 0.05
COMPARED_S: Final = 1.0  # seconds between two checks of which results are there, if some come again
QUIET_S: Final = 10.0  # seconds without a result, once all was released, after which no more are expected
AGAIN_S: Final = 90.0  # the same after a kill: Spark starts again
DONE_S: Final = 300.0  # seconds for the released messages to arrive
REAPED_S: Final = 15.0
TEXTS_MAX: Final = 2**31 - 1  # bytes of all texts: Java maps them at once
# an arrival: the message's number, and its time; a time of 0 marks the end of the file's content
ROW: Final = Struct("<qq")
VICTIM: Final = "Spark, driver and JVM"
INTERRUPTED: Final = "interrupted"  # the problem of a round that Ctrl-C has ended, as in all modes


@dataclass(frozen=True)
class JvmTask:
    """The task of a round.

    told     the driver's task, without its folders.
    pattern  the regex, in Python's syntax, that messages must match to pass.
    behind   messages that may have to follow before a result arrives; this many more are released at each end.
    """

    row: ComparisonRow
    script: Script
    folder: Path
    pattern: str
    request: dict[str, Any]
    kill: bool
    behind: int = 0


class Arrived:
    """The files that the sink has written, one for each life of the JVM."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._counts: dict[Path, int] = {}

    def count(self) -> int:
        """Return the number of rows, repeated ones included."""
        for path in self.folder.iterdir():
            with open(path, "rb") as file:
                self._counts[path] = _filled(file.fileno(), self._counts.get(path, 0))
        return sum(self._counts.values())

    def rows(self) -> Iterator[tuple[int, int]]:
        """Yield (number of the message, time) of the counted rows."""
        for path, count in self._counts.items():
            with open(path, "rb") as file:
                yield from ROW.iter_unpack(file.read(count * ROW.size))


def _filled(file: int, count: int) -> int:
    """Return how many rows of a file have a time; at least `count` do, and all rows without one come after them."""
    low, high = count, os.fstat(file).st_size // ROW.size
    while low < high:
        middle = (low + high) // 2
        row = os.pread(file, ROW.size, middle * ROW.size)
        if len(row) == ROW.size and ROW.unpack(row)[1]:
            low = middle + 1
        else:
            high = middle
    return low


@dataclass
class Round:
    """A round, to be measured once. `over`: True if it finished; before that, missing results are unknown."""

    task: JvmTask
    tell: Tell
    mark: str
    interrupts: Interrupts
    trial: MeasuredRound = field(default_factory=MeasuredRound)
    process: "subprocess.Popen[bytes] | None" = None
    over: bool = False

    def measured(self) -> ModeResult:
        """Raises RoundProblem, and OSError before any process starts; every process that it started has ended."""
        folder = self.task.folder
        (folder / "arrived").mkdir()
        self.arrived = Arrived(folder / "arrived")
        self.passing = self._texts()
        make(folder, 1)
        try:
            with self._feeding() as self.feeding, self.interrupts.raising():
                self._begin()
                self._warm_up()
                self._measure()
        except OSError as error:
            raise RoundProblem(unmade(error), self._known()) from error
        except (FeederError, RoundProblem) as problem:
            raise RoundProblem(str(problem), self._known()) from problem
        except KeyboardInterrupt:
            if not self.trial.start_ns:
                raise
            self.trial.problem = INTERRUPTED
        finally:
            self._end()
        return self._result()

    # -- the phases

    def _begin(self) -> None:
        started_at, first = time.monotonic(), 1 + self.task.behind
        if first > self.task.script.warm:
            raise RoundProblem(f"it needs a warm-up of at least {first} messages: later messages bring its results")
        self._start()
        self._release(first, None)
        self._until("starting", lambda: self.lag is not None and self.arrived.count() > 0, START_S)
        if not self.arrived.count():
            raise RoundProblem(f"no result arrived within {START_S:g} s of its start")
        (_, at_ns), *_ = self.arrived.rows()
        self.trial.start_s = at_ns / 1e9 - started_at

    def _warm_up(self) -> None:
        script = self.task.script
        seconds, wanted = (script.warm - 1) / script.warm_rate, self._many(script.warm - self.task.behind)
        self._release(script.warm, script.warm_rate)
        self._until("warm-up", lambda: self._through(wanted), seconds + DONE_S, of_s=seconds)

    def _measure(self) -> None:
        script, trial = self.task.script, self.trial
        assert self.process is not None, "started"
        usage, wanted = Usage(self.process.pid), self._many(script.count)
        seconds = (script.count - script.warm) / script.rate if script.rate is not None else 0.0
        try:
            usage.begin()
            start = self._release(script.count + self.task.behind, script.rate)
            trial.start_ns = round(start * 1e9)
            if self.task.kill:
                self._until("measuring", self._half(start, seconds), seconds + DONE_S, of_s=seconds)
                self._kill()
                usage.follow(self._start().pid)
            ended = self._until("measuring", lambda: self._through(wanted), LEAD_S + seconds + DONE_S, of_s=seconds)
            late_s = time.monotonic() - start - seconds
            if self.lag is None:
                raise RoundProblem(stood(self.task.folder, script.count + self.task.behind, late_s))
            if not ended and (left := wanted - len(self._there())) > 0:
                late = f"{round(late_s, 1):g} s after the last message was due"
                trial.problem = f"it did not keep up: {late}, {left:,} of {wanted:,} results were missing"
            last_ns = max((at for _, at in self.arrived.rows()), default=0)
            trial.cpu_s, trial.memory_mb = usage.end(last_ns / 1e9 if last_ns else None)
        finally:
            usage.close()
        self.over = not trial.problem
        self.tell("ending", 0.0, 0.0)

    def _half(self, start: float, seconds: float) -> Callable[[], bool]:
        """Return a function that is True once half of the measured time, or half of the results at `--rate max`, is
        over."""
        half = self._many((self.task.script.warm + self.task.script.count) // 2)
        if seconds:
            return lambda: time.monotonic() >= start + seconds / 2
        return lambda: self.arrived.count() >= half

    # -- waiting

    def _release(self, until: int, rate: float | None) -> float:
        """Let the feeder release the messages up to `until`; return when its first message is due."""
        start = time.monotonic() + (LEAD_S if rate is not None else 0.0)
        self.lag: dict[str, float] | None = None
        self.last, self.result_count = start, 0  # time of the last result seen, and number of results then
        self.compared = 0.0
        self.feeding.release(until, rate, start)
        return start

    def _until(self, phase: str, done: Callable[[], bool], within_s: float, of_s: float = START_S) -> bool:
        """Wait until `done` holds, at most `within_s`. Return True if it holds. Raises RoundProblem if the driver
        ends."""
        started_at = time.monotonic()
        while True:
            gone = time.monotonic() - started_at
            self.tell(phase, min(gone, of_s), of_s)
            if self.lag is None and (answer := self.feeding.answer()) is not None:
                self.lag = answer
                if self.trial.start_ns:
                    self.trial.lag = answer
            if done():
                return True
            if gone > within_s:
                return False
            if self.process is not None and self.process.poll() is not None:
                status = self.process.returncode
                raise RoundProblem(why_driver_ended(self.task.row.mode, self.task.folder, status))
            time.sleep(LOOK_S)

    def _through(self, wanted: int) -> bool:
        """Return True if all `wanted` results of the released messages have arrived, or if no more come."""
        now, count = time.monotonic(), self.arrived.count()
        if count != self.result_count:
            self.last, self.result_count = now, count
        if self.lag is None:
            return False
        if count < wanted:
            return now - self.last > (AGAIN_S if self.trial.killed_ns else QUIET_S)
        if not self.trial.killed_ns:
            return True
        if now < self.compared + COMPARED_S:
            return False
        self.compared = now  # some of them have come twice
        return len(self._there()) >= wanted or now - self.last > AGAIN_S

    def _there(self) -> set[int]:
        """Return the messages whose results were counted."""
        return {number for number, _ in self.arrived.rows() if number < self.task.script.count}

    def _many(self, until: int) -> int:
        """Return how many messages before this one pass."""
        rounds, rest = divmod(until, len(self.passing))
        passing = rounds * sum(self.passing) + sum(self.passing[:rest])
        return passing + (until > 0 and not self.passing[0])

    # -- processes

    @contextmanager
    def _feeding(self) -> Iterator[Feeding]:
        feeding = Feeding(self.task.folder, 1, environment(self.mark))
        try:
            yield feeding
        finally:
            feeding.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the driver, with all of Java's compilers, some of which `bridge.spark.session` turns off otherwise."""
        folder = self.task.folder
        source = {"folder": folder, "counter": folder / RELEASED, "wake": folder / f"{FIFO}0"}
        request = {
            **self.task.request,
            "folder": str(folder),
            "source": {name: str(path) for name, path in source.items()},
            "arrivals": str(self.arrived.folder),
        }
        given = environment(self.mark, {"JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", "")})
        command = [sys.executable, "-P", "-m", "bridge.compare.jvm.driver"]
        with open(folder / "driver.out", "ab") as out, open(folder / "driver.err", "ab") as err:
            err.write(f"\n{title(self.task.row.title)}".encode())
            err.flush()
            self.process = subprocess.Popen(
                command, env=given, stdin=subprocess.PIPE, stdout=out, stderr=err, start_new_session=True
            )
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # the driver has ended already; the caller notices
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        return self.process

    def _kill(self) -> None:
        assert self.process is not None, "started"
        self.trial.victim, self.trial.killed_ns = VICTIM, time.monotonic_ns()
        os.killpg(self.process.pid, signal.SIGKILL)
        self._reap()

    def _end(self) -> None:
        try:
            if self.process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self._reap()
        finally:
            end_all(self.mark)  # workers of Spark's Python are in process groups of their own

    def _reap(self) -> None:
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):  # the process waits for the disk
                self.process.wait(REAPED_S)
            if self.process.stdin is not None:
                with suppress(OSError):
                    self.process.stdin.close()

    # -- results

    def _known(self) -> ModeResult | None:
        try:
            return self._result()
        except OSError:  # for example because its folder is gone
            return None

    def _result(self) -> ModeResult:
        script, trial = self.task.script, self.trial
        self.arrived.count()
        rows = self.arrived.rows()
        trial.arrivals = [Arrival("", number, number, at) for number, at in rows if number < script.count]
        trial.released = min(mapped(self.task.folder)[0], script.count)
        result = figures(self.task.row, trial, script, {number: number for number in range(script.count)})
        seen = {arrival.identity for arrival in trial.arrivals}
        wanted = {number for number in range(1, trial.released) if self.passing[number % len(self.passing)]}
        if self.over:
            result.missing, result.extra = len(wanted - seen), len(seen - wanted - {0})
        return result

    def _texts(self) -> bytearray:
        """Write each message's text, for Java; return a byte per message, 1 if it passes."""
        script, folder = self.task.script, self.task.folder
        match, passing, ends = re.compile(self.task.pattern).match, bytearray(), array("q")
        size = 0
        with open(folder / "texts", "wb") as texts:
            for number in range(script.held):
                text = script.text(number)
                passing.append(match(text) is not None)
                size += texts.write(text.encode())
                ends.append(size)
        if size > TEXTS_MAX:
            raise RoundProblem(f"the messages are {size / 1e9:.1f} GB of text, and Java maps 2 GB of it at most")
        if sys.byteorder == "big":
            ends.byteswap()
        (folder / "ends").write_bytes(ends.tobytes())
        return passing
