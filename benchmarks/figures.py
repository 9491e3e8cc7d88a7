"""Takes all figures of docs/benchmarks.md anew, one benchmark after the other, and makes the page of them.

    make figures [ARGS="NAME …"]
    .venv/bin/python -m benchmarks.figures [--list] [NAME …]

Wants a machine with nothing else to do. Each benchmark is bounded; one that fails is told at the end, its last figures
are kept as they were, and the others go on. Ctrl-C ends it, and keeps what is done. Results go to benchmarks/results.
"""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.feeder import lines as made
from benchmarks.kept import FOLDER, ROOT, KeptError, load
from benchmarks.page import pages, write
from benchmarks.state import BENCHMARK as STATE

ALERTS: Final = "examples/ssh_alerts.py"
LOG: Final = ROOT / "build" / "figures" / "auth.log"
LOG_LINES: Final = 600_000  # enough for a minute at 10,000 a second: an address that comes again raises no alert
RATE: Final = 1_000  # lines a second, by their own times
SECONDS: Final = 10  # of each mode in each round of a comparison: there are nine, and some take as long to start
PRIVATE: Final = re.compile(r"(?<![\w./])/(?:home|opt|private|root|srv|tmp|usr|var|work|Users)/[^\s\"',:]*")
NEEDS_A_SERVER: Final = "postgres-sink"  # of `benchmarks.state`: without one, all of its figures would be lost
IN_PROCESS: Final = ("--modes", "record,embedded", "--config", "durability=process")
MINUTES: Final = 60.0  # for one benchmark, where it does not say otherwise
BUSY: Final = 0.5  # load average from which on the machine is not quiet
STOP_S: Final = 20.0  # for a benchmark to end after Ctrl-C


def _own(name: str, *options: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{name}", "--json", *options]


def _compare(*options: str) -> list[str]:
    settings = ("--set", f"path={LOG.relative_to(ROOT)}")
    return [sys.executable, "-m", "kedge", "compare", ALERTS, "--json", *settings, *options, "--for", str(SECONDS)]


FIGURES: Final[dict[str, list[str]]] = {  # name of the file → what gives its object on stdout
    "peers": _own("peers"),
    "latency": _own("latency"),
    "throughput": _own("throughput"),
    "state": _own("state", *(name.name for name in STATE.names if name.name != NEEDS_A_SERVER)),
    "compare-1k": _compare("--rate", "1000"),
    "compare-10k": _compare("--rate", "10000"),
    "compare-1k-process": _compare("--rate", "1000", *IN_PROCESS),
    "compare-10k-process": _compare("--rate", "10000", *IN_PROCESS),
    "compare-max": _compare("--rate", "max"),
    "compare-kill": _compare("--rate", "1000", "--kill"),
    "recovery": _own("recovery"),
    "bridge": _own("bridge"),
    "fraud": _own("fraud"),
}


def main() -> int:
    """Runs the command; the exit status is 1 where a benchmark failed, and 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description="Takes all figures anew.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)} (default: all)")
    parser.add_argument("--list", action="store_true", help="what would be run, and nothing else")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for each benchmark (%(default)g)")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in FIGURES]:
        parser.error(f"there is no {unknown[0]!r}; the names are {', '.join(FIGURES)}")
    names = options.names or [*FIGURES]
    if options.list:
        print("\n".join(f"{name}: python {' '.join(FIGURES[name][1:])}" for name in names))
        return 0
    if (load := _load() or 0.0) > BUSY:
        print(f"the machine is not quiet: its load is {load:.2f}; the figures will say so", file=sys.stderr)
    if any(name.startswith("compare") for name in names):
        make_log()
    return _take(names, 60 * options.minutes)


def make_log(lines: int = LOG_LINES) -> None:
    """The sshd log that comparisons read, each tenth line of which raises an alert; as it was, where it is there."""
    if not LOG.exists():
        LOG.parent.mkdir(parents=True, exist_ok=True)
        beside = LOG.with_suffix(".new")
        with beside.open("wb") as file:
            file.writelines(made(lines, RATE))
        beside.replace(LOG)


def _take(names: Sequence[str], limit_s: float) -> int:
    failed: dict[str, str] = {}
    status = 0
    try:
        for number, name in enumerate(names):
            print(f"{number + 1}/{len(names)} {name} ...", file=sys.stderr)
            begun = time.monotonic()
            if problem := taken(name, FIGURES[name], limit_s):
                failed[name] = problem
            print(f"{name}: {problem or 'done'} after {time.monotonic() - begun:.0f} s", file=sys.stderr)
    except KeyboardInterrupt:
        status = 130
    try:
        write(pages(load([*FOLDER.glob("*.json")], platform.node())), ROOT / "docs")
    except KeptError as error:
        failed["page"] = str(error)
    for name, problem in failed.items():
        print(f"{name}: {problem}", file=sys.stderr)
    return status or (1 if failed else 0)


def taken(name: str, command: Sequence[str], limit_s: float) -> str:
    """Runs it, and keeps what it has given; returns what is wrong, or nothing. What it tells goes to stderr. An object
    that has a problem within is kept, and told."""
    with tempfile.TemporaryFile() as out:
        load = _load()
        status, late = _ended(command, out.fileno(), limit_s)
        out.seek(0)
        said = out.read()
    how = f"it was ended after {limit_s:g} s" if late else f"it ended with status {status}"
    try:
        found = json.loads(said)
    except ValueError:
        return f"{how}, and has given no object"
    if isinstance(found, dict) and isinstance(found.get("machine"), dict):
        found["machine"].setdefault("load_before", load)
    if problem := _keep(name, found):
        return problem
    return f"{how}; what it has given is kept" if status or late else ""


def _ended(command: Sequence[str], out: int, limit_s: float) -> tuple[int, bool]:
    """Its exit status, and whether it was late: then it is asked to end as by Ctrl-C, and soon killed."""
    with subprocess.Popen(command, cwd=ROOT, stdout=out, stdin=subprocess.DEVNULL) as process:
        late = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            late = True
            process.send_signal(signal.SIGINT)
        finally:  # at Ctrl-C, too, which it has seen by itself
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.wait(), late


def _load() -> float | None:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _keep(name: str, found: Any) -> str:
    """Writes the object into benchmarks/results, all or nothing; returns why not."""
    FOLDER.mkdir(exist_ok=True)
    beside = FOLDER / f"{name}.json.new"
    text = json.dumps(found, indent=1).replace(sys.executable, "python").replace(f"{ROOT}{os.sep}", "")
    beside.write_text(PRIVATE.sub("…", text) + "\n")
    try:
        load([beside], platform.node())
    except KeptError as error:
        beside.unlink()
        return f"it is not kept: {error}"
    beside.replace(Path(FOLDER / f"{name}.json"))
    return ""


if __name__ == "__main__":
    sys.exit(main())
