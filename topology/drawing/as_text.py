"""A topology for a terminal: boxes if they are legible in its width, otherwise a list of the subscribers of each
component.

Pure: the width, and whether it may use more than ASCII, are passed in. The text is the same for the same topology.
"""

from collections.abc import Iterator
from typing import Final

from topology.drawing.boxes import TangledError, boxes
from topology.drawing.model import Picture, tasks_text
from topology.drawing.widths import columns, wrapped

NODES_MAX: Final = 20  # more boxes cannot be taken in at one look
EDGES_MAX: Final = 40
WAYS: Final = ((True, True), (True, False), (False, False))  # downwards, labels in one line
PLAIN: Final = str.maketrans({"→": "->", "×": "x", "…": "...", "─": "-", "▶": ">", "·": "-"})
FURTHER: Final = " " * 6  # before the rest of a line
TABLE_MIN: Final = 50  # columns of a table of names and workers
WIDTH_MIN: Final = 20  # columns of a list; narrower terminals break its lines themselves


def text(picture: Picture, width: int, *, plain: bool = False) -> str:
    """Return the picture in at most `width` columns, without a line end after it; `plain`: in ASCII."""
    lines = [*_folded(f"{picture.name}: {picture.described}", width, ""), "", *_body(picture, width, plain)]
    if picture.workers is not None:
        lines += ["", *_placement(picture, width, plain)]
    return "\n".join(_said(line, plain) for line in lines)


def _said(text: str, plain: bool) -> str:
    return text.translate(PLAIN).encode("ascii", "backslashreplace").decode() if plain else text


def _body(picture: Picture, width: int, plain: bool) -> list[str]:
    """Return the lowest drawing that fits, or the list if none does."""
    drawn = []
    if len(picture.nodes) <= NODES_MAX and len(picture.edges) <= EDGES_MAX:
        for down, flat in WAYS:
            try:
                rows = boxes(picture, down=down, flat=flat, plain=plain, said=lambda one: _said(one, plain))
            except TangledError:
                continue
            if max(map(columns, rows)) <= width:
                drawn.append(rows)
    if not drawn:
        return [*_listed(picture, width, plain)]
    return [*min(drawn, key=len), "", *_legend(picture, width, plain)]


def _legend(picture: Picture, width: int, plain: bool) -> list[str]:
    signs = {"spout": "o-o" if plain else "╭─╮", "bolt": "+-+" if plain else "┌─┐", "sink": "#=#" if plain else "╔═╗"}
    words = {"spout": "spout", "bolt": "bolt", "sink": "sink (emits nothing)"}
    kinds = [kind for kind in signs if any(node.kind == kind for node in picture.nodes)]
    return _folded("   ".join(f"{signs[kind]} {words[kind]}" for kind in kinds), width, "")


def _listed(picture: Picture, width: int, plain: bool) -> Iterator[str]:
    """Yield each component, and below it its subscribers."""
    for number, node in enumerate(picture.nodes):
        if number:
            yield ""
        what = " · ".join((f"{node.name}  {node.kind}", f"{node.made_of} ×{node.tasks:,}", *node.notes))
        yield from _folded(_said(what, plain), width, FURTHER)
        for edge in (edge for edge in picture.edges if edge.source == number):
            arrow = f"  ──{edge.grouping}──▶ {picture.nodes[edge.target].name}"
            yield from _folded(_said(f"{arrow}  ({edge.record}, {edge.tasks})", plain), width, FURTHER)


def _placement(picture: Picture, width: int, plain: bool) -> Iterator[str]:
    """Yield the tasks of each component on each worker: as a table, or as one paragraph per component if that is too
    narrow."""
    names = [_said(node.name, plain) for node in picture.nodes]
    broad = min(max(map(columns, names)), width // 3)
    for name, node in zip(names, picture.nodes, strict=True):
        text = "; ".join(f"worker {worker}: {tasks_text(tasks)}" for worker, tasks in node.workers.items())
        if width < TABLE_MIN:
            yield from _folded(f"{name}  {text}", width, FURTHER)
            continue
        left, right = wrapped(name, broad), wrapped(text, width - broad - 2)
        for row in range(max(len(left), len(right))):
            start, end = ("".join(column[row : row + 1]) for column in (left, right))
            yield f"{start}{' ' * (broad - columns(start))}  {end}".rstrip()


def _folded(text: str, width: int, indent: str) -> list[str]:
    """Return the text in lines of the terminal's width; all but the first are indented."""
    width = max(width, WIDTH_MIN)
    if columns(text) <= width:
        return [text]
    start = text[: len(text) - len(text.lstrip())]
    first, *_ = wrapped(text.lstrip(), width - len(start))
    others = wrapped(text.lstrip()[len(first) :].lstrip(), width - len(indent))
    return [start + first, *(indent + line for line in others)]
