"""The ledger against a plain model, over random topologies: a tree is done exactly when nothing of it is open (A1).

The model keeps, for each tree, the set of its open deliveries: sent and not yet acked. It knows no XOR. The real ledger
is fed as the runtime feeds it: identities and edges by `acker.identity`, values by `acker.anchoring`.

A topology is drawn first: layers of components with one to three tasks, each reading some of the layers above through
groupings with one target or with all tasks. Then messages begin; bolts work tuples off, or hold them, join them over
several trees, emit, ack and fail; late acks come again, time passes, a worker dies.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import xor

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from acker.anchoring import MAX_ROOTS, OpenTuple, distinct, register, roots_of
from acker.identity import copy_of, derive, edge, edge_tag, message_pair, mixed, partition_seed, salt
from acker.ledger import Ledger, Tree
from acker.roots import RootSource
from topology.runtime.hot.open_trees import OpenTrees

T = 10.0  # tree_timeout_s
TURN_S = 0.5
HARD_CAP = 3
SEED = partition_seed("model", "spout", "", "1")


@dataclass(frozen=True)
class Reading:
    """One component's subscription to the stream of another."""

    index: int
    reader: int
    to_all: bool

    @property
    def tag(self) -> int:
        return edge_tag(self.index)


@dataclass(eq=False)
class Delivery:
    """One tuple at one task: in its queue or held by its bolt, which is the same to the ledger."""

    component: int
    task: int
    identity: int
    edge: int
    roots: tuple[int, ...]
    opened: OpenTuple
    ordinals: dict[frozenset[int], int] = field(default_factory=dict)


class LedgerAgainstSets(RuleBasedStateMachine):
    """Rules are what happens in a run; invariants compare the ledger with the model after each of them."""

    @initialize(data=st.data(), layers=st.integers(2, 4))
    def declare(self, data: st.DataObject, layers: int) -> None:
        """Draws the topology. Component 0 is the spout; the last one emits to nobody."""
        self.tasks = [1, *(data.draw(st.integers(1, 3), label=f"tasks of {n}") for n in range(1, layers + 1))]
        self.readings: list[list[Reading]] = [[] for _ in self.tasks]
        for reader in range(1, layers + 1):
            others = st.sets(st.integers(0, reader - 1), min_size=1)
            for emitter in sorted(data.draw(others, label=f"what {reader} reads")):
                reading = Reading(len(self.readings[emitter]), reader, data.draw(st.booleans(), label="to all"))
                self.readings[emitter].append(reading)

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.ledger: Ledger[Tree] = Ledger(T, now=0.0, hard_cap=HARD_CAP, table=OpenTrees)
        self.source = RootSource(1, 1, lambda: 2)
        self.messages = 0
        self.waiting: list[Delivery] = []  # not yet acked or failed, whether their trees are open or not
        self.open: dict[int, set[Delivery]] = {}  # the model: root → its open deliveries
        self.progress: dict[int, float] = {}
        self.touched: set[int] = set()
        self.sent: list[tuple[int, int]] = []  # acks that have left
        self.unknown = 0

    # -- what happens

    @precondition(lambda self: len(self.open) < 20)
    @rule(data=st.data(), count=st.integers(1, 3))
    def begin(self, data: st.DataObject, count: int) -> None:
        """The spout emits messages."""
        for _ in range(count):
            self.messages += 1
            root = self.source.next_root()
            _, identity = message_pair(self.messages, SEED)
            deliveries = self.deliveries(data, 0, identity, (root,))
            self.ledger.begin(Tree(root, reduce(xor, (one.edge for one in deliveries))))
            self.open[root] = set(deliveries)
            self.progress[root] = self.now

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), emissions=st.integers(1, 3))
    def work(self, data: st.DataObject, emissions: int) -> None:
        """The commonest case: a bolt takes an input, emits for it and acks it."""
        one = data.draw(st.sampled_from(self.waiting), label="input")
        for _ in range(emissions):
            self.emitted(data, (one,))
        self.acked(one)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), emissions=st.integers(1, 3), acks=st.booleans(), same_tree=st.booleans())
    def join(self, data: st.DataObject, emissions: int, acks: bool, same_tree: bool) -> None:
        """A task emits, anchored to several tuples that it holds; one of them may be given twice (A2)."""
        holders: dict[tuple[int, int, int], list[Delivery]] = defaultdict(list)
        for one in self.waiting:
            for root in one.roots if same_tree else (0,):
                holders[one.component, one.task, root].append(one)
        groups = sorted(holders.values(), key=len)[-4:]  # where there is something to join
        mates = data.draw(st.sampled_from(groups or [self.waiting[:1]]), label="held by one task")
        given = data.draw(st.lists(st.sampled_from(mates), min_size=1, max_size=5), label="anchors")
        for _ in range(emissions):
            self.emitted(data, distinct(given))
        if acks:
            for one in dict.fromkeys(given):
                self.acked(one)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), identity=st.integers(1, (1 << 64) - 1))
    def emit_unanchored(self, data: st.DataObject, identity: int) -> None:
        """A17: what belongs to no tree takes no part in any, but can be an anchor beside others."""
        component = data.draw(st.sampled_from(self.waiting), label="emitter").component
        self.deliveries(data, component, identity, ())

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), count=st.integers(1, 12))
    def ack(self, data: st.DataObject, count: int) -> None:
        """Inputs are done, in any order, without further emissions."""
        for _ in range(min(count, len(self.waiting))):
            self.acked(data.draw(st.sampled_from(self.waiting), label="acked"))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """An input fails: all of its trees end, their other tuples live on and are acked in vain."""
        one = data.draw(st.sampled_from(self.waiting), label="failed")
        self.waiting.remove(one)
        one.opened.finished = True
        for root in one.roots:
            failed = self.ledger.fail(root)
            assert (failed is not None) == (root in self.open)
            self.unknown += root not in self.open
            self.close(root)

    @precondition(lambda self: any(root not in self.open for root, _ in self.sent))
    @rule(data=st.data())
    def repeat_a_late_ack(self, data: st.DataObject) -> None:
        """A4: an ack of a tree that has ended comes again."""
        late = [(root, value) for root, value in self.sent if root not in self.open]
        assert self.ledger.ack(*data.draw(st.sampled_from(late), label="repeated")) is None
        self.unknown += 1

    @precondition(lambda self: self.open)
    @rule(turns=st.integers(1, 30), paused=st.booleans())
    def pass_time(self, turns: int, paused: bool) -> None:
        """A8, A9: no tree ends before T of silence, untouched ones soon after 2 T unless a spout was paused, and all of
        them by the hard cap."""
        if paused:
            self.touched |= set(self.open)
        for _ in range(turns):
            self.now += TURN_S
            if paused:
                self.ledger.shift(TURN_S)
            for tree in self.ledger.advance(self.now):
                assert tree.root in self.open
                assert self.now - self.progress[tree.root] >= T
                self.close(tree.root)
        for root in self.open:
            silence = self.now - self.progress[root]
            assert silence < (2 * T + 2 * TURN_S if root not in self.touched else (HARD_CAP + 2) * (T + TURN_S))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        """A9: an executor touches the trees of what waits."""
        for root in data.draw(st.sampled_from(self.waiting), label="touched").roots:
            self.ledger.touch(root)
            self.unknown += root not in self.open
            self.touched.add(root)

    @precondition(lambda self: len(self.open) > 5)
    @rule()
    def a_worker_dies(self) -> None:
        """A11: all trees fail, the oldest first; what is in flight lives on."""
        assert [tree.root for tree in self.ledger.fail_all()] == sorted(self.open)
        self.open.clear()

    # -- what always holds

    @invariant()
    def the_ledger_has_the_trees_that_have_open_tuples(self) -> None:
        assert all(self.open.values())
        assert {tree.root for tree in self.ledger.trees()} == set(self.open)
        assert len(self.ledger) == len(self.open)
        assert self.ledger.unknown == self.unknown
        assert self.ledger.stalls == 0

    @invariant()
    def every_value_is_that_of_the_tuples_that_are_open(self) -> None:
        """The books balance: a tree's value is the XOR of what those who hold or carry its tuples will send."""
        for tree in self.ledger.trees():
            owed = (one.opened.values[tree.root] for one in self.open[tree.root])
            assert tree.value == reduce(xor, owed)

    @invariant()
    def no_edge_is_open_twice_in_a_tree(self) -> None:
        """A18."""
        for deliveries in self.open.values():
            assert len({one.edge for one in deliveries}) == len(deliveries)

    # -- what the rules are made of

    def deliveries(self, data: st.DataObject, component: int, identity: int, roots: tuple[int, ...]) -> list[Delivery]:
        """The tuples of one emission, at the tasks that the groupings choose."""
        found = []
        for reading in self.readings[component]:
            tasks: Iterable[int] = range(self.tasks[reading.reader])
            if not reading.to_all:
                tasks = [data.draw(st.sampled_from(list(tasks)), label="task")]
            for copy, task in enumerate(tasks):
                own = copy_of(identity, copy)
                value = edge(own, reading.tag)
                found.append(Delivery(reading.reader, task, own, value, roots, OpenTuple(roots, value)))
        self.waiting += found
        return found

    def emitted(self, data: st.DataObject, anchors: tuple[Delivery, ...]) -> None:
        """One emission, named and registered as by the collector of `execute`."""
        opened = [one.opened for one in anchors]
        roots = roots_of(opened)
        if len(roots) > MAX_ROOTS:
            return  # refused there
        parents = [one.identity for one in anchors]
        holder = min(anchors, key=lambda one: one.identity)
        k = holder.ordinals.get(frozenset(parents), 0)
        holder.ordinals[frozenset(parents)] = k + 1
        parent = parents[0] if len(parents) == 1 else mixed(parents)
        component = anchors[0].component
        for delivery in self.deliveries(data, component, derive(parent, salt(str(component), "Record") + k), roots):
            register(opened, delivery.edge)
            for root in roots:
                if root in self.open:
                    self.open[root].add(delivery)

    def acked(self, one: Delivery) -> None:
        """One value leaves for each root; the tree is done exactly when its set is empty."""
        self.waiting.remove(one)
        one.opened.finished = True
        for root, value in one.opened.values.items():
            self.sent.append((root, value))
            done = self.ledger.ack(root, value)
            if root not in self.open:
                self.unknown += 1
                assert done is None, "a tree that had ended was done once more"
                continue
            self.open[root].remove(one)
            self.progress[root] = self.now
            self.touched.discard(root)
            if self.open[root]:
                assert done is None, f"tree {root:#x} was done with {len(self.open[root])} tuples open"
            else:
                assert done is not None, f"tree {root:#x} is still open, though nothing of it is"
                assert done.root == root
                self.close(root)

    def close(self, root: int) -> None:
        self.open.pop(root, None)
        self.touched.discard(root)


TestLedgerAgainstSets = LedgerAgainstSets.TestCase
TestLedgerAgainstSets.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
