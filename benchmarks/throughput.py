"""Throughput, and what a pending tree costs: Kedge beside the same work through bare asyncio queues, in the same run.

    .venv/bin/python -m benchmarks.throughput [--json] [--seconds S] [--rounds N] [NAME …]

Roots, or six-word sentences, a second on one core. The bar of each is a share of its baseline, as machines differ.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

SHARES = {  # name → its baseline, and the share of it to reach at least
    "identity-embedded-acked": ("baseline-asyncio", 0.55),
    "wordcount-embedded-acked": ("baseline-asyncio-wordcount", 0.62),
}
PENDING_BYTES_MAX = 400


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    value = figures["value"]
    share = bar = ""
    if name.name == "pending-tree-bytes":
        bar = f"< {PENDING_BYTES_MAX}: {verdict(value < PENDING_BYTES_MAX)}"
    elif name.name in SHARES and SHARES[name.name][0] in results:
        baseline, least = SHARES[name.name]
        ratio = value / results[baseline]["value"]
        share, bar = f"{ratio:.2f} × {baseline}", f">= {least}: {verdict(ratio >= least)}"
    return name.name, f"{value:,.0f}", name.unit, share, bar


BENCHMARK = Benchmark(
    name="throughput",
    about="Messages a second whose whole tree was acked, beside the same work untracked; bytes a pending tree.",
    names=(
        Name("baseline-asyncio", "roots/s"),
        Name("identity-embedded-acked", "roots/s"),
        Name("baseline-asyncio-wordcount", "sentences/s"),
        Name("wordcount-embedded-acked", "sentences/s"),
        Name(
            "pending-tree-bytes",
            "bytes",
            parts=("pending-tracked", "pending-untracked"),
            join=lambda figures: {"value": figures[0]["value"] - figures[1]["value"]},
        ),
    ),
    seconds=3.0,
    rounds=5,
    heading=("", "value", "unit", "share", "bar"),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
