"""One round of one row: `kedge run` of the scripted topology in a session and a folder of its own, and the feeder.

    starting     one message alone, until it is acked, or has a result; on Spark until its batch is committed
    warm-up      at the rate, and until its effects are over
    measuring    due(k) = start + k / rate, whatever became of earlier messages
    ending       until all results are there, then until the run has ended by itself

Each wait is bounded. However the round ends, the arrivals are read, and no process is left.
"""

import json
import os
import re
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bridge.compare.folder import unmade, without_room
from bridge.compare.job import ComparisonJob
from bridge.compare.processes import Interrupts, children, command_of, end_all, environment, started
from bridge.compare.rounds.arrivals import Arrivals
from bridge.compare.rounds.judge import MeasuredRound
from bridge.compare.rounds.logs import why_run_ended
from bridge.compare.rounds.resources import Usage
from bridge.compare.way import A_WORKER, ITS_DRIVER, ModeRun
from bridge.compare.workload import feeder
from bridge.compare.workload.feeder import Feeding
from bridge.compare.workload.prepare import Offer
from bridge.compare.workload.script import Script, Tell
from bridge.compare.workload.topology import ACKED, PROBES, acks
from bridge.queries.options import SETTING
from topology.cli.output.numbers import counted
from topology.loading.settings import pairs, shown_settings
from topology.runtime.run.run_dir import RunDir
from topology.secrets import FILE, names_secret

LOOK_S: Final = 0.01
TELL_S: Final = 0.1  # seconds between two reports of a phase's progress
UP_S: Final = 60.0  # seconds for the first message; Spark starts a JVM for it
UP_ON_SPARK_S: Final = 180.0
# seconds after which a first message that was given, and has neither ack nor result, is taken to wait for others
HOLD_S: Final = 5.0
LEAD_S: Final = 0.3  # seconds from the command to the feeder to its first message
WARM_QUIET_S: Final = 30.0  # seconds for the warm-up's effects; after them the measured part begins in any case
DRAIN_S: Final = 60.0  # seconds for the rest once all is released; after a kill the victim's recovery comes first
STILL_S: Final = 2.0  # seconds without a change after which unacked messages are taken to be held until the end
SPARK_STILL_S: Final = 1.0  # the same for a query that has committed every batch it began; and its interval
STAND_S: Final = 0.2  # seconds between two checks of the progress, as checks take time from the measurement
AFTER_KILL_S: Final = 8.0  # the same if a killed process has to recover
END_S: Final = 60.0  # seconds for the run to end by itself
FIRST_REPLAY: Final = re.compile(r"the first replayed message was done ([\d,]+) ms after the death")


class Over(Exception):
    """The round cannot continue; the text is the reason."""


@dataclass
class RunWait:
    """The progress report of a wait."""

    phase: str
    of_s: float
    started_at: float = field(default_factory=time.monotonic)
    reported_at: float = 0.0


class OneRun:
    """The processes of one round. `end` leaves none running, and may be called twice."""

    def __init__(
        self, way: ModeRun, job: ComparisonJob, script: Script, offer: Offer, folder: Path, tell: Tell, mark: str
    ) -> None:
        self._way, self._job, self._script, self._tell, self._mark = way, job, script, tell, mark
        self._folder = folder
        self._said = folder / "run"
        (folder / PROBES).mkdir()
        (folder / ACKED).write_bytes(bytes(8 * script.count))
        feeder.make(folder, len(script.sources))
        description = offer.description(script=str(script.folder), run=str(folder))
        with open(os.open(folder / "job.json", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump(description, file)
        self._acked = acks(folder)
        self._all_acked = 0  # every message below this number is acked
        self._arrivals = Arrivals(folder)
        self._still: tuple[Any, float] = ((), 0.0)  # the last observed progress, and since when it has not changed
        self._observed_at = 0.0  # time of that observation
        self._kill_at: float | None = None
        self._checkpoint: Path | None = None  # Spark's checkpoint, once it exists
        self._committed = 0  # committed micro-batches at the time of the kill
        self._feeding = Feeding(folder, len(script.sources), environment(mark))
        self._usage: Usage | None = None
        self.trial = MeasuredRound()

    # -- the round

    def run(self) -> None:
        """Run the whole round. Raises Over."""
        self._started_at = time.monotonic()
        self._process = self._start()
        self._come_up()
        self._warm_up()
        self._measure()
        self._finish()

    def end(self) -> None:
        """End all remaining processes, and read the arrivals."""
        if self._usage is not None:
            self._usage.close()
        self._feeding.close()
        left = hasattr(self, "_process") and self._process.poll() is None
        end_all(self._mark)
        if hasattr(self, "_process"):
            self._process.wait()
        if left:
            RunDir.sweep()
        self._arrivals.look()
        self._arrivals.close()
        self.trial.arrivals = self._arrivals.found
        self.trial.replayed_ms = self._replayed_ms()

    def _come_up(self) -> None:
        limit = UP_ON_SPARK_S if self._way.on_spark else UP_S
        self._release(1, None, 0.0)
        if not self._wait(self._is_up, "starting", limit):
            raise Over(f"it did not start within {limit:g} s")
        self.trial.start_s = time.monotonic() - self._started_at

    def _is_up(self) -> bool:
        if self._way.on_spark:
            return bool(self._batches()[1])
        if self._acked[0] > 0 or self._arrivals.look():
            return True
        return self._is_still(HOLD_S) and self._acked[0] != 0

    def _warm_up(self) -> None:
        count = self._script.warm - 1
        if count:
            seconds = count / self._script.warm_rate
            self._release(self._script.warm, self._script.warm_rate, time.monotonic() + LEAD_S)
            self._wait(self._is_fed, "warm-up", LEAD_S + seconds + DRAIN_S, seconds)
        self._wait(self._is_quiet, "warm-up", WARM_QUIET_S)

    def _measure(self) -> None:
        script, seconds = self._script, self._job.seconds
        self._usage = Usage(self._process.pid)
        self._usage.begin()
        start = time.monotonic() + (LEAD_S if script.rate is not None else 0.0)
        self.trial.start_ns = round(start * 1e9)
        self._kill_at = start + seconds / 2 if self._job.kill else None
        self._release(script.count, script.rate, start)
        if not self._wait(self._is_fed, "measuring", LEAD_S + seconds * 2 + DRAIN_S, seconds):
            raise Over(feeder.stood(self._folder, script.count, seconds + DRAIN_S))
        if not self._wait(lambda: self._kill_at is None and self._is_quiet(), "measuring", self._drain_s()):
            late = f"{self._drain_s():g} s after the last message was due"
            self.trial.problem = f"it did not keep up: {late}, {self._left()} were not processed"
        last_ns = max(max(self._acked), max((arrival.at_ns for arrival in self._arrivals.found), default=0))
        fed = start + (seconds if script.rate is not None else 0.0)
        self.trial.cpu_s, self.trial.memory_mb = self._usage.end(max(last_ns / 1e9, fed))

    def _drain_s(self) -> float:
        return DRAIN_S + (UP_ON_SPARK_S if self._job.kill and self._way.on_spark else 0.0)

    def _left(self) -> str:
        acked = sum(1 for acked_ns in self._acked if acked_ns > 0)
        left = self._script.count - acked
        return f"{left:,} of {self._script.count:,} messages" if left else "some results"

    def _finish(self) -> None:
        self._kill_at = None
        self._feeding.end()
        ended = self._wait(lambda: self._process.poll() is not None, "ending", END_S, watched=False)
        if not ended:
            self.trial.problem = self.trial.problem or f"it did not end by itself within {END_S:g} s"
        elif self._process.returncode and not self._note_dead():
            self.trial.problem = self.trial.problem or self._why_ended()

    # -- observing

    def _wait(
        self,
        until: Callable[[], bool],
        phase: str,
        limit_s: float,
        of_s: float | None = None,
        *,
        watched: bool = True,
    ) -> bool:
        """Wait until the condition holds; return True if it does within the limit. Raises Over if a `watched`
        process ends."""
        waiting = RunWait(phase, of_s if of_s is not None else limit_s)
        self._still = ((), time.monotonic())
        while not until():
            now = time.monotonic()
            if now - waiting.started_at > limit_s:
                return False
            if now - waiting.reported_at >= TELL_S:
                waiting.reported_at = now
                self._tell(phase, min(now - waiting.started_at, waiting.of_s), waiting.of_s)
                if room := without_room(self._folder.parent):
                    raise Over(room)
            if self._kill_at is not None and self._is_half_way(now, self._kill_at):
                self._kill()
            if watched and self._process.poll() is not None:
                raise Over(self._why_ended())
            time.sleep(LOOK_S)
        return True

    def _release(self, until: int, rate: float | None, start: float) -> None:
        self._feeding.release(until, rate, start)
        self.trial.released = until
        self._fed = False

    def _is_fed(self) -> bool:
        if not self._fed and (lag := self._feeding.answer()) is not None:
            self._fed = True
            if self.trial.start_ns:
                self.trial.lag = lag
        return self._fed

    def _is_quiet(self) -> bool:
        """Return True if no more results of the released messages come: all are acked, or nothing has changed for a
        while."""
        if self._way.on_spark:
            started, committed = self._batches()
            still_s = AFTER_KILL_S if self.trial.killed_ns else SPARK_STILL_S
            return started == committed > self._committed and self._is_still(still_s + self._way.interval_s)
        if self._acked_below() >= self.trial.released:
            self._arrivals.look()
            return True
        return self._is_still(AFTER_KILL_S if self.trial.killed_ns else STILL_S)

    def _acked_below(self) -> int:
        """Return the number of the oldest message that is not acked."""
        while self._all_acked < self.trial.released and self._acked[self._all_acked] > 0:
            self._all_acked += 1
        return self._all_acked

    def _is_half_way(self, now: float, at: float) -> bool:
        """Return True if it is time to kill: at `at`; with all messages at once, when half are done, at `at` at the
        latest."""
        script = self._script
        half = (script.warm + script.count) // 2
        return now >= at or (script.rate is None and self._acked_below() >= half)

    def _is_still(self, seconds: float) -> bool:
        """Return True if there was no ack, arrival or commit for this many seconds."""
        now = time.monotonic()
        if now - self._observed_at < STAND_S:
            return False
        self._observed_at, acked = now, self._acked[self._all_acked : self.trial.released]
        far = (self._arrivals.look(), zlib.crc32(acked), self._batches() if self._way.on_spark else None)
        if far != self._still[0]:
            self._still = (far, now)
        return now - self._still[1] >= seconds

    def _batches(self) -> tuple[int, int]:
        """Return how many micro-batches Spark has begun, and committed, by its own logs."""
        self._checkpoint = self._checkpoint or _checkpoint_in(self._folder / "state")
        if self._checkpoint is None:
            return 0, 0
        return _newest(self._checkpoint / "offsets"), _newest(self._checkpoint / "commits")

    # -- its process

    def _start(self) -> Any:
        way, job = self._way, self._job
        command = [sys.executable, "-P", "-m", "kedge", "run", "bridge.compare.workload.topology:topology"]
        command += ["--set", f"job={self._folder / 'job.json'}", "--state-dir", str(self._folder / "state")]
        command += ["--json", *way.options]
        for pair in job.config:
            command += ["--config", pair]
        if way.on_spark:
            command += ["--spark", job.spark_master] if job.spark_master else []
            for pair in settings_of(job.spark_conf, self._folder):
                command += [SETTING, pair]
        return started(command, environment(self._mark, way.variables), self._said)

    def _kill(self) -> None:
        """Kill the victim by SIGKILL. If it is the run's only process, start it again; otherwise its supervisor
        does."""
        self._kill_at = None
        pid = self._victim()
        if pid is None:
            self.trial.notes.append(f"{self._way.row.title}: there was no process to kill.")
            return
        self.trial.victim = self._way.victim
        self._committed = self._batches()[1] if self._way.on_spark else 0
        self.trial.killed_ns = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        if pid == self._process.pid:
            self._process.wait()
            self._process = self._start()
            assert self._usage is not None, "in the measured part"
            self._usage.follow(self._process.pid)

    def _victim(self) -> int | None:
        sought = {A_WORKER: "topology.runtime.process.main", ITS_DRIVER: "bridge.engine.driver"}.get(self._way.victim)
        if sought is None:
            return int(self._process.pid)
        found = [child.pid for child in children(self._process.pid) if sought in command_of(child)]
        return found[-1] if found else None

    def _replayed_ms(self) -> float | None:
        """Return the time from the kill to the first ack of a message in flight then, if it is reported or can be
        seen."""
        killed = self.trial.killed_ns
        if not killed or self.trial.victim == ITS_DRIVER:
            return None
        if self.trial.victim == A_WORKER:
            found = FIRST_REPLAY.search(self._text("err"))
            return float(found[1].replace(",", "")) if found else None
        after = [acked_ns for acked_ns in self._acked if acked_ns > killed]
        return (min(after) - killed) / 1e6 if after else None

    # -- output of the run

    def _text(self, end: str) -> str:
        try:
            return self._said.with_suffix(f".{end}").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def _note_dead(self) -> bool:
        """Return True if the run ended as it should, and only some messages are dead; add a note about them."""
        lines = self._text("out").strip().splitlines()
        try:
            spouts = json.loads(lines[-1])["spouts"] if lines else {}
            dead = sum(counts["dead"] for counts in spouts.values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        if dead:
            self.trial.notes.append(f"{self._way.row.title}: {counted(dead, 'message')} became dead letters.")
        return bool(dead)

    def _why_ended(self) -> str:
        return why_run_ended(self._way.row.mode, self._folder, self._process.returncode)


def one_round(
    way: ModeRun,
    job: ComparisonJob,
    script: Script,
    offer: Offer,
    folder: Path,
    tell: Tell,
    mark: str,
    interrupts: Interrupts,
) -> MeasuredRound:
    """Run a whole round in `folder`, which is empty; return its result, `problem` and `interrupted` included.

    Raises FeederError and OSError before any process starts, and if the arrivals cannot be read.
    """
    running = OneRun(way, job, script, offer, folder, tell, mark)
    trial = running.trial
    try:
        with interrupts.raising():
            running.run()
    except (Over, feeder.FeederError) as error:
        trial.problem = str(error)
    except OSError as error:
        trial.problem = unmade(error)
    except KeyboardInterrupt:
        trial.problem, trial.interrupted = "interrupted", True
    finally:
        running.end()
    return trial


def _checkpoint_in(state: Path) -> Path | None:
    """Return the folder of Spark's checkpoint; None before it exists. Ignores files that vanish during the search."""
    for where, folders, _ in os.walk(state):
        if Path(where).name == "checkpoint" and "0" in folders:
            return Path(where, "0")
    return None


def _newest(folder: Path) -> int:
    """Return how many batches a log of Spark's has: one more than the highest number."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 0
    return max((int(name) + 1 for name in names if name.isdecimal()), default=0)


def settings_of(given: tuple[str, ...], folder: Path) -> Iterator[str]:
    """Yield Spark's settings for a command line, which every user can read: secrets go by files that only this user
    can read."""
    listed = pairs(given, SETTING)
    secrets = shown_settings(listed)
    for number, (key, value) in enumerate(listed.items()):
        path = folder / f"setting-{number}"
        hidden = key in secrets and names_secret(key)
        if hidden:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(f"{value}\n")
        yield f"{key}={FILE}{path}" if hidden else f"{key}={value}"
