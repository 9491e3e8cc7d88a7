"""Anchoring: which input of a bolt answers for a tuple that it emitted, in each of the trees that the tuple joins.

The rule of A1: an emission is registered in each distinct root exactly once, by the first anchor that has that root,
and is sent with the union of the roots. One value for all roots would let a join complete its tree too early.

Pure. This file must not know what a record, a task or a ledger is, nor how edges and identities are made.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

MAX_ROOTS: Final = 8  # of one tuple, as each of its acks is one (root, value) pair a root; with more it is a sub-tree

A = TypeVar("A")


class OpenTuple:
    """An input that a bolt is working on: for each of its roots, the XOR to send when it is acked.

    `values` keeps the roots in the order given. The owner sets `finished` once it has acked or failed the input; from
    then on nothing can be registered with it, because its values have left (A3).
    """

    __slots__ = ("finished", "values")

    def __init__(self, roots: Iterable[int], edge: int) -> None:
        """`edge` is that of the delivery that brought the input here. Without roots it belongs to no tree."""
        self.values: dict[int, int] = dict.fromkeys(roots, edge)
        self.finished = False


def register(anchors: Iterable[OpenTuple], edge: int) -> None:
    """Registers one delivery once in each distinct root of its anchors. None of the anchors is finished.

    For several deliveries of one emission: one call each, or one call with the XOR of their edges. The same edge is
    never registered twice in one root; it would cancel (A18).
    """
    seen: set[int] = set()
    for anchor in anchors:
        assert not anchor.finished, "an input whose values have left can't answer for more"
        values = anchor.values
        for root in values.keys() - seen if seen else values:
            values[root] ^= edge
        seen.update(values)


def distinct(anchors: Iterable[A]) -> tuple[A, ...]:
    """The anchors without repetitions, in order: an anchor given twice would cancel (A2). Compared as objects."""
    return tuple({id(anchor): anchor for anchor in anchors}.values())


def roots_of(anchors: Iterable[OpenTuple]) -> tuple[int, ...]:
    """The union of the anchors' roots, in order of first appearance. The caller makes one of more than MAX_ROOTS."""
    return tuple(dict.fromkeys(root for anchor in anchors for root in anchor.values))
