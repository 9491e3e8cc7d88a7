"""What keeping costs: rows a second that sinks store durably, and commits a second of a worker's own store.

    .venv/bin/python -m benchmarks.state [--json] [--seconds S] [--rounds N] [NAME …]

`postgres-sink` needs the server that tests use: KEDGE_TEST_POSTGRES, or the standard port; without one, name the
others. Each sink is fed by one task, in batches of up to 500. What disks do differs: each figure stands beside that of
SqliteSink, on the same disk.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

BESIDE = "sqlite-sink"
LEAST = {"postgres-sink": 20_000}  # name → what it has to reach


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    value = figures["value"]
    batch = f"{figures['batch']:.0f}" if "batch" in figures else ""
    commits = f"{figures['commits']:,.0f}" if "commits" in figures else ""
    share = ""
    if name.unit == "rows/s" and name.name != BESIDE and BESIDE in results:
        share = f"{value / results[BESIDE]['value']:.2f} × {BESIDE}"
    least = LEAST.get(name.name)
    bar = f">= {least:,}: {verdict(value >= least)}" if least is not None else ""
    return name.name, f"{value:,.0f}", name.unit, batch, commits, share, bar


BENCHMARK = Benchmark(
    name="state",
    about="Rows a second that sinks store, each acked once it is durable, and commits a second of a worker's store.",
    names=(
        Name("postgres-sink", "rows/s"),
        Name(BESIDE, "rows/s"),
        Name("jsonlines-sink", "rows/s"),
        Name("store-commit", "commits/s"),
    ),
    seconds=3.0,
    rounds=3,
    heading=("", "value", "unit", "batch", "commits/s", "share", "bar"),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
