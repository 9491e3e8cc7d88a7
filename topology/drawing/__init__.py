"""Pictures of a topology: as text for a terminal, as Mermaid, as SVG. `kedge graph` prints them; a notebook shows them.

    >>> print(drawing.text(topology))
    >>> Path("topology.svg").write_text(drawing.svg(topology))

`model` makes a picture of a plan, and each form draws it. Pure, deterministic, and without a library or a program for
drawing. Must not know a prototype's attributes or the settings: they may be secrets. All three raise DeclarationError
for a topology with mistakes.
"""

from topology.drawing import as_mermaid, as_svg, as_text
from topology.drawing.model import picture
from topology.graph import Graph

__all__ = ["mermaid", "svg", "text"]


def svg(topology: Graph, *, workers: int | None = None) -> str:
    """An SVG document in ASCII, bright or dark as the reader's system is. `workers` shows where the tasks would run."""
    return as_svg.svg(picture(topology, workers))


def mermaid(topology: Graph, *, workers: int | None = None) -> str:
    """A flowchart in Mermaid's words. `workers` shows where the tasks would run."""
    return as_mermaid.mermaid(picture(topology, workers))


def text(topology: Graph, *, workers: int | None = None, width: int = 80, plain: bool = False) -> str:
    """Boxes and lines in at most `width` columns, or a list where boxes would not fit; `plain` keeps to ASCII."""
    return as_text.text(picture(topology, workers), width, plain=plain)
