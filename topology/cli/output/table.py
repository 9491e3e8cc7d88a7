"""A run's figures as lines for a terminal of a given size: selects columns and rows that fit, and formats each cell.

Pure: takes figures, returns lines of styled pieces, within the given width and number of lines. Columns keep their
width for all numbers. Knows styles by name only, and no terminal."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

from topology.cli.output.numbers import age, clock, counted, duration, percent, rate, short, size
from topology.cli.output.rates import ComponentRates, RunRates, WorkerRates
from topology.text import printable

NAME_MAX: Final = 28  # cells of a component's name; a longer name is cut
NAME_MIN: Final = 10  # cells kept for the name while columns can be left out
BUSY: Final = 0.8  # share from which on a component is highlighted
LIMIT_LINES: Final = 2  # lines for the sentence on the bottleneck, at most

RULED: Final = 12  # lines from which on one is a rule between the figures and the log above

Piece = tuple[str, str]  # a text, and its style
Line = list[Piece]


@dataclass(frozen=True)
class TableColumn:
    """One column. `keep`: a column with a lower value is left out later on a narrow terminal."""

    title: str
    width: int
    keep: int
    cell: Callable[[ComponentRates], Piece]


def _grows(one: ComponentRates, name: str, count: int) -> Piece:
    return short(count), ("red" if name == "dead" and count else "yellow" if name in one.grown else "")


def _busy(one: ComponentRates) -> Piece:
    if one.busy is None:
        return "", ""
    return percent(one.busy), "yellow" if one.busy >= BUSY else ""


COLUMNS: Final = (
    TableColumn("in/s", 5, 0, lambda one: (rate(one.rate), "")),
    TableColumn("busy", 5, 3, _busy),
    TableColumn("queued", 6, 5, lambda one: (short(one.queued) if one.kind == "bolt" else "", "")),
    TableColumn("in hand", 7, 6, lambda one: (short(one.in_hand), "")),
    TableColumn("latency", 7, 4, lambda one: (duration(one.latency_s), "")),
    TableColumn("p99", 6, 7, lambda one: (duration(one.p99_s) if one.kind == "spout" else "", "")),
    TableColumn("failed", 6, 1, lambda one: _grows(one, "failed", one.failed)),
    TableColumn(
        "replays", 7, 2, lambda one: _grows(one, "replayed", one.replayed) if one.kind == "spout" else ("", "")
    ),
    TableColumn("dead", 5, 8, lambda one: _grows(one, "dead", one.dead) if one.kind == "spout" else ("", "")),
)


def lines(figures: RunRates, columns: int, rows: int) -> list[Line]:
    """Return at most `rows` lines, each of less than `columns` cells: the run, components, workers, the last
    checkpoint, the bottleneck.

    If there is no room for all, components with trouble are selected first, then the busiest. They keep their usual
    order, and a further line counts the others.
    """
    width, rows = max(columns - 1, 1), max(rows, 1)
    limit = _limit(figures, width, LIMIT_LINES if rows >= RULED else 1)
    end = [[(_cut(figures.draining, width), "bold yellow")]] if figures.draining else []
    head = [_title(figures, width)]
    if rows >= RULED:
        head.insert(0, [("─" * width, "dim")])
    kept = _checkpoint(figures, width) if rows >= RULED or figures.overdue else []
    left = rows - len(head) - len(limit) - len(end) - len(kept)
    if left < 2:  # room for the most important lines only
        return [*head, *end, *limit][:rows]
    workers = list(figures.workers)
    wanted = len(figures.components) + 1
    for_workers = min(len(workers), max(left - wanted, left // 3))
    if left - for_workers < 2:
        for_workers = 0
    body = _table(figures.components, width, left - for_workers)
    return [*head, *body, *_of_workers(workers, width, min(for_workers, left - len(body))), *kept, *limit, *end]


def _title(figures: RunRates, width: int) -> Line:
    """Return the run in one line, with as many figures as fit."""
    counts = figures.counts
    wanted: list[tuple[int, str, str]] = [  # order of leaving out, as TableColumn.keep; text; style
        (0, _cut(figures.topology, NAME_MAX), "bold"),
        (1, clock(figures.seconds), ""),
        (3, f"{rate(figures.rate)} records/s", ""),
        (5, f"acked {short(counts['acked'])}", ""),
        (6, f"pending {short(counts['pending'])}", ""),
        *([(2, f"dead {short(counts['dead'])}", "bold red")] if counts["dead"] else []),
        (7, f"p50 {duration(figures.latency.percentile(50))}", ""),
        (8, f"p99 {duration(figures.latency.percentile(99))}", ""),
    ]
    if figures.workers:
        away = sum(worker.away for worker in figures.workers)
        wanted.append((9, counted(len(figures.workers), "worker"), ""))
        wanted += [(3, f"{away} away", "bold red")] if away else []
        wanted += [(4, counted(figures.deaths, "death"), "yellow")] if figures.deaths else []
    while len(wanted) > 1 and sum(cell_len(text) + 2 for _, text, _ in wanted) - 2 > width:
        wanted.remove(max(wanted))
    line: Line = []
    for _, text, style in wanted:
        line += [("  ", "")] * bool(line) + [(_cut(text, width), style)]
    return line


def _table(components: Sequence[ComponentRates], width: int, rows: int) -> list[Line]:
    """Return a line of titles, and a line per component, as far as `rows` allows."""
    shown = _worst(components, rows - 1)
    longest = max((cell_len(_name(component)) for component in components), default=NAME_MIN)
    kept = list(COLUMNS)
    while kept and min(longest, NAME_MIN) + sum(column.width + 2 for column in kept) > width:
        kept.remove(max(kept, key=lambda one: one.keep))
    if longest > (room := width - sum(column.width + 2 for column in kept)) and len(kept) > 5:  # prefers names
        dropped = max(kept, key=lambda one: one.keep)
        if room < NAME_MAX // 2:
            kept.remove(dropped)
    name = min(longest, NAME_MAX, max(1, width - sum(column.width + 2 for column in kept)))
    found: list[Line] = [[(" " * name, ""), *(("  " + column.title.rjust(column.width), "dim") for column in kept)]]
    for component in shown:
        style = "bold red" if "dead" in component.grown else "yellow" if component.away or component.grown else ""
        line: Line = [(set_cell_size(_cut(_name(component), name), name), style)]
        for column in kept:
            text, how = column.cell(component)
            line.append(("  " + text.rjust(column.width), how))
        found.append(line)
    if len(shown) < len(components):
        found.append([(_cut(f"… and {len(components) - len(shown):,} more", width), "dim")])
    return found


def _name(one: ComponentRates) -> str:
    return printable(one.name) + (f" ×{one.tasks}" if one.tasks > 1 else "")


def _worst(components: Sequence[ComponentRates], rows: int) -> list[ComponentRates]:
    """Return the components that fit beside the line that counts the others, in their usual order."""
    if len(components) <= rows:
        return list(components)
    rows = max(rows - 1, 0)
    chosen = sorted(range(len(components)), key=lambda one: _trouble(components[one]), reverse=True)[:rows]
    return [components[at] for at in sorted(chosen)]


def _trouble(one: ComponentRates) -> tuple[int, float, float]:
    """Return the urgency of a component. It changes in steps, so that rows do not swap for small differences."""
    severity = 3 * ("dead" in one.grown) + 2 * one.away + bool(one.grown)
    return severity, round((one.busy or 0.0) * 5), round(len(str(one.queued)) if one.queued else 0)


def _of_workers(workers: Sequence[WorkerRates], width: int, rows: int) -> list[Line]:
    shown = list(workers)
    if len(shown) > rows:
        away = sorted(workers, key=lambda one: (one.away, one.deaths, round((one.busy or 0) * 5)), reverse=True)
        shown = sorted(away[: max(rows - 1, 0)], key=lambda one: one.number)
    number = max((len(str(worker.number)) for worker in shown), default=1)
    found: list[Line] = []
    for worker in shown:
        line: Line = [(f"worker {worker.number:<{number}}", "yellow" if worker.away or worker.deaths else "")]
        if worker.away:
            line.append(
                ("  is being replaced" + (f" by pid {worker.pid}" if worker.pid is not None else ""), "bold red")
            )
        else:
            line += [
                (f"  pid {worker.pid:<7}", ""),
                (f"  {rate(worker.rate):>5} handled/s", ""),
                (f"  busy {percent(worker.busy):>5}", "yellow" if (worker.busy or 0.0) >= BUSY else ""),
                (f"  queued {short(worker.queued):>5}", ""),
            ]
        died = f"  died {'once' if worker.deaths == 1 else f'{worker.deaths:,} times'}" * bool(worker.deaths)
        found.append([*_fitting(line, width - len(died)), (died, "yellow")])
    if rows and len(shown) < len(workers):
        found.append([(_cut(f"… and {counted(len(workers) - len(shown), 'more worker')}", width), "dim")])
    return found


def _fitting(line: Line, width: int) -> Iterator[Piece]:
    """Yield complete pieces, while there is room."""
    used = 0
    for text, style in line:
        used += cell_len(text)
        if used > width:
            return
        yield text, style


def _checkpoint(figures: RunRates, width: int) -> list[Line]:
    """Return the last decided checkpoint and what is remembered until a later one, in a line; none if nothing is
    kept."""
    last = figures.checkpoint
    if last is None:
        return []
    style = "yellow" if figures.overdue else "dim"
    inputs, memory = figures.remembered
    texts = [f"checkpoint {age(last.age_s)} ago", f"  {size(last.bytes)} in {duration(last.seconds)}"]
    if inputs:
        texts += [f"  {short(inputs)} input{'s' * (inputs != 1)} remembered", f", {size(memory)}"]
    return [[*_fitting([(text, style) for text in texts], width)]]


def _limit(figures: RunRates, width: int, most: int) -> list[Line]:
    """Return the sentence on the bottleneck, in at most `most` lines."""
    style = "yellow" if figures.stalled else "dim"
    return [[(line, style)] for line in wrapped(printable(figures.limit), width, most)]


def wrapped(text: str, width: int, most: int) -> list[str]:
    """Wrap a text into at most `most` lines of at most `width` cells; "…" stands for the rest."""
    found: list[str] = []
    words = text.split()
    while words and len(found) < most:
        line = words.pop(0)
        while words and cell_len(line) + 1 + cell_len(words[0]) <= width:
            line += " " + words.pop(0)
        if words and len(found) == most - 1:
            line = f"{line} {' '.join(words)}"
        if cell_len(line) > width and len(found) < most - 1:  # a word that is wider than the terminal
            head = set_cell_size(line, width).rstrip()
            words.insert(0, line[len(head) :])
            line = head
        found.append(_cut(line, width))
    return found


def _cut(text: str, width: int) -> str:
    """Return the text, cut to at most `width` cells."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else "…"
