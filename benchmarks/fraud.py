"""What the millisecond part of examples/fraud.py takes: payments a second at most, and latencies of alerts at rates.

    .venv/bin/python -m benchmarks.fraud [--json] [--seconds S] [--rounds N] [NAME …]

The most: a file of payments, read as fast as it can be, `kedge run` as it is, in one process and on 2 workers. Alerts:
p50 and p99 in an open loop, up to the peak that Visa quotes, 47,000 payments a second; at a rate that is more than it
can take, latency is the queue. Where the time goes is told by samples. State is kept with `durability="process"`.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

PEAK = 47_000  # payments a second: what Visa says it could take
P99_MS = 100.0  # of alerts at the peak
AT_THE_PEAK = ("fraud-alert-47k", "fraud-alert-47k-2w")
SHOWN = {  # figure besides → how it is shown
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
    besides = ", ".join(form.format(figures[key]) for key, form in SHOWN.items() if key in figures)
    return name.name, shown, name.unit, besides, bar(name.name, figures)


def bar(name: str, figures: Figures) -> str:
    """What it has to reach, and whether it does; of the most, how much of the peak that is."""
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
    heading=("", "value", "unit", "besides", "bar"),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
