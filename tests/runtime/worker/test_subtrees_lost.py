"""Sub-trees that stand for a message of a life that is over: all workers hear of them. D15."""

from types import SimpleNamespace
from typing import Any

from acker.frontier import NUMBER_BITS, Decided, Frontier, Note
from acker.ledger import Ledger
from acker.roots import RootSource, message_of, owner
from topology.runtime.state.known_input import KnownInput
from topology.runtime.state.known_inputs import packed_entries
from topology.runtime.worker.subtrees import SubTrees
from topology.storage.encoding.entries import unpacked

GONE = owner(1, 1)  # the life of another home


def with_one_lost() -> tuple[SubTrees, Decided, int]:
    """Sub-trees of which one stands for a message of a life that is over, and its message."""
    subtrees, decided, message = with_one()
    decided.ends(GONE)
    subtrees.life_ends(GONE)
    return subtrees, decided, message


def with_one() -> tuple[SubTrees, Decided, int]:
    """Sub-trees of which one stands for a message of `GONE`, and its message."""
    decided = Decided()
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    roots = RootSource(0, 1, lambda: 2)
    home: Any = SimpleNamespace(worker=0, ledger=Ledger(30.0, 0.0), roots=roots, clock=clock, fail=lambda *_: None)
    subtrees = SubTrees(home, decided, remembers=True)
    root = subtrees.root()
    subtrees.begin("joins", root, 1, ((GONE << NUMBER_BITS | 3) << 6,))
    return subtrees, decided, message_of(root)


def decide(subtrees: SubTrees, decided: Decided, checkpoint: int) -> frozenset[int]:
    """Decide a checkpoint with the sub-trees' note; return those that it names as lost."""
    unfinished, lost = subtrees.note()
    note = Note((owner(0, 1),), owner(0, 1) << NUMBER_BITS | 99, frozenset(unfinished), lost=lost)
    decided.frontier = Frontier(checkpoint, {0: note})
    return lost


def test_two_decided_frontiers_name_a_lost_sub_root() -> None:
    """Between the first snapshot and the decision a worker may take a tuple of it: the second snapshot has that."""
    subtrees, decided, message = with_one_lost()
    assert subtrees.note() == ({message}, {message})
    assert subtrees.note()[1] == {message}, "the checkpoint was given up"
    assert decide(subtrees, decided, 1) == {message}
    assert subtrees.note()[1] == {message}
    assert subtrees.note()[1] == {message}, "the second checkpoint was given up"
    assert decide(subtrees, decided, 2) == {message}
    assert decide(subtrees, decided, 3) == frozenset()


def test_a_sub_root_is_lost_if_it_stands_for_a_life_that_was_over_before_its_worker_began_D17() -> None:
    """Another worker has held an input for longer than its home lived, and has sent what it made of it to this one."""
    subtrees, decided, message = with_one()
    assert decide(subtrees, decided, 1) == frozenset(), "it may be of a life that has begun since"
    assert decide(subtrees, decided, 2) == frozenset()
    assert [decide(subtrees, decided, checkpoint) for checkpoint in (3, 4)] == [{message}, {message}]
    assert decide(subtrees, decided, 5) == frozenset()
    assert subtrees.note() == (set(), frozenset())


def test_a_sub_root_that_stands_for_lives_that_go_on_is_kept_until_they_are_done() -> None:
    subtrees, decided, message = with_one()
    other = Note((GONE,), GONE << NUMBER_BITS | 2)
    for checkpoint in range(1, 6):
        unfinished, lost = subtrees.note()
        assert (unfinished, lost) == ({message}, set())
        mine = Note((owner(0, 1),), owner(0, 1) << NUMBER_BITS | 99, frozenset(unfinished), lost=lost)
        decided.frontier = Frontier(checkpoint, {0: mine, 1: other})
    decided.frontier = Frontier(6, {1: other._replace(newest=GONE << NUMBER_BITS | 3)})
    assert subtrees.note() == (set(), frozenset())


def test_a_snapshot_has_inputs_of_a_lost_sub_root_without_their_message() -> None:
    """A replacement that loads it hears of no frontier that names the sub-root, and would take it for done."""
    entries = {(7, number): KnownInput(messages) for number, messages in ((1, (5,)), (2, (6,)), (3, (5, 6)))}
    _, packed = unpacked(packed_entries([], entries, frozenset({5})))
    assert {one.identity: tuple(one.messages) for one in packed} == {1: (), 2: (6,), 3: ()}
    assert entries[7, 1].messages == (5,), "the loop changes what is in memory"
