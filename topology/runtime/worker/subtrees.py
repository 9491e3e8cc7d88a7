"""Sub-trees: what is anchored to more trees than a tuple may name begins one of its own, in this worker's ledger (A16).

A summary of 600 inputs belongs to 600 trees, and so would each ack below it. In place of that its tuples have one root,
a *sub-root*, and each of the inputs' trees gets one edge for all of it, as if one tuple had been emitted (A1). When the
sub-tree is done, that edge is acked to all of them; when it fails, they all fail, for its reason. It dies with its
worker as any ledger does. Must not know what is emitted, nor what a message is.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Protocol

from acker.floors import Floors
from acker.identity import derive, salt
from acker.ledger import Ledger, Tree
from acker.roots import LAST_ATTEMPT, NUMBER_SHIFT, WORKER_SHIFT, RootSource, message_of
from topology.codes.tuples import TOO_MANY_OPEN_JOINS
from topology.components import Clock
from topology.errors import EmitError
from topology.runtime.failures import Failure
from topology.runtime.tasks.interfaces import TreeOwner

KEPT_MAX: Final = 1 << 16  # sub-trees of a worker that are open, or that a task may remember; beyond that, emit raises
LOOKED_AT_A_TURN: Final = 500  # of those that are over, at a turn of the housekeeping
EDGE_SALT: Final = salt("sub-tree", "edge")


class SubTree(Tree):
    """A tree whose end is an ack, or a failure, of one edge in each of its inputs' trees."""

    inputs: tuple[int, ...]  # their roots, each once
    edge: int  # in each of them
    owner: TreeOwner  # the Branch of the component that began it
    started_at: float  # loop time
    renamed: tuple[int, ...] = ()  # as of messages; a sub-tree has one attempt and one name


class SubTreeHost(Protocol):
    """The worker, as far as sub-trees see it."""

    @property
    def worker(self) -> int: ...
    @property
    def ledger(self) -> Ledger[Any]: ...
    @property
    def roots(self) -> RootSource: ...
    @property
    def clock(self) -> Clock: ...
    def completed(self, trees: list[Any]) -> None: ...
    def fail(self, root: int, failure: Failure) -> None: ...
    def queued(self, root: int) -> None: ...


class Branch:
    """Where sub-trees of one component end. The `TreeOwner` of its sub-trees."""

    def __init__(self, component: str, subtrees: "SubTrees") -> None:
        self.component = component
        self._subtrees = subtrees

    def completed(self, trees: Iterable[SubTree]) -> None:
        """These whole sub-trees have been processed."""
        for tree in trees:
            self._subtrees.done(tree)

    def failed_tree(self, tree: SubTree, failure: Failure) -> None:
        """The sub-tree has failed, and its inputs with it."""
        self._subtrees.failed(tree, failure)


class SubTrees:
    """Those of one worker. `open` are under way; `remembers`: whether the topology has bolts with state, that remember
    what they had in a tree until it is announced as done."""

    def __init__(self, home: SubTreeHost, floors: Floors, *, remembers: bool) -> None:
        self.open: dict[int, SubTree] = {}
        self.begun = 0  # so far; it only grows
        self._home = home
        self._floors = floors
        self._remembers = remembers
        self._branches: dict[str, Branch] = {}
        self._fresh: dict[int, list[int]] = {}  # message of a sub-root → those of its inputs that may not be stale
        self._stale: set[int] = set()  # those of which all are
        self._over: dict[int, list[int]] = {}  # message of a sub-root → those of its inputs that may not be done
        self._turn: deque[int] = deque()  # those messages, in the order in which they are looked at

    # -- an emission

    def root(self) -> int:
        """A root for a sub-tree that may begin. Raises EmitError where there are too many."""
        if len(self.open) + len(self._over) >= KEPT_MAX:
            text = f"{KEPT_MAX:,} emissions that were anchored to many trees are not done: their inputs' trees are open"
            raise EmitError(text, code=TOO_MANY_OPEN_JOINS)
        return self._home.roots.next_sub_root()

    def begin(self, component: str, root: int, value: int, inputs: tuple[int, ...]) -> int:
        """Opens the sub-tree, before its first tuple leaves. `value` is the XOR of its first edges, and not zero.

        Returns the edge that stands for all of it in its inputs' trees. That is made of the root, which is used once,
        so it occurs in none of them twice (A18).
        """
        branch = self._branches.get(component) or self._branches.setdefault(component, Branch(component, self))
        edge = derive(root, EDGE_SALT)
        tree = SubTree(root, value, inputs, edge, branch, self._home.clock.monotonic())
        self._home.ledger.begin(tree)
        self.open[root] = tree
        self.begun += 1
        if self._remembers:
            self._fresh[message_of(root)] = [message_of(input_root) for input_root in inputs]
        return edge

    # -- what becomes of it

    def done(self, tree: SubTree) -> None:
        """Acks its edge to all of its inputs' trees."""
        self._close(tree)
        ack, edge = self._home.ack, tree.edge  # type: ignore[attr-defined]  # one of two methods, by the number of workers
        done = [whole for root in tree.inputs if (whole := ack(root, edge)) is not None]
        if done:
            self._home.completed(done)

    def failed(self, tree: SubTree, failure: Failure) -> None:
        """Fails all of its inputs' trees that may be open, for the same reason (E6)."""
        self._close(tree)
        home, ledger, mine = self._home, self._home.ledger, self._home.worker
        for root in tree.inputs:
            if root >> WORKER_SHIFT != mine or root in ledger:
                home.fail(root, failure)

    def _close(self, tree: SubTree) -> None:
        del self.open[tree.root]
        if self._remembers:
            message = message_of(tree.root)
            self._over[message] = [message_of(root) for root in tree.inputs]
            self._turn.append(message)

    def touch(self) -> None:
        """Renew the time of the inputs' trees, the hard cap too: the sub-tree has both itself, and they fail with
        it (A9, A19). Called every third of the timeout."""
        ledger, mine = self._home.ledger, self._home.worker
        for tree in self.open.values():
            for root in tree.inputs:
                if root >> WORKER_SHIFT != mine:
                    self._home.queued(root)
                elif root in ledger:
                    ledger.renew(root)

    def holding(self, root: int) -> dict[int, str]:
        """The open sub-trees that this tree waits for, and those that they wait for: root → component."""
        waits: dict[int, list[SubTree]] = {}
        for tree in self.open.values():
            for waiting in tree.inputs:
                waits.setdefault(waiting, []).append(tree)
        found: dict[int, str] = {}
        sought = [root]
        while sought:
            for tree in waits.pop(sought.pop(), ()):
                found[tree.root] = tree.owner.component
                sought.append(tree.root)
        return found

    # -- who may still remember it

    @property
    def not_done(self) -> Iterable[int]:
        """The messages of sub-trees that are over, and that must not be announced as done (D17): an input's message is
        not done, so all may be emitted once more, with the same identities, which bolts with state have to know."""
        return self._over.keys()

    def stale(self) -> frozenset[int]:
        """The messages of sub-trees whose inputs are all stale, as far as others may remember them: no tree waits for
        a tuple of theirs, and one that was held up may be of something that is forgotten (D5). Announced together with
        what was heard, or a home could forget for what was heard and still take it. Looks at each input once."""
        refuses = self._floors.refuses
        for message, inputs in [*self._fresh.items()]:
            while inputs and refuses(inputs[-1]):
                inputs.pop()
            if not inputs:
                del self._fresh[message]
                self._stale.add(message)
                if (tree := self.open.get(message << NUMBER_SHIFT | LAST_ATTEMPT)) is not None:
                    self._home.ledger.fail(tree.root)  # its tuples will be refused, and its inputs' trees are gone
                    self._close(tree)
        return frozenset(self._stale)

    def tidy(self) -> None:
        """Looks at a bounded number of those that are over; lets go of those whose inputs are all done."""
        are_over = self._floors.are_over
        for _ in range(min(LOOKED_AT_A_TURN, len(self._turn))):
            message = self._turn.popleft()
            inputs = self._over[message]
            while inputs and are_over((inputs[-1],) * 2, 0):  # twice: which of them is dead is not known here
                inputs.pop()
            if inputs:
                self._turn.append(message)
            else:
                del self._over[message]
                self._fresh.pop(message, None)
                self._stale.discard(message)
