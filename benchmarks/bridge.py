"""The cost of the way through Spark: a hand-over, a round trip and a window, each compared with Spark alone.

    .venv/bin/python -m benchmarks.bridge [--json] [--seconds S] [--rounds N] [NAME …]

`handover-records-per-s` are records per second that one worker writes into durable segments, beside those that Spark
reads from Parquet. `roundtrip-p50-ms` is at 1,000 records per second, from the emission to the arrival of the result in
the topology, with Spark's default trigger. `window-vs-spark` is the ratio of records per second, through the topology
and back over Spark alone: a million records of 100,000 keys in a window of an hour. Spark alone finds all records there
and makes one batch. A stream makes several batches, and goes through the state of nearly all keys in each. So the ratio
to Spark alone in several batches is shown too.

Spark alone has the same records as Parquet files, read by its own streaming source with the same settings. Its results
are only in the driver, not in another process. Needs kedge-streams[spark] and Java; a round takes minutes.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

LEAST = {"handover-records-per-s": 150_000, "window-vs-spark": 0.5}  # name → the least value to reach
BELOW = {"roundtrip-p50-ms": 400}  # name → the limit to stay below
PARTS = ("segment", "wait", "batch", "back")  # of a round trip, in order
SHOWN = {  # further figure → its format
    "ours": "{:,.0f} records/s",
    "p99": "p99 {:,.0f}",
    "rows": "{:,.0f} a segment",
    "bytes": "{:.0f} bytes a record",
    "cores": "{:.2f} cores",
    "like": "{:.2f} × Spark alone in several batches",
}


def beside(figures: list[Figures]) -> Figures:
    """Return our figures with the ratio to Spark alone: above 1 if ours is faster."""
    ours, alone = figures
    return {**ours, "spark": alone["value"], "ratio": ours["value"] / alone["value"]}


def sooner(figures: list[Figures]) -> Figures:
    """Return the same for milliseconds."""
    ours, alone = figures
    return {**ours, "spark": alone["value"], "ratio": alone["value"] / ours["value"]}


def ratio(figures: list[Figures]) -> Figures:
    """Return the ratio itself, both figures, and the ratio to Spark in several batches."""
    ours, alone, batches = (figure["value"] for figure in figures)
    return {"value": ours / alone, "ours": ours, "spark": alone, "spark_batches": batches, "like": ours / batches}


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    value = figures["value"]
    shown = f"{value:,.0f}" if name.unit.endswith("/s") else f"{value:,.2f}" if name.unit == "×" else f"{value:,.0f}"
    also = [form.format(figures[key]) for key, form in SHOWN.items() if key in figures]
    if all(part in figures for part in PARTS):
        also.append(", ".join(f"{part} {figures[part]:.0f}" for part in PARTS))
    alone = f"{figures['spark']:,.0f}"
    share = f"{figures['ratio']:.2f} ×" if "ratio" in figures else f"{value:.2f} ×"
    return name.name, shown, name.unit, "; ".join(also), alone, share, bar(name.name, value)


def bar(name: str, value: float) -> str:
    """Return the figure's target, and whether it is reached."""
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
    heading=("", "value", "unit", "also", "Spark alone", "share", "bar"),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
