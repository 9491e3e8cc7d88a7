"""Throughput, and the cost of waiting and idling. Kedge stands beside the same work through bare asyncio queues.

    .venv/bin/python -m benchmarks.throughput [--json] [--seconds S] [--rounds N] [NAME …]

Roots, or six-word sentences, per second: on one core, and on two worker processes (2w), with a spout in each and half
of the records crossing. `python`: on the Python core, in place of the compiled one. The bar of each is a share of its
baseline, as machines differ. Further figures: bytes per pending tree, and the CPU of a supervisor and two workers whose
source is idle, in percent of one core.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

SHARES = {  # name → its baseline, and the least share of it to reach
    "identity-embedded-acked": ("baseline-asyncio", 1.3),
    "identity-embedded-python": ("baseline-asyncio", 0.55),
    "identity-2w-acked": ("identity-embedded-acked", 1.5),
    "wordcount-embedded-acked": ("baseline-asyncio-wordcount", 1.6),
    "wordcount-embedded-python": ("baseline-asyncio-wordcount", 0.62),
    "wordcount-2w-acked": ("baseline-asyncio-wordcount", 1.6),
}
BELOW = {"pending-tree-bytes": 200, "idle-cpu": 1}  # name → the limit to stay below


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    value = figures["value"]
    share = bar = ""
    if name.name in BELOW:
        bar = f"< {BELOW[name.name]}: {verdict(value < BELOW[name.name])}"
    elif name.name in SHARES and SHARES[name.name][0] in results:
        baseline, least = SHARES[name.name]
        ratio = value / results[baseline]["value"]
        share, bar = f"{ratio:.2f} × {baseline}", f">= {least}: {verdict(ratio >= least)}"
    return name.name, f"{value:,.{name.digits or 0}f}", name.unit, share, bar


BENCHMARK = Benchmark(
    name="throughput",
    about="Messages a second whose whole tree was acked, beside the same work untracked; what waiting and idling cost.",
    names=(
        Name("baseline-asyncio", "roots/s"),
        Name("identity-embedded-acked", "roots/s"),
        Name("identity-embedded-python", "roots/s", parts=("identity-embedded-acked@python",)),
        Name("identity-2w-acked", "roots/s"),
        Name("baseline-asyncio-wordcount", "sentences/s"),
        Name("wordcount-embedded-acked", "sentences/s"),
        Name("wordcount-embedded-python", "sentences/s", parts=("wordcount-embedded-acked@python",)),
        Name("wordcount-2w-acked", "sentences/s"),
        Name(
            "pending-tree-bytes",
            "bytes",
            parts=("pending-tracked", "pending-untracked"),
            join=lambda figures: {"value": figures[0]["value"] - figures[1]["value"]},
        ),
        Name("idle-cpu", "% of a core", digits=2),
    ),
    seconds=3.0,
    rounds=5,
    heading=("", "value", "unit", "share", "bar"),
    row=row,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
