"""A topology as boxes and lines of characters, downwards or to the right; no wider and no higher than it has to be.

Pure. The same arrangement as in SVG, in whole columns and rows: all sizes across the layers are odd, so that everything
has a middle, and places that were fitted keep their distances when they are rounded.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor
from typing import Final

from topology.drawing.canvas import DOWN, LEFT, RIGHT, UP, Canvas
from topology.drawing.layers import arranged
from topology.drawing.picture import Edge, Node, Picture
from topology.drawing.places import Spacing, placed
from topology.drawing.tracks import tracks
from topology.drawing.widths import columns, wrapped

LINE_MAX: Final = 28  # columns of one line in a box
GAP_DOWN, GAP_RIGHT = 2, 1  # between neighbours: columns, rows
PORT_GAP: Final = 4  # columns or rows between edges at one box, where it has room for that
PORT_GAP_MIN: Final = 2
INSET: Final = 1.5  # from the middle of the first of them to the corner's end
SLACK: Final = 0.2  # less than a quarter: rounding leaves lines apart


@dataclass
class Box:
    """What stands at a vertex: its lines, and its size with the border. `what` is None where an edge only passes."""

    what: Node | Edge | None = None
    lines: list[str] = field(default_factory=list)
    width: int = 1
    height: int = 1


def boxes(picture: Picture, *, down: bool, flat: bool, plain: bool, said: Callable[[str], str]) -> list[str]:
    """The rows of the drawing. `flat`: labels in one line; `plain`: in ASCII; `said` makes texts so.

    Raises TangledError where its lines would run over one another.
    """
    return _Drawing(picture, down, flat, plain, said).rows()


class _Drawing:
    """A drawing on its way; 'across' is along a layer, 'along' from one layer to the next."""

    def __init__(self, picture: Picture, down: bool, flat: bool, plain: bool, said: Callable[[str], str]) -> None:
        self.down, self.flat, self.said = down, flat, said
        self.canvas = Canvas(plain=plain)
        self.back, self.forth, self.less, self.more = (UP, DOWN, LEFT, RIGHT) if down else (LEFT, RIGHT, UP, DOWN)
        self.arrangement = arranged(len(picture.nodes), [(one.source, one.target) for one in picture.edges])
        leaving, reaching = (Counter(getattr(edge, end) for edge in picture.edges) for end in ("source", "target"))
        self.items = [self._node(node, max(leaving[at], reaching[at])) for at, node in enumerate(picture.nodes)]
        self.items += [Box() for _ in range(self.arrangement.vertices - len(self.items))]
        for edge, vertex in zip(picture.edges, self.arrangement.labels, strict=True):
            self.items[vertex] = self._label(edge)

    def rows(self) -> list[str]:
        """Places everything, layer after layer, and draws it."""
        layers, gap = self.arrangement.layers, GAP_DOWN if self.down else GAP_RIGHT
        places = placed(self.arrangement, Spacing([*map(self._breadth, self.items)], gap, PORT_GAP, INSET, SLACK))
        at = 0
        for row, (layer, links) in enumerate(zip(layers, places.links(self.arrangement), strict=True)):
            end = at + max(self._length(self.items[vertex]) for vertex in layer)
            for vertex in layer:
                self._draw(self.items[vertex], at, _rounded(places.middles[vertex]), end)
            lines = [(_rounded(start), _rounded(stop)) for _, _, start, stop in links]
            found = tracks(lines)
            arrow = row % 2  # behind a layer of labels is one of nodes
            room = max((track + 1 for track in found if track is not None), default=0)
            room = max(room + arrow, 1 if self.down else 2 + arrow)
            for (_, upper, _, _), line, track in zip(links, lines, found, strict=True):
                first = at + self._length(self.items[upper]) if self.items[upper].what else end
                self._link(line, first, end + (track or 0), end + room - 1)
                if isinstance(self.items[upper].what, Node):
                    self._line(first - 1, line[0], self.forth)  # out of the border
            for edge, chain in enumerate(self.arrangement.chains):
                if self.arrangement.layers[row].count(chain[-2]):
                    stop = _rounded(places.middles[chain[-1]] + places.reaches[edge])
                    self.canvas.arrow(*self._turned(end + room - 1, stop), self.forth)
            at = end + room
        return self.canvas.rows()

    def _node(self, node: Node, ports: int) -> Box:
        lines = [*wrapped(self.said(node.name), LINE_MAX)]
        for text in (f"{node.made_of} ×{node.tasks:,}", *node.notes):
            lines += wrapped(self.said(text), LINE_MAX)
        width, height = max(map(columns, lines)) + 4, len(lines) + 2
        least = PORT_GAP_MIN * ports + 1
        return self._odd(Box(node, lines, max(width, least * self.down), max(height, least * (not self.down))))

    def _label(self, edge: Edge) -> Box:
        texts = [edge.record, edge.grouping, edge.tasks]
        lines = [line for text in texts for line in wrapped(self.said(text), LINE_MAX)]
        if self.flat:
            lines = [self.said(", ".join(texts))]
        return self._odd(Box(edge, lines, max(map(columns, lines)) + (0 if self.down else 2), len(lines)))

    def _odd(self, box: Box) -> Box:
        """The same, with a middle."""
        if self.down:
            box.width += 1 - box.width % 2
        else:
            box.height += 1 - box.height % 2
        return box

    def _breadth(self, box: Box) -> int:
        return box.width if self.down else box.height

    def _length(self, box: Box) -> int:
        return box.height if self.down else box.width

    def _turned(self, along: int, across: int) -> tuple[int, int]:
        return (across, along) if self.down else (along, across)

    def _line(self, along: int, across: int, directions: int) -> None:
        self.canvas.line(*self._turned(along, across), directions)

    def _draw(self, box: Box, start: int, middle: int, end: int) -> None:
        """A box or a label; or the line of an edge that only passes, through its whole layer."""
        if box.what is None:
            for along in range(start, end):
                self._line(along, middle, self.back | self.forth)
            return
        left, top = self._turned(start, middle - self._breadth(box) // 2)
        if isinstance(box.what, Node):
            self.canvas.box(left, top, box.width, box.height, box.what.kind)
        for number, line in enumerate(box.lines, top + (box.height - len(box.lines)) // 2):
            free = self.canvas.text(left, number, line, box.width)
            if number == middle and isinstance(box.what, Edge) and not self.down:
                for along in free:
                    self._line(along, middle, self.back | self.forth)  # up to the text, however short that is

    def _link(self, line: tuple[int, int], first: int, track: int, last: int) -> None:
        """A piece of an edge, from one thing's end to the next layer: straight, or aside on a track."""
        start, stop = line
        through = self.back | self.forth
        if start == stop:
            for along in range(first, last + 1):
                self._line(along, start, through)
            return
        onwards, backwards = (self.more, self.less) if stop > start else (self.less, self.more)
        for along in range(first, track):
            self._line(along, start, through)
        self._line(track, start, self.back | onwards)
        for across in range(min(line) + 1, max(line)):
            self._line(track, across, self.less | self.more)
        self._line(track, stop, self.forth | backwards)
        for along in range(track + 1, last + 1):
            self._line(along, stop, through)


def _rounded(place: float) -> int:
    return floor(round(place, 6))  # the middle of an odd size ends in .5
