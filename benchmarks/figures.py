"""Takes all figures of docs/benchmarks.md again, one benchmark after the other, and makes the page of them.

    make figures [ARGS="NAME …"]
    .venv/bin/python -m benchmarks.figures [--list] [--wait SECONDS] [--results FOLDER] [--docs FOLDER] [NAME …]

Needs an otherwise idle machine. Before each benchmark it waits until the load of the one before has gone, for at most
three minutes; if the machine does not become quiet, the result says so. Each benchmark has a time limit. If a benchmark
fails or has no room, it is reported at the end, its last figures stay, and the next benchmarks run. Ctrl-C ends the
command, and finished results stay. Results go to benchmarks/results, and the page to docs.
"""

import argparse
import contextlib
import json
import math
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.feeder import lines as made
from benchmarks.kept import FOLDER, ROOT, KeptError, kind_of, load
from benchmarks.page import IMAGES, pages, write
from benchmarks.quiet import WAIT_S, is_quiet, quiet
from benchmarks.rounds import INTERRUPTED
from benchmarks.state import BENCHMARK as STATE
from topology.cli.cleanup import interruptible

ALERTS: Final = "examples/ssh_alerts.py"
LOG: Final = ROOT / "build" / "figures" / "auth.log"
LOG_LINES: Final = 600_000  # enough for a minute at 10,000 per second: a repeated address raises no alert
RATE: Final = 1_000  # lines per second, by their own times
# seconds of each mode in each round of a comparison: there are nine modes, and some take as long to start
SECONDS: Final = 10
PRIVATE: Final = re.compile(r"(?<![\w./])/(?:home|opt|private|root|srv|tmp|usr|var|work|Users)/[^\s\"',:]*")
OF_A_SERVER: Final = "postgres-"  # of `benchmarks.state`: without a server, all of its figures would be lost
SERVER: Final = "KEDGE_TEST_POSTGRES"  # the variable that names a server
IN_PROCESS: Final = ("--modes", "record,embedded", "--config", "durability=process")
MINUTES: Final = 60.0  # for one benchmark, unless it has another limit
STOP_S: Final = 20.0  # seconds for a benchmark to end after Ctrl-C


def _own(name: str, *options: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{name}", "--json", *options]


def _of_state() -> list[str]:
    """Return the names that can be measured here: those of a server if one is named."""
    return [figure.name for figure in STATE.names if SERVER in os.environ or not figure.name.startswith(OF_A_SERVER)]


def _compare(*options: str) -> list[str]:
    settings = ("--set", f"path={LOG.relative_to(ROOT)}")
    return [sys.executable, "-m", "kedge", "compare", ALERTS, "--json", *settings, *options, "--for", str(SECONDS)]


FIGURES: Final[dict[str, list[str]]] = {  # name of the file → the command that prints its object
    "peers": _own("peers"),
    "latency": _own("latency"),
    "throughput": _own("throughput"),
    "state": _own("state", *_of_state()),
    "compare-1k": _compare("--rate", "1000"),
    "compare-10k": _compare("--rate", "10000"),
    "compare-1k-process": _compare("--rate", "1000", *IN_PROCESS),
    "compare-10k-process": _compare("--rate", "10000", *IN_PROCESS),
    "compare-max": _compare("--rate", "max"),
    "compare-kill": _compare("--rate", "1000", "--kill"),
    "recovery": _own("recovery"),
    "bridge": _own("bridge"),
    "fraud": _own("fraud"),
    "connectors": _own("connectors"),
}


@dataclass(frozen=True)
class Places:
    """The folders of the results and of the page."""

    results: Path = FOLDER
    docs: Path = ROOT / "docs"

    def problem(self) -> str:
        """Return a sentence if a folder cannot be written; empty if all can. Makes missing folders."""
        for folder in (self.results, self.docs / IMAGES, LOG.parent):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder):
                    pass
            except FileExistsError:
                return f"{folder} is no folder"
            except OSError as error:
                return f"nothing can be written into {folder}: {error.strerror}"
        return ""


def main() -> int:
    """Run the command; return exit status 1 if a benchmark failed, 2 if it cannot begin, 130 after Ctrl-C."""
    options = _options()
    if options.list:
        print("\n".join(f"{name}: python {' '.join(FIGURES[name][1:])}" for name in options.names))
        return 0
    places = Places(options.results, options.docs)
    if problem := places.problem():
        _tell(f"figures: {problem}")
        return 2
    with interruptible():
        return _take(options.names, 60 * options.minutes, options.wait, places)


def _options() -> argparse.Namespace:
    about = "Takes all figures of docs/benchmarks.md again, and makes the page of them: about an hour and a half."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=about)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)} (default: all)")
    parser.add_argument("--list", action="store_true", help="what would be run, and nothing else")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for each benchmark, at most (%(default)g)")
    parser.add_argument(
        "--wait",
        type=float,
        default=WAIT_S,
        metavar="SECONDS",
        help="for a quiet machine before each benchmark, at most (%(default)g)",
    )
    usual = Places()
    parser.add_argument(
        "--results", type=Path, default=usual.results, metavar="FOLDER", help="of the JSON (benchmarks/results)"
    )
    parser.add_argument("--docs", type=Path, default=usual.docs, metavar="FOLDER", help="of the page (docs)")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in FIGURES]:
        parser.error(f"there is no {unknown[0]!r}; the names are {', '.join(FIGURES)}")
    if not (0 < options.minutes < math.inf and 0 <= options.wait < math.inf):
        parser.error("--minutes has to be above 0, and --wait not below")
    options.names = list(dict.fromkeys(options.names or FIGURES))
    return options


def make_log(lines: int = LOG_LINES) -> None:
    """Make the sshd log that comparisons read, each tenth line of which raises an alert; an existing log stays.

    Raises OSError, and leaves no file then.
    """
    if not LOG.exists():
        LOG.parent.mkdir(parents=True, exist_ok=True)
        beside = LOG.with_suffix(".new")
        try:
            with beside.open("wb") as file:
                file.writelines(made(lines, RATE))
            beside.replace(LOG)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise


def _take(names: Sequence[str], limit_s: float, wait_s: float, places: Places) -> int:
    failed: dict[str, str] = {}
    status = 0
    try:
        for number, name in enumerate(names):
            _tell(f"{number + 1}/{len(names)} {name} ...")
            if problem := _one(name, limit_s, wait_s, places.results):
                failed[name] = problem
    except KeyboardInterrupt:
        status = INTERRUPTED
        _tell("interrupted: what was done by then is kept, and on the page")
    try:
        write(pages(load([*places.results.glob("*.json")], platform.node())), places.docs)
    except KeptError as error:
        failed["page"] = str(error)
    except OSError as error:  # for example if the disk is full by now
        failed["page"] = f"{error.filename} is not writable: {error.strerror}"
    for name, problem in failed.items():
        _tell(f"{name}: {problem}")
    return status or (1 if failed else 0)


def _one(name: str, limit_s: float, wait_s: float, folder: Path) -> str:
    """Wait for a quiet machine, and take one benchmark; return its problem, which it has printed, or ""."""
    started_at = time.monotonic()
    try:
        if name.startswith("compare"):
            make_log()
        before = quiet(wait_s, _tell)
        started_at = time.monotonic()
        problem = taken(name, FIGURES[name], limit_s, folder, before)
    except OSError as error:  # for example if there is no room in the temporary directory
        where = f"{error.filename}: " if error.filename else ""
        problem = f"the run failed: {where}{error.strerror}"
    _tell(f"{name}: {problem or 'done'} after {time.monotonic() - started_at:.0f} s")
    return problem


def taken(name: str, command: Sequence[str], limit_s: float, folder: Path, before: float | None) -> str:
    """Run it, and keep its result in this folder, with the load `before` and whether the machine was quiet.

    Return its problem, or "". Its messages go to stderr. The result of a failed or late run is kept if it is an object,
    and the failure is returned. Raises OSError, and KeyboardInterrupt, once the process has ended.
    """
    with tempfile.TemporaryFile() as out:
        status, late = _ended(command, out.fileno(), limit_s)
        out.seek(0)
        said = out.read()
    how = f"it was ended after {limit_s:g} s" if late else f"it ended with status {status}"
    try:
        found = json.loads(said)
    except ValueError:
        return f"{how}, and has given no object"
    if isinstance(found, dict) and isinstance(found.get("machine"), dict):
        machine: dict[str, Any] = found["machine"]
        if kind_of(found) == "compare":  # it measures the load later, when that includes its own start
            machine["load_before"] = before
        machine["quiet_before"] = is_quiet(machine.setdefault("load_before", before))
    if problem := _keep(name, found, folder):
        return problem
    return f"{how}; what it has given is kept" if status or late else ""


def _ended(command: Sequence[str], out: int, limit_s: float) -> tuple[int, bool]:
    """Return its exit status, and True if it was late: then it gets a SIGINT, and soon a SIGKILL.

    It has a session of its own, so that a Ctrl-C reaches it once, from here.
    """
    with subprocess.Popen(command, cwd=ROOT, stdout=out, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            return process.wait(limit_s), False
        except subprocess.TimeoutExpired:
            return _stopped(process), True
        except KeyboardInterrupt:
            _stopped(process)
            raise


def _stopped(process: "subprocess.Popen[bytes]") -> int:
    """Return its exit status, once SIGINT or SIGKILL has ended it. Its remaining child processes are killed too."""
    process.send_signal(signal.SIGINT)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    finally:  # also after a second Ctrl-C
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _keep(name: str, found: Any, folder: Path) -> str:
    """Write the object into the folder, all or nothing; return why not."""
    beside = folder / f"{name}.json.new"
    text = json.dumps(found, indent=1).replace(sys.executable, "python").replace(f"{ROOT}{os.sep}", "")
    try:
        beside.write_text(PRIVATE.sub("…", text) + "\n")
        load([beside], platform.node())
        beside.replace(folder / f"{name}.json")
    except (OSError, KeptError) as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        return f"it is not kept: {error.strerror if isinstance(error, OSError) else error}"
    return ""


def _tell(words: str) -> None:
    print(words, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
