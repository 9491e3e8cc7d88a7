"""A grid of characters to draw boxes and lines on. Lines that meet become one character: `┬`, `┼`.

Pure. Knows columns and rows, and nothing of what is drawn.
"""

from typing import Final

from topology.drawing.widths import columns

UP, RIGHT, DOWN, LEFT = 1, 2, 4, 8
LINES: Final = " │─└││┌├─┘─┴┐┤┬┼"  # by the directions in which a line leaves the cell
PLAIN: Final = " |-+||++-+-+++++"
ROUND: Final = dict(zip("┌┐└┘", "╭╮╰╯", strict=True))
DOUBLE: Final = dict(zip("│─┌┐└┘", "║═╔╗╚╝", strict=True))
PLAIN_ROUND: Final = {"+": "o"}
PLAIN_DOUBLE: Final = {"+": "#", "-": "="}
ARROWS: Final = {DOWN: ("▼", "v"), RIGHT: ("▶", ">")}
ALL: Final = LINES + "".join(ROUND.values()) + "".join(DOUBLE.values()) + "▼▶→×…"


class Canvas:
    """A grid that grows as it is drawn on. `plain`: in ASCII alone."""

    def __init__(self, *, plain: bool) -> None:
        self.plain = plain
        self._lines: dict[tuple[int, int], int] = {}  # (column, row) → directions
        self._texts: dict[tuple[int, int], str] = {}
        self._borders: dict[tuple[int, int], dict[str, str]] = {}

    def line(self, x: int, y: int, directions: int) -> None:
        """A piece of line in one cell, from its middle in these directions."""
        self._lines[x, y] = self._lines.get((x, y), 0) | directions

    def arrow(self, x: int, y: int, direction: int) -> None:
        """The head of an arrow."""
        self._texts[x, y] = ARROWS[direction][self.plain]

    def box(self, x: int, y: int, width: int, height: int, kind: str) -> None:
        """A border: of a 'spout' with round corners, of a 'sink' with double lines, else plain."""
        right, bottom = x + width - 1, y + height - 1
        style = {"spout": (ROUND, PLAIN_ROUND), "sink": (DOUBLE, PLAIN_DOUBLE)}.get(kind, ({}, {}))[self.plain]
        for at_x in range(x, right + 1):
            for at_y in range(y, bottom + 1) if at_x in (x, right) else (y, bottom):
                sides = ((at_y > y, UP), (at_y < bottom, DOWN)) if at_x in (x, right) else ()
                ends = ((at_x > x, LEFT), (at_x < right, RIGHT)) if at_y in (y, bottom) else ()
                self.line(at_x, at_y, sum(direction for there, direction in (*sides, *ends) if there))
                self._borders[at_x, at_y] = style

    def text(self, left: int, y: int, text: str, width: int) -> list[int]:
        """A line of text in the middle of so many columns. Returns those left of it and right of it, but for one on
        each side."""
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
        """What was drawn, without spaces at the ends of rows."""
        cells = {*self._lines, *self._texts}
        broad = max((x for x, _ in cells), default=-1) + 1
        high = max((y for _, y in cells), default=-1) + 1
        return ["".join(self._cell(x, y) for x in range(broad)).rstrip() for y in range(high)]

    def _cell(self, x: int, y: int) -> str:
        if (x, y) in self._texts:
            return self._texts[x, y]
        found = (PLAIN if self.plain else LINES)[self._lines.get((x, y), 0)]
        return self._borders.get((x, y), {}).get(found, found)
