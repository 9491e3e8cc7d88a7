"""The shared parts of benchmarks: options, interleaved rounds of fresh processes, medians, a table or one JSON object.

Progress goes to stderr, and stdout holds only the result. It must not know what is measured.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from topology.core import CORE
from topology.version import version as kedge_version

ROOT = Path(__file__).resolve().parent.parent
INTERRUPTED = 130  # the exit status after Ctrl-C
TIMEOUT_S = 120.0  # seconds for one measurement, beyond its own seconds
MISSING = re.compile(r"^ModuleNotFoundError: No module named '(\w+)[\w.]*'\s*\Z", re.MULTILINE)

Figures = dict[str, float]  # "value", and the measurement's further figures
Row = Sequence[str]


@dataclass(frozen=True)
class Name:
    """One figure of a benchmark.

    `parts` are the measurements behind it, and `join` makes its figures of theirs; each figure is rounded to `digits`.
    """

    name: str
    unit: str
    digits: int | None = None
    parts: tuple[str, ...] = ()
    join: Callable[[list[Figures]], Figures] = field(default=lambda figures: figures[0])

    @property
    def measurements(self) -> tuple[str, ...]:
        return self.parts or (self.name,)


@dataclass(frozen=True)
class Benchmark:
    """A command: its names in order, the default seconds of a round, and the table's heading and rows.

    `has_bars`: the last column is a bar, which the JSON object has too; then the table goes to stderr beside it.
    """

    name: str
    about: str
    names: tuple[Name, ...]
    seconds: float
    rounds: int
    heading: Row
    row: Callable[[Name, Figures, dict[str, Figures]], Row]
    has_bars: bool = False

    def main(self) -> int:
        """Run the command; the exit status is 1 if a measurement failed, and 130 after Ctrl-C."""
        options = self._options()
        try:
            results = measured(options.names, options.rounds, options.seconds)
        except MeasurementError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print(f"{self.name}: interrupted", file=sys.stderr)
            return INTERRUPTED
        if options.json:
            print(json.dumps(self._object(options.names, results)))
        if self.has_bars or not options.json:
            out = sys.stderr if options.json else sys.stdout
            rows = [self.row(name, results[name.name], results) for name in options.names]
            print(f"{self.name}: median of {options.rounds} × {options.seconds:g} s; {machine_line()}\n", file=out)
            print(table([self.heading, *rows]), file=out)
        return 0

    def _options(self) -> argparse.Namespace:
        known = {name.name: name for name in self.names}
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{self.name}", description=self.about)
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)} (default: all)")
        parser.add_argument("--only", action="append", default=[], metavar="NAME", help="the same as NAME; repeatable")
        parser.add_argument("--json", action="store_true", help="one JSON object on stdout in place of the table")
        parser.add_argument("--seconds", type=float, default=self.seconds, help="of each measurement (%(default)g)")
        parser.add_argument("--rounds", type=int, default=self.rounds, help="interleaved rounds (%(default)d)")
        options = parser.parse_args()
        chosen = [*options.names, *options.only]
        if unknown := [name for name in chosen if name not in known]:
            parser.error(f"there is no {unknown[0]!r}; the names are {', '.join(known)}")
        if options.rounds < 1 or not 0 < options.seconds < float("inf"):
            parser.error("there has to be at least one round, of more than 0 seconds")
        options.names = [known[name] for name in dict.fromkeys(chosen or known)]
        return options

    def _object(self, names: Sequence[Name], results: dict[str, Figures]) -> dict[str, Any]:
        return {
            "benchmark": self.name,
            "machine": machine(),
            "versions": versions(),
            "results": [
                {
                    "name": name.name,
                    "value": results[name.name]["value"],
                    "unit": name.unit,
                    **results[name.name],
                    **self._bar(name, results),
                }
                for name in names
            ],
        }

    def _bar(self, name: Name, results: dict[str, Figures]) -> dict[str, str]:
        bar = self.row(name, results[name.name], results)[-1] if self.has_bars else ""
        return {"bar": bar} if bar else {}


class MeasurementError(Exception):
    """A measurement's process failed, or took far too long."""


def measured(names: Sequence[Name], rounds: int, seconds: float) -> dict[str, Figures]:
    """Return name → medians of its figures. Rounds are interleaved, every second one backwards: drift hits all
    alike."""
    found: dict[str, list[Figures]] = {name.name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            figures = name.join([in_fresh_process(part, seconds) for part in name.measurements])
            found[name.name].append(figures)
            print(f"round {number + 1}/{rounds}: {name.name} {figures['value']:,.4g} {name.unit}", file=sys.stderr)
    return {
        name.name: {
            key: round(statistics.median(measured[key] for measured in found[name.name]), name.digits)
            for key in found[name.name][0]
        }
        for name in names
    }


def in_fresh_process(measurement: str, seconds: float, *numbers: float) -> dict[str, Any]:
    """Run one measurement, while this process sleeps; some take further numbers. NAME@python runs it on the Python
    core. Raises MeasurementError."""
    name, _, core = measurement.partition("@")
    command = [sys.executable, "-m", "benchmarks.measure", name, str(seconds), *map(str, numbers)]
    env = {**os.environ, "KEDGE_CORE": core} if core else None
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds + TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"{measurement} was not done {TIMEOUT_S:g} s after its time") from error
    if done.returncode:
        if missing := MISSING.search(done.stderr):
            raise MeasurementError(
                f"{measurement} needs {missing[1]}, which {sys.executable} does not have\n"
                f"  next: in a clone, {sys.executable} -m pip install --editable '.[dev]'"
            )
        raise MeasurementError(f"{measurement} ended with status {done.returncode}:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def machine() -> dict[str, Any]:
    """Return the machine and its load: load averages over 1, 5 and 15 minutes, at the end."""
    load = [round(figure, 2) for figure in os.getloadavg()] if hasattr(os, "getloadavg") else None
    return {"system": platform.platform(), "cpu": _cpu(), "cores": os.cpu_count(), "load": load}


def machine_line() -> str:
    found = machine()
    load = f", load {found['load'][0]}" if found["load"] else ""
    return f"{found['cpu']}, {found['cores']} cores{load}; Python {platform.python_version()}"


def versions() -> dict[str, str]:
    others = {name: version(name) for name in ("msgspec", "xxhash")}
    return {"python": platform.python_version(), "kedge": kedge_version(), "core": CORE.lower(), **others}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def table(rows: Sequence[Row]) -> str:
    """Return rows in columns, the first one aligned left and the others right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(line)
        ).rstrip()
        for line in (list(zip(row, widths, strict=True)) for row in rows)
    )


def verdict(kept: bool) -> str:
    return "ok" if kept else "MISSED"
