"""How long the frontiers of a worker lack a sub-tree that is over: until a decided one has all that it stands for."""

from types import SimpleNamespace
from typing import Any

from acker.frontier import Decided, Frontier, Note
from acker.ledger import Ledger
from acker.roots import RootSource, message_of, owner, pack
from topology.runtime.worker.subtrees import SubTrees

LIFE = owner(1, 3)  # of worker 1, which has the inputs


class Home:
    """Worker 0, that has begun third; worker 1 has the inputs."""

    def __init__(self, *, remembers: bool = True) -> None:
        self.worker, self.clock = 0, SimpleNamespace(monotonic=lambda: 0.0)
        self.roots, self.ledger = RootSource(0, 3, lambda: 4), Ledger[Any](10.0, 0.0)
        self.decided = Decided()
        self.subtrees = SubTrees(self, self.decided, remembers=remembers)  # type: ignore[arg-type]  # no whole worker

    def ack(self, root: int, value: int) -> None:
        """Of no open tree."""

    def begun(self, *inputs: int) -> int:
        """The root of a sub-tree of these inputs."""
        root = self.subtrees.root()
        self.subtrees.begin("sums", root, 1, inputs)
        return root

    def ended(self, *inputs: int) -> int:
        """The message of a sub-tree of these inputs that is over."""
        root = self.begun(*inputs)
        self.subtrees.done(self.ledger.ack(root, 1))
        return message_of(root)

    def decides(self, newest: int, *unfinished: int, lost: frozenset[int] = frozenset()) -> None:
        """A frontier is decided that has worker 1's messages up to `newest`, but for these, and nearly none of 2's."""
        checkpoint = self.decided.frontier.checkpoint + 1
        of_1 = Note((LIFE,), message_of(pack(LIFE, newest, 0)), frozenset(map(message, unfinished)))
        of_0 = Note(self.roots.owners, message_of(self.roots.latest), lost=lost)
        of_2 = Note((owner(2, 1),), message_of(pack(owner(2, 1), 1, 0)))
        self.decided.frontier = Frontier(checkpoint, {0: of_0, 1: of_1, 2: of_2})


def message(number: int) -> int:
    return message_of(pack(LIFE, number, 0))


def root(number: int) -> int:
    return pack(LIFE, number, 0)


def test_a_sub_root_is_in_a_frontier_once_a_decided_one_has_all_of_its_inputs_P4() -> None:
    home = Home()
    over = home.ended(root(4), root(5))
    assert home.subtrees.note() == ({over}, frozenset())
    home.decides(4)
    assert home.subtrees.note() == ({over}, frozenset())
    home.decides(9, 5)
    assert home.subtrees.note() == ({over}, frozenset())
    home.decides(9)
    assert home.subtrees.note() == (set(), frozenset())


def test_an_open_sub_tree_whose_inputs_are_done_is_given_up_as_its_tuples_are_stale() -> None:
    """They were done by other attempts."""
    home = Home()
    open_root = home.begun(root(4))
    assert home.subtrees.note() == ({message_of(open_root)}, frozenset())
    home.decides(9)
    assert home.subtrees.note() == (set(), frozenset())
    assert not home.subtrees.open
    assert open_root not in home.ledger


def test_a_sub_root_of_a_life_that_is_over_is_lost_until_two_decided_frontiers_have_it() -> None:
    home = Home()
    lost, other = home.ended(root(4), pack(owner(2, 1), 7, 0)), home.ended(pack(owner(2, 1), 8, 0))
    home.subtrees.life_ends(LIFE)
    assert home.subtrees.note() == ({lost, other}, frozenset({lost}))
    assert home.subtrees.note() == ({lost, other}, frozenset({lost})), "and again, as a checkpoint may be given up"
    home.decides(9, lost=frozenset({lost}))
    assert home.subtrees.note() == ({lost, other}, frozenset({lost})), "some know an input of it since their snapshot"
    home.decides(9, lost=frozenset({lost}))
    assert home.subtrees.note() == ({other}, frozenset())


def test_a_sub_root_whose_inputs_a_decided_frontier_has_is_not_lost_with_their_life() -> None:
    home = Home()
    over = home.ended(root(4), root(5))
    home.decides(9)
    home.subtrees.life_ends(LIFE)
    assert home.subtrees.note() == (set(), frozenset())
    assert over not in home.decided.frontier.lost


def test_where_no_bolt_remembers_its_inputs_nothing_is_kept_of_a_sub_tree_that_is_over() -> None:
    home = Home(remembers=False)
    home.ended(root(4))
    home.subtrees.life_ends(LIFE)
    assert home.subtrees.note() == (set(), frozenset())
