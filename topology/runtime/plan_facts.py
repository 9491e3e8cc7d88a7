"""Facts of a plan that several packages use: which bolts remember inputs, and which may begin sub-trees. Pure."""

from typing import Final

from topology.graph import Declared
from topology.plan import Plan

REMEMBERING: Final = ("state", "journal")  # shapes of bolts


def remembers_itself(one: Declared) -> bool:
    """Return True for a bolt whose own code remembers inputs, and asks when it may forget one."""
    return one.shape == "execute" and bool(getattr(one.prototype, "remembers", False))


def _remembers(one: Declared) -> bool:
    return one.shape in REMEMBERING or remembers_itself(one)


def remembers(plan: Plan) -> bool:
    """Return True if some bolt remembers its inputs: one with state, one that is not deterministic, or one that says
    so."""
    return any(map(_remembers, plan.components.values()))


def begins_sub_trees(plan: Plan, name: str) -> bool:
    """Return True for a bolt that may begin a sub-tree for its inputs, and has a bolt below it that remembers its own
    inputs. Only such bolts must know what is stale.

    Timers and dead letters begin trees from a store, not from inputs that may be stale. Each such tree has one cause,
    and the home of the cause announces the tree as unfinished while it can come again.
    """
    if plan.components[name].shape != "execute":
        return False
    return any(_remembers(plan.components[below]) for below in plan.below(name))
