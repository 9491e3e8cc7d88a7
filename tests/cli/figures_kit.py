"""Runs as the live view sees them: counters at a few moments, made by hand."""

from typing import Any

from topology.cli.output.rates import ComponentRates, Now, Rates, RateShape, RunRates, WorkerRates
from topology.runtime.telemetry.histogram import Histogram
from topology.runtime.telemetry.metrics import BoltCounts, Snapshot, SpoutCounts

SHAPE = RateShape("alerts", {"lines": "spout", "store": "bolt"}, {0: {"lines": 1, "store": 1}})
APART = RateShape("alerts", {"lines": "spout", "store": "bolt"}, {0: {"lines": 1, "store": 1}, 1: {"store": 1}})


def at(seconds: float, emitted: int = 0, latencies: tuple[float, ...] = (), **counts: Any) -> Snapshot:
    """One worker at a moment: `counts` are the bolt's, and those of the spout that a bolt has not."""
    spout = {name: counts.pop(name) for name in ("replayed", "dead", "pending", "acked", "paused_s") if name in counts}
    histogram = Histogram()
    for one in latencies:
        histogram.add(one)
    limit = counts.pop("limit", "")
    return Snapshot(
        "alerts",
        seconds,
        1,
        {"lines": SpoutCounts(emitted=emitted, **spout)},
        {"store": BoltCounts(**counts)},
        {"lines": histogram},
        limit,
    )


def looks(*snapshots: Snapshot, shape: RateShape = SHAPE) -> RunRates:
    """The figures after these looks at a run in one process."""
    rates = Rates(shape, 1000.0)
    return [rates.of(Now(one, {0: one})) for one in snapshots][-1]


def component(name: str = "store", **others: Any) -> ComponentRates:
    """A bolt, unless `kind` says otherwise."""
    known: dict[str, Any] = {
        "kind": "bolt",
        "tasks": 1,
        "rate": 12.0,
        "busy": 0.1,
        "queued": 0,
        "in_hand": 0,
        "latency_s": 0.002,
        "p99_s": None,
        "failed": 0,
        "replayed": 0,
        "dead": 0,
    }
    return ComponentRates(name, **(known | others))


def worker(number: int = 0, **others: Any) -> WorkerRates:
    known: dict[str, Any] = {"pid": 4711, "away": False, "rate": 1.0, "busy": 0.1, "queued": 0, "deaths": 0}
    return WorkerRates(number, **(known | others))


def figures(bolts: int = 1, processes: int = 0, **others: Any) -> RunRates:
    """Of a run with one spout and so many bolts."""
    counts = {"acked": 14_448, "failed": 0, "replayed": 0, "dead": 0, "pending": 3} | others.pop("counts", {})
    names = [component("lines", kind="spout", busy=None, p99_s=0.01)]
    names += [component(f"bolt-{one}") for one in range(bolts)]
    known: dict[str, Any] = {
        "components": tuple(names),
        "workers": tuple(worker(one, pid=4711 + one) for one in range(processes)),
        "limit": "the source 'lines' is the limit: nothing waits, it pauses 0 % of the time",
    }
    return RunRates("alerts", 12.0, 1204.0, counts, Histogram(), **(known | others))
