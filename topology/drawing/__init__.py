"""Pictures of a topology: as text for a terminal, as Mermaid, as SVG. What `kedge graph` prints, and a notebook shows.

    >>> print(drawing.text(topology))
    >>> Path("topology.svg").write_text(drawing.svg(topology))

Pure, deterministic, and without a library or a program for drawing. A prototype's attributes and the settings are never
in a picture: they may be secrets. All three raise DeclarationError for a topology with mistakes.
"""

from topology.drawing import as_mermaid, as_svg, as_text
from topology.drawing.picture import picture
from topology.graph import Topology

__all__ = ["mermaid", "svg", "text"]


def svg(topology: Topology, *, workers: int | None = None) -> str:
    """An SVG document in ASCII, bright or dark as the reader's system is. `workers` shows where the tasks would run."""
    return as_svg.svg(picture(topology, workers))


def mermaid(topology: Topology, *, workers: int | None = None) -> str:
    """A flowchart in Mermaid's words. `workers` shows where the tasks would run."""
    return as_mermaid.mermaid(picture(topology, workers))


def text(topology: Topology, *, workers: int | None = None, width: int = 80, plain: bool = False) -> str:
    """Boxes and lines in at most `width` columns, or a list where boxes would not fit; `plain` keeps to ASCII."""
    return as_text.text(picture(topology, workers), width, plain=plain)
