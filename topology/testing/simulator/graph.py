"""Components before a component, and what that means for comparing its inputs. Knows the graph only."""

from topology.graph import Declared, Graph


def is_lost_before(topology: Graph, name: str) -> bool:
    """Return True if its inputs depend on what a bolt keeps only in a worker's memory: its state, or its random
    draws."""
    return any(
        bolt.prototype.recovery != "checkpoint" if bolt.shape == "state" else bolt.shape != "journal" and _draws(bolt)
        for bolt in above(topology, name)
    )


def is_drawn_before(topology: Graph, name: str) -> bool:
    """Return True if its inputs differ in every run, although each stays the same once it was emitted."""
    return any(map(_draws, above(topology, name)))


def is_named_by_count(topology: Graph, name: str) -> bool:
    """Return True if the names of its inputs are made of keys and counts, by a bolt with state."""
    return topology.config.durability != "disk" and any(map(_counts, above(topology, name)))


def is_drawn_before_state(topology: Graph, name: str) -> bool:
    """Return True if the names of its inputs may be made of keys that are drawn, or count what is drawn."""
    keyed = [component for component in above(topology, name) if _counts(component)]
    return is_named_by_count(topology, name) and any(is_drawn_before(topology, component.name) for component in keyed)


def _counts(one: Declared) -> bool:
    return one.shape == "state" and one.prototype.recovery == "checkpoint"


def is_joined_before(topology: Graph, name: str) -> bool:
    """Return True if one of its inputs may come from several messages."""
    return any(component.shape == "execute" for component in above(topology, name) if component.name != name)


def _draws(one: Declared) -> bool:
    return getattr(one.prototype, "deterministic", True) is False


def is_kept_before(topology: Graph, name: str) -> bool:
    """Return True if a bolt stored all its inputs before they left, and nothing after that can have changed them."""
    declared = {component.name: component for component in topology.components}
    before = [source.component for source in declared[name].inputs]
    seen = set[str]()
    while before:
        component = declared[before.pop()]
        if component.shape == "journal" or (
            component.shape == "state" and component.prototype.recovery == "checkpoint"
        ):
            continue
        if component.kind == "spout" or component.shape != "process" or _draws(component):
            return False
        if component.name not in seen:
            seen.add(component.name)
            before += [source.component for source in component.inputs]
    return True


def above(topology: Graph, name: str) -> list[Declared]:
    """Return the component and all components before it, from which its inputs come."""
    declared = {component.name: component for component in topology.components}
    before, found = [name], dict[str, Declared]()
    while before:
        component = declared[before.pop()]
        if component.name not in found:
            found[component.name] = component
            before += [source.component for source in component.inputs]
    return [*found.values()]
