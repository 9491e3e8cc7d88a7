"""Who answers for an emission in each of its trees: the joins that a single value would get wrong (A1, A2)."""

from functools import reduce
from operator import xor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker.anchoring import MAX_ROOTS, OpenTuple, distinct, register, roots_of

A, B, C = 0xA1, 0xB2, 0xC3  # edges


def test_an_input_without_emissions_sends_its_own_edge_to_each_root() -> None:
    assert OpenTuple((1, 2), A).values == {1: A, 2: A}


def test_the_first_anchor_that_has_a_root_answers_for_the_emission_there() -> None:
    """A1: once in each distinct root, though two anchors have root 2."""
    first, second = OpenTuple((1, 2), A), OpenTuple((2, 3), B)
    register((first, second), C)
    assert first.values == {1: A ^ C, 2: A ^ C}
    assert second.values == {2: B, 3: B ^ C}


def test_the_values_of_a_join_within_one_tree_sum_to_the_edge_in_flight() -> None:
    """A1: with both anchors answering, a ^ b ^ (a ^ c) ^ (b ^ c) is zero while c is in flight."""
    first, second = OpenTuple((1,), A), OpenTuple((1,), B)
    register((first, second), C)
    assert A ^ B ^ first.values[1] ^ second.values[1] == C


def test_an_anchor_given_twice_counts_once() -> None:
    """A2: twice would cancel."""
    anchor, equal = OpenTuple((1,), A), OpenTuple((1,), A)
    assert distinct([anchor, equal, anchor]) == (anchor, equal)


def test_anchors_are_told_apart_as_objects_not_by_value() -> None:
    """A2: two equal tuples are two deliveries."""
    one, other = b"tuple", bytes(bytearray(b"tuple"))
    assert one == other
    assert len(distinct([one, other, one])) == 2


def test_the_roots_of_a_join_are_the_union_in_order() -> None:
    anchors = [OpenTuple((5, 1), A), OpenTuple((), B), OpenTuple((1, 3), C)]
    assert roots_of(anchors) == (5, 1, 3)


def test_an_input_without_roots_answers_for_nothing() -> None:
    lone = OpenTuple((), A)
    register((lone,), B)
    assert lone.values == {}
    assert roots_of((lone,)) == ()


def test_nothing_is_registered_with_an_input_whose_values_have_left() -> None:
    """A3: the edge would be missing from the value that was sent."""
    anchor = OpenTuple((1,), A)
    anchor.finished = True
    with pytest.raises(AssertionError):
        register((anchor,), B)


@given(
    st.lists(st.frozensets(st.integers(1, MAX_ROOTS)), min_size=1, max_size=5),
    st.lists(st.integers(1, 1 << 64), min_size=1, max_size=4),
)
def test_every_emission_is_registered_once_in_each_root_whatever_the_anchors_share(
    roots: list[frozenset[int]], edges: list[int]
) -> None:
    """A1, over all overlaps: in each root, the anchors' values XOR to the anchors' edges and each emission once."""
    anchors = [OpenTuple(sorted(some), 1 << 70 + n) for n, some in enumerate(roots)]
    for one in edges:
        register(anchors, one)
    for root in roots_of(anchors):
        own = reduce(xor, (1 << 70 + n for n, some in enumerate(roots) if root in some))
        values = reduce(xor, (anchor.values[root] for anchor in anchors if root in anchor.values))
        assert values == own ^ reduce(xor, edges)
