"""Latency of alerts in an open loop: from the time a line is scheduled for to the entry of the sink's `process`.

    .venv/bin/python -m benchmarks.latency [--json] [--seconds S] [--rounds N] [NAME …]

The SSH alerts' own bolts, at 1,000 and 10,000 lines a second, of which every second one is a failed login and every
tenth one raises an alert. `cores` is the CPU time of the process that runs the topology; the feeder is another one, and
its own lag is part of each latency, and told besides. A round has as many samples as alerts: p999 says little at 1,000.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

P50_MS_MAX = 0.2
P99_MS_MAX = 1.0
CORES_MAX = 0.5


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    kept = figures["p50"] < P50_MS_MAX and figures["p99"] < P99_MS_MAX and figures["cores"] < CORES_MAX
    milliseconds = [f"{figures[key]:.3f}" for key in ("p50", "p99", "p999")]
    lag = f"{figures['feeder_lag_p99']:.3f}/{figures['feeder_lag_max']:.3f}"
    return name.name, *milliseconds, f"{figures['cores']:.2f}", f"{figures['alerts']:,.0f}", lag, verdict(kept)


BENCHMARK = Benchmark(
    name="latency",
    about="Milliseconds from a line's scheduled time to its alert's arrival at the sink, fed in an open loop.",
    names=(Name("alert-embedded-1k", "ms", digits=4), Name("alert-embedded-10k", "ms", digits=4)),
    seconds=10.0,
    rounds=3,
    heading=(
        "",
        "p50 ms",
        "p99 ms",
        "p999 ms",
        "cores",
        "alerts",
        "feeder lag p99/max ms",
        f"p50 < {P50_MS_MAX}, p99 < {P99_MS_MAX}, cores < {CORES_MAX}",
    ),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
