"""What of a topology Spark can't run, told in one go with reasons, and how the rest becomes stages."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Never

import pytest
from engine_topology import Keyed, Numbered, Odd, topology

from bridge.engine.engine import ENGINE
from bridge.engine.mapping import Stage, mapped
from spouts import Items
from topology import Bolt, Collector, Record, State, Topology, Tuple
from topology.cli.engines import check
from topology.errors import ConfigurationError
from topology.groupings import Grouping


class Choosing(Grouping):
    def choose(self, record: Any, tasks: int) -> Sequence[int]:
        return (0,)


class Naming(Bolt):
    def execute(self, tup: Tuple[Numbered], out: Collector[Odd]) -> None:
        out.emit(Odd(tup.record.number), task=0)
        out.ack(tup)


class Remembering(Bolt):
    def __init__(self) -> None:
        self.seen: dict[int, int] = {}

    def process(self, given: Numbered) -> Iterator[Odd]:
        self.seen[given.number] = self.seen.get(given.number, 0) + 1
        yield Odd(self.seen[given.number])


class Split(Remembering):
    may_be_split = True


class Chancy(Bolt):
    deterministic = False

    def process(self, given: Numbered) -> Iterator[Odd]:
        yield Odd(given.number)


class Flushing(Bolt):
    def process(self, given: Numbered) -> Iterator[Odd]:
        yield Odd(given.number)

    def flush(self, out: Collector[Odd]) -> None:
        out.emit(Odd(0))


class Ticking(Bolt):
    def process(self, given: Numbered) -> Iterator[Odd]:
        yield Odd(given.number)

    def tick(self, now: datetime) -> Iterator[Odd]:
        yield Odd(0)


class Counting(Bolt):
    def process(self, given: Numbered, state: State[int]) -> Iterator[Odd]:
        state.set(state.get(0) + 1)
        yield Odd(given.number)


class Taking(Bolt):
    """A sink that holds tuples."""

    def execute(self, tup: Tuple[Record], out: Collector[Never]) -> None:
        out.ack(tup)


def read() -> tuple[Topology, Any]:
    one = Topology("refused")
    return one, one.spout("numbers", Items([Numbered(1)]))


def told(one: Topology) -> list[str]:
    one.validate()
    return [mistake.text for mistake in ENGINE.mistakes(one)]


@pytest.mark.parametrize(
    ("bolt", "said"),
    [
        (
            Naming(),
            "'it': Naming has `execute`, which may hold a tuple and ack it later, but on Spark an input is done when",
        ),
        (Remembering(), "'it': Remembering keeps self.seen from record to record, but Spark runs any number of copies"),
        (Chancy(), "'it': Chancy.deterministic is False, but Spark may compute a batch again"),
        (Flushing(), "'it': Flushing has `flush`, but on Spark no task knows that its input has ended; use timers"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_bolt_that_needs_its_own_task_is_refused_with_what_to_do(bolt: Any, said: str) -> None:
    one, numbers = read()
    made = one.bolt("it", bolt, numbers.shuffle())
    one.bolt("sink", Taking(), made.shuffle())
    (text,) = told(one)
    assert text.startswith(said)


def test_a_bolt_that_ticks_is_refused() -> None:
    one, numbers = read()
    one.bolt("it", Ticking(), numbers.shuffle(), every="1s")
    assert "'it': every='1s' calls Ticking.tick, but a micro-batch has no ticks" in told(one)[0]


def test_what_can_not_be_mapped_is_told_in_one_go_at_the_lines_of_its_inputs() -> None:
    one, numbers = read()
    named = one.bolt("naming", Naming(), numbers.shuffle())
    one.bolt("direct", Counting(), numbers.global_())
    one.bolt("read", Taking(), named.direct())
    one.bolt("chosen", Taking(), numbers.custom(Choosing()))
    one.bolt("letters", Taking(), numbers.dead.shuffle())
    with pytest.raises(ConfigurationError) as caught:
        check(one, "spark")
    lines = [line.strip() for line in str(caught.value).splitlines()]
    assert lines[0] == "topology 'refused' can't run on spark:"
    said = ["'naming': Naming has `execute`", "naming.direct()", "numbers.custom(Choosing)", "numbers.dead.shuffle()"]
    assert len(lines) == 1 + len(said)
    for line, wanted in zip(lines[1:], said, strict=True):
        assert line.startswith(f"{__file__}:")
        assert wanted in line
        assert line.endswith("(K247)")


def test_a_bolt_that_may_be_split_keeps_what_it_likes() -> None:
    one, numbers = read()
    one.bolt("sink", Taking(), one.bolt("it", Split(), numbers.shuffle()).shuffle())
    assert told(one) == []


def test_dealt_bolts_run_where_their_input_is_made_and_keys_begin_a_stage_and_sinks_come_last() -> None:
    made = mapped(topology("numbers.db"))
    assert made.stages == (
        Stage(0, ("deal", "twice"), stateful=False),
        Stage(1, ("copied", "count"), stateful=True),
        Stage(2, ("sum",), stateful=True),
    )
    assert made.sinks == ("odd", "store")
    assert made.streams == (("numbers", Numbered),)


def test_sinks_whose_store_any_process_may_write_run_in_sparks_processes() -> None:
    """C4."""
    assert mapped(topology("numbers.db", dsn="dbname=test")).shared == ("store",)
    assert mapped(topology("numbers.db")).shared == ()


def test_no_bolt_runs_in_kedges_workers() -> None:
    """But those that hand over, and that take what was rejected."""
    given = topology("numbers.db")
    derived = ENGINE.derived(given, {})
    derived.validate()
    names = [(one.name, one.kind) for one in derived.components]
    assert names == [("numbers", "spout"), ("numbers-Numbered", "bolt"), ("spark", "spout"), ("rejected", "bolt")]
    assert derived.components[0] is given.components[0]
    assert Keyed not in [cls for one in derived.components for cls in one.streams]
