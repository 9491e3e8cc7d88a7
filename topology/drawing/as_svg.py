"""A scene as SVG: one file that needs nothing else, for pages and notebooks, in bright and in dark.

Pure, and the same for the same topology. ASCII alone, so that no encoding spoils it; its classes have a prefix and
nothing has an id, so that it can stand within a page, beside others of its kind. It paints its own ground, for the
page around it may be dark where the reader's system is bright. No scripts, no links, no fonts of its own.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape

from topology.drawing.picture import Node, Picture
from topology.drawing.scene import CHIPS_ROOM, MARGIN, SIZES, STACK, Chip, Item, Point, Scene, Text, scene

ARROW: Final = 8.0  # the length of an arrow's head, and its half width
ARROW_HALF: Final = 4.5
CORNER: Final = 7.0  # of a bolt
BEVEL: Final = 11.0  # of a sink
LEGEND: Final = (("spout", "spout: a source"), ("bolt", "bolt"), ("sink", "sink: a bolt that emits nothing"))
SWATCH: Final = (22.0, 13.0)  # of the legend
SIMPLE: Final = frozenset(map(chr, range(0x20, 0x180))) | frozenset("→×…")  # drawn as wide as it was measured

_HUES: Final = ("#2563eb", "#b45309", "#047857", "#be185d", "#7c3aed", "#0e7490", "#4d7c0f", "#475569")  # of workers

# Colours of the ground, text, fainter text and lines; then fill and stroke of a spout, a bolt and a sink.
_BRIGHT: Final = ("#ffffff", "#111827", "#4b5563", "#6b7280")
_BRIGHT_KINDS: Final = ("#e3f7f1", "#0f766e", "#e8f0fe", "#1d4ed8", "#fff3df", "#b45309")
_DARK: Final = ("#0f1420", "#f1f5f9", "#a9b4c4", "#8492a6")
_DARK_KINDS: Final = ("#0d302c", "#2dd4bf", "#16264d", "#7aa8ff", "#38270c", "#fbbf24")


def _colours(ground: str, text: str, faint: str, line: str, *kinds: str) -> str:
    rules = [
        f".kedge-page{{fill:{ground}}}",
        f".kedge-title,.kedge-name,.kedge-class{{fill:{text}}}",
        f".kedge-small{{fill:{faint}}}",
        f".kedge-edge{{stroke:{line}}}",
        f".kedge-tip{{fill:{line}}}",
    ]
    for kind, fill, stroke in zip(("spout", "bolt", "sink"), kinds[::2], kinds[1::2], strict=True):
        rules.append(f".kedge-{kind}{{fill:{fill};stroke:{stroke}}}")
    return "".join(rules)


_FONT: Final = 'ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace'
STYLE: Final = (
    f".kedge text{{font-family:{_FONT}}}"
    + "".join(f".kedge-{kind}{{font-size:{size:g}px}}" for kind, size in SIZES.items())
    + ".kedge-title,.kedge-name{font-weight:600}.kedge-chip{fill:#fff;font-weight:600}.kedge-sum{fill:#64748b}"
    + ".kedge-spout,.kedge-bolt,.kedge-sink{stroke-width:1.5}.kedge-edge{fill:none;stroke-width:1.5}"
    + "".join(f".kedge-w{number}{{fill:{hue}}}" for number, hue in enumerate(_HUES))
    + _colours(*_BRIGHT, *_BRIGHT_KINDS)
    + f"@media (prefers-color-scheme:dark){{{_colours(*_DARK, *_DARK_KINDS)}}}"
)


def svg(picture: Picture) -> str:
    """The picture as a document, without a line end after it."""
    head = max(Text(picture.name, "title").width, Text(picture.described, "small").width)
    drawn = scene(picture, max(head, sum(_legend_widths(picture))))
    return "\n".join(document(drawn)).encode("ascii", "xmlcharrefreplace").decode()


def document(drawn: Scene) -> Iterator[str]:
    """The lines of the document."""
    picture, width, height = drawn.picture, f"{drawn.width:.0f}", f"{drawn.height:.0f}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kedge" role="img" aria-label="{escape(picture.name)}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    )
    yield f"<title>{escape(picture.name)}</title>"
    yield f"<desc>{escape(' '.join(_sentences(picture)))}</desc>"
    yield f"<style>{STYLE}</style>"
    yield f'<rect class="kedge-page" width="{width}" height="{height}" rx="10"/>'
    yield _line(MARGIN, 34, Text(picture.name, "title"), "start")
    yield _line(MARGIN, 53, Text(picture.described, "small"), "start")
    for before, after in drawn.strokes:
        path = _path(before, drawn.down) + _path(_shortened(after, drawn.down), drawn.down)
        yield f'<path class="kedge-edge" d="{path}"/>'
        yield f'<path class="kedge-tip" d="{_tip(after[-1], drawn.down)}"/>'
    for item in (*drawn.labels, *drawn.nodes):
        yield from _item(item)
    yield from _legend(picture, drawn.height - 24)
    yield "</svg>"


def _sentences(picture: Picture) -> Iterator[str]:
    """The picture for those who can't see it."""
    yield f"{picture.described}."
    for edge in picture.edges:
        source, target = picture.nodes[edge.source], picture.nodes[edge.target]
        how = f"{edge.record}, {edge.grouping}, {edge.tasks}"
        yield f"From {source.kind} {source.name} to {target.kind} {target.name}: {how}."


def _path(points: list[Point], down: bool) -> str:
    """Straight lines, and curves where a piece goes aside."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        if abs(x - to_x) < 0.05 or abs(y - to_y) < 0.05:
            parts.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            middle = (y + to_y) / 2 if down else (x + to_x) / 2
            first, second = ((x, middle), (to_x, middle)) if down else ((middle, y), (middle, to_y))
            parts.append(f"C{first[0]:.1f} {first[1]:.1f} {second[0]:.1f} {second[1]:.1f} {to_x:.1f} {to_y:.1f}")
    return "".join(parts)


def _shortened(points: list[Point], down: bool) -> list[Point]:
    """The points with room for the arrow's head."""
    x, y = points[-1]
    return [*points[:-1], (x, y - ARROW + 1) if down else (x - ARROW + 1, y)]


def _tip(end: Point, down: bool) -> str:
    x, y = end
    if down:
        return f"M{x:.1f} {y:.1f}l{-ARROW_HALF} {-ARROW}h{2 * ARROW_HALF}z"
    return f"M{x:.1f} {y:.1f}l{-ARROW} {-ARROW_HALF}v{2 * ARROW_HALF}z"


def _item(item: Item) -> Iterator[str]:
    y = item.y - (sum(line.height for line in item.lines) + (CHIPS_ROOM if item.chips else 0)) / 2
    if isinstance(item.what, Node):
        left, top = item.x - item.width / 2, item.y - item.height / 2
        if item.what.tasks > 1:
            yield _outline(item.what.kind, left + STACK, top + STACK, item.width, item.height)
        yield _outline(item.what.kind, left, top, item.width, item.height)
    for line in item.lines:
        yield _line(item.x, y + line.height / 2 + SIZES[line.kind] * 0.35, line)
        y += line.height
    x = item.x - sum(chip.width for chip in item.chips) / 2
    for chip in item.chips:
        yield from _chip(chip, x, y + 6)
        x += chip.width


def _chip(chip: Chip, x: float, y: float) -> Iterator[str]:
    kind = "sum" if chip.worker is None else f"w{chip.worker % len(_HUES)}"
    yield f'<rect class="kedge-{kind}" x="{x + 2:.1f}" y="{y:.1f}" width="{chip.width - 4:.1f}" height="16" rx="8"/>'
    yield _line(x + chip.width / 2, y + 11.6, chip.text)


def _outline(kind: str, x: float, y: float, width: float, height: float) -> str:
    """A spout has round ends, a bolt small corners, a sink bevelled ones."""
    if kind == "sink":
        cut = min(BEVEL, height / 2)
        return (
            f'<path class="kedge-sink" d="M{x + cut:.1f} {y:.1f}h{width - 2 * cut:.1f}l{cut:.1f} {cut:.1f}'
            f"v{height - 2 * cut:.1f}l{-cut:.1f} {cut:.1f}h{2 * cut - width:.1f}l{-cut:.1f} {-cut:.1f}"
            f'v{2 * cut - height:.1f}z"/>'
        )
    corner = min(height / 2, 26.0) if kind == "spout" else min(CORNER, height / 3)
    return (
        f'<rect class="kedge-{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{corner:.1f}"/>'
    )


def _line(x: float, y: float, line: Text, anchor: str = "middle") -> str:
    """A text; one with characters whose widths fonts don't agree on is fitted into what was measured."""
    fitted = "" if SIMPLE.issuperset(line.text) else f' textLength="{line.width:.1f}" lengthAdjust="spacingAndGlyphs"'
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="kedge-{line.kind}" {place}{fitted}>{escape(line.text)}</text>'


def _legend_words(picture: Picture) -> list[tuple[str, Text]]:
    return [(kind, Text(words, "small")) for kind, words in LEGEND if any(one.kind == kind for one in picture.nodes)]


def _legend_widths(picture: Picture) -> list[float]:
    return [SWATCH[0] + 8 + words.width + 18 for _, words in _legend_words(picture)]


def _legend(picture: Picture, y: float) -> Iterator[str]:
    x = MARGIN
    for (kind, words), width in zip(_legend_words(picture), _legend_widths(picture), strict=True):
        yield _outline(kind, x, y - SWATCH[1] / 2, *SWATCH)
        yield _line(x + SWATCH[0] + 8, y + 4, words, "start")
        x += width
