"""What is said at the end of a run: how it ended, every component's counts, latencies, and the components' own words.

Pure: a Report or a Topology in, lines out. Knows no terminal.
"""

from collections.abc import Iterator

from topology.graph import Topology
from topology.runtime.metrics import RARE, Snapshot
from topology.runtime.report import Report
from topology.text import printable


def described(topology: Topology) -> str:
    """How many components there are."""
    spouts = sum(one.kind == "spout" for one in topology.components)
    bolts = len(topology.components) - spouts
    return f"{spouts} spout{'s' * (spouts != 1)}, {bolts} bolt{'s' * (bolts != 1)}"


def summary(report: Report, next: str, *, restarts: int | None = None, limit: str = "") -> Iterator[str]:
    """The lines. `next` is a command to try, and why; `restarts` of workers, where these are processes; `limit` the
    sentence about what was the limit, where that could be told."""
    snapshot = report.snapshot
    yield f"{snapshot.topology} {_ended(report)}"
    width = max(len(name) for name in (*snapshot.spouts, *snapshot.bolts, "latency"))
    for name, spout in snapshot.spouts.items():
        yield (
            f"  {name:<{width}}  {spout.emitted:,} read, {spout.acked:,} acked, {spout.failed:,} failed, "
            f"{spout.replayed:,} replayed, {spout.dead:,} dead" + (f", {spout.pending:,} pending" * bool(spout.pending))
        )
    for name, bolt in snapshot.bolts.items():
        yield f"  {name:<{width}}  {bolt.executed:,} executed, {bolt.emitted:,} emitted, {bolt.failed:,} failed"
    yield f"  {'latency':<{width}}  {latencies(snapshot)}, from a message's emission to its last ack"
    if restarts is not None:
        times = {0: "none restarted", 1: "restarted once"}.get(restarts, f"restarted {restarts:,} times")
        yield f"  {'workers':<{width}}  {snapshot.workers}, {times}"
    if limit:
        yield f"  {'limit':<{width}}  {printable(limit)}"
    if any(snapshot.rare.values()):
        yield f"  {'rare':<{width}}  {rarities(snapshot)}"
    for name, lines in report.summaries.items():
        yield f"{name}: {printable(lines[0])}"
        yield from (f"  {printable(line)}" for line in lines[1:])
    if report.exit_status:
        yield f"exit status {report.exit_status}: {_why(report)}"
    yield f"try next: {next}"


def latencies(snapshot: Snapshot) -> str:
    """The percentiles, each with its unit."""
    return ", ".join(f"{name} {_ms(value)}" for name, value in snapshot.latency_ms().items())


def rarities(snapshot: Snapshot) -> str:
    """What should hardly ever happen and has: "3 late or unknown acks, 1 stall of the loop"."""
    happened = ((name, count) for name, count in snapshot.rare.items() if count)
    return ", ".join(f"{count:,} {RARE[name] if count == 1 else name}" for name, count in happened)


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def _ended(report: Report) -> str:
    if report.ended == "stopped" and report.aborted:
        return f"was stopped after {report.snapshot.seconds:.1f} s, and has not drained within its drain_timeout_s"
    how = {
        "ended": "has read everything and ended",
        "stopped": "was stopped and has drained",
        "aborted": "was ended by force",
        "failed": "has failed",
    }[report.ended]
    return f"{how} after {report.snapshot.seconds:.1f} s"


def _why(report: Report) -> str:
    reasons = []
    if dead := report.snapshot.total("dead"):
        reasons.append(f"{dead:,} dead, each logged above")
    if report.aborted:
        reasons.append(f"{report.aborted:,} not done at the end")
    if report.error is not None:
        reasons.append(printable(f"{type(report.error).__name__}: {report.error}"))
    return "; ".join(reasons) or f"the run {_ended(report)}"
