"""A comparison as lines of text: one row per mode, remarks below it, and notes for the reader.

Pure: a Comparison in, lines out, none wider than asked for. Knows no terminal and no other way of showing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

from bridge.compare.results import JVM_ONLY, Comparison, ModeResult, percentile, percentiles
from topology.cli.output.numbers import NONE, counted, duration, rate, short
from topology.cli.output.table import wrapped
from topology.text import printable

INDENT: Final = "  "
SAID_LINES_MAX: Final = 12  # lines that one sentence may take
FEW: Final = 1_000  # with fewer results, the 99.9th percentile is only their maximum
WHAT_IT_IS: Final = (
    "latency: from when a message was due to its result's arrival at the sink; CPU s/M: seconds per million messages"
)
WHAT_KILLED_IS: Final = (
    "gap: the longest time without a result after the kill, minus the longest before it; recovered: until the first "
    "result of a message due after the kill; replayed: until the first replay was acked; exact: each result arrived "
    "once; in effect: some arrived again, and a sink drops repeats; by count: the number is right, but some results "
    "are of other messages"
)


@dataclass(frozen=True)
class ReportColumn:
    """A column. `keep`: the lower, the later it is left out if there is no room."""

    title: str
    width: int
    keep: int
    cell: Callable[[ModeResult], str]


def _latency(name: str) -> Callable[[ModeResult], str]:
    return lambda one: milliseconds((percentiles(one.latencies) or {}).get(name))


COLUMNS: Final = (
    ReportColumn("p50", 7, 0, _latency("p50")),
    ReportColumn("p90", 7, 5, _latency("p90")),
    ReportColumn("p99", 7, 1, _latency("p99")),
    ReportColumn("p99.9", 7, 4, _latency("p999")),
    ReportColumn("max", 7, 2, _latency("max")),
    ReportColumn("msg/s", 6, 3, lambda one: rate(one.throughput_per_s)),
    ReportColumn("CPU s/M", 7, 6, lambda one: rate(one.cpu_seconds_per_million)),
    ReportColumn("memory", 7, 7, lambda one: megabytes(one.memory_mb)),
    ReportColumn("results", 7, 8, lambda one: short(one.arrived or len(one.latencies))),
    ReportColumn("start", 6, 9, lambda one: duration(one.start_s)),
)
KILLED: Final = (
    ReportColumn("gap", 7, 0, lambda one: milliseconds(one.kill.gap_ms if one.kill else None)),
    ReportColumn("recovered", 9, 2, lambda one: milliseconds(one.kill.recovered_ms if one.kill else None)),
    ReportColumn("replayed", 8, 3, lambda one: milliseconds(one.kill.replayed_ms if one.kill else None)),
    ReportColumn("exact", 9, 1, lambda one: exactness(one)),
)


def milliseconds(given: float | None) -> str:
    """Return a time with its unit."""
    return duration(None if given is None else given / 1000)


def megabytes(given: float | None) -> str:
    """Return an amount of memory with its unit."""
    if given is None:
        return NONE
    return f"{given:,.0f} MB" if given < 999.5 else f"{given / 1000:.1f} GB"


def lines(comparison: Comparison, columns: int) -> Iterator[str]:
    """Yield all text of a comparison, in lines of at most `columns` cells.

    A row takes one line if that fits, else two, the second with its figures: as many figures as there is room for.
    """
    modes = comparison.modes
    yield from _table(modes, columns, COLUMNS, lambda one: one.guarantee, remarks_of, spare=2)
    killed = [mode for mode in modes if mode.kill is not None]
    if killed:
        yield ""
        yield from _table(killed, columns, KILLED, _victim, lambda one: iter(()))
        yield from _said(WHAT_KILLED_IS, columns)
    yield ""
    if any(measured(mode) for mode in modes):
        yield from _said(WHAT_IT_IS, columns)
    for sentence in sentences(comparison):
        yield from _said(sentence, columns)


def name_of(comparison: Comparison) -> str:
    """Return the name of the compared topology, without its folders."""
    return comparison.topology.replace("\\", "/").rpartition("/")[2] or comparison.topology


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield the sentences about all modes together: the fastest, the limits of the figures, and the notes."""
    if found := headline(comparison):
        yield found
    if with_kill(comparison) and any(map(measured, comparison.modes)):
        yield "a process of each mode was killed in the middle; the latencies include this"
    few = [mode for mode in comparison.modes if 0 < len(mode.latencies) < FEW]
    if few:
        least = min(len(mode.latencies) for mode in few)
        yield f"p99.9 of fewer than {FEW:,} results is their maximum; some modes had only {least:,}"
    yield from comparison.notes
    if comparison.interrupted:
        until = "the figures are of the part measured before"
        yield f"interrupted{f': {until}' if any(map(measured, comparison.modes)) else ' before anything was measured'}"


def at_once(comparison: Comparison) -> bool:
    """Return True if all messages were offered at once, so that throughput counts and latencies do not."""
    rate = comparison.settings.get("rate", 0)
    return not isinstance(rate, int | float) and not bounded(comparison)


def bounded(comparison: Comparison) -> bool:
    """Return True if each mode's figures are of the highest rate with its 99th percentile within a bound."""
    return "p99_ms" in comparison.settings


def with_kill(comparison: Comparison) -> bool:
    """Return True if a process of each mode was killed in the middle."""
    return bool(comparison.settings.get("kill"))


def headline(comparison: Comparison) -> str:
    """Return a sentence with the lowest and the highest median; empty if there is nothing to compare.

    Compares throughput at `--rate max`, and gaps if processes were killed, because a kill causes most latencies then.
    Only modes count that ran the topology to its end and were not held up by the feeder.
    """
    fair = [
        mode for mode in comparison.modes if not mode.problem and not mode.feeder_limited and mode.mode not in JVM_ONLY
    ]
    unit: Callable[[float], str]
    if at_once(comparison) or bounded(comparison):
        what, unit, how = "messages per second", rate, "as many"
        found = sorted((mode.throughput_per_s, mode.title) for mode in fair if mode.throughput_per_s)
    elif with_kill(comparison):
        what, unit, how = "after a kill no result for", milliseconds, "as long"
        found = sorted((mode.kill.gap_ms, mode.title) for mode in fair if mode.kill and mode.kill.gap_ms)
    else:
        what, unit, how = "p50", milliseconds, "as long"
        found = sorted((percentile(sorted(mode.latencies), 50), mode.title) for mode in fair if mode.latencies)
    if len(found) < 2 or found[0][0] <= 0:
        return ""
    (low, first), (high, last) = found[0], found[-1]
    from_ = "" if with_kill(comparison) and not at_once(comparison) else "from "
    return f"{what} {from_}{unit(low)} ({first}) to {unit(high)} ({last}), {times(high / low)} {how}"


def times(ratio: float) -> str:
    """Return how many times, in two digits or more: "1.4 times", "250 times"."""
    return f"{ratio:.1f} times" if ratio < 9.95 else f"{float(f'{ratio:.2g}'):,.0f} times"


def called(one: ModeResult) -> str:
    """Return a row's name beside its curve, which has no remarks, with the limits of its figures."""
    if one.problem:
        return f"{one.title}, did not end" if measured(one) else one.title
    return f"{one.title}, the feeder was the limit" if one.feeder_limited else one.title


def remarks_of(one: ModeResult) -> Iterator[str]:
    """Yield remarks that a row's figures do not show."""
    if one.problem:
        yield f"{'did not end' if measured(one) else 'did not run'}: {one.problem}"
    elif not measured(one):
        yield f"no results: none of {counted(one.offered, 'message')} reached a sink"
    if one.feeder_limited:
        late = milliseconds(one.feeder_lag.get("p50"))
        yield f"the feeder was the limit, {late} late at its own p50: the figures show the feeder, not the mode"
    elif one.late_in_tail:
        late = milliseconds(one.feeder_lag["p99"])
        yield f"the feeder was {late} late at its own p99: the slowest results are not due to the mode alone"
    if wrong := inexact(one):
        yield wrong


def measured(one: ModeResult) -> bool:
    """Return True if it has any figures."""
    return bool(one.latencies) or one.throughput_per_s is not None


def inexact(one: ModeResult) -> str:
    """Return the results that were not there exactly once, in a few words; empty if all were."""
    results = counted(one.arrived, "result")
    if not (one.missing or one.extra):
        again = f"{results} arrived, and {counted(one.repeated, 'repeat')}"
        return f"{again}{'' if one.mode in JVM_ONLY else ', which a sink drops'}" if one.repeated else ""
    if reordered(one):
        other = f"{one.missing:,} of {results} belong to other messages than in most runs"
        return f"{other}: after a kill, replays come in another order"
    parts = (("missing", one.missing), ("repeated", one.repeated), ("that no other mode gave", one.extra))
    return f"not exact: {', '.join(f'{count:,} {what}' for what, count in parts if count)}, of {results}"


def reordered(one: ModeResult) -> bool:
    """Return True if the number of results is right, but some are of other messages.

    If a result depends on earlier messages, as a count does, a replay can make another message its origin.
    """
    return one.kill is not None and one.missing == one.extra > 0


def exactness(one: ModeResult) -> str:
    """Return in a word or two if each result was there once, or would be behind a deduplicating sink.

    For a row that did not finish this is unknown.
    """
    if one.problem:
        return NONE
    if reordered(one):
        return "by count"
    return "yes" if one.exact else "in effect" if one.exact_in_effect else "no"


def _victim(one: ModeResult) -> str:
    return f"{one.kill.what} killed" if one.kill is not None else ""


def _table(
    modes: Sequence[ModeResult],
    columns: int,
    wanted: Sequence[ReportColumn],
    beside: Callable[[ModeResult], str],
    below: Callable[[ModeResult], Iterator[str]],
    spare: int = 0,
) -> Iterator[str]:
    """Yield the lines of a table.

    `beside` stands after a row's figures, or after its title if the figures have a line of their own. `spare`: how many
    columns may be left out to fit a row into one line.
    """
    titles = [printable(entry.title) for entry in modes]
    longest = max((cell_len(entry) for entry in titles), default=0)
    behind = max((cell_len(beside(entry)) + 2 for entry in modes), default=0)
    kept = [*wanted]
    while len(kept) > len(wanted) - spare and longest + _width(kept) + behind > columns:
        kept.remove(max(kept, key=lambda one: one.keep))
    one_line = longest + _width(kept) + behind <= columns
    first = longest if one_line else 0
    if not one_line:
        kept = [*wanted]
        while len(kept) > 1 and _width(kept) > columns:
            kept.remove(max(kept, key=lambda one: one.keep))
    if any(measured(entry) for entry in modes):
        yield cut(" " * first + "".join("  " + entry.title.rjust(entry.width) for entry in kept), columns)
    for title, entry in zip(titles, modes, strict=True):
        figures = "".join("  " + column.cell(entry).rjust(column.width) for column in kept)
        remark = beside(entry)
        if one_line:
            shown = figures if measured(entry) else " " * cell_len(figures)
            yield f"{set_cell_size(title, first)}{shown}  {remark}".rstrip()
        else:
            both = f"{title}  {remark}".rstrip()
            yield both if cell_len(both) <= columns else cut(title, columns)
            if cell_len(both) > columns and remark:
                yield from _said(remark, columns, INDENT)
            if measured(entry):
                yield cut(" " * first + figures, columns)
        for remark in below(entry):
            yield from _said(remark, columns, INDENT)


def _width(columns: Sequence[ReportColumn]) -> int:
    return sum(column.width + 2 for column in columns)


def _said(text: str, columns: int, indent: str = "") -> Iterator[str]:
    """Yield a sentence in as many lines as it takes, within a limit."""
    room = max(1, columns - len(indent))
    yield from (f"{indent}{line}" for line in wrapped(printable(text), room, SAID_LINES_MAX))


def cut(text: str, columns: int) -> str:
    """Return the text, cut to `columns` cells."""
    return text if cell_len(text) <= columns else set_cell_size(text, max(0, columns - 1)).rstrip() + "…"
