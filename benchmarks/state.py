"""The cost of keeping: counts with and without durable state, a restart with much state, alerts, sinks and stores.

    .venv/bin/python -m benchmarks.state [--json] [--seconds S] [--rounds N] [NAME …]

`state-…` count 5,000 keys in one task, embedded: in memory, and kept by `durability="process"` and `"disk"`; each new
count goes on to a bolt behind. `state-disk-latency` is at 1,000 inputs per second, beside the time of an fsync on the
same disk in the same rounds. `state-restart` begins with a million keys in the store. `alert-2w-…` are the alerts of
`benchmarks.latency`, with their state in memory and kept.

`…-sink` are rows that a sink stores by itself, and `…-run` are those of a topology in one process: a source, and the
sink. The difference is the share of emission, queues and acks. `postgres-…` needs the server that tests use:
KEDGE_TEST_POSTGRES, or the standard port. Without a server, name the other figures. Each sink is fed by one task, in
batches of the default size. Disks differ, so each figure stands beside that of SqliteSink, on the same disk.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

BESIDE = {  # name → the figure of which it is a share or, if less is better, a multiple
    "postgres-sink": "sqlite-sink",
    "jsonlines-sink": "sqlite-sink",
    "postgres-run": "postgres-sink",
    "sqlite-run": "sqlite-sink",
    "jsonlines-run": "jsonlines-sink",
    "state-process": "state-none",
    "state-disk": "state-none",
    "alert-2w-process-1k": "alert-2w-1k",
    "alert-2w-disk-1k": "alert-2w-1k",
    "alert-2w-process-10k": "alert-2w-10k",
    "alert-2w-disk-10k": "alert-2w-10k",
}
LEAST = {  # name → the least value to reach
    "postgres-sink": 60_000,
    "sqlite-sink": 60_000,
    "jsonlines-sink": 400_000,
    "state-process": 80_000,
    "state-disk": 50_000,
}
LEAST_SHARE = {"state-process": 0.5}  # name → the least share of its reference figure
BELOW = {"state-restart": 5}  # name → the limit to stay below
FSYNCS = 2  # fsyncs of this disk that a count may take at most, …
EXTRA_MS = 1.0  # … plus this many milliseconds
SHOWN = {  # further figure → its format, in the last column but one
    "p99": "p99 {:.3f}",
    "fsync": "fsync {:.3f}",
    "cores": "{:.2f} cores",
    "memory": "{:,.0f} MB",
    "bytes": "{:,.0f} bytes a key",
}


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    value = figures["value"]
    batch = f"{figures['batch']:.0f}" if "batch" in figures else ""
    commits = f"{figures['commits']:,.0f}" if "commits" in figures else ""
    also = ", ".join(form.format(figures[key]) for key, form in SHOWN.items() if key in figures)
    shown = f"{value:,.0f}" if name.unit.endswith("/s") else f"{value:,.3f}"
    ratio = ratio_of(name.name, figures, results)
    share = f"{ratio:.2f} × {BESIDE[name.name]}" if ratio is not None else ""
    return name.name, shown, name.unit, batch, commits, also, share, bar(name.name, figures, ratio)


def ratio_of(name: str, figures: Figures, results: dict[str, Figures]) -> float | None:
    """Return the ratio to the reference figure; None if that is not measured."""
    other = results.get(BESIDE.get(name, ""))
    return figures["value"] / other["value"] if other is not None else None


def bar(name: str, figures: Figures, ratio: float | None) -> str:
    """Return the figure's target, and whether it is reached; empty if there is no target."""
    value, bars = figures["value"], list[str]()
    if (share := LEAST_SHARE.get(name)) is not None and ratio is not None:
        bars.append(f">= {share} ×: {verdict(ratio >= share)}")
    if (least := LEAST.get(name)) is not None:
        bars.append(f">= {least:,}: {verdict(value >= least)}")
    if (below := BELOW.get(name)) is not None:
        bars.append(f"< {below}: {verdict(value < below)}")
    if "fsync" in figures:
        most = FSYNCS * figures["fsync"] + EXTRA_MS
        bars.append(f"<= {FSYNCS} fsyncs + {EXTRA_MS:g} = {most:.3f}: {verdict(value <= most)}")
    return ", ".join(bars)


BENCHMARK = Benchmark(
    name="state",
    about="Inputs that a bolt with state counts a second, kept and not; a restart; alerts; rows that sinks store.",
    names=(
        Name("state-none", "inputs/s", digits=2),
        Name("state-process", "inputs/s", digits=2),
        Name("state-disk", "inputs/s", digits=2),
        Name("state-disk-latency", "ms", digits=4),
        Name("state-restart", "s", digits=3),
        Name("alert-2w-1k", "ms", digits=4),
        Name("alert-2w-process-1k", "ms", digits=4),
        Name("alert-2w-disk-1k", "ms", digits=4),
        Name("alert-2w-10k", "ms", digits=4),
        Name("alert-2w-process-10k", "ms", digits=4),
        Name("alert-2w-disk-10k", "ms", digits=4),
        Name("postgres-sink", "rows/s"),
        Name("sqlite-sink", "rows/s"),
        Name("jsonlines-sink", "rows/s"),
        Name("postgres-run", "rows/s"),
        Name("sqlite-run", "rows/s"),
        Name("jsonlines-run", "rows/s"),
        Name("store-commit", "commits/s"),
    ),
    seconds=3.0,
    rounds=3,
    heading=("", "value", "unit", "batch", "commits/s", "also", "share", "bar"),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
