"""Draws figures of several systems below each other, as SVG: bars, and percentiles on a logarithmic axis. Pure text.

The same figures give the same bytes. A name stands above what is drawn for it, so that a phone shows both at a legible
size. Must not know what was measured.
"""

import math
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from benchmarks.plot import SMALL, WIDTH, document, line, text

MARGIN: Final = 14  # at all sides
VALUE: Final = 62  # for the figure behind the longest bar
TITLE: Final = 52  # characters of a line of the title
LEADING: Final = 19  # from one line of the title to the next
AXIS: Final = 24  # for what the axis says, below the title
NAME: Final = 18  # height of a name
BAR: Final = 14
NOTE: Final = 15  # height of what stands below a bar
DOTS: Final = 20  # height of the dots of a row
SPACE: Final = 8  # between rows
DOT: Final = 4.5  # radius
FOOT: Final = 26  # for the numbers of the axis
CHARACTERS: Final = 60  # of a name, at most: what tells two names apart may stand at their ends


def bars(title: str, unit: str, rows: Sequence[tuple[str, float, str, bool]]) -> str:
    """A horizontal bar per row, from 0: its name, its figure, a note below it, and whether it is one of ours."""
    most = max((value for _, value, _, _ in rows), default=0.0) or 1.0
    parts, y = _head(title, unit)
    for name, value, note, ours in rows:
        length = (WIDTH - 2 * MARGIN - VALUE) * value / most
        kind = "ours" if ours else "others"
        parts.append(_name(name, y))
        y += NAME
        parts.append(f'<rect class="{kind}" x="{MARGIN}" y="{y:.0f}" width="{length:.1f}" height="{BAR}"/>')
        parts.append(text(MARGIN + length + 6, y + 11, f"{value:,.0f}", anchor="start"))
        y += BAR
        if note:
            parts.append(text(MARGIN, y + 12, note, size=SMALL, anchor="start", muted=True))
            y += NOTE
        y += SPACE
    return document(title, y + MARGIN - SPACE, parts)


def percentiles(title: str, rows: Sequence[tuple[str, Sequence[float], bool]]) -> str:
    """A row each: its name, milliseconds from the median to the highest, and whether it is one of ours. The median is a
    full dot, the others are hollow."""
    found = [value for _, values, _ in rows for value in values if value > 0]
    low = math.floor(math.log10(min(found, default=0.1)))
    high = max(math.ceil(math.log10(max(found, default=1.0))), low + 1)
    left, right = MARGIN + DOT + 2, WIDTH - MARGIN - DOT - 8

    def x(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return left + (right - left) * share

    powers = [10.0**power for power in range(low, high + 1)]
    parts, y = _head(title, "latency in ms: p50 (full), p90, p99, p99.9, highest")
    for name, values, ours in rows:
        parts.append(_name(name, y))
        y += NAME
        ticks = "".join(f"M{x(power):.1f} {y:.0f}v{DOTS}" for power in powers)
        parts.append(f'<path class="grid" d="{ticks}"/>')
        parts += _span([x(value) for value in values], y + DOTS / 2, "ours" if ours else "others")
        y += DOTS + SPACE
    parts += [text(x(power), y + 10, f"{power:,g}", size=SMALL) for power in powers]
    return document(title, y + FOOT, parts)


def _head(title: str, axis: str) -> tuple[list[str], float]:
    """The title in lines, and what the axis says; and where the rows begin."""
    lines = wrap(title, TITLE)
    parts = [text(MARGIN, 22 + number * LEADING, one, size=14, anchor="start") for number, one in enumerate(lines)]
    y = 22 + LEADING * len(lines)
    parts.append(text(MARGIN, y + 2, axis, anchor="start", muted=True))
    return parts, float(y + AXIS - NAME / 2)


def _span(places: Sequence[float], y: float, kind: str) -> Iterator[str]:
    if places:
        yield line(places[0], y, places[-1], y, f"{kind}-line", 1.5)
    for number, place in enumerate(places):
        fill = "hollow" if number else kind
        yield f'<circle class="{fill} {kind}-line" cx="{place:.1f}" cy="{y:.1f}" r="{DOT}" stroke-width="1.5"/>'


def _name(name: str, y: float) -> str:
    short = name if len(name) <= CHARACTERS else f"{name[: CHARACTERS - 1]}…"
    return text(MARGIN, y + 13, short, anchor="start")
