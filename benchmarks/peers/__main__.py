"""Kedge beside its peers: the same work, the same lines, the same machine, in one command.

    make peers [ARGS="--rounds 5"]
    .venv/bin/python -m benchmarks.peers [--json] [--out FILE] [--rounds N] [--scale X] [--workloads …] [NAME …]

The work is identity, word count and SSH alerts. The peers are bare asyncio queues, plain pyzmq, Bytewax without and
with recovery, and Kedge in one process and on two workers. Each script is in this folder, as a user of that peer would
write it. Files are read to their end, so these are figures of throughput; `kedge compare` and `benchmarks.latency`
measure latency. Ratios are to bare asyncio in the same run.

Each peer has an environment of its own in build/peers, made at the first run. If a peer's output differs from Kedge's,
its row shows the problem, and the exit status is 1. Ctrl-C keeps the results so far.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.catalogue import LEFT_OUT, PEERS, Peer
from benchmarks.peers.environments import EnvironmentsError, UnreachableError, is_made, python_of, versions_in
from benchmarks.peers.inputs import ROOT, WORKLOADS, Workload, log_source
from benchmarks.peers.rounds import OURS, Cell, Comparison, compared
from benchmarks.quiet import load_now
from benchmarks.rounds import INTERRUPTED, machine, machine_line, table, versions
from topology.cli.cleanup import interruptible

PLACE: Final = ROOT / "build" / "peers"
HEADING: Final = ("", "lines/s", "× asyncio", "CPU s/M", "start-up s", "MB", "guarantee")
LINES_MIN: Final = 2_000


def main() -> int:
    """Run the command. The exit status is 1 if a row has a problem, and 130 after Ctrl-C."""
    options = _options()
    comparison = Comparison(
        [
            Cell(workload, peer, max(LINES_MIN, round(workload.lines * options.scale)))
            for workload in options.workloads
            for peer in options.peers
        ]
    )
    pythons: dict[str, str] = {}
    load: float | None = None
    status = 0
    try:
        with interruptible():
            pythons = _environments(comparison, options.peers)
            load = load_now()  # now, because an installation just before adds to the load
            with tempfile.TemporaryDirectory(prefix="kedge-peers-") as folder:
                until = time.monotonic() + 60 * options.minutes
                compared(comparison, pythons, Path(folder), options.rounds, options.limit, until)
    except KeyboardInterrupt:
        comparison.interrupted, status = "it was interrupted", INTERRUPTED
    except EnvironmentsError as error:
        print(f"peers: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # for example a full disk: print the results so far
        comparison.interrupted = f"{error.filename or 'a file'} is not writable: {error.strerror}"
    found = _object(comparison, options, pythons, load)
    print(json.dumps(found) if options.json else _table(comparison, found))
    if options.out is not None and (problem := _written(options.out, found)):
        print(f"peers: {problem}", file=sys.stderr)
        status = status or 1
    return status or (1 if comparison.problems or comparison.interrupted else 0)


def _options() -> argparse.Namespace:
    peers = {peer.name: peer for peer in PEERS}
    workloads = {workload.name: workload for workload in WORKLOADS}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="The same work on Kedge and its peers, side by side."
    )
    parser.add_argument("peers", nargs="*", metavar="NAME", help=f"of {', '.join(peers)} (default: all)")
    parser.add_argument("--workloads", nargs="+", choices=[*workloads], default=[*workloads], help="(default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout in place of the table")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write that object into a file")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (%(default)d)")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many lines (%(default)g)")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds for each single run (%(default)g)")
    parser.add_argument("--minutes", type=float, default=40.0, help="after which no run is begun (%(default)g)")
    options = parser.parse_args()
    if unknown := [name for name in options.peers if name not in peers]:
        parser.error(f"there is no {unknown[0]!r}; the names are {', '.join(peers)}")
    numbers = (options.scale, options.limit, options.minutes)
    if options.rounds < 1 or not all(0 < number < float("inf") for number in numbers):
        parser.error("there has to be at least one round, and scale, limit and minutes are above 0")
    if options.out is not None and not options.out.parent.is_dir():
        parser.error(f"there is no folder {options.out.parent}")
    chosen = dict.fromkeys([*(options.peers or peers), OURS])  # without Kedge there is no reference output
    options.peers = [peer for peer in PEERS if peer.name in chosen]
    options.workloads = [workload for workload in WORKLOADS if workload.name in options.workloads]
    return options


def _environments(comparison: Comparison, peers: Sequence[Peer]) -> dict[str, str]:
    """Return name → Python. If a peer cannot be installed, each of its rows has that as its problem.

    Raises EnvironmentsError if no peer can be installed because there is no network: then there is no peer to compare
    with.
    """
    pythons: dict[str, str] = {}
    unreached: UnreachableError | None = None
    problems: dict[str, str] = {}
    for peer in peers:
        folder = PLACE / peer.folder
        try:
            if unreached is not None and not is_made(folder, peer.needs):
                raise unreached  # a second attempt would take as long, and fail in the same way
            pythons[peer.name] = python_of(folder, peer.needs)
        except EnvironmentsError as error:
            problems[peer.name] = str(error)
            unreached = error if isinstance(error, UnreachableError) else unreached
    if unreached is not None and not any(peer.needs for peer in peers if peer.name in pythons):
        raise unreached
    for cell in comparison.cells:
        cell.problem = problems.get(cell.peer.name, "")
    for problem in dict.fromkeys(problems.values()):
        print(f"peers: {problem}", file=sys.stderr)
    return pythons


def _object(
    comparison: Comparison, options: argparse.Namespace, pythons: dict[str, str], load: float | None
) -> dict[str, Any]:
    workloads: Sequence[Workload] = options.workloads
    return {
        "benchmark": "peers",
        "machine": {**machine(), "load_before": load},
        "versions": {**versions(), **_versions(options.peers, pythons)},
        "settings": {
            "rounds": comparison.rounds,
            "lines": {cell.workload.name: cell.lines for cell in comparison.cells},
            "log": log_source(),
        },
        "workloads": {workload.name: workload.about for workload in workloads},
        "left_out": LEFT_OUT,
        "interrupted": comparison.interrupted,
        "results": comparison.results(),
    }


def _versions(peers: Sequence[Peer], pythons: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for peer in peers:
        if peer.needs and peer.name in pythons:
            found |= versions_in(pythons[peer.name], ["bytewax", "pyzmq"])
    return found


def _table(comparison: Comparison, found: dict[str, Any]) -> str:
    parts = [f"peers: median of {comparison.rounds} rounds; {machine_line()}"]
    for name, about in found["workloads"].items():
        results = [result for result in found["results"] if result["workload"] == name]
        rows = [(name, *HEADING[1:]), *(_row(result) for result in results)]
        parts.append(f"{name}: {about}; {found['settings']['lines'][name]:,} lines\n\n{table(rows)}")
    promises = dict.fromkeys(f"  {result['title']}: {result['means']}" for result in found["results"])
    parts.append("what is promised of a line:\n" + "\n".join(promises))
    problems = [
        f"  {result['workload']}, {result['title']}: {result['problem']}"
        for result in found["results"]
        if result["problem"]
    ]
    if problems:
        parts.append("problems:\n" + "\n".join(problems))
    if comparison.interrupted:
        parts.append(f"not all was measured: {comparison.interrupted}")
    return "\n\n".join(parts)


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    def shown(key: str, form: str) -> str:
        return "–" if one[key] is None else format(one[key], form)

    figures = (shown("value", ",.0f"), shown("ratio", ".2f"), shown("cpu_seconds_per_million", ".1f"))
    return one["title"], *figures, shown("start_s", ".2f"), shown("memory_mb", ",.0f"), one["guarantee"]


def _written(path: Path, found: dict[str, Any]) -> str:
    """Writes all or nothing; returns why nothing."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(json.dumps(found, indent=1) + "\n")
        beside.replace(path)
    except OSError as error:
        return f"{path} is not writable: {error.strerror}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
