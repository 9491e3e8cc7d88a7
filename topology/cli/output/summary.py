"""The summary of a run: its end, the counts of every component, latencies, and the components' own lines.

Pure: takes a Report or a Topology, returns lines. Knows no terminal.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from topology.cli.output.numbers import age, counted, duration, percent, short, size
from topology.errors import KedgeError, advice
from topology.graph import Graph
from topology.runtime.run.report import Report
from topology.runtime.telemetry.histogram import Histogram
from topology.runtime.telemetry.metrics import RARE, Snapshot, input_s, percentiles_ms
from topology.text import printable
from topology.user_frames import described as described_error


def described(topology: Graph) -> str:
    """Return the numbers of spouts and bolts."""
    spouts = sum(component.kind == "spout" for component in topology.components)
    bolts = len(topology.components) - spouts
    return f"{spouts} spout{'s' * (spouts != 1)}, {bolts} bolt{'s' * (bolts != 1)}"


COLUMNS_MAX: Final = 80  # columns of the table, if its numbers fit
NAME_MAX: Final = 28  # characters of a component's name in the table
NAME_MIN: Final = 12  # characters of the name, at least, if the table is too wide
TITLES: Final = ("in", "out", "acked", "failed", "replays", "dead", "pending", "busy", "latency")


def summary(
    report: Report,
    next: str,
    *,
    restarts: int | None = None,
    limit: str = "",
    busy: Mapping[str, float] | None = None,
    dead_list: str = "kedge dead list",
) -> Iterator[str]:
    """Yield the lines of the summary.

    next       a command to try, and its purpose
    restarts   of workers, if they are processes; else None
    limit      the sentence on the bottleneck; empty if unknown
    busy       bolt → its share of a loop's time
    dead_list  the command that lists the kept letters; empty if none outlives the run
    """
    snapshot = report.snapshot
    yield f"{snapshot.topology} {_ended(report)}"
    yield from _table(snapshot, busy or {})
    width = 7  # of the titles of the lines below
    yield f"  {'latency':<{width}}  {latencies(snapshot.latency)}, from emission to last ack"
    if restarts is not None:
        times = {0: "none restarted", 1: "restarted once"}.get(restarts, f"restarted {restarts:,} times")
        if restarts:  # sums the figures of all processes, without those after the last report of a dead one
            times += f"; the last second before {'that' if restarts == 1 else 'each'} may not be counted"
        yield f"  {'workers':<{width}}  {snapshot.workers}, {times}"
    if limit:
        yield f"  {'limit':<{width}}  {printable(limit)}"
    if kept := [
        f"{name}: {bolt.keys:,} key{'s' * (bolt.keys != 1)}" for name, bolt in snapshot.bolts.items() if bolt.keys
    ]:
        yield f"  {'state':<{width}}  {', '.join(kept)}"
    for number, text in enumerate(_checkpoints(report)):
        yield f"  {'' if number else 'decided':<{width}}  {text}"
    if snapshot.letters:
        letters = f"{snapshot.letters:,} dead letter{'s' * (snapshot.letters != 1)} kept: {dead_list}"
        yield f"  {'dead':<{width}}  {letters}"
    if any(snapshot.rare.values()):
        yield f"  {'rare':<{width}}  {rarities(snapshot)}"
    for name, lines in report.summaries.items():
        yield f"{name}: {printable(lines[0])}"
        yield from (f"  {printable(line)}" for line in lines[1:])
    if report.exit_status:
        yield f"exit status {report.exit_status}: {_why(report, dead_list)}"
    if isinstance(error := report.error, KedgeError) and error.next:
        yield printable(advice(error.next, error.code))
    yield f"try next: {next}"


def _table(snapshot: Snapshot, busy: Mapping[str, float]) -> Iterator[str]:
    """Yield a line of titles and one line per component: its inputs (spouts: messages read), outputs, and so on. The
    latency of a spout is the median of its trees; that of a bolt is the mean of its inputs. Numbers are exact, unless
    that makes the table too wide."""
    rows = _rows(snapshot, busy, lambda count: f"{count:,}")
    if _width(rows) > COLUMNS_MAX:
        rows = _rows(snapshot, busy, short)
    name_max = min(NAME_MAX, max(NAME_MIN, COLUMNS_MAX - _width([row[1:] for row in rows]) - 2))
    for row in rows:
        row[0] = row[0] if len(row[0]) <= name_max else f"{row[0][: name_max - 1]}…"
    shown = [column for column in range(len(rows[0])) if column == 0 or any(row[column] for row in rows[1:])]
    widths = [max(len(row[column]) for row in rows) for column in shown]
    for row in rows:
        name, *cells = (row[column] for column in shown)
        line = name.ljust(widths[0]) + "".join(
            f"  {cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)
        )
        yield f"  {line.rstrip()}"


def _rows(snapshot: Snapshot, busy: Mapping[str, float], number: Callable[[int], str]) -> list[list[str]]:
    pending = any(spout.pending for spout in snapshot.spouts.values())
    rows = [["", *TITLES]]
    for name, spout in snapshot.spouts.items():
        counts = (spout.acked, spout.failed, spout.replayed, spout.dead)
        left = number(spout.pending) if pending else ""
        latency = snapshot.latencies.get(name, Histogram()).percentile(50)
        rows.append([printable(name), number(spout.emitted), "", *map(number, counts), left, "", duration(latency)])
    for name, bolt in snapshot.bolts.items():
        flow = (bolt.executed, bolt.emitted)
        share = percent(busy[name]) if name in busy else ""
        rows.append(
            [printable(name), *map(number, flow), "", number(bolt.failed), "", "", "", share, duration(input_s(bolt))]
        )
    return rows


def _width(rows: list[list[str]]) -> int:
    """Return the width of the table, with two spaces before each column. Empty columns are not shown."""
    filled = (column for column in zip(*rows, strict=True) if any(column[1:]))
    return sum(max(map(len, column)) + 2 for column in filled)


def latencies(histogram: Histogram) -> str:
    """Return the percentiles, each with its unit."""
    return ", ".join(f"{name} {_ms(value)}" for name, value in percentiles_ms(histogram).items())


def rarities(snapshot: Snapshot) -> str:
    """Return the rare events that happened: "3 late or unknown acks, 1 stall of the loop"."""
    happened = ((name, count) for name, count in snapshot.rare.items() if count)
    return ", ".join(f"{count:,} {RARE[name] if count == 1 else name}" for name, count in happened)


def _checkpoints(report: Report) -> Iterator[str]:
    """Yield how many checkpoints the run has decided, and the largest and slowest one. Also the age of the last one if
    what was done after it may be done again, and the inputs that are still remembered."""
    snapshot = report.snapshot
    figures = snapshot.checkpoint
    if figures is None:
        return
    largest = f"of up to {size(figures.bytes_max)} and {duration(figures.seconds_max)}"
    yield f"{counted(figures.taken, 'checkpoint')}, {largest}"
    if not report.drained:
        yield f"the last one was decided {age(figures.age_s)} before the end"
    inputs, memory = snapshot.remembered
    if inputs:
        yield f"{counted(inputs, 'input')} still remembered, {size(memory)}"


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def _ended(report: Report) -> str:
    if report.ended == "stopped" and report.aborted:
        return f"was stopped after {report.snapshot.seconds:.1f} s, but did not drain within its drain_timeout_s"
    how = {
        "ended": "has read everything and ended",
        "stopped": "was stopped and has drained",
        "aborted": "was ended by force",
        "failed": "has failed",
    }[report.ended]
    return f"{how} after {report.snapshot.seconds:.1f} s"


def _why(report: Report, dead_list: str) -> str:
    reasons = []
    if (dead := report.snapshot.total("dead")) and report.dead:
        reasons.append(f"{dead:,} dead, each logged above")
    elif report.dead:  # the worker died before it could report them
        reasons.append(f"{report.dead:,} dead{f', and kept: {dead_list}' if dead_list else ''}")
    if report.aborted:
        reasons.append(f"{report.aborted:,} not done at the end")
    if report.error is not None:
        reasons.append(printable(described_error(report.error)))
    return "; ".join(reasons) or f"the run {_ended(report)}"
