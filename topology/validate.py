"""Every mistake of a declaration, in one pass. Pure: reads the graph, changes nothing, raises nothing."""

import re
from typing import Final

from topology.errors import Mistake
from topology.graph import Topology

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def mistakes(topology: Topology) -> list[Mistake]:
    """All mistakes, in the order of the declarations."""
    found = []
    for declared in topology.components:
        found += [topology.mistake(text, declared.place) for text in declared.problems]
    return found
