"""Draws latency over time, around an event, as SVG: one panel per case, on a logarithmic scale. Pure text, no library.

Has what all drawings share, too: words, lines, and the colours of both themes. A drawing is as wide as a phone shows
with legible letters, and paints no ground, so that it suits a bright and a dark page. Must not know what the event was.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

Point = Sequence[float]  # ms from the event, median ms, highest ms
WIDTH: Final = 420  # of each drawing, in pixels; a phone has 358 for it
SMALL: Final = 11  # of the smallest letters: 9 on a phone
PANEL_H: Final = 230  # of a panel with its margins
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 30, 48
HEAD_H: Final = 62  # for title and legend
LOWEST_MS: Final = 0.1  # what is below is drawn there
LINES: Final = ((2, "highest"), (1, "median"))  # index in a point, what it is, and its class
STYLE: Final = (
    "text{fill:#1d2730}.muted{fill:#51606d}.axis{stroke:#6b7781}.grid{stroke:#d5dce2;fill:none}"
    ".ours{fill:#0b5c7a}.others{fill:#9aa7ad}.ours-line{stroke:#0b5c7a}.others-line{stroke:#6b7781}.hollow{fill:#fff}"
    ".highest{stroke:#c2560a}.median{stroke:#0b5c7a}"
    "@media (prefers-color-scheme:dark){text{fill:#dfe6ec}.muted{fill:#a3b1bd}.axis{stroke:#93a0ab}"
    ".grid{stroke:#343e47}.ours{fill:#7cc4e0}.others{fill:#7d8a94}.ours-line{stroke:#7cc4e0}"
    ".others-line{stroke:#a3b1bd}.hollow{fill:#131416}.highest{stroke:#ff9d5c}.median{stroke:#7cc4e0}}"
)


def svg(title: str, event: str, panels: Sequence[tuple[str, Sequence[Point]]]) -> str:
    """The drawing. `panels`: heading and points of each; the event stands at 0 s."""
    highest = max((point[2] for _, points in panels for point in points), default=1.0)
    top = 10.0 ** math.ceil(math.log10(max(highest, 10.0)))
    parts = [text(RIGHT, 24, title, size=14, anchor="start"), *_legend(event)]
    for index, (heading, points) in enumerate(panels):
        parts += _Panel(HEAD_H + index * PANEL_H, top, points).drawn(heading)
    return document("", HEAD_H + PANEL_H * len(panels), parts)


def document(title: str, height: float, parts: Iterable[str]) -> str:
    """A whole drawing, with its own colours for bright and dark."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12">'
    )
    named = [f"<title>{escape(title)}</title>"] if title else []
    return "\n".join([head, *named, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _legend(event: str) -> Iterator[str]:
    x = RIGHT
    for _, what in reversed(LINES):
        yield line(x, 44, x + 24, 44, what, 2)
        yield text(x + 30, 48, what, anchor="start")
        x += 100
    yield line(x + 12, 36, x + 12, 52, "axis", 1, dashed=True)
    yield text(x + 22, 48, event, anchor="start")


class _Panel:
    def __init__(self, y: float, top_ms: float, points: Sequence[Point]) -> None:
        self.left, self.right = LEFT, WIDTH - RIGHT
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
        yield text(self.left, self.top - 12, heading, size=12, anchor="start")
        yield from self._axes()
        yield line(self.x(0), self.top, self.x(0), self.bottom, "axis", 1, dashed=True)
        for index, what in LINES:
            path = " ".join(f"{self.x(point[0] / 1000):.1f},{self.y(point[index]):.1f}" for point in self.points)
            yield f'<polyline class="{what}" points="{path}" fill="none" stroke-width="1.5"/>'

    def _axes(self) -> Iterator[str]:
        ms = LOWEST_MS
        while ms <= self.top_ms * 1.001:
            yield line(self.left, self.y(ms), self.right, self.y(ms), "grid", 1)
            yield text(self.left - 8, self.y(ms) + 4, f"{ms:,g}", size=SMALL, anchor="end")
            ms *= 10
        for half in range(round(2 * self.begin), round(2 * self.end) + 1):
            x = self.x(half / 2)
            yield line(x, self.bottom, x, self.bottom + 5, "axis", 1)
            if half % 2 == 0:
                yield text(x, self.bottom + 19, f"{half // 2}", size=SMALL)
        yield line(self.left, self.bottom, self.right, self.bottom, "axis", 1)
        yield line(self.left, self.top, self.left, self.bottom, "axis", 1)
        yield text((self.left + self.right) / 2, self.bottom + 38, "when the record was due, s from the kill")
        x, y = self.left - 50, (self.top + self.bottom) / 2
        yield text(x, y, "latency, ms", turned=True)


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: int = 12,
    anchor: str = "middle",
    turned: bool = False,
    muted: bool = False,
) -> str:
    """Words at a place, of which `anchor` says what that is."""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    kind = ' class="muted"' if muted else ""
    return (
        f'<text{kind} x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turn}>{escape(content)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str, width: float, *, dashed: bool = False) -> str:
    """A straight line, with the colour of its class."""
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-width="{width:g}"{dash}/>'
    )
