"""Sub-trees: what is anchored to more trees than a tuple may name begins one of its own, in this worker's ledger (A16).

A summary of 600 inputs belongs to 600 trees, and so would each ack below it. In place of that its tuples have one root,
a *sub-root*, and each of the inputs' trees gets one edge for all of it, as if one tuple had been emitted (A1). When the
sub-tree is done, that edge is acked to all of them; when it fails, they all fail, for its reason. It dies with its
worker as any ledger does. Must not know what is emitted, nor what a message is.
"""

from collections.abc import Iterable
from typing import Any, Final, Protocol

from acker.frontier import HOME_SHIFT, Decided, home_of
from acker.identity import derive, salt
from acker.ledger import Ledger, Tree
from acker.roots import LAST_ATTEMPT, NUMBER_SHIFT, WORKER_SHIFT, RootSource, message_of
from topology.codes.tuples import TOO_MANY_OPEN_JOINS
from topology.components import Clock
from topology.errors import EmitError
from topology.runtime.failures import Failure
from topology.runtime.tasks.interfaces import TreeOwner

KEPT_MAX: Final = 1 << 16  # sub-trees of a worker that are open, or that a task may remember; beyond that, emit raises
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
    """The `TreeOwner` of the sub-trees of one component."""

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
    """Those of one worker. `open` are under way; `remembers`: whether the topology has bolts that know their inputs
    until a decided frontier has them. A sub-root is in a frontier once a decided one has all messages that it stands
    for."""

    def __init__(self, home: SubTreeHost, decided: Decided, *, remembers: bool) -> None:
        self.open: dict[int, SubTree] = {}
        self.begun = 0  # so far; it only grows
        self._home = home
        self._decided = decided
        self._remembers = remembers
        self._branches: dict[str, Branch] = {}
        self._inputs: dict[int, list[int]] = {}  # message of a sub-root → those of its inputs that may not be decided
        self._unsure: dict[int, int] = {}  # `gathered` as it began, until it is known that all those lives go on
        self._lost: set[int] = set()  # messages of sub-roots that stand for a message of a life that is over
        self._lost_in_one: set[int] = set()  # those of them that one decided frontier has
        self._lost_seen = 0  # the last decided checkpoint whose frontier was looked at for that

    # -- an emission

    def root(self) -> int:
        """A root for a sub-tree that may begin. Raises EmitError where there are too many."""
        if max(len(self.open), len(self._inputs)) >= KEPT_MAX:
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
            messages = [message_of(input_root) for input_root in inputs]
            if any(
                map(self._decided.is_over, messages)
            ):  # a bolt has held its input for longer than its home has lived
                self._lost.add(message_of(root))
            else:
                self._inputs[message_of(root)] = messages
                self._unsure[message_of(root)] = self._decided.gathered
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

    # -- frontiers

    def note(self) -> tuple[set[int], frozenset[int]]:
        """Return the messages of sub-trees that are not in the frontier which is noted now, and those among them that
        never will be: others must go by the names of what they know of these."""
        self._drop_decided()
        self._look_at_lives()
        self._drop_lost()
        return self._lost.union(self._inputs), frozenset(self._lost)

    def _look_at_lives(self) -> None:
        """Give up what stands for a message of a life that was over before this worker began: it hears of no such end.
        Two decided frontiers after a sub-tree has begun, these say which lives there are."""
        decided = self._decided
        for message, begun_at in [*self._unsure.items()]:
            if begun_at + 1 < decided.frontier.checkpoint:
                del self._unsure[message]
                if decided.is_earlier(self._inputs[message], begun_at):
                    self._lose(message)

    def _lose(self, message: int) -> None:
        del self._inputs[message]
        self._unsure.pop(message, None)
        self._lost.add(message)

    def _drop_lost(self) -> None:
        """Forget what two decided frontiers have. After the first one all workers refuse tuples of these sub-trees.
        What a worker has taken of them until then is in the snapshot of the second one, and in no log after that."""
        frontier = self._decided.frontier
        if frontier.checkpoint != self._lost_seen:
            self._lost_seen = frontier.checkpoint
            self._lost -= self._lost_in_one & frontier.lost
            self._lost_in_one = self._lost & frontier.lost

    def life_ends(self, owner: int) -> None:
        """The life of this owner is over: its messages come again under other numbers, but for those that a decided
        frontier has. It may have taken other owners; all messages of its home are of that life, or of one before."""
        self._drop_decided()
        home = home_of(owner)
        for message, inputs in [*self._inputs.items()]:
            if any(input_message >> HOME_SHIFT == home for input_message in inputs):
                self._lose(message)

    def _drop_decided(self) -> None:
        has = self._decided.frontier.has
        for message, inputs in [*self._inputs.items()]:
            while inputs and has(inputs[-1]):
                inputs.pop()
            if not inputs:
                del self._inputs[message]
                self._unsure.pop(message, None)
                self._abandon(message << NUMBER_SHIFT | LAST_ATTEMPT)

    def _abandon(self, root: int) -> None:
        """Give up a sub-tree that is under way though its inputs are done, by later attempts: its tuples are stale."""
        if root in self.open:
            del self.open[root]
            self._home.ledger.fail(root)
