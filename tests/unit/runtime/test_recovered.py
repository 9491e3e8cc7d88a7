"""After a death: the first and the last of the failed messages that are done are told, and nothing besides."""

from acker.ledger import Tree
from acker.roots import RootSource
from topology.runtime.worker.recovery import Recovery


def test_the_first_and_the_last_are_told_with_how_many_are_left() -> None:
    source = RootSource(1, 1, lambda: 2)
    trees = [Tree(source.next_root(), 1) for _ in range(3)]
    told: list[int] = []
    recovery = Recovery(trees, told.append)
    assert not recovery.done([Tree(source.next_root(), 1)]), "another message is none of those"
    assert told == []
    for tree in trees:
        tree.root = source.next_attempt(tree.root)
    assert not recovery.done(trees[:1])
    assert not recovery.done(trees[1:2])
    assert recovery.done(trees[2:])
    assert told == [2, 0]


def test_where_all_are_done_at_once_that_is_told_once() -> None:
    trees = [Tree(64, 1), Tree(128, 1)]
    told: list[int] = []
    assert Recovery(trees, told.append).done(trees)
    assert told == [0]
