"""Draws figures of several systems beside each other, as SVG: bars, and percentiles on a logarithmic axis. Pure text.

The same figures give the same bytes. Must not know what was measured.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from benchmarks.plot import GREY, line, text

WIDTH: Final = 900  # of a drawing, in pixels
MARGIN: Final = 16  # beside names, and below what the last of them stands for
LETTER: Final = 6.6  # width of a letter of a name, in a font that is wide
RIGHT: Final = 250  # for what stands behind a bar
TOP: Final = 56  # for the title, and what the axis says
ROW: Final = 28  # height of a row
BAR: Final = 16
FOOT: Final = 34  # for the axis
CHARACTERS: Final = 60  # of a name, at most: what tells two names apart may stand at their ends
OURS, OTHERS, PALE = "#0b5c7a", "#9aa7ad", "#dddddd"


def bars(title: str, unit: str, rows: Sequence[tuple[str, float, str, bool]]) -> str:
    """A horizontal bar a row, from 0: its name, its figure, what stands behind that, and whether it is one of ours."""
    most = max((value for _, value, _, _ in rows), default=0.0) or 1.0
    left = _left([name for name, *_ in rows])
    parts = [text(left, 44, unit, anchor="start")]
    for number, (name, value, note, ours) in enumerate(rows):
        y = TOP + number * ROW
        length = (WIDTH - left - RIGHT) * value / most
        colour = OURS if ours else OTHERS
        parts.append(_name(name, left, y))
        parts.append(f'<rect x="{left:.0f}" y="{y + 4}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>')
        parts.append(
            text(left + length + 6, y + 17, f"{value:,.0f} – {note}" if note else f"{value:,.0f}", anchor="start")
        )
    bottom = TOP + len(rows) * ROW
    parts.append(line(left, TOP, left, bottom, GREY, 1))
    return _drawing(title, bottom + 12, parts)


def percentiles(title: str, rows: Sequence[tuple[str, Sequence[float], bool]]) -> str:
    """A row each: its name, milliseconds from the median to the highest, and whether it is one of ours. The median is a
    full dot, the others are hollow."""
    found = [value for _, values, _ in rows for value in values if value > 0]
    low = math.floor(math.log10(min(found, default=0.1)))
    high = max(math.ceil(math.log10(max(found, default=1.0))), low + 1)
    left = _left([name for name, *_ in rows])

    def x(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return left + (WIDTH - left - 40) * share

    bottom = TOP + len(rows) * ROW
    parts = [text(left, 44, "latency in ms: p50 (full), p90, p99, p99.9, highest", anchor="start")]
    for power in range(low, high + 1):
        parts.append(line(x(10.0**power), TOP, x(10.0**power), bottom, PALE, 1))
        parts.append(text(x(10.0**power), bottom + 18, f"{10.0**power:,g}"))
    for number, (name, values, ours) in enumerate(rows):
        parts.append(_name(name, left, TOP + number * ROW))
        parts += _span([x(value) for value in values], TOP + number * ROW + 12, OURS if ours else GREY)
    return _drawing(title, bottom + FOOT, parts)


def _span(places: Sequence[float], y: float, colour: str) -> Iterator[str]:
    if places:
        yield line(places[0], y, places[-1], y, colour, 1.5)
    for number, place in enumerate(places):
        fill = "white" if number else colour
        yield f'<circle cx="{place:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'


def _left(names: Sequence[str]) -> float:
    """Where what is drawn begins, beside the names."""
    return MARGIN + round(LETTER * min(max(map(len, names), default=0), CHARACTERS))


def _name(name: str, left: float, y: float) -> str:
    short = name if len(name) <= CHARACTERS else f"{name[: CHARACTERS - 1]}…"
    return text(left - 8, y + 17, short, anchor="end")


def _drawing(title: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12">'
    )
    back = f'<rect width="{WIDTH}" height="{height:.0f}" fill="white"/>'
    named = f"<title>{escape(title)}</title>"
    return "\n".join([head, named, back, text(MARGIN, 24, title, size=15, anchor="start"), *parts, "</svg>", ""])
