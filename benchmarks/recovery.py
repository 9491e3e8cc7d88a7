"""Recovery: a worker process is killed by SIGKILL at full speed; measures the time until its work resumes, and until
all is done.

    .venv/bin/python -m benchmarks.recovery [--json] [--kills N] [--seconds S] [--plot FILE] [NAME …]

Two workers, an open loop: records are due by a schedule, at 5,000 per second and at 80 % of the same topology's rate,
measured just before. The victim is the worker without a spout (bolt-*), or one with a spout (spout-*), which resumes
where its log says that it was. Neither positions nor state are kept on the disk. Each kill has a run of its own, so
that the first restart follows it, which is at once.

recovery-first-ack-ms   From the kill to the first ack of a record that was in flight then, needed the dead worker, and
                        was processed by its replacement.
recovery-all-ms         From the kill until every record that was due before it is acked.
fail-all-ms             How long a survivor's loop is blocked as it fails and replays all its 2,000 trees, in runs of 2,
                        4 and 8 workers.

Medians, and the worst of all kills. The figures of the JSON object are the highest medians of all cases.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.plot import svg
from benchmarks.rounds import (
    INTERRUPTED,
    MeasurementError,
    in_fresh_process,
    machine,
    machine_line,
    table,
    verdict,
    versions,
)

RATE = 5_000.0  # records a second
SHARE = 0.8  # of saturation
KILLS = {  # case → spout tasks and rate; None: a share of saturation
    "bolt-5k": (1, RATE),
    "bolt-80": (1, None),
    "spout-5k": (2, RATE),
    "spout-80": (2, None),
}
FAILS = {"fail-all-2w": 2, "fail-all-4w": 4, "fail-all-8w": 8}  # case → workers
FIGURES = {"first_ack": ("recovery-first-ack-ms", 1_000), "all": ("recovery-all-ms", 3_000)}  # → name, bar
FAIL_ALL = "fail-all-ms"
EVENT = "the kill"

Case = dict[str, Any]


def main() -> int:
    """Run the command; the exit status is 1 if a measurement failed, and 130 after Ctrl-C."""
    options = _options()
    try:
        kills = {name: _killed(name, options) for name in options.names if name in KILLS}
        fails = {name: _failed(name, options) for name in options.names if name in FAILS}
    except MeasurementError as error:
        print(f"recovery: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("recovery: interrupted", file=sys.stderr)
        return INTERRUPTED
    if options.plot is not None:
        options.plot.write_text(_drawn(kills))
    if options.json:
        found = {"benchmark": "recovery", "machine": machine(), "versions": versions()}
        print(json.dumps({**found, "results": _results(kills, fails)}))
    else:
        _tell(kills, fails, options)
    return 0


def _options() -> argparse.Namespace:
    known = [*KILLS, *FAILS]
    about = "Milliseconds from a worker's SIGKILL to the first replayed ack, and until all that was due is acked."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery", description=about)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout in place of the table")
    parser.add_argument("--kills", type=int, default=10, help="of each case (%(default)d)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of running before a kill (%(default)g)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the latency around a median kill, as SVG")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no {unknown[0]!r}; the names are {', '.join(known)}")
    if options.kills < 1 or not 0 < options.seconds < float("inf"):
        parser.error("there has to be at least one kill, after more than 0 seconds")
    options.names = list(dict.fromkeys(options.names or known))
    if options.plot is not None and not KILLS.keys() & set(options.names):
        parser.error(f"there is something to draw for {', '.join(KILLS)} only")
    if options.plot is not None and not options.plot.absolute().parent.is_dir():
        parser.error(f"{options.plot} is in a folder that is not there")
    return options


def _killed(name: str, options: argparse.Namespace) -> Case:
    """Return all kills of one case: median and worst of each figure, and the latencies of the median kill."""
    spouts, rate = KILLS[name]
    case: Case = {}
    if rate is None:
        case["saturation"] = round(in_fresh_process("saturation", options.seconds, spouts)["value"])
        rate = SHARE * case["saturation"]
        print(f"{name}: {case['saturation']:,} records/s saturate it", file=sys.stderr)
    case["rate"] = round(rate)
    found: list[Case] = []
    for number in range(options.kills):
        found.append(in_fresh_process("kill", options.seconds, spouts, rate))
        texts = " ".join(f"{FIGURES[key][0]} {found[-1][key]:,.0f}" for key in FIGURES)
        print(f"kill {number + 1}/{options.kills}: {name} {texts}", file=sys.stderr)
    for key in FIGURES:
        case[key] = {
            "median": round(_median(found, key), 1),
            "worst": round(max(kill_case[key] for kill_case in found), 1),
        }
    case["in_flight"] = round(_median(found, "in_flight"))
    case["failed"] = round(_median(found, "failed"))
    case["drawn"] = sorted(found, key=lambda one: one["first_ack"])[len(found) // 2]["latency"]
    return case


def _failed(name: str, options: argparse.Namespace) -> Case:
    found: list[Case] = []
    for number in range(options.kills):
        found.append(in_fresh_process("fail-all", options.seconds, FAILS[name]))
        print(f"round {number + 1}/{options.kills}: {name} {found[-1]['value']:,.1f} ms", file=sys.stderr)
    medians = {key: round(_median(found, key), 2) for key in ("fail", "replay")}
    worst = round(max(figures["value"] for figures in found), 2)
    return {"median": round(_median(found, "value"), 2), "worst": worst, **medians}


def _median(found: Sequence[Case], key: str) -> float:
    return float(statistics.median(case[key] for case in found))


def _results(kills: dict[str, Case], fails: dict[str, Case]) -> list[Case]:
    """Return the figures by name.

    `cases` has the parts of each figure. The first figure also has the latency around its median kill: [ms from the
    kill, median ms, highest ms] of records due then.
    """
    results: list[Case] = []
    more = ("rate", "saturation", "in_flight", "failed")
    for key, (name, _) in FIGURES.items():
        cases = {at: {**one[key], **{other: one[other] for other in more if other in one}} for at, one in kills.items()}
        if key == "first_ack":
            for at, one in kills.items():
                cases[at]["drawn"] = [[round(figure, 3) for figure in point] for point in one["drawn"]]
        if cases:
            results.append(_result(name, cases))
    if fails:
        results.append(_result(FAIL_ALL, fails))
    return results


def _result(name: str, cases: dict[str, Case]) -> Case:
    value, worst = (max(case[key] for case in cases.values()) for key in ("median", "worst"))
    return {"name": name, "value": value, "unit": "ms", "worst": worst, "cases": cases}


def _tell(kills: dict[str, Case], fails: dict[str, Case], options: argparse.Namespace) -> None:
    print(f"recovery: {options.kills} kills each, {options.seconds:g} s before them; {machine_line()}")
    if kills:
        heading = ["", "records/s", "in flight", "failed"]
        for name, bar in FIGURES.values():
            heading += [f"{name}: median", "worst", f"median < {bar:,}"]
        rows = [heading]
        for name, one in kills.items():
            row = [name, *(f"{one[key]:,}" for key in ("rate", "in_flight", "failed"))]
            for key, (_, bar) in FIGURES.items():
                row += [f"{one[key]['median']:,.0f}", f"{one[key]['worst']:,.0f}", verdict(one[key]["median"] < bar)]
            rows.append(row)
        print(f"\n{table(rows)}")
    if fails:
        keys = ("median", "worst", "fail", "replay")
        rows = [["", f"{FAIL_ALL}: median", "worst", "of which failing", "replaying"]]
        rows += [[name, *(f"{one[key]:,.1f}" for key in keys)] for name, one in fails.items()]
        print(f"\n{table(rows)}")


def _drawn(kills: dict[str, Case]) -> str:
    what = {1: "the worker without a spout", 2: "a worker with a spout"}
    panels = [
        (f"{name}: {what[KILLS[name][0]]}, {one['rate']:,} records/s", one["drawn"]) for name, one in kills.items()
    ]
    return svg("Latency around the SIGKILL of one of two workers, open loop", EVENT, panels)


if __name__ == "__main__":
    sys.exit(main())
