"""A whole comparison: measures rows in rounds, and checks that all rows gave the same results."""

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from bridge.compare.environment import machine, versions
from bridge.compare.folder import ComparisonFolder, sweep, unmade, without_room
from bridge.compare.job import PHASES, ComparisonJob, ComparisonProgress, ComparisonRow, Quiet
from bridge.compare.jvm import modes
from bridge.compare.modes import default_modes, ways_of, why_not
from bridge.compare.processes import Interrupts, end_all, new_mark
from bridge.compare.results import Comparison, ModeResult, RoundProblem
from bridge.compare.rounds import logs
from bridge.compare.rounds.judge import MeasuredRound, Name, agreed, figures, merged, names_of, origins_of
from bridge.compare.rounds.kedge import one_round
from bridge.compare.way import ModeRun
from bridge.compare.workload.feeder import FeederError
from bridge.compare.workload.prepare import Offer, counts_of, offer_of, read
from bridge.compare.workload.script import Script
from topology.errors import KedgeError

__all__ = ["PHASES", "ComparisonJob", "ComparisonProgress", "ComparisonRow", "Quiet", "compare"]

INTERRUPTED: Final = "interrupted"
TOO_EARLY: Final = "interrupted before it was measured"
UNNAMED: Final = (
    "Some results come from several messages or from timers: they are counted, but neither timed nor compared."
)


def compare(job: ComparisonJob, progress: ComparisonProgress, interrupts: Interrupts | None = None) -> Comparison:
    """Measure each row in each round, in turns. Blocks until all are measured; call it in the main thread.

    A row that cannot run, or crashes, has its `problem`, and the other rows continue. Ctrl-C (KeyboardInterrupt) ends
    the comparison early: all processes are ended, and the result has everything measured so far, and `interrupted`.
    Pass `interrupts` if the caller has taken the signals already, so that no signal in between loses a measurement.

    Raises ConfigurationError for an error that the user has to fix before anything can be measured: an unknown mode; a
    topology that cannot be loaded, has companions, or has no spout that emits anything; an invalid rate or time. Raises
    StartError if the comparison's own files cannot be made.
    """
    interrupts = interrupts or Interrupts()
    with interrupts.taken():
        whole = Whole(job, progress, interrupts)
        try:
            whole.run()
        except KeyboardInterrupt:
            whole.made.interrupted = True
        finally:
            whole.close()
        return whole.made


@dataclass
class RowRounds:
    """One row: its figures so far, and the results of each of its rounds."""

    way: ModeRun
    result: ModeResult | None = None
    runs: list[frozenset[Name]] = field(default_factory=list)


class Whole:
    """A comparison under way. `made`: everything known so far."""

    def __init__(self, job: ComparisonJob, progress: ComparisonProgress, interrupts: Interrupts) -> None:
        self._job, self._progress, self._interrupts = job, progress, interrupts
        self._mark = new_mark()
        self._rows: list[RowRounds] = []
        self._turns = 0
        self.made = Comparison(job.target, _settings(job), machine(), versions())
        self._folder = ComparisonFolder()

    def run(self) -> None:
        """Run all rounds. Raises KeyboardInterrupt, and ConfigurationError and StartError if nothing can be
        measured."""
        job = self._job
        counts_of(job)
        with self._interrupts.raising():
            sweep()
            logs.sweep()
            offer = offer_of(job)
            *_, key = modes.work_of(offer.topology, job.counted)
            ways = ways_of(job.modes or default_modes(), offer.guarantee, key)
            self._rows = [RowRounds(way) for way in ways]
            self._progress.planned([way.row for way in ways])
            script = read(job, offer, self._folder.path / "script", self._mark)
        self.made.settings |= {"messages": script.count - script.warm, "warm_up_messages": script.warm}
        for text in script.notes:
            self._note(text)
        origins = origins_of(script)
        for number in range(1, job.rounds + 1):
            for seen in self._rows:
                self._interrupts.check()
                self._turn(seen, number, script, offer, origins)

    def close(self) -> None:
        """End all remaining processes, and add the missing results of each row."""
        end_all(self._mark)
        self._folder.close()
        _judge(self._rows)
        if self.made.interrupted and any(seen.result is not None for seen in self._rows):
            for seen in self._rows:
                seen.result = seen.result or _failed(seen.way.row, RoundProblem(TOO_EARLY))
        self.made.modes = [seen.result for seen in self._rows if seen.result is not None]

    def _turn(self, seen: RowRounds, number: int, script: Script, offer: Offer, origins: dict[int, int]) -> None:
        """Run one round of one row. A row that could not run, or crashed, has no further turn."""
        if seen.result is not None and seen.result.problem:
            return
        row = seen.way.row
        self._progress.begun(row, number)
        self._turns += 1
        folder = self._folder.path / f"run-{self._turns}"
        try:
            with self._interrupts.raising():
                problem = why_not(seen.way)
            folder.mkdir()
            if problem:
                raise RoundProblem(problem)
            if seen.way.is_jvm:
                found = self._on_the_jvm(row, script, folder)
            else:
                found = self._by_kedge(seen, script, offer, origins, folder)
        except (FeederError, RoundProblem, KedgeError) as error:
            found = _failed(row, error)
        except OSError as error:
            found = _failed(row, RoundProblem(unmade(error)))
        finally:
            end_all(self._mark)
            room = without_room(self._folder.path)
            shutil.rmtree(folder, ignore_errors=True)
        if found.problem and found.problem != INTERRUPTED and room not in found.problem:
            found.problem += f"; {room}"
        seen.result = found if seen.result is None else merged(seen.result, found)
        self._progress.ended(row, replace(seen.result))
        self._interrupts.check()
        if found.problem == INTERRUPTED:
            raise KeyboardInterrupt

    def _by_kedge(
        self, seen: RowRounds, script: Script, offer: Offer, origins: dict[int, int], folder: Path
    ) -> ModeResult:
        tell = self._tell_of(seen.way.row)
        trial = one_round(seen.way, self._job, script, offer, folder, tell, self._mark, self._interrupts)
        for text in trial.notes:
            self._note(text)
        if not trial.problem:
            seen.runs.append(names_of(trial, origins))
        if any(arrival.origin not in origins for arrival in trial.arrivals):
            self._note(UNNAMED)
        return figures(seen.way.row, _with_interrupt(trial), script, origins)

    def _on_the_jvm(self, row: ComparisonRow, script: Script, folder: Path) -> ModeResult:
        return modes.measure(row, self._job, script, folder, self._tell_of(row), self._mark, self._interrupts)

    def _tell_of(self, row: ComparisonRow) -> Any:
        return lambda phase, done_s, of_s: self._progress.phase(row, phase, done_s, of_s)

    def _note(self, text: str) -> None:
        if text not in self.made.notes:
            self.made.notes.append(text)
            self._progress.note(text)


def _with_interrupt(trial: MeasuredRound) -> MeasuredRound:
    return replace(trial, problem=INTERRUPTED) if trial.interrupted else trial


def _failed(row: ComparisonRow, error: Exception) -> ModeResult:
    measured = error.result if isinstance(error, RoundProblem) else None
    made = measured or ModeResult(row.mode, row.title, row.guarantee, settings=dict(row.settings))
    made.problem = str(error)
    return made


def _judge(rows: list[RowRounds]) -> None:
    """Compare the results of all rounds of all rows that were completed."""
    expected = agreed([run for seen in rows for run in seen.runs])
    for seen in rows:
        if seen.result is not None and seen.runs:
            seen.result.missing = sum(len(expected - run) for run in seen.runs)
            seen.result.extra = sum(len(run - expected) for run in seen.runs)


def _settings(job: ComparisonJob) -> dict[str, Any]:
    """Return the settings as they are shown. Of values and of Spark's settings only the names: they may be secrets."""
    return {
        "rate": job.rate if job.rate is not None else "max",
        "seconds": job.seconds,
        "warm_up_s": job.warm_up_s,
        "rounds": job.rounds,
        "kill": job.kill,
        "values": sorted(pair.partition("=")[0] for pair in job.settings),
        "config": list(job.config),
        "spark": job.spark_master,
        "spark_conf": sorted(pair.partition("=")[0] for pair in job.spark_conf),
    }
