"""Sub-trees against a plain model, over random joins on two workers: a message is done exactly when nothing that
descends from it is open, and fails exactly when something of it has failed (A1, A16, A18).

The model knows no roots and no XOR: of each delivery it knows the messages that it descends from. The ledgers and the
sub-trees are the real ones; acks and fails between the two workers arrive late, and in any order.
"""

from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from random import Random
from typing import Any

import pytest

from acker.anchoring import OpenTuple, distinct, register, roots_of
from acker.frontier import Decided
from acker.identity import derive
from acker.ledger import Ledger, Tree
from acker.roots import RootSource, worker_of
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.open_trees import OpenTrees
from topology.runtime.worker.subtrees import SubTrees

FAILURE = Failure(Reason.RAISED, "bolt")


class MessageTree(Tree):
    number: int
    owner: Any


class At:
    """A clock that stands still."""

    def monotonic(self) -> float:
        return 0.0


@dataclass(eq=False)
class Delivery:
    worker: int  # whose task has it
    messages: frozenset[int]  # that it descends from
    edge: int
    opened: OpenTuple


@dataclass
class Ends:
    """Where messages end; as a Spouting."""

    done: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)

    def completed(self, trees: list[MessageTree]) -> None:
        self.done += [tree.number for tree in trees]

    def failed_tree(self, tree: MessageTree, failure: Failure) -> None:
        assert failure is FAILURE, "the reason is kept (E6)"
        self.failed.append(tree.number)


class Home:
    """One worker; what is for the other one goes into `post`."""

    def __init__(self, worker: int, post: list[tuple[int, int, int | None]]) -> None:
        self.worker, self.post, self.clock = worker, post, At()
        self.ledger: Ledger[Any] = Ledger(10.0, 0.0, table=OpenTrees)
        self.roots = RootSource(worker, 1, lambda: 2)
        self.subtrees = SubTrees(self, Decided(), remembers=True)  # type: ignore[arg-type]  # a clock without a date

    def ack(self, root: int, value: int) -> Any:
        if worker_of(root) == self.worker:
            return self.ledger.ack(root, value)
        self.post.append((worker_of(root), root, value))
        return None

    def completed(self, trees: list[Any]) -> None:
        for tree in trees:
            tree.owner.completed([tree])

    def fail(self, root: int, failure: Failure) -> None:
        if worker_of(root) != self.worker:
            self.post.append((worker_of(root), root, None))
        elif (tree := self.ledger.fail(root)) is not None:
            tree.owner.failed_tree(tree, failure)

    def queued(self, root: int) -> None:
        raise AssertionError("time stands still")


class Run:
    """A random run: messages begin, deliveries are joined, acked and failed, what is on the way arrives."""

    def __init__(self, seed: int, most_roots: int) -> None:
        self.random, self.most_roots = Random(seed), most_roots
        self.post: list[tuple[int, int, int | None]] = []
        self.homes = [Home(0, self.post), Home(1, self.post)]
        self.ends, self.messages, self.edges = Ends(), 0, 0
        self.open: list[Delivery] = []
        self.guilty: set[int] = set()  # messages of which something has failed

    def edge(self) -> int:
        self.edges += 1
        return derive(self.edges, 7)

    def begin(self) -> None:
        home = self.random.choice(self.homes)
        root, edges = home.roots.next_root(), [self.edge() for _ in range(self.random.randint(1, 3))]
        home.ledger.begin(MessageTree(root, reduce(xor, edges), self.messages, self.ends))
        for edge in edges:
            at = self.random.randrange(2)
            self.open.append(Delivery(at, frozenset({self.messages}), edge, OpenTuple((root,), edge)))
        self.messages += 1

    def join(self) -> None:
        """A task emits for some of what it has, once or several times, to tasks of either worker."""
        at = self.random.randrange(2)
        mates = [one for one in self.open if one.worker == at]
        if not mates:
            return
        size = len(mates) if self.random.random() < 0.1 else min(len(mates), self.random.randint(1, 12))
        anchors = distinct(self.random.sample(mates, size))
        opens, home = [one.opened for one in anchors], self.homes[at]
        for _ in range(self.random.randint(1, 3)):
            roots, edges = roots_of(opens), [self.edge() for _ in range(self.random.randint(1, 3))]
            value, named = reduce(xor, edges), roots
            if len(roots) > self.most_roots:
                named = (home.subtrees.root(),)
                value = home.subtrees.begin("bolt", named[0], value, roots)
            register(opens, value)
            messages = frozenset[int]().union(*(one.messages for one in anchors))
            self.open += [Delivery(self.random.randrange(2), messages, edge, OpenTuple(named, edge)) for edge in edges]
        if self.random.random() < 0.8:
            for one in anchors:
                self.ack(one)

    def ack(self, one: Delivery) -> None:
        self.open.remove(one)
        one.opened.finished = True
        home = self.homes[one.worker]
        done = [tree for root, value in one.opened.values.items() if (tree := home.ack(root, value)) is not None]
        home.completed(done)

    def fail(self) -> None:
        one = self.random.choice(self.open)
        self.open.remove(one)
        one.opened.finished = True
        self.guilty |= one.messages
        for root in one.opened.values:
            self.homes[one.worker].fail(root, FAILURE)

    def arrive(self) -> None:
        worker, root, value = self.post.pop(self.random.randrange(len(self.post)))
        home = self.homes[worker]
        if value is None:
            home.fail(root, FAILURE)
        elif (tree := home.ledger.ack(root, value)) is not None:
            home.completed([tree])

    def check(self) -> None:
        """Nothing is done too early, or without a reason to fail."""
        under_way = frozenset[int]().union(*(one.messages for one in self.open))
        assert not under_way & {*self.ends.done}, "done, while something of it is open"
        assert {*self.ends.failed} <= self.guilty, "failed, and nothing of it has"
        assert not {*self.ends.done} & self.guilty, "done, though something of it has failed"


@pytest.mark.parametrize("most_roots", [1, 2, 8])
@pytest.mark.parametrize("failures", [0.0, 0.03])
def test_a_message_is_done_when_nothing_that_descends_from_it_is_open_a1_a16(failures: float, most_roots: int) -> None:
    begun = 0
    for seed in range(120):
        run = Run(seed, most_roots)
        print(f"seed {seed}")
        for _ in range(120):
            chance = run.random.random()
            if chance < 0.25:
                run.begin()
            elif chance < 0.6:
                run.join()
            elif chance < 0.6 + failures and run.open:
                run.fail()
            elif chance < 0.8 and run.open:
                run.ack(run.random.choice(run.open))
            elif run.post:
                run.arrive()
            run.check()
        while run.open or run.post:
            run.ack(run.random.choice(run.open)) if run.open else run.arrive()
        run.check()
        assert sorted(run.ends.done) == sorted({*range(run.messages)} - run.guilty), "each once"
        assert sorted(run.ends.failed) == sorted(run.guilty), "each once"
        assert not any(len(home.ledger) or home.subtrees.open for home in run.homes)
        begun += sum(home.subtrees.begun for home in run.homes)
    assert begun > 100, "sub-trees were reached"
