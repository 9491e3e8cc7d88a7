"""After a death: the first and the last of the failed messages that are done are told, and nothing besides."""

from acker.ledger import Tree
from acker.roots import RootSource
from topology.runtime.recovery import Recovery


def test_the_first_and_the_last_are_told_with_the_time_and_how_many_are_left() -> None:
    source = RootSource(1, 1, lambda: 2)
    trees = [Tree(source.next_root(), 1) for _ in range(3)]
    told: list[tuple[float, int]] = []
    recovery = Recovery(trees, 10.0, lambda seconds, left: told.append((seconds, left)))
    assert not recovery.done([Tree(source.next_root(), 1)], 10.5), "another message is none of those"
    assert told == []
    for tree in trees:
        tree.root = source.next_attempt(tree.root)
    assert not recovery.done(trees[:1], 11.0)
    assert not recovery.done(trees[1:2], 12.0)
    assert recovery.done(trees[2:], 13.0)
    assert told == [(1.0, 2), (3.0, 0)]


def test_where_all_are_done_at_once_that_is_told_once() -> None:
    trees = [Tree(64, 1), Tree(128, 1)]
    told: list[tuple[float, int]] = []
    assert Recovery(trees, 1.0, lambda seconds, left: told.append((seconds, left))).done(trees, 1.25)
    assert told == [(0.25, 0)]
