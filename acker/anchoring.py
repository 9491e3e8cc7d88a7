"""Anchoring: the input of a bolt that answers for an emitted tuple, in each of the trees that the tuple joins.

The rule of A1: an emission is registered in each distinct root exactly once, by the first anchor that has that root,
and is sent with the union of the roots. One value for all roots would let a join complete its tree too early.

Pure. This file must not know what a record, a task or a ledger is, nor how edges and identities are made.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

# roots per tuple: each of its acks has one (root, value) pair per root; a tuple with more gets a sub-tree
MAX_ROOTS: Final = 8

A = TypeVar("A")


class OpenTuple:
    """An input that a bolt is working on: for each of its roots, the XOR value to send when the input is acked.

    `values` keeps the roots in the order given. The owner sets `finished` once it has acked or failed the input. From
    then on no emission can be registered with it, because its values have been sent (A3).
    """

    __slots__ = ("finished", "values")

    def __init__(self, roots: Iterable[int], edge: int) -> None:
        """`edge` is the edge of the delivery that brought the input here. An input without roots belongs to no tree."""
        self.values: dict[int, int] = dict.fromkeys(roots, edge)
        self.finished = False


def register(anchors: Iterable[OpenTuple], edge: int) -> None:
    """Register one delivery once in each distinct root of its anchors. None of the anchors may be finished.

    For several deliveries of one emission, make one call each, or one call with the XOR of their edges. Never register
    the same edge twice in one root: it would cancel (A18).
    """
    seen: set[int] = set()
    for anchor in anchors:
        assert not anchor.finished, "an input whose values were sent can't answer for more"
        values = anchor.values
        for root in values.keys() - seen if seen else values:
            values[root] ^= edge
        seen.update(values)


def distinct(anchors: Iterable[A]) -> tuple[A, ...]:
    """Return the anchors without repetitions, in order: an anchor given twice would cancel (A2). Compared as
    objects."""
    return tuple({id(anchor): anchor for anchor in anchors}.values())


def roots_of(anchors: Iterable[OpenTuple]) -> tuple[int, ...]:
    """Return the union of the anchors' roots, in order of first appearance. The caller replaces more than MAX_ROOTS by
    one root."""
    return tuple(dict.fromkeys(root for anchor in anchors for root in anchor.values))
