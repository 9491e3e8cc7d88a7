"""Draws latency over time, around an event, as SVG: a panel a case, on a logarithmic scale. Pure text, no library.

Must not know what the event was.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

Point = Sequence[float]  # ms from the event, median ms, highest ms
COLUMNS: Final = 2
PANEL_W, PANEL_H = 520, 300  # of a panel with its margins, in pixels
LEFT, RIGHT, TOP, BOTTOM = 68, 18, 42, 52
HEAD_H: Final = 62  # for title and legend
LOWEST_MS: Final = 0.1  # what is below is drawn there
LINES: Final = ((2, "highest", "#d95f02"), (1, "median", "#1b5e9e"))  # index in a point, what it is, its colour
GREY: Final = "#666666"


def svg(title: str, event: str, panels: Sequence[tuple[str, Sequence[Point]]]) -> str:
    """The drawing. `panels`: heading and points of each; the event stands at 0 s."""
    rows = math.ceil(len(panels) / COLUMNS)
    width, height = PANEL_W * min(COLUMNS, len(panels)), HEAD_H + PANEL_H * rows
    highest = max((point[2] for _, points in panels for point in points), default=1.0)
    top = 10.0 ** math.ceil(math.log10(max(highest, 10.0)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(LEFT, 24, title, size=15, anchor="start"),
        *_legend(event),
    ]
    for index, (heading, points) in enumerate(panels):
        row, column = divmod(index, COLUMNS)
        parts += _Panel(column * PANEL_W, HEAD_H + row * PANEL_H, top, points).drawn(heading)
    return "\n".join([*parts, "</svg>", ""])


def _legend(event: str) -> Iterator[str]:
    x = LEFT
    for _, what, colour in reversed(LINES):
        yield line(x, 44, x + 24, 44, colour, 2)
        yield text(x + 30, 48, what, anchor="start")
        x += 100
    yield line(x + 12, 36, x + 12, 52, GREY, 1, dashed=True)
    yield text(x + 22, 48, event, anchor="start")


class _Panel:
    def __init__(self, x: float, y: float, top_ms: float, points: Sequence[Point]) -> None:
        self.left, self.right = x + LEFT, x + PANEL_W - RIGHT
        self.top, self.bottom = y + TOP, y + PANEL_H - BOTTOM
        self.top_ms = top_ms
        self.points = points
        times = [point[0] / 1000 for point in points] or [0.0]
        self.begin, self.end = math.floor(2 * min(times)) / 2, math.ceil(2 * max(times)) / 2 or 0.5

    def x(self, seconds: float) -> float:
        return self.left + (self.right - self.left) * (seconds - self.begin) / (self.end - self.begin)

    def y(self, ms: float) -> float:
        share = math.log10(max(ms, LOWEST_MS) / LOWEST_MS) / math.log10(self.top_ms / LOWEST_MS)
        return self.bottom - (self.bottom - self.top) * share

    def drawn(self, heading: str) -> Iterator[str]:
        yield text(self.left, self.top - 12, heading, size=13, anchor="start")
        yield from self._axes()
        yield line(self.x(0), self.top, self.x(0), self.bottom, GREY, 1, dashed=True)
        for index, _, colour in LINES:
            path = " ".join(f"{self.x(point[0] / 1000):.1f},{self.y(point[index]):.1f}" for point in self.points)
            yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'

    def _axes(self) -> Iterator[str]:
        ms = LOWEST_MS
        while ms <= self.top_ms * 1.001:
            yield line(self.left, self.y(ms), self.right, self.y(ms), "#dddddd", 1)
            yield text(self.left - 8, self.y(ms) + 4, f"{ms:,g}", anchor="end")
            ms *= 10
        for half in range(round(2 * self.begin), round(2 * self.end) + 1):
            x = self.x(half / 2)
            yield line(x, self.bottom, x, self.bottom + 5, GREY, 1)
            if half % 2 == 0:
                yield text(x, self.bottom + 19, f"{half // 2}")
        yield line(self.left, self.bottom, self.right, self.bottom, GREY, 1)
        yield line(self.left, self.top, self.left, self.bottom, GREY, 1)
        yield text((self.left + self.right) / 2, self.bottom + 38, "when the record was due, s from the kill")
        x, y = self.left - 50, (self.top + self.bottom) / 2
        yield text(x, y, "latency, ms", turned=True)


def text(x: float, y: float, content: str, *, size: int = 12, anchor: str = "middle", turned: bool = False) -> str:
    """Words at a place, of which `anchor` says what that is."""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turn}>{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float, *, dashed: bool = False) -> str:
    """A straight line."""
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}"{dash}/>'
    )
