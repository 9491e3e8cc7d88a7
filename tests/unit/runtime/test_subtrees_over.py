"""How long a sub-tree that is over must not be announced as done: while one of its inputs may come again. Rule D17."""

from types import SimpleNamespace
from typing import Any

from acker.floors import Floors
from acker.ledger import Ledger
from acker.progress import Progress
from acker.roots import RootSource, message_of, owner, pack
from topology.runtime.worker.subtrees import SubTrees


class Home:
    """Worker 0, that has begun third; worker 1 has the inputs."""

    def __init__(self) -> None:
        self.worker, self.clock = 0, SimpleNamespace(monotonic=lambda: 0.0)
        self.roots, self.ledger = RootSource(0, 3, lambda: 4), Ledger[Any](10.0, 0.0)
        self.floors = Floors((0, 1))
        self.subtrees = SubTrees(self, self.floors, remembers=True)  # type: ignore[arg-type]  # a clock without a date

    def ack(self, root: int, value: int) -> None:
        """Of no open tree."""

    def ended(self, *inputs: int) -> int:
        """The message of a sub-tree of these inputs that is over."""
        root = self.subtrees.root()
        self.subtrees.begin("sums", root, 1, inputs)
        tree = self.ledger.ack(root, 1)
        self.subtrees.done(tree)
        return message_of(root)

    def hears(self, worker: int, incarnation: int, newest: int, **more: Any) -> None:
        first = owner(worker, incarnation)
        fields = {"unfinished": frozenset(), "first": first, **more}
        self.floors.announce(Progress(message_of(pack(first, newest, 0)), **fields))
        self.subtrees.tidy()

    def not_done(self) -> list[int]:
        return list(self.subtrees.not_done)


def test_a_sub_tree_is_not_done_before_all_of_its_inputs_are_D17() -> None:
    home = Home()
    message = home.ended(pack(owner(1, 3), 4, 0), pack(owner(1, 3), 5, 0))
    home.hears(1, 3, 4)
    assert home.not_done() == [message]
    home.hears(1, 3, 5)
    assert home.not_done() == []


def test_nor_before_a_home_that_has_begun_anew_has_given_them_again_and_this_one_is_done_with_what_it_had_D17() -> None:
    home = Home()
    message = home.ended(pack(owner(1, 3), 4, 0))
    home.hears(0, 3, 9)
    home.hears(1, 5, 0, caught_up=False)
    assert home.not_done() == [message]
    home.hears(1, 5, 7)
    assert home.not_done() == [message]
    home.hears(0, 3, 10, unfinished=frozenset({message}), settled=frozenset({owner(1, 5)}))
    assert home.not_done() == [], "that it is not done itself holds up nothing"


def test_nor_while_a_message_is_dead_that_may_be_one_of_them_E1() -> None:
    home = Home()
    message = home.ended(pack(owner(1, 3), 4, 0))
    home.hears(0, 5, 9)
    home.hears(1, 5, 7, dead=frozenset({77}))
    assert home.not_done() == [message]
    home.hears(1, 5, 8)
    assert home.not_done() == []
