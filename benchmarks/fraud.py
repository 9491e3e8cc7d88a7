"""The cost of the millisecond part of examples/fraud.py: the most payments per second, and latencies of alerts at
rates.

    .venv/bin/python -m benchmarks.fraud [--json] [--seconds S] [--rounds N] [NAME …]

The most: a file of payments, read as fast as possible by an unchanged `kedge run`, in one process and on 2 workers.
Alerts: p50 and p99 in an open loop, up to the peak that Visa quotes, 47,000 payments per second. At a rate above the
capacity, latency is the queue. A sampling profiler shows where the time goes. State is kept with
`durability="process"`.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

PEAK = 47_000  # payments per second: Visa's stated capacity
P99_MS = 100.0  # of alerts at the peak
AT_THE_PEAK = ("fraud-alert-47k", "fraud-alert-47k-2w")
SHOWN = {  # further figure → its format
    "of_cpu": "{:,.0f} a second of CPU time",
    "cores": "{:.2f} cores",
    "p99": "p99 {:,.1f}",
    "max": "max {:,.1f}",
    "alerts": "{:,.0f} alerts",
    "rules": "rules {:.1f}",
    "state": "state {:.1f}",
    "rest": "the rest {:.1f}",
}


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    value = figures["value"]
    shown = f"{value:,.0f}" if name.unit.endswith("/s") else f"{value:,.2f}"
    also = ", ".join(form.format(figures[key]) for key, form in SHOWN.items() if key in figures)
    return name.name, shown, name.unit, also, bar(name.name, figures)


def bar(name: str, figures: Figures) -> str:
    """Return the figure's target, and whether it is reached; for the most, its share of the peak."""
    if name in AT_THE_PEAK:
        return f"p99 < {P99_MS:g}: {verdict(figures['p99'] < P99_MS)}"
    return f"{figures['value'] / PEAK:.2f} of {PEAK:,}" if name.startswith("fraud-most") else ""


BENCHMARK = Benchmark(
    name="fraud",
    about="Payments a second through the part of examples/fraud.py that takes milliseconds, and how long alerts take.",
    names=(
        Name("fraud-most", "payments/s", 2),
        Name("fraud-most-2w", "payments/s", 2),
        Name("fraud-alert-1k", "ms", 3),
        Name("fraud-alert-10k", "ms", 3),
        Name("fraud-alert-20k", "ms", 3),
        *(Name(name, "ms", 3) for name in AT_THE_PEAK),
        Name("fraud-profile", "µs", 2),
    ),
    seconds=10.0,
    rounds=2,
    heading=("", "value", "unit", "also", "bar"),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
