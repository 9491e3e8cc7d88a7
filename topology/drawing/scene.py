"""A picture with coordinates, in pixels: how large each thing is, where it stands, and which way the edges go.

Pure: measures text by its characters and knows no fonts and no markup. It runs downwards, as one reads, or to the right
where that is narrower and downwards would be wider than a page. Edges bend only between layers, where nothing stands.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from topology.drawing.layers import Arrangement, arranged
from topology.drawing.picture import Edge, Node, Picture
from topology.drawing.places import Places, Spacing, placed
from topology.drawing.widths import ems, wrapped

PAGE: Final = 900.0  # the width that a page or a window has at least
MARGIN: Final = 24.0
HEAD: Final = 68.0  # the title, the line under it, and the room above
FOOT: Final = 58.0  # the legend, and the room around it
SIZES: Final = {"title": 18.0, "name": 14.0, "class": 12.5, "small": 11.5, "chip": 10.0}  # of text
LEADING: Final = 1.4  # from one line to the next, in its size
LINE_MAX: Final = 30  # columns of one line
PADDING_X, PADDING_Y = 18.0, 9.0  # between a node's outline and its text
STACK: Final = 4.0  # how far the second outline of several tasks shows
GAP: Final = 28.0  # between neighbours in a layer
PORT_GAP: Final = 28.0  # between edges at one node
PORT_GAP_MIN, INSET = 10.0, 18.0  # at least so much; and from a node's corner to the first edge
SLACK: Final = 0.3  # of the distance between edges: how far one may be shifted to come in straight
REACH_MIN, REACH_MAX = 24.0, 130.0  # between layers: the more, the farther an edge has to go aside
SLOPE: Final = 0.28  # of that way
LEAD: Final = 13.0  # straight ahead before a node, for the arrow
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
        """Rather more than less."""
        return ems(self.text) * SIZES[self.kind]

    @property
    def height(self) -> float:
        """Of the whole line."""
        return SIZES[self.kind] * LEADING


@dataclass
class Chip:
    """A small mark with the number of a worker and of its tasks; `worker` is None for a mark that sums workers up."""

    text: Text
    worker: int | None

    @property
    def width(self) -> float:
        """With the room to the next one."""
        return self.text.width + 14


@dataclass
class Item:
    """What stands at a vertex: its lines, its size and its middle. `what` is None where an edge only passes."""

    what: Node | Edge | None = None
    lines: list[Text] = field(default_factory=list)
    chips: list[Chip] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0


@dataclass
class Scene:
    """All that is drawn. `strokes` has of each edge the pieces before and after its label, as points; between two of
    these a piece is straight along the way of the layers, or bends in the room between two layers."""

    picture: Picture
    nodes: list[Item]
    labels: list[Item]
    strokes: list[tuple[list[Point], list[Point]]]
    down: bool
    width: float
    height: float


def scene(picture: Picture, width_min: float = 0.0) -> Scene:
    """The one of the two ways that suits a page. `width_min` is what the head and the foot need."""
    arrangement = arranged(len(picture.nodes), [(one.source, one.target) for one in picture.edges])
    down = _Making(picture, arrangement, down=True).scene(width_min)
    if down.width <= PAGE:
        return down
    right = _Making(picture, arrangement, down=False).scene(width_min)
    return right if right.width < down.width else down


class _Making:
    """A scene on its way; 'across' is along a layer, 'along' from one layer to the next."""

    def __init__(self, picture: Picture, arrangement: Arrangement, *, down: bool) -> None:
        self.picture, self.arrangement, self.down = picture, arrangement, down
        self.items = [_node(node) for node in picture.nodes]
        self.items += [Item() for _ in range(arrangement.vertices - len(self.items))]
        for edge, vertex in zip(picture.edges, arrangement.labels, strict=True):
            self.items[vertex] = _label(edge)
        self._room_for_ports()
        self.across = [one.width if down else one.height for one in self.items]
        self.along = [one.height if down else one.width for one in self.items]
        self.places = placed(arrangement, Spacing(self.across, GAP, PORT_GAP, INSET, SLACK))
        self.bands = _bands(arrangement, self.places, self.along)  # the start and the end of each layer

    def scene(self, width_min: float) -> Scene:
        """The scene with its margins."""
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
        nodes, labels = self.items[: self.arrangement.nodes], [self.items[one] for one in self.arrangement.labels]
        return Scene(self.picture, nodes, labels, strokes, self.down, width + 2 * MARGIN, high + HEAD + FOOT)

    def _room_for_ports(self) -> None:
        """Lets nodes grow until all of their edges find room at their side."""
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
        """The points of an edge, across and along: at the borders of layers, and of the things it touches."""
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


def _node(node: Node) -> Item:
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
