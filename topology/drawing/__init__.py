"""Pictures of a topology: as text for a terminal, as Mermaid, as SVG. `kedge graph` prints them; a notebook shows them.

    >>> print(drawing.text(topology))
    >>> Path("topology.svg").write_text(drawing.svg(topology))

`model` makes a picture of a plan, and each form draws it. Pure, deterministic, and without a library or a program for
drawing. Must not know a prototype's attributes or the settings: they may be secrets. All three functions raise
DeclarationError for a topology with mistakes.

Imports nothing of: topology.config, topology.secrets, topology.loading, topology.runtime, topology.cli
"""

from topology.drawing import as_mermaid, as_svg, as_text
from topology.drawing.model import picture
from topology.graph import Graph

__all__ = ["mermaid", "svg", "text"]


def svg(topology: Graph, *, workers: int | None = None) -> str:
    """Return an SVG document in ASCII, bright or dark as the reader's system is. `workers` shows the placement of the
    tasks."""
    return as_svg.svg(picture(topology, workers))


def mermaid(topology: Graph, *, workers: int | None = None) -> str:
    """Return a flowchart in Mermaid's language. `workers` shows the placement of the tasks."""
    return as_mermaid.mermaid(picture(topology, workers))


def text(topology: Graph, *, workers: int | None = None, width: int = 80, plain: bool = False) -> str:
    """Return boxes and lines in at most `width` columns, or a list if boxes would not fit; `plain` limits it to
    ASCII."""
    return as_text.text(picture(topology, workers), width, plain=plain)
