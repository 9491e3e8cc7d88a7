"""The compiled core's table of open trees against a dict, whatever the roots are."""

import gc
import weakref
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker.roots import ROOT_STEP
from topology.core import CORE
from topology.runtime.hot.open_trees import OpenTrees

pytestmark = pytest.mark.skipif(CORE != "compiled", reason="the Python core's table is a dict")
LAST = 2**64 - 1


class Some:
    """A tree that can be watched."""


# Those of a home follow each other; those of others lie anywhere, and some share a place.
ROOTS = st.one_of(
    st.integers(1, 60).map(lambda number: number * ROOT_STEP), st.integers(1, LAST), st.sampled_from([1, LAST])
)


@given(st.lists(st.tuples(st.sampled_from(["add", "pop", "get", "set"]), ROOTS), max_size=300))
def test_it_answers_as_a_dict_does(steps: list[tuple[str, int]]) -> None:
    table, model = OpenTrees(), dict[int, Some]()
    for step, root in steps:
        tree = Some()
        if step == "add":
            assert table.setdefault(root, tree) is model.setdefault(root, tree)
        elif step == "pop":
            assert table.pop(root, None) is model.pop(root, None)
        elif step == "get":
            assert table.get(root) is model.get(root)
        else:
            table[root] = model[root] = tree
        assert (len(table), root in table, bool(table)) == (len(model), root in model, bool(model))
    assert {*table.values()} == {*model.values()}
    assert all(table.get(root) is tree for root, tree in model.items())


@pytest.mark.parametrize("seed", range(5))
def test_it_keeps_all_of_many_roots_while_most_are_taken_out_in_another_order(seed: int) -> None:
    """Each place that is left has others move up."""
    random = Random(seed)
    table, model = OpenTrees(), dict[int, int]()
    firsts = [random.getrandbits(50) * ROOT_STEP for _ in range(3)]
    for number in range(20_000):
        root = random.choice(firsts) + ROOT_STEP * number
        table[root] = model[root] = number
        while len(model) > 500 and random.random() < 0.7:
            gone = random.choice(list(model)) if random.random() < 0.1 else next(iter(model))
            assert table.pop(gone) == model.pop(gone)
    assert sorted(table.values()) == sorted(model.values())
    assert all(table.get(root) == number for root, number in model.items())


def test_it_holds_each_tree_once_and_lets_go_of_it() -> None:
    table = OpenTrees()
    trees = {root: Some() for root in range(1, 200)}
    watched = {root: weakref.ref(tree) for root, tree in trees.items()}
    for root, tree in trees.items():
        table[root] = tree
    del tree
    trees.clear()
    gc.collect()
    assert all(seen() for seen in watched.values()), "it let go of one that it holds"
    table.pop(7)
    table[8] = Some()
    assert (watched[7](), watched[8]()) == (None, None)
    del table
    assert not any(seen() for seen in watched.values())


def test_what_is_not_there_is_a_key_error_and_no_root_is_zero() -> None:
    table = OpenTrees()
    for refused in (lambda: table.pop(5), lambda: table.__delitem__(5)):
        with pytest.raises(KeyError, match="5"):
            refused()
    with pytest.raises(ValueError, match="a root is not zero"):
        table[0] = Some()
    assert 0 not in table
