"""The cost of keeping: what state, alerts and whole files cost by durability, a restart, a death, and sinks.

    .venv/bin/python -m benchmarks.state [--json] [--seconds S] [--rounds N] [--only NAME] [NAME …]

The last word of a name is how it is kept: `none` has no state directory, and the others are those of
`Config.durability`. `wordcount-file-…` and `alerts-file-…` are the work of `benchmarks.peers` from a file into a file,
in one process, embedded. `state-…` count 5,000 keys in one task, embedded; each new count goes on to a bolt behind.
`state-disk-latency` is at 1,000 inputs per second, beside the time of an fsync on the same disk in the same rounds.
`alert-2w-…` are the alerts of `benchmarks.latency` on two workers.

`checkpoint-hold` is the longest time for which a checkpoint of 10,000 changed keys, of a million, holds the loop.
`state-restart` begins with a million keys in the store. `recovery` is from the SIGKILL of a worker to the first ack of
a replayed message that needed it, with `durability="checkpoint"`.

`…-sink` are rows that a sink stores by itself, and `…-run` are those of a topology in one process: a source, and the
sink. The difference is the share of emission, queues and acks. `postgres-…` needs the server that tests use:
KEDGE_TEST_POSTGRES, or the standard port. Without a server, name the other figures. Each sink is fed by one task, in
batches of the default size. Disks differ, so each figure stands beside that of SqliteSink, on the same disk.

With less than a second for each, `checkpoint-hold` and `state-restart` have fewer keys, and their bars aren't judged;
files have a share of their lines. That is for tests.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

KEYS = 1_000_000  # keys for which bars are judged, where a row has keys
KINDS = ("none", "checkpoint", "process", "disk")
RATES = ("1k", "10k")
BESIDE = {  # name → the figure of which it is a share or, if less is better, a multiple
    "postgres-sink": "sqlite-sink",
    "jsonlines-sink": "sqlite-sink",
    "postgres-run": "postgres-sink",
    "sqlite-run": "sqlite-sink",
    "jsonlines-run": "jsonlines-sink",
    **{f"{work}-{kind}": f"{work}-none" for work in ("wordcount-file", "alerts-file", "state") for kind in KINDS[1:]},
    **{f"alert-2w-{kind}-{rate}": f"alert-2w-none-{rate}" for kind in KINDS[1:] for rate in RATES},
}
LEAST = {  # name → the least value to reach
    "alerts-file-checkpoint": 250_000,
    "alerts-file-disk": 180_000,
    "state-disk": 120_000,
    "postgres-sink": 60_000,
    "sqlite-sink": 60_000,
    "jsonlines-sink": 400_000,
}
LEAST_SHARE = {"wordcount-file-checkpoint": 0.8, "wordcount-file-disk": 0.35}  # name → of its reference figure
MOST_SHARE = {"alert-2w-checkpoint-1k": 1.1, "alert-2w-checkpoint-10k": 1.1}  # name → of its reference figure
MOST = {"state-restart": 3.0, "alert-2w-disk-1k": 0.75, "alert-2w-disk-10k": 1.5}  # name → the highest value
MOST_P99 = {"alert-2w-disk-1k": 4.0, "alert-2w-disk-10k": 4.0}  # name → the highest p99
BELOW = {"checkpoint-hold": 5.0, "recovery": 0.5}  # name → the limit to stay below
FSYNCS = 2  # fsyncs of this disk that a count may take at most, …
EXTRA_MS = 1.0  # … plus this many milliseconds
SHOWN = {  # further figure → its format, in the column before the share
    "p99": "p99 {:.3f}",
    "fsync": "fsync {:.3f}",
    "cores": "{:.2f} cores",
    "memory": "{:,.0f} MB",
    "bytes": "{:,.0f} bytes a key",
    "keys": "{:,.0f} keys",
    "all": "all {:.3f}",
    "batch": "{:,.0f} rows each",
}


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    value = figures["value"]
    also = ", ".join(form.format(figures[key]) for key, form in SHOWN.items() if key in figures)
    shown = f"{value:,.0f}" if name.unit.endswith("/s") else f"{value:,.3f}"
    ratio = ratio_of(name.name, figures, results)
    share = f"{ratio:.2f} × {BESIDE[name.name]}" if ratio is not None else ""
    return name.name, shown, name.unit, also, share, bar(name.name, figures, ratio)


def ratio_of(name: str, figures: Figures, results: dict[str, Figures]) -> float | None:
    """Return the ratio to the reference figure; None if that is not measured."""
    other = results.get(BESIDE.get(name, ""))
    return figures["value"] / other["value"] if other is not None else None


def bar(name: str, figures: Figures, ratio: float | None) -> str:
    """Return the figure's targets, and whether each is reached; empty if there is none, or too few keys were there."""
    value, bars = figures["value"], list[str]()
    if figures.get("keys", KEYS) < KEYS:
        return ""
    if (share := LEAST_SHARE.get(name)) is not None and ratio is not None:
        bars.append(f">= {share} ×: {verdict(ratio >= share)}")
    if (share := MOST_SHARE.get(name)) is not None and ratio is not None:
        bars.append(f"<= {share} ×: {verdict(ratio <= share)}")
    if (least := LEAST.get(name)) is not None:
        bars.append(f">= {least:,}: {verdict(value >= least)}")
    if (most := MOST.get(name)) is not None:
        bars.append(f"<= {most:g}: {verdict(value <= most)}")
    if (most := MOST_P99.get(name)) is not None:
        bars.append(f"p99 <= {most:g}: {verdict(figures['p99'] <= most)}")
    if (below := BELOW.get(name)) is not None:
        bars.append(f"< {below:g}: {verdict(value < below)}")
    if "fsync" in figures:
        most = FSYNCS * figures["fsync"] + EXTRA_MS
        bars.append(f"<= {FSYNCS} fsyncs + {EXTRA_MS:g} = {most:.3f}: {verdict(value <= most)}")
    return ", ".join(bars)


BENCHMARK = Benchmark(
    name="state",
    about="What keeping costs: whole files, counts and alerts by durability; checkpoints, restarts, deaths; sinks.",
    names=(
        *(Name(f"wordcount-file-{kind}", "sentences/s", digits=2) for kind in KINDS),
        *(Name(f"alerts-file-{kind}", "lines/s", digits=2) for kind in KINDS),
        *(Name(f"state-{kind}", "inputs/s", digits=2) for kind in KINDS),
        Name("state-disk-latency", "ms", digits=4),
        *(Name(f"alert-2w-{kind}-{rate}", "ms", digits=4) for rate in RATES for kind in KINDS),
        Name("checkpoint-hold", "ms", digits=4),
        Name("state-restart", "s", digits=3),
        Name("recovery", "s", digits=3),
        Name("postgres-sink", "rows/s"),
        Name("sqlite-sink", "rows/s"),
        Name("jsonlines-sink", "rows/s"),
        Name("postgres-run", "rows/s"),
        Name("sqlite-run", "rows/s"),
        Name("jsonlines-run", "rows/s"),
    ),
    seconds=3.0,
    rounds=3,
    heading=("", "value", "unit", "also", "share", "bar"),
    row=row,
    has_bars=True,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
