"""Numbered records handed over, by a few tasks: for runs of real workers."""

from bridge.handover.bolt import HandOver
from spouts import Items, Paced
from topology import Record, Topology


class Numbered(Record):
    number: int
    text: str


def topology(count: int = 3_000, rate: float = 3_000.0, tasks: int = 3) -> Topology:
    made = Topology("handing")
    items = made.spout("items", Paced(Items([Numbered(one, f"item {one}") for one in range(count)]), rate))
    made.bolt("handed", HandOver(Numbered, "q", "items", batch=50, within_ms=5.0), items.shuffle(), tasks=tasks)
    return made
