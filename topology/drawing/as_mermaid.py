"""A topology in Mermaid's language, which GitHub and many editors draw. Pure: a picture in, text out.

Nodes have numbers as ids, because names may be Mermaid keywords (`end`), and may begin with a character that Mermaid
reads as a kind of line (`o`, `x`, `-`). In labels, all characters that Mermaid, Markdown or HTML could interpret are
written as entities.
"""

import re
from typing import Final

from topology.drawing.model import Picture, PictureNode, tasks_text

SHAPES: Final = {"spout": ("([", "])"), "bolt": ("[", "]"), "sink": ("{{", "}}")}
OBEYED: Final = re.compile(r"[!-+./:-@\[-^`{-~]|(?<![A-Za-z0-9])[_-]|[_-](?![A-Za-z0-9])")
SHOWN_MAX: Final = 8  # workers listed in one node
COLOURS: Final = {  # each with a text colour, so that it is readable on dark pages too
    "spout": "fill:#d5f5ee,stroke:#0f766e,color:#10231f",
    "bolt": "fill:#dfeaff,stroke:#1d4ed8,color:#101c33",
    "sink": "fill:#fff0d6,stroke:#b45309,color:#2b1a05",
}


def mermaid(picture: Picture) -> str:
    """Return a flowchart, from left to right, without a line end after it."""
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
    """Return a flowchart in which characters that the encoding lacks are entities."""
    return "".join(character if _fits(character, encoding) else f"#{ord(character)};" for character in text)


def _fits(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _said(node: PictureNode) -> list[str]:
    """Return the lines of a node; with a placement, they include its tasks on each worker."""
    placed = [f"{tasks_text(tasks)} on worker {worker}" for worker, tasks in node.workers.items()]
    if len(placed) > SHOWN_MAX:
        placed = [f"on {len(placed)} workers"]
    return [node.name, f"{node.made_of} ×{node.tasks:,}", *node.notes, *placed]


def _label(*lines: str) -> str:
    return '"' + "<br/>".join(map(_quoted, lines)) + '"'


def _quoted(text: str) -> str:
    """Return the text with entities for all characters that Mermaid, Markdown or HTML could interpret. Dashes and
    underscores within words stay plain.

    Two dollars begin a formula, and a backslash and an n are a line end, even as entities: a zero-width space separates
    them.
    """
    apart = re.sub(r"\$(?=\$)|\\(?=n)", lambda found: f"{found[0]}\u200b", text)
    return OBEYED.sub(lambda found: f"#{ord(found[0])};", apart)
