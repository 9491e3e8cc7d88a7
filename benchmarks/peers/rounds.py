"""All peers on all workloads, in interleaved rounds: the cost of each, and whether its output equals Kedge's.

A rate is of the lines alone. The time of a run of one line, before and after its work, is subtracted from the time of
the run of all lines, and shown as start-up. Start-up is the least of all rounds: a round that was late by chance makes
no round faster. Progress goes to stderr. Must not know how results are shown.
"""

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.catalogue import BASELINE, Call, Peer
from benchmarks.peers.inputs import Workload, write
from benchmarks.peers.running import Ran, RunError, ran

ROOT: Final = Path(__file__).resolve().parents[2]
OURS: Final = "kedge"  # the peer whose output is the reference
SHORTEST_S: Final = 0.1  # least seconds beyond start-up for a rate: start-up varies by some hundredths of a second


@dataclass
class Cell:
    """One peer at one workload: figures of each round, or why there are none.

    `seconds` are of the run of all lines, `starts` of the run of one line.
    """

    workload: Workload
    peer: Peer
    lines: int
    seconds: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)  # without that of one line
    memory_mb: list[float] = field(default_factory=list)
    problem: str = ""

    @property
    def rates(self) -> list[float]:
        """Return the rate of each round, except rounds too short for a rate."""
        start = min(self.starts, default=0.0)
        return [self.lines / (whole - start) for whole in self.seconds if whole - start >= SHORTEST_S]

    def forget(self) -> None:
        """Remove all figures."""
        for figures in (self.seconds, self.starts, self.cpu_s, self.memory_mb):
            figures.clear()

    def as_json(self, baseline: "Cell | None") -> dict[str, Any]:
        """Return medians of the rounds; nulls if there are none.

        `ratio` is to the baseline's rate in the same rounds; `start_s` is the least of `starts`.
        """
        rate, ratio = _median(self.rates), None
        if rate is not None and baseline is not None and baseline.rates:
            ratio = rate / statistics.median(baseline.rates)
        cpu = _median(self.cpu_s)
        return {
            "workload": self.workload.name,
            "peer": self.peer.name,
            "title": self.peer.title,
            "guarantee": self.peer.guarantee,
            "means": self.peer.means,
            "value": _rounded(rate, 0),
            "unit": "lines/s",
            "ratio": _rounded(ratio, 3),
            "rates": [round(figure) for figure in self.rates],
            "start_s": _rounded(min(self.starts, default=None), 2),
            "starts": [round(figure, 2) for figure in self.starts],
            "cpu_seconds_per_million": _rounded(cpu / self.lines * 1e6 if cpu is not None else None, 2),
            "memory_mb": _rounded(_median(self.memory_mb), 0),
            "problem": self.problem,
        }


@dataclass
class Comparison:
    """All cells, workload by workload, as far as they are measured."""

    cells: list[Cell]
    rounds: int = 0  # finished rounds
    interrupted: str = ""  # why the comparison ended early

    def results(self) -> list[dict[str, Any]]:
        bases = {cell.workload.name: cell for cell in self.cells if cell.peer.name == BASELINE}
        return [cell.as_json(bases.get(cell.workload.name)) for cell in self.cells]

    @property
    def problems(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.problem]


def compared(
    comparison: Comparison,
    pythons: dict[str, str],
    folder: Path,
    rounds: int,
    limit_s: float,
    until: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Measure into the comparison, so that its results so far are kept if it ends early.

    Each run is ended after `limit_s`; no further run begins after `until`, by this clock. Raises KeyboardInterrupt, and
    OSError.
    """
    workloads: dict[str, list[Cell]] = {}
    for cell in comparison.cells:
        workloads.setdefault(cell.workload.name, []).append(cell)
    for cells in workloads.values():
        _write_lines(folder, cells[0])
    for number in range(rounds):
        for name, cells in workloads.items():
            print(f"round {number + 1}/{rounds}: {name}, {cells[0].lines:,} lines", file=sys.stderr)
            turn = cells if number % 2 == 0 else cells[::-1]
            for cell in [peer_cell for peer_cell in turn if not peer_cell.problem]:
                if clock() >= until:
                    comparison.interrupted = "its time was over"
                    return
                _measure(cell, pythons[cell.peer.name], folder, limit_s)
            _check(cells, folder)
        comparison.rounds = number + 1


def _write_lines(folder: Path, cell: Cell) -> None:
    one, all_lines = (_input(folder, cell, kind) for kind in ("one", "all"))
    write(one, cell.workload.made(1), 1)
    write(all_lines, cell.workload.made(cell.lines), cell.lines)


def _measure(cell: Cell, python: str, folder: Path, limit_s: float) -> None:
    """Run one line, then all lines; a failed run is the cell's problem."""
    try:
        one = _run(cell, "one", python, folder, limit_s)
        whole = _run(cell, "all", python, folder, limit_s)
    except RunError as error:
        cell.problem = str(error)
        print(f"  {cell.peer.name}: {error}", file=sys.stderr)
        return
    cell.starts.append(one.seconds)
    cell.seconds.append(whole.seconds)
    cell.cpu_s.append(max(whole.cpu_s - one.cpu_s, 0.0))
    cell.memory_mb.append(whole.memory_mb)
    lines_s = max(whole.seconds - one.seconds, 0.0)
    print(f"  {cell.peer.name}: {lines_s:.2f} s, plus start-up {one.seconds:.2f} s", file=sys.stderr)


def _run(cell: Cell, kind: str, python: str, folder: Path, limit_s: float) -> Ran:
    own = folder / f"{cell.workload.name}-{cell.peer.name}"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    out = _output(folder, cell)
    out.write_bytes(b"")  # the file sink of one peer needs an existing file
    call = Call(python, cell.workload.name, _input(folder, cell, kind), out, own)
    log = own.with_suffix(".log")
    if cell.peer.prepared is not None:
        ran(cell.peer.prepared(call), log, limit_s)
    done = ran(cell.peer.command(call), log, limit_s)
    shutil.rmtree(own)
    return done


def _check(cells: Sequence[Cell], folder: Path) -> None:
    """Check that each peer's output of this round is Kedge's, row for row."""
    ours = next((cell for cell in cells if cell.peer.name == OURS), None)
    others = [cell for cell in cells if cell is not ours and not cell.problem]
    if ours is not None and not ours.problem:
        places = [_output(folder, cell) for cell in (ours, *others)]
        for cell, wrong in zip((ours, *others), _differences(places), strict=True):
            cell.problem = wrong
            if wrong:  # a peer that has done other work has no figures
                cell.forget()
    if ours is None or ours.problem:
        for cell in others:
            cell.problem = "Kedge's output is missing, so there is nothing to compare with"
            cell.forget()
    for cell in cells:
        if cell.problem:
            print(f"  {cell.peer.name}: {cell.problem}", file=sys.stderr)
        _output(folder, cell).unlink(missing_ok=True)


def _differences(places: Sequence[Path]) -> list[str]:
    """Return each output's problem.

    Runs in a process of its own: otherwise this process's memory would count as that of the peers started later.
    """
    command = [sys.executable, "-m", "benchmarks.peers.outputs", *map(str, places)]
    differences: list[str] = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    return differences


def _input(folder: Path, cell: Cell, kind: str) -> Path:
    return folder / f"{cell.workload.name}-{kind}.txt"


def _output(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.workload.name}-{cell.peer.name}.jsonl"


def _median(figures: Sequence[float]) -> float | None:
    return statistics.median(figures) if figures else None


def _rounded(figure: float | None, digits: int) -> float | None:
    return None if figure is None else round(figure, digits or None)
