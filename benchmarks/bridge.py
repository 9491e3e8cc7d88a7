"""What the way through Spark costs: a hand-over, a round trip and a window, each beside Spark alone.

    .venv/bin/python -m benchmarks.bridge [--json] [--seconds S] [--rounds N] [NAME …]

`handover-records-per-s` are records that one worker writes into durable segments, beside those that Spark reads a
second from Parquet. `roundtrip-p50-ms` is at 1,000 records a second, from the emission to the arrival of the result in
the topology, with Spark's default trigger. `window-vs-spark` is the ratio of records a second, through the topology and
back over Spark alone: a million of 100,000 keys in a window of an hour. Spark alone finds all of them there, and makes
one batch; a stream makes several, and goes through the state of nearly all keys in each, so beside it stands the ratio
to Spark alone in several batches.

Spark alone has the same records as Parquet files, read by its own streaming source with the same settings; its results
are only in the driver, not in another process. Needs kedge-streams[spark] and Java; a round takes minutes.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

LEAST = {"handover-records-per-s": 150_000, "window-vs-spark": 0.5}  # name → what it has to reach
BELOW = {"roundtrip-p50-ms": 400}  # name → what it has to stay below
PARTS = ("segment", "wait", "batch", "back")  # of a round trip, one after the other
SHOWN = {  # figure besides → how it is shown
    "ours": "{:,.0f} records/s",
    "p99": "p99 {:,.0f}",
    "rows": "{:,.0f} a segment",
    "bytes": "{:.0f} bytes a record",
    "cores": "{:.2f} cores",
    "like": "{:.2f} × Spark alone in several batches",
}


def beside(figures: list[Figures]) -> Figures:
    """Ours with the ratio to Spark alone: more than 1 where ours is faster."""
    ours, alone = figures
    return {**ours, "spark": alone["value"], "ratio": ours["value"] / alone["value"]}


def sooner(figures: list[Figures]) -> Figures:
    """The same of milliseconds."""
    ours, alone = figures
    return {**ours, "spark": alone["value"], "ratio": alone["value"] / ours["value"]}


def ratio(figures: list[Figures]) -> Figures:
    """The ratio itself, and both; and the one to Spark in several batches."""
    ours, alone, batches = (one["value"] for one in figures)
    return {"value": ours / alone, "ours": ours, "spark": alone, "spark_batches": batches, "like": ours / batches}


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    value = figures["value"]
    shown = f"{value:,.0f}" if name.unit.endswith("/s") else f"{value:,.2f}" if name.unit == "×" else f"{value:,.0f}"
    besides = [form.format(figures[key]) for key, form in SHOWN.items() if key in figures]
    if all(part in figures for part in PARTS):
        besides.append(", ".join(f"{part} {figures[part]:.0f}" for part in PARTS))
    alone = f"{figures['spark']:,.0f}"
    share = f"{figures['ratio']:.2f} ×" if "ratio" in figures else f"{value:.2f} ×"
    return name.name, shown, name.unit, "; ".join(besides), alone, share, bar(name.name, value)


def bar(name: str, value: float) -> str:
    """What it has to reach, and whether it does."""
    if name in LEAST:
        return f">= {LEAST[name]:,}: {verdict(value >= LEAST[name])}"
    return f"< {BELOW[name]}: {verdict(value < BELOW[name])}"


BENCHMARK = Benchmark(
    name="bridge",
    about="Records handed over to Spark, their way there and back, and a window of a million; each beside Spark alone.",
    names=(
        Name("handover-records-per-s", "records/s", 4, ("bridge-handover", "spark-read"), beside),
        Name("roundtrip-p50-ms", "ms", 2, ("bridge-roundtrip", "spark-roundtrip"), sooner),
        Name("window-vs-spark", "×", 3, ("bridge-window", "spark-window", "spark-window-batches"), ratio),
    ),
    seconds=8.0,
    rounds=2,
    heading=("", "value", "unit", "besides", "Spark alone", "share", "bar"),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
