"""A topology as boxes and lines of characters, downwards or to the right, no wider and no higher than necessary.

Pure. The arrangement is that of the SVG, in whole columns and rows. All sizes across the layers are odd, so that
everything has a middle, and fitted places keep their distances when they are rounded.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Final

from topology.drawing.layout import Spacing, arranged, placed
from topology.drawing.model import Edge, Picture, PictureNode
from topology.drawing.widths import columns, wrapped

UP, RIGHT, DOWN, LEFT = 1, 2, 4, 8
LINES: Final = " │─└││┌├─┘─┴┐┤┬┼"  # indexed by the directions in which a line leaves the cell
PLAIN: Final = " |-+||++-+-+++++"
ROUND: Final = dict(zip("┌┐└┘", "╭╮╰╯", strict=True))
DOUBLE: Final = dict(zip("│─┌┐└┘", "║═╔╗╚╝", strict=True))
PLAIN_ROUND: Final = {"+": "o"}
PLAIN_DOUBLE: Final = {"+": "#", "-": "="}
ARROWS: Final = {DOWN: ("▼", "v"), RIGHT: ("▶", ">")}
ALL: Final = LINES + "".join(ROUND.values()) + "".join(DOUBLE.values()) + "▼▶→×…"


class Canvas:
    """A grid that grows as it is drawn on. `plain`: only ASCII."""

    def __init__(self, *, plain: bool) -> None:
        self.plain = plain
        self._lines: dict[tuple[int, int], int] = {}  # (column, row) → directions
        self._texts: dict[tuple[int, int], str] = {}
        self._borders: dict[tuple[int, int], dict[str, str]] = {}

    def line(self, x: int, y: int, directions: int) -> None:
        """Draw a piece of line in one cell, from its middle in these directions."""
        self._lines[x, y] = self._lines.get((x, y), 0) | directions

    def arrow(self, x: int, y: int, direction: int) -> None:
        """Draw the head of an arrow."""
        self._texts[x, y] = ARROWS[direction][self.plain]

    def box(self, x: int, y: int, width: int, height: int, kind: str) -> None:
        """Draw a border: round corners for a 'spout', double lines for a 'sink', plain lines otherwise."""
        right, bottom = x + width - 1, y + height - 1
        style = {"spout": (ROUND, PLAIN_ROUND), "sink": (DOUBLE, PLAIN_DOUBLE)}.get(kind, ({}, {}))[self.plain]
        for at_x in range(x, right + 1):
            for at_y in range(y, bottom + 1) if at_x in (x, right) else (y, bottom):
                sides = ((at_y > y, UP), (at_y < bottom, DOWN)) if at_x in (x, right) else ()
                ends = ((at_x > x, LEFT), (at_x < right, RIGHT)) if at_y in (y, bottom) else ()
                self.line(at_x, at_y, sum(direction for there, direction in (*sides, *ends) if there))
                self._borders[at_x, at_y] = style

    def text(self, left: int, y: int, text: str, width: int) -> list[int]:
        """Draw a line of text in the middle of `width` columns. Return the columns left and right of the text, without
        one on each side."""
        x = start = left + (width - columns(text)) // 2
        for character in text:
            wide = columns(character)
            if not wide:
                self._texts[x - 1, y] = self._texts.get((x - 1, y), "") + character
                continue
            self._texts[x, y] = character
            if wide == 2:
                self._texts[x + 1, y] = ""
            x += wide
        return [*range(left, start - 1), *range(x + 1, left + width)]

    def rows(self) -> list[str]:
        """Return the drawn rows, without spaces at their ends."""
        cells = {*self._lines, *self._texts}
        broad = max((x for x, _ in cells), default=-1) + 1
        high = max((y for _, y in cells), default=-1) + 1
        return ["".join(self._cell(x, y) for x in range(broad)).rstrip() for y in range(high)]

    def _cell(self, x: int, y: int) -> str:
        if (x, y) in self._texts:
            return self._texts[x, y]
        found = (PLAIN if self.plain else LINES)[self._lines.get((x, y), 0)]
        return self._borders.get((x, y), {}).get(found, found)


Line = tuple[int, int]  # the places where it leaves the layer above and arrives in the layer below


class TangledError(ValueError):
    """Two lines would have to run over one another."""


def tracks(lines: Sequence[Line]) -> list[int | None]:
    """Return the track of each line, from 0 on; None for a line that runs straight. Keeps crossings few. No two lines
    may leave, or arrive, at one place. Raises TangledError."""
    aside = [number for number, (leaves, arrives) in enumerate(lines) if leaves != arrives]
    found: list[int | None] = [None] * len(lines)
    waiting = [*aside]
    done: list[int] = []
    while waiting:
        free = [
            number
            for number in waiting
            if not any(_must(lines[other], lines[number]) for other in waiting if other != number)
        ]
        if not free:
            raise TangledError("lines that change places can't be drawn straight")
        costs = {
            number: sum(_saved(lines[number], lines[other]) for other in waiting if other != number) for number in free
        }
        first = min(free, key=lambda one: costs[one])
        waiting.remove(first)
        found[first] = (
            max((found[earlier] or 0) + 1 if _meet(lines[first], lines[earlier]) else 0 for earlier in done)
            if done
            else 0
        )
        done.append(first)
    return found


def _must(upper: Line, lower: Line) -> bool:
    """Return True if `upper` has to move aside above `lower`: otherwise both would run in one column."""
    return upper[0] == lower[1]


def _saved(upper: Line, lower: Line) -> int:
    """Return the number of crossings with `upper` above `lower`, minus the number the other way round."""
    if not _meet(upper, lower):
        return 0
    here = _within(lower[0], upper) + _within(upper[1], lower)
    return here - _within(upper[0], lower) - _within(lower[1], upper)


def _meet(one: Line, other: Line) -> bool:
    """Return True if the two lines cannot share a track."""
    return max(min(one), min(other)) <= min(max(one), max(other)) + 1


def _within(place: int, line: Line) -> bool:
    return min(line) <= place <= max(line)


LINE_MAX: Final = 28  # columns of one line in a box
GAP_DOWN, GAP_RIGHT = 2, 1  # between neighbours: columns, rows
PORT_GAP: Final = 4  # columns or rows between edges at one box, if it has space
PORT_GAP_MIN: Final = 2
INSET: Final = 1.5  # from the middle of the first edge to the end of the corner
SLACK: Final = 0.2  # less than a quarter, so that rounding keeps lines apart


@dataclass
class Box:
    """The content of a vertex: its lines, and its size with the border. `what` is None if an edge only passes."""

    what: PictureNode | Edge | None = None
    lines: list[str] = field(default_factory=list)
    width: int = 1
    height: int = 1


def boxes(picture: Picture, *, down: bool, flat: bool, plain: bool, said: Callable[[str], str]) -> list[str]:
    """Return the rows of the drawing. `flat`: labels in one line; `plain`: in ASCII; `said` converts texts for it.

    Raises TangledError if its lines would run over one another.
    """
    return _Drawing(picture, down, flat, plain, said).rows()


class _Drawing:
    """A drawing under construction; 'across' is along a layer, 'along' from one layer to the next."""

    def __init__(self, picture: Picture, down: bool, flat: bool, plain: bool, said: Callable[[str], str]) -> None:
        self.down, self.flat, self.said = down, flat, said
        self.canvas = Canvas(plain=plain)
        self.back, self.forth, self.less, self.more = (UP, DOWN, LEFT, RIGHT) if down else (LEFT, RIGHT, UP, DOWN)
        self.arrangement = arranged(len(picture.nodes), [(edge.source, edge.target) for edge in picture.edges])
        leaving, reaching = (Counter(getattr(edge, end) for edge in picture.edges) for end in ("source", "target"))
        self.items = [self._node(node, max(leaving[at], reaching[at])) for at, node in enumerate(picture.nodes)]
        self.items += [Box() for _ in range(self.arrangement.vertices - len(self.items))]
        for edge, vertex in zip(picture.edges, self.arrangement.labels, strict=True):
            self.items[vertex] = self._label(edge)

    def rows(self) -> list[str]:
        """Place everything, layer after layer, and draw it."""
        layers, gap = self.arrangement.layers, GAP_DOWN if self.down else GAP_RIGHT
        places = placed(self.arrangement, Spacing([*map(self._breadth, self.items)], gap, PORT_GAP, INSET, SLACK))
        at = 0
        for row, (layer, links) in enumerate(zip(layers, places.links(self.arrangement), strict=True)):
            end = at + max(self._length(self.items[vertex]) for vertex in layer)
            for vertex in layer:
                self._draw(self.items[vertex], at, _rounded(places.middles[vertex]), end)
            lines = [(_rounded(start), _rounded(stop)) for _, _, start, stop in links]
            found = tracks(lines)
            arrow = row % 2  # behind a layer of labels is a layer of nodes
            room = max((track + 1 for track in found if track is not None), default=0)
            room = max(room + arrow, 1 if self.down else 2 + arrow)
            for (_, upper, _, _), line, track in zip(links, lines, found, strict=True):
                first = at + self._length(self.items[upper]) if self.items[upper].what else end
                self._link(line, first, end + (track or 0), end + room - 1)
                if isinstance(self.items[upper].what, PictureNode):
                    self._line(first - 1, line[0], self.forth)  # out of the border
            for edge, chain in enumerate(self.arrangement.chains):
                if self.arrangement.layers[row].count(chain[-2]):
                    stop = _rounded(places.middles[chain[-1]] + places.reaches[edge])
                    self.canvas.arrow(*self._turned(end + room - 1, stop), self.forth)
            at = end + room
        return self.canvas.rows()

    def _node(self, node: PictureNode, ports: int) -> Box:
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
        """Return the box with an odd size, which has a middle."""
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
        """Draw a box or a label, or the line of an edge that only passes, through its whole layer."""
        if box.what is None:
            for along in range(start, end):
                self._line(along, middle, self.back | self.forth)
            return
        left, top = self._turned(start, middle - self._breadth(box) // 2)
        if isinstance(box.what, PictureNode):
            self.canvas.box(left, top, box.width, box.height, box.what.kind)
        for number, line in enumerate(box.lines, top + (box.height - len(box.lines)) // 2):
            free = self.canvas.text(left, number, line, box.width)
            if number == middle and isinstance(box.what, Edge) and not self.down:
                for along in free:
                    self._line(along, middle, self.back | self.forth)  # up to the text, even if the text is short

    def _link(self, line: tuple[int, int], first: int, track: int, last: int) -> None:
        """Draw a piece of an edge, from one item's end to the next layer: straight, or aside on a track."""
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
