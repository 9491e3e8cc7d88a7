"""Bolts whose results may come out otherwise if a run computes them again, as all workers go back to a checkpoint.

After that the same inputs come again, each once in effect. Their order may differ between tasks and sources, so a state
that depends on that order may differ, and so may what is not deterministic. Pure: reads a declaration, and trusts it; a
bolt says itself if the order matters to it. Must not know when a run goes back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from topology.checks.component_facts import above, drops_replays, keeps_state
from topology.graph import Declared

DISK: Final = "durability='disk'"
NEVER: Final = "order_matters = 'never' if its outputs are the same in any order"


@dataclass(frozen=True)
class Variation:
    """A bolt whose results may come out otherwise. `why` is a sentence that begins with its name. Each of `write` alone
    prevents it."""

    component: str
    why: str
    write: tuple[str, ...]


@dataclass(frozen=True)
class OpenOrder:
    """A place at which the order of tuples is open. `write` closes it; empty if nothing does."""

    text: str
    write: str = ""


def variations(sink: Declared, ordered: list[Declared]) -> list[Variation]:
    """Return the bolts on the way to this sink whose results may come out otherwise, from the sources on. None if the
    effect of the sink is its own state: that goes back together with all others."""
    if keeps_state(sink):
        return []
    way = [bolt for bolt in above(sink, ordered) if bolt is not sink]
    return [found for bolt in way for found in _of(bolt, above(bolt, ordered))]


def _of(one: Declared, way: list[Declared]) -> Iterator[Variation]:
    """Yield the reason for one component, if there is one. `way`: all above it, and it."""
    if one.kind == "spout" or drops_replays(one):
        return
    if one.shape == "execute":
        text = "defines `execute`, and may combine its inputs in another way"
        yield Variation(one.name, text, ("`process` in place of `execute`", DISK))
    elif not one.prototype.deterministic:
        yield Variation(one.name, "is not deterministic, and its outputs are computed again", (DISK,))
    elif keeps_state(one) and (orders := [*_open_orders(one, way)]):
        text = "has state, and inputs of a key may come in another order: "
        closing = [order.write for order in orders]
        ways = [" and ".join(closing)] if all(closing) else []
        yield Variation(one.name, text + "; ".join(order.text for order in orders), (*ways, DISK, NEVER))


def _open_orders(one: Declared, way: list[Declared]) -> Iterator[OpenOrder]:
    """Yield the causes of another order, as far as it matters to this bolt."""
    order = one.prototype.order_matters
    if order != "never":
        yield from _mixed(way)
    if order == "always" and _has_timers(one):
        yield OpenOrder("its timers take turns with them")


def _mixed(way: list[Declared]) -> Iterator[OpenOrder]:
    """Yield the places on the way to the last of these at which the order of tuples is open."""
    *before, last = way
    for emitter in before:
        name = repr(emitter.name)
        if emitter.tasks > 1:
            yield OpenOrder(f"{name} has {emitter.tasks} tasks", f"tasks=1 for {name}")
        elif emitter.kind == "bolt" and emitter.concurrency > 1 and (emitter.waits or emitter.prototype.blocking):
            yield OpenOrder(f"{name} works on {emitter.concurrency} inputs at a time", f"concurrency=1 for {name}")
        elif _has_timers(emitter) and emitter.prototype.order_matters == "always":
            yield OpenOrder(f"{name} has timers")
    for reader in (*before, last):
        names = list(dict.fromkeys(read.component for read in reader.inputs))
        if len(names) > 1:
            yield OpenOrder(f"{reader.name!r} reads {' and '.join(map(repr, names))}")


def _has_timers(one: Declared) -> bool:
    return one.shape == "state" and callable(getattr(one.prototype, "on_timer", None))
