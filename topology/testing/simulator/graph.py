"""What lies before a component, and what that means for who compares what arrives there. Knows the graph alone."""

from topology.graph import Declared
from topology.topology import Topology


def is_lost_before(topology: Topology, name: str) -> bool:
    """Whether what arrives there hangs on what a bolt keeps in a worker's memory alone: its state, or what it draws."""
    return any(
        one.prototype.recovery != "checkpoint" if one.shape == "state" else one.shape != "journal" and _draws(one)
        for one in above(topology, name)
    )


def is_drawn_before(topology: Topology, name: str) -> bool:
    """Whether what arrives there is another thing in every run, though the same once it was put out."""
    return any(map(_draws, above(topology, name)))


def _draws(one: Declared) -> bool:
    return getattr(one.prototype, "deterministic", True) is False


def is_kept_before(topology: Topology, name: str) -> bool:
    """Whether all that arrives there was kept by a bolt before it left, and nothing since then can have changed it."""
    declared = {one.name: one for one in topology.components}
    before = [source.component for source in declared[name].inputs]
    seen = set[str]()
    while before:
        one = declared[before.pop()]
        if one.shape == "journal" or (one.shape == "state" and one.prototype.recovery == "checkpoint"):
            continue
        if one.kind == "spout" or one.shape != "process" or _draws(one):
            return False
        if one.name not in seen:
            seen.add(one.name)
            before += [source.component for source in one.inputs]
    return True


def above(topology: Topology, name: str) -> list[Declared]:
    """What arrives there comes from these, and it itself."""
    declared = {one.name: one for one in topology.components}
    before, found = [name], dict[str, Declared]()
    while before:
        one = declared[before.pop()]
        if one.name not in found:
            found[one.name] = one
            before += [source.component for source in one.inputs]
    return [*found.values()]
