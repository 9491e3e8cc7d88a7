"""Latency of alerts in an open loop: from the scheduled time of a line to the entry of the sink's `process`.

    .venv/bin/python -m benchmarks.latency [--json] [--seconds S] [--rounds N] [NAME …]

The SSH alerts' own bolts, at 1,000 and 10,000 lines per second. Every second line is a failed login and every tenth
raises an alert. Runs embedded, and on two worker processes, where every second failure and alert crosses. `cores` is
the CPU time of all processes that run the topology, the supervisor's included. The feeder is another process; its own
lag is part of each latency, and is also shown. A round has as many samples as alerts: p999 means little at 1,000.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

BARS = {  # name → limits of p50 and p99 in milliseconds, and of cores
    "alert-embedded-1k": (0.2, 0.6, 0.4),
    "alert-embedded-10k": (0.15, 0.8, 0.4),
    "alert-2w-1k": (0.4, 1.2, 0.9),
    "alert-2w-10k": (0.35, 1.5, 0.9),
}


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    p50, p99, cores = BARS[name.name]
    kept = figures["p50"] < p50 and figures["p99"] < p99 and figures["cores"] < cores
    milliseconds = [f"{figures[key]:.3f}" for key in ("p50", "p99", "p999")]
    lag = f"{figures['feeder_lag_p99']:.3f}/{figures['feeder_lag_max']:.3f}"
    bar = f"< {p50}, {p99}, {cores}: {verdict(kept)}"
    return name.name, *milliseconds, f"{figures['cores']:.2f}", f"{figures['alerts']:,.0f}", lag, bar


BENCHMARK = Benchmark(
    name="latency",
    about="Milliseconds from a line's scheduled time to its alert's arrival at the sink, fed in an open loop.",
    names=tuple(Name(name, "ms", digits=4) for name in BARS),
    seconds=10.0,
    rounds=3,
    heading=("", "p50 ms", "p99 ms", "p999 ms", "cores", "alerts", "feeder lag p99/max ms", "bar: p50, p99, cores"),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
