"""A topology in Mermaid's words, which GitHub and many editors draw. Pure: a picture in, text out.

Nodes have numbers for ids, since names may be words of Mermaid's own (`end`), and may begin with what it takes for a
kind of line (`o`, `x`, `-`). In labels all that it could obey, Markdown and HTML too, is written as an entity.
"""

import re
from typing import Final

from topology.drawing.model import Picture, PictureNode, told_tasks

SHAPES: Final = {"spout": ("([", "])"), "bolt": ("[", "]"), "sink": ("{{", "}}")}
OBEYED: Final = re.compile(r"[!-+./:-@\[-^`{-~]|(?<![A-Za-z0-9])[_-]|[_-](?![A-Za-z0-9])")
SHOWN_MAX: Final = 8  # workers that are listed in one node
COLOURS: Final = {  # each with a colour for its text, so that it can be read in dark pages too
    "spout": "fill:#d5f5ee,stroke:#0f766e,color:#10231f",
    "bolt": "fill:#dfeaff,stroke:#1d4ed8,color:#101c33",
    "sink": "fill:#fff0d6,stroke:#b45309,color:#2b1a05",
}


def mermaid(picture: Picture) -> str:
    """A flowchart, from left to right, without a line end after it."""
    lines = ["---", f'title: "{picture.name}"', "---", "flowchart LR"]
    for number, node in enumerate(picture.nodes):
        opening, closing = SHAPES[node.kind]
        lines.append(f"    n{number}{opening}{_label(*_said(node))}{closing}:::{node.kind}")
    for edge in picture.edges:
        lines.append(f"    n{edge.source} -->|{_label(edge.record, edge.grouping, edge.tasks)}| n{edge.target}")
    kinds = [kind for kind in COLOURS if any(node.kind == kind for node in picture.nodes)]
    lines += [f"    classDef {kind} {COLOURS[kind]}" for kind in kinds]
    return "\n".join(lines)


def encoded(text: str, encoding: str) -> str:
    """A flowchart with what an encoding lacks written as entities."""
    return "".join(one if _fits(one, encoding) else f"#{ord(one)};" for one in text)


def _fits(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _said(node: PictureNode) -> list[str]:
    """The lines of a node: with a placement, its tasks on each worker."""
    placed = [f"{told_tasks(tasks)} on worker {worker}" for worker, tasks in node.workers.items()]
    if len(placed) > SHOWN_MAX:
        placed = [f"on {len(placed)} workers"]
    return [node.name, f"{node.made_of} ×{node.tasks:,}", *node.notes, *placed]


def _label(*lines: str) -> str:
    return '"' + "<br/>".join(map(_quoted, lines)) + '"'


def _quoted(text: str) -> str:
    """The text with what Mermaid, Markdown or HTML could obey as entities; dashes and underscores within words are
    plain. Two dollars begin a formula, and a backslash and an n are a line end, however they are written: a space of
    no width keeps them apart."""
    apart = re.sub(r"\$(?=\$)|\\(?=n)", lambda found: f"{found[0]}\u200b", text)
    return OBEYED.sub(lambda found: f"#{ord(found[0])};", apart)
