"""Facts of one component that several checks need. Pure: reads a declaration. Must not know what follows from them."""

from topology.graph import Declared


def above(one: Declared, ordered: list[Declared]) -> list[Declared]:
    """Return all components on the path to this one, and itself, in their order."""
    names = {one.name}
    for component in reversed(ordered):
        if component.name in names:
            names.update(read.component for read in component.inputs)
    return [component for component in ordered if component.name in names]


def keeps_state(one: Declared) -> bool:
    """Return True if it has state that survives, and that changes once per input."""
    return one.shape == "state" and one.prototype.recovery == "checkpoint"


def drops_replays(one: Declared) -> bool:
    """Return True if it says of itself that it recognizes what it is given again."""
    return bool(getattr(one.prototype, "drops_replays", False))
