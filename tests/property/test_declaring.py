"""Random declarations: right ones validate and plan, wild ones never raise, and identities do not see who reads (B1).

Emissions go through the runtime's own outboxes, so that what is proved is what is sent.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from acker.identity import copy_of, edge
from topology import Bolt, Collector, DeclarationError, Grouping, Message, Record, Spout, Topology, Tuple
from topology.checks.declaration import mistakes, warnings
from topology.core.source import Source
from topology.plan import plan
from topology.runtime.tasks.outbox import outbox_of
from topology.testing import Captured, ScriptedSpout, run_topology


class A(Record):
    n: int
    text: str = ""


class B(Record):
    n: int
    text: str = ""


class Source1(Spout):
    async def poll(self, limit: int) -> list[Message[A]]:
        return []


class Source2(Spout):
    async def poll(self, limit: int) -> list[Message[A | B]]:
        return []


class OnlyA(Bolt):
    def process(self, record: Record) -> Iterator[A]:
        yield A(1)


class AandB(Bolt):
    def process(self, record: Record) -> Iterator[A | B]:
        yield A(1)


class Alike(Bolt):
    def execute(self, tup: Tuple[Record], out: Collector[B]) -> None:
        out.ack(tup)


class Guess(OnlyA):
    deterministic = False


class Sink(Bolt):
    def process(self, record: Record) -> None:
        """Takes anything."""


class Some(Grouping):
    """Chooses a number of tasks that changes from call to call."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = deque(counts)

    def choose(self, record: Any, tasks: int) -> Sequence[int]:
        self.counts.rotate(-1)
        return range(min(self.counts[0], tasks))


GROUPINGS = ("shuffle", "local_or_shuffle", "fields", "partial_key", "all", "global_", "custom")
KEPT_BY_REPLAYS = ("shuffle", "local_or_shuffle", "fields", "global_")
EMITS: dict[type, tuple[type[Record], ...]] = {
    Source1: (A,),
    Source2: (A, B),
    OnlyA: (A,),
    Guess: (A,),
    AandB: (A, B),
    Alike: (B,),
    Sink: (),
}
TASKS = st.integers(1, 5)


def read(draw: st.DrawFn, handle: Any, kind: type[Bolt]) -> Any:
    """An input of a stream, by some grouping."""
    grouping = draw(st.sampled_from(KEPT_BY_REPLAYS if kind is Guess else GROUPINGS))
    arguments: dict[str, Any] = {
        "fields": draw(st.sampled_from([("n",), ("text",), ("text", "n")])),
        "partial_key": ("n",),
        "custom": (Some([1, 2]),),
    }
    return getattr(handle, grouping)(*arguments.get(grouping, ()))


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Right ones: several spouts, bolts that read any of the streams before them, and a sink that reads every spout."""
    topology: Any = Topology("random")
    streams: list[Any] = []

    def add(handle: Any, kind: type) -> None:
        streams.extend(handle[cls] for cls in EMITS[kind])

    for number in range(draw(st.integers(1, 3))):
        spout = draw(st.sampled_from([Source1, Source2]))
        add(topology.spout(f"spout{number}", spout(), tasks=draw(TASKS)), spout)
    first = list(streams)
    for number in range(draw(st.integers(0, 6))):
        bolt = draw(st.sampled_from([OnlyA, AandB, Alike, Guess, Sink]))
        chosen = draw(st.lists(st.sampled_from(streams), min_size=1, max_size=4, unique_by=id))
        inputs = [read(draw, handle, bolt) for handle in chosen]
        add(topology.bolt(f"bolt{number}", bolt(), *inputs, tasks=draw(TASKS)), bolt)
    topology.bolt("last", Sink(), *(read(draw, handle, Sink) for handle in first), tasks=draw(TASKS))
    declared: Topology = topology
    return declared


@given(topologies(), st.integers(1, 4))
def test_a_right_topology_validates_and_its_plan_is_in_order_and_whole(topology: Topology, workers: int) -> None:
    assert mistakes(topology) == warnings(topology) == []
    planned = plan(topology, workers)
    names = list(planned.components)
    assert sorted(names) == sorted(one.name for one in topology.components)
    for one in planned.subscriptions:
        assert names.index(one.emitter) < names.index(one.subscriber)
    tasks = {(one.name, task) for one in topology.components for task in range(one.tasks)}
    assert set(planned.placement) == tasks
    assert set(planned.placement.values()) <= set(range(workers))
    assert plan(topology, workers) == planned


@given(topologies())
def test_subscriptions_of_a_stream_are_numbered_without_gaps_and_have_tags_of_their_own(topology: Topology) -> None:
    planned = plan(topology)
    assert len(planned.subscriptions) == sum(len(one.inputs) for one in topology.components)
    streams = defaultdict(list)
    for one in planned.subscriptions:
        streams[one.emitter, one.cls].append(one)
    for readers in streams.values():
        assert [one.index for one in readers] == list(range(len(readers)))
        assert len({one.tag for one in readers}) == len(readers)


# -- wild declarations

wild: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2000),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
    st.sampled_from(
        [A, B, A(1), Source1, Source1(), OnlyA, OnlyA(), Sink(), Guess(), Alike(), Some([1]), Some, Record]
    ),
    st.sampled_from(
        [Bolt(), Spout(), object(), print, len, lambda x: x, Ellipsis, "lines", ("n",), {1}, 10**30, "10s"]
    ),
)


@st.composite
def messes(draw: st.DrawFn) -> Any:
    """Declared in any way that Python lets through, inputs made of handles in any way too."""
    topology: Any = Topology(draw(wild), draw(wild))
    handles: list[Any] = [topology.spout("lines", Source2())]
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            handles.append(topology.spout(draw(wild), draw(wild), tasks=draw(wild)))
            continue
        inputs: list[Any] = []
        for _ in range(draw(st.integers(0, 3))):
            handle = draw(st.sampled_from(handles))
            if draw(st.booleans()):
                handle = handle[draw(wild)]
            method = draw(
                st.sampled_from(["", "fields", "partial_key", "custom", "shuffle", "direct", "all", "global_"])
            )
            if method in ("fields", "partial_key", "custom"):
                inputs.append(getattr(handle, method)(draw(wild)))
            else:
                inputs.append(getattr(handle, method)() if method else draw(st.one_of(wild, st.just(handle))))
        options = {name: draw(wild) for name in draw(st.sets(st.sampled_from(["tasks", "concurrency", "every"])))}
        handles.append(topology.bolt(draw(wild), draw(wild), *inputs, **options))
    return topology


@given(messes())
@settings(max_examples=300)
def test_no_declaration_ever_raises_and_its_mistakes_are_sentences_with_a_place(topology: Any) -> None:
    found = mistakes(topology)
    assert warnings(topology) is not None
    for mistake in found:
        assert mistake.file == __file__
        assert mistake.line > 0
        assert mistake.text
        assert "\n" not in mistake.text
    assert [mistake.line for mistake in found] == sorted(mistake.line for mistake in found)
    assert str(DeclarationError("x", found)).count("\n") == max(len(found), 1)


# -- identities (B1)


@dataclass
class Emitted:
    """What readers got of one input's emissions: (subscriber, tuple) in the order in which they left."""

    value: int = 0
    deliveries: list[tuple[str, Any]] = field(default_factory=list)

    def copies(self, subscriber: str, cls: type[Record]) -> dict[int, list[int]]:
        """Number of the record → the identities of its copies, in order."""
        found: dict[int, list[int]] = {}
        for name, tup in self.deliveries:
            n: int = tup.record.n
            if name == subscriber and type(tup.record) is cls:
                found.setdefault(n, []).append(tup.identity)
        return found


class Log:
    """A queue that notes what comes, beside all others."""

    def __init__(self, emitted: Emitted, subscriber: str) -> None:
        self.emitted, self.subscriber = emitted, subscriber

    def append(self, tup: Tuple[Any], /) -> None:
        self.emitted.deliveries.append((self.subscriber, tup))

    def extend(self, tuples: list[Tuple[Any]], /) -> None:
        for tup in tuples:
            self.append(tup)


def emitted_by(records: Sequence[Record], identity: int, readers: Sequence[tuple[str, Any, int]]) -> Emitted:
    """What AandB emits for one input, read by these: (stream, grouping, tasks) each."""
    topology: Any = Topology("emitting")
    emitting = topology.bolt("emitting", AandB(), topology.spout("spout", Source1()).shuffle())
    for number, (stream, (grouping, *arguments), tasks) in enumerate(readers):
        handle = emitting[{"A": A, "B": B}[stream]]
        topology.bolt(f"reader{number}", Sink(), getattr(handle, grouping)(*arguments), tasks=tasks)
    topology.validate()
    emitted = Emitted()
    outbox = outbox_of(plan(topology), "emitting", 0, lambda name, task: Log(emitted, name), Random(1))
    emitted.value = outbox.emit(records, Tuple(A(0), 7, identity, 5, (), Source("spout", "A")))
    return emitted


emissions = st.lists(st.sampled_from([A, B]), max_size=8).map(lambda kinds: [cls(n) for n, cls in enumerate(kinds)])
identities = st.integers(1, 2**64 - 1)
some_readers = st.lists(
    st.tuples(
        st.sampled_from("AB"),
        st.one_of(
            st.sampled_from([("shuffle",), ("local_or_shuffle",), ("all",), ("global_",), ("fields", "n")]),
            st.just(("partial_key", "n")),
            st.lists(st.integers(0, 5), min_size=1, max_size=4).map(lambda counts: ("custom", Some(counts))),
        ),
        TASKS,
    ),
    max_size=5,
)


@given(emissions, identities, some_readers)
def test_who_reads_how_and_in_how_many_tasks_changes_no_identity_B1(
    records: list[Any], identity: int, readers: list[Any]
) -> None:
    alone = emitted_by(records, identity, [("A", ("global_",), 1), ("B", ("global_",), 1)])
    among = emitted_by(records, identity, readers)
    for number, (stream, *_) in enumerate(readers):
        cls = {"A": A, "B": B}[stream]
        expected = alone.copies("reader0" if cls is A else "reader1", cls)
        for n, copies in among.copies(f"reader{number}", cls).items():
            (own,) = expected[n]
            assert copies == [copy_of(own, copy) for copy in range(len(copies))]


@given(emissions, identities, some_readers)
def test_no_edge_comes_twice_and_what_is_acked_is_what_left_A1_A18(
    records: list[Any], identity: int, readers: list[Any]
) -> None:
    emitted = emitted_by(records, identity, readers)
    edges = [edge(tup.identity, tup.source.tag) for _, tup in emitted.deliveries]
    assert len({*edges, identity}) == len(edges) + 1
    value = 0
    for one in edges:
        value ^= one
    assert value == emitted.value


@given(emissions, identities, st.integers(0, 8))
def test_each_stream_counts_its_own_emissions_B1(records: list[Any], identity: int, more: int) -> None:
    readers: list[Any] = [("A", ("global_",), 1), ("B", ("global_",), 1)]
    before = emitted_by(records, identity, readers)
    after = emitted_by([*records, *(B(100 + n) for n in range(more))], identity, readers)
    assert before.copies("reader0", A) == after.copies("reader0", A)
    assert before.copies("reader1", B).items() <= after.copies("reader1", B).items()


class Tapped(Bolt):
    """For each input emits as its script says: True anchored, False unanchored."""

    def __init__(self, script: Sequence[bool]) -> None:
        self.script = tuple(script)

    def execute(self, tup: Tuple[A], out: Collector[A | B]) -> None:
        anchored = 0
        for one in self.script:
            if one:
                anchored += 1
                out.emit(A(anchored))
            else:
                out.emit(A(-1), anchors=())
        out.ack(tup)


def anchored_identities(script: Sequence[bool]) -> dict[int, int]:
    """Number of the anchored emission → its identity, with every tree acked."""
    captured: Captured[A] = Captured()
    topology = Topology("tapped")
    numbers = topology.spout("numbers", ScriptedSpout([A(0)]))
    tapped = topology.bolt("tapped", Tapped(script), numbers.shuffle())
    topology.bolt("captured", captured, tapped[A].shuffle())
    report = run_topology(topology, seed=1)
    assert report.snapshot.total("acked") == 1
    assert len(captured.tuples) == len(script)
    return {tup.record.n: tup.identity for tup in captured.tuples if tup.record.n > 0}


@given(st.lists(st.booleans(), max_size=8))
@settings(max_examples=25, deadline=None)
def test_unanchored_taps_take_no_part_in_numbering_nor_in_trees_A17(script: list[bool]) -> None:
    assert anchored_identities(script) == anchored_identities([one for one in script if one])
