"""A scene as SVG: one self-contained file for pages and notebooks, in bright and in dark.

Pure, and the same for the same topology. Only ASCII, so that no encoding damages it. Its classes have a prefix and no
element has an id, so that a page can contain it next to others of its kind. It paints its own background, because the
page around it may be dark while the reader's system is bright. No scripts, no links, no fonts of its own.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape

from topology.drawing.layout import Arrangement, Places, Spacing, arranged, placed
from topology.drawing.model import Edge, Picture, PictureNode
from topology.drawing.widths import ems, wrapped

PAGE: Final = 900.0  # the minimum width of a page or a window
MARGIN: Final = 24.0
HEAD: Final = 68.0  # the title, the line under it, and the space above
FOOT: Final = 58.0  # the legend, and the space around it
SIZES: Final = {"title": 18.0, "name": 14.0, "class": 12.5, "small": 11.5, "chip": 10.0}  # of text
LEADING: Final = 1.4  # the distance from one line to the next, relative to its size
LINE_MAX: Final = 30  # columns of one line
PADDING_X, PADDING_Y = 18.0, 9.0  # between a node's outline and its text
STACK: Final = 4.0  # the visible part of the second outline, which shows that there are several tasks
GAP: Final = 28.0  # between neighbours in a layer
PORT_GAP: Final = 28.0  # between edges at one node
PORT_GAP_MIN, INSET = 10.0, 18.0  # the minimum between edges; the distance from a node's corner to the first edge
SLACK: Final = 0.3  # the part of the distance between edges by which one may be shifted to arrive straight
REACH_MIN, REACH_MAX = 24.0, 130.0  # between layers: grows with the distance that an edge moves aside
SLOPE: Final = 0.28  # the share of that distance
LEAD: Final = 13.0  # the straight piece before a node, for the arrow
CHIPS_ROOM: Final = 24.0  # the height of a row of chips
CHIPS_MAX: Final = 5  # in one node

Point = tuple[float, float]


@dataclass
class Text:
    """A line of text and its kind, a key of SIZES."""

    text: str
    kind: str

    @property
    def width(self) -> float:
        """The width, rather over- than underestimated."""
        return ems(self.text) * SIZES[self.kind]

    @property
    def height(self) -> float:
        """The height of the whole line."""
        return SIZES[self.kind] * LEADING


@dataclass
class Chip:
    """A small mark with the number of a worker and of its tasks; `worker` is None for a mark that summarizes
    workers."""

    text: Text
    worker: int | None

    @property
    def width(self) -> float:
        """The width with the space to the next chip."""
        return self.text.width + 14


@dataclass
class Item:
    """The content of a vertex: its lines, its size and its middle. `what` is None if an edge only passes."""

    what: PictureNode | Edge | None = None
    lines: list[Text] = field(default_factory=list)
    chips: list[Chip] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0


@dataclass
class Scene:
    """All that is drawn. `strokes` has the pieces of each edge before and after its label, as points. Between two
    points, a piece is straight in the direction of the layers, or bends in the space between two layers."""

    picture: Picture
    nodes: list[Item]
    labels: list[Item]
    strokes: list[tuple[list[Point], list[Point]]]
    down: bool
    width: float
    height: float


def scene(picture: Picture, width_min: float = 0.0) -> Scene:
    """Return the downward or the rightward drawing, whichever suits a page. `width_min` is the width of the head and
    the foot."""
    arrangement = arranged(len(picture.nodes), [(edge.source, edge.target) for edge in picture.edges])
    down = _Making(picture, arrangement, down=True).scene(width_min)
    if down.width <= PAGE:
        return down
    right = _Making(picture, arrangement, down=False).scene(width_min)
    return right if right.width < down.width else down


class _Making:
    """A scene under construction; 'across' is along a layer, 'along' from one layer to the next."""

    def __init__(self, picture: Picture, arrangement: Arrangement, *, down: bool) -> None:
        self.picture, self.arrangement, self.down = picture, arrangement, down
        self.items = [_node(node) for node in picture.nodes]
        self.items += [Item() for _ in range(arrangement.vertices - len(self.items))]
        for edge, vertex in zip(picture.edges, arrangement.labels, strict=True):
            self.items[vertex] = _label(edge)
        self._room_for_ports()
        self.across = [item.width if down else item.height for item in self.items]
        self.along = [item.height if down else item.width for item in self.items]
        self.places = placed(arrangement, Spacing(self.across, GAP, PORT_GAP, INSET, SLACK))
        self.bands = _bands(arrangement, self.places, self.along)  # the start and the end of each layer

    def scene(self, width_min: float) -> Scene:
        """Return the scene with its margins."""
        broad = max((middle + size / 2 for middle, size in zip(self.places.middles, self.across, strict=True)))
        long = self.bands[-1][1]
        wide, high = (broad, long) if self.down else (long, broad)
        width = max(wide + STACK, width_min)
        left = MARGIN + (width - wide) / 2
        for band, layer in zip(self.bands, self.arrangement.layers, strict=True):
            for vertex in layer:
                x, y = self._turned(self.places.middles[vertex], sum(band) / 2)
                self.items[vertex].x, self.items[vertex].y = x + left, y + HEAD
        strokes = []
        for edge in range(len(self.arrangement.chains)):
            before, after = (
                [(x + left, y + HEAD) for x, y in (self._turned(*point) for point in piece)]
                for piece in self._pieces(edge)
            )
            strokes.append((before, after))
        nodes, labels = self.items[: self.arrangement.nodes], [self.items[vertex] for vertex in self.arrangement.labels]
        return Scene(self.picture, nodes, labels, strokes, self.down, width + 2 * MARGIN, high + HEAD + FOOT)

    def _room_for_ports(self) -> None:
        """Enlarge nodes until all of their edges have space at their side."""
        leaving = Counter(edge.source for edge in self.picture.edges)
        reaching = Counter(edge.target for edge in self.picture.edges)
        for number, item in enumerate(self.items[: self.arrangement.nodes]):
            least = 2 * INSET + PORT_GAP_MIN * (max(leaving[number], reaching[number]) - 1)
            if self.down:
                item.width = max(item.width, least)
            else:
                item.height = max(item.height, least)

    def _turned(self, across: float, along: float) -> Point:
        return (across, along) if self.down else (along, across)

    def _pieces(self, edge: int) -> tuple[list[Point], list[Point]]:
        """Return the points of an edge, across and along: at the borders of layers, and of the items that it
        touches."""
        chain = self.arrangement.chains[edge]
        label = chain.index(self.arrangement.labels[edge])
        depth = next(row for row, layer in enumerate(self.arrangement.layers) if chain[0] in layer)
        pieces: tuple[list[Point], list[Point]] = ([], [])
        for step, vertex in enumerate(chain):
            start, end = self.bands[depth + step]
            middle = (start + end) / 2
            start -= LEAD if (depth + step) % 2 == 0 else 0
            near, far = (middle - self.along[vertex] / 2, middle + self.along[vertex] / 2)
            at = self.places.middles[vertex]
            if step == 0:
                pieces[0].extend((at + self.places.leaves[edge], where) for where in (far, end))
            elif step == len(chain) - 1:
                pieces[1].extend((at + self.places.reaches[edge], where) for where in (start, near))
            elif step == label:
                pieces[0].extend(((at, start), (at, near)))
                pieces[1].extend(((at, far), (at, end)))
            else:
                pieces[step > label].extend(((at, start), (at, end)))
        return pieces


def _bands(arrangement: Arrangement, places: Places, along: list[float]) -> list[tuple[float, float]]:
    bands, at = [], 0.0
    rows = zip(arrangement.layers, places.links(arrangement), strict=True)
    for row, (layer, links) in enumerate(rows):
        thickness = max(along[vertex] for vertex in layer)
        bands.append((at, at + thickness))
        aside = max((abs(start - end) for _, _, start, end in links), default=0.0)
        at += thickness + min(max(REACH_MIN, aside * SLOPE), REACH_MAX) + (LEAD if row % 2 else 0)
    return bands


def _node(node: PictureNode) -> Item:
    lines = [*_lines(node.name, "name"), *_lines(f"{node.made_of} ×{node.tasks:,}", "class")]
    lines += [line for note in node.notes for line in _lines(note, "small")]
    chips = [
        Chip(Text(f"w{worker} ×{len(tasks):,}" if node.tasks > 1 else f"w{worker}", "chip"), worker)
        for worker, tasks in node.workers.items()
    ]
    if len(chips) > CHIPS_MAX:
        chips = [Chip(Text(f"on {len(chips)} workers", "chip"), None)]
    width = max([*(line.width for line in lines), sum(chip.width for chip in chips)]) + 2 * PADDING_X
    height = sum(line.height for line in lines) + 2 * PADDING_Y + (CHIPS_ROOM if chips else 0)
    return Item(node, lines, chips, width, height)


def _label(edge: Edge) -> Item:
    lines = [*_lines(edge.record, "class"), *_lines(edge.grouping, "small"), Text(edge.tasks, "small")]
    return Item(edge, lines, [], max(line.width for line in lines) + 10, sum(line.height for line in lines) + 6)


def _lines(text: str, kind: str) -> list[Text]:
    return [Text(line, kind) for line in wrapped(text, LINE_MAX)]


ARROW: Final = 8.0  # the length of an arrow's head
ARROW_HALF: Final = 4.5  # half the width of an arrow's head
CORNER: Final = 7.0  # of a bolt
BEVEL: Final = 11.0  # of a sink
LEGEND: Final = (("spout", "spout: a source"), ("bolt", "bolt"), ("sink", "sink: a bolt that emits nothing"))
SWATCH: Final = (22.0, 13.0)  # of the legend
SIMPLE: Final = frozenset(map(chr, range(0x20, 0x180))) | frozenset("→×…")  # drawn as wide as measured

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
    """Return the picture as a document, without a line end after it."""
    head = max(Text(picture.name, "title").width, Text(picture.described, "small").width)
    drawn = scene(picture, max(head, sum(_legend_widths(picture))))
    return "\n".join(document(drawn)).encode("ascii", "xmlcharrefreplace").decode()


def document(drawn: Scene) -> Iterator[str]:
    """Yield the lines of the document."""
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
    """Yield a description of the picture, for readers who cannot see it."""
    yield f"{picture.described}."
    for edge in picture.edges:
        source, target = picture.nodes[edge.source], picture.nodes[edge.target]
        how = f"{edge.record}, {edge.grouping}, {edge.tasks}"
        yield f"From {source.kind} {source.name} to {target.kind} {target.name}: {how}."


def _path(points: list[Point], down: bool) -> str:
    """Return a path of straight lines, and of curves if a piece moves aside."""
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
    """Return the points with space for the arrow's head."""
    x, y = points[-1]
    return [*points[:-1], (x, y - ARROW + 1) if down else (x - ARROW + 1, y)]


def _tip(end: Point, down: bool) -> str:
    x, y = end
    if down:
        return f"M{x:.1f} {y:.1f}l{-ARROW_HALF} {-ARROW}h{2 * ARROW_HALF}z"
    return f"M{x:.1f} {y:.1f}l{-ARROW} {-ARROW_HALF}v{2 * ARROW_HALF}z"


def _item(item: Item) -> Iterator[str]:
    y = item.y - (sum(line.height for line in item.lines) + (CHIPS_ROOM if item.chips else 0)) / 2
    if isinstance(item.what, PictureNode):
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
    """Return an outline. A spout has round ends, a bolt small corners, a sink bevelled ones."""
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
    """Return a text element. A text with characters whose widths differ between fonts is fitted into its measured
    width."""
    fitted = "" if SIMPLE.issuperset(line.text) else f' textLength="{line.width:.1f}" lengthAdjust="spacingAndGlyphs"'
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="kedge-{line.kind}" {place}{fitted}>{escape(line.text)}</text>'


def _legend_words(picture: Picture) -> list[tuple[str, Text]]:
    return [(kind, Text(words, "small")) for kind, words in LEGEND if any(node.kind == kind for node in picture.nodes)]


def _legend_widths(picture: Picture) -> list[float]:
    return [SWATCH[0] + 8 + words.width + 18 for _, words in _legend_words(picture)]


def _legend(picture: Picture, y: float) -> Iterator[str]:
    x = MARGIN
    for (kind, words), width in zip(_legend_words(picture), _legend_widths(picture), strict=True):
        yield _outline(kind, x, y - SWATCH[1] / 2, *SWATCH)
        yield _line(x + SWATCH[0] + 8, y + 4, words, "start")
        x += width
