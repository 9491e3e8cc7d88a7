"""The test kit as users meet it: `run_bolt`, records checked between tasks (B13), divergence (B2), scripted spouts."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from runtime_kit import Doing, Number, Pair, Same, Totals, line, numbers

from acker.identity import MessageId
from topology import Bolt, Collector, Record, RecordError, State, Task, Topology, Tuple
from topology.exact_types import difference
from topology.testing import Captured, Divergence, Pause, ScriptedSpout, check_replays, run_bolt, run_topology


class Colour(Enum):
    RED = "red"


class Everything(Record):
    whole: int = 1
    real: float = 1.5
    text: str = "é"
    raw: bytes = b"\xff"
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    price: Decimal = Decimal("1.50")
    colour: Colour = Colour.RED
    inner: Number = Number(1)  # records are immutable
    many: tuple[Number, ...] = (Number(1), Number(2))
    some: frozenset[int] = frozenset({1, 2})
    perhaps: str | None = None


class Emits(Bolt):
    """Gives one record, whatever it takes."""

    def __init__(self, record: Everything) -> None:
        self.record = record

    def process(self, number: Number) -> Iterator[Everything]:
        yield self.record


def changed(**fields: Any) -> Everything:
    return Everything(**fields)


def test_a_record_with_a_field_of_every_type_passes_unchanged() -> None:
    done = run_bolt(Emits(Everything()), numbers(1))
    assert done.outputs == [Everything()]
    assert run_bolt(Emits(changed(real=float("nan"))), numbers(1)).failed == []


WRONG = {
    "a list for a tuple": changed(many=[Number(1)]),
    "a set for a frozenset": changed(some={1}),
    "an int for a float": changed(real=1),
    "a float for an int": changed(whole=1.0),
    "a bool for an int": changed(whole=True),
    "text for a number": changed(whole="1"),
    "a bytearray": changed(raw=bytearray(b"x")),
    "a lone surrogate": changed(text="\ud800"),
    "a number beyond 64 bits": changed(whole=1 << 70),
    "a time without a zone": changed(at=datetime(2026, 1, 1)),  # noqa: DTZ001  # the mistake that is tested
    "a time of another zone": changed(at=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
    "what no record can carry": changed(text=object()),
    "a record of another class": changed(inner=Pair(1, 2)),
}


@pytest.mark.parametrize("record", WRONG.values(), ids=WRONG)
def test_a_record_that_a_worker_would_not_get_as_it_is_fails_its_input_and_names_the_emitter_B13(
    record: Everything,
) -> None:
    done = run_bolt(Emits(record), numbers(1))
    assert done.outputs == []
    assert isinstance(done.failed[0].error, RecordError)
    assert "'bolt' emitted Everything(" in done.failed[0].reason


def test_a_record_of_a_spout_is_checked_too_and_fails_that_message_alone_B13() -> None:
    wrong: Any = "two"
    spout = ScriptedSpout([Number(1), Number(wrong), Number(3)])
    topology, captured = line(spout, Same())
    report = run_topology(topology, limit_s=300)
    assert sorted(one.n for one in captured.records) == [1, 3]
    assert report.snapshot.spouts["numbers"].dead == 1


def test_each_reader_has_a_record_of_its_own_B13() -> None:
    record, first, second = Everything(), Captured[Everything](), Captured[Everything]()
    topology = Topology("own")
    stream = topology.bolt("emits", Emits(record), topology.spout("numbers", ScriptedSpout(numbers(1))).shuffle())
    topology.bolt("first", first, stream.shuffle())
    topology.bolt("second", second, stream.shuffle())
    run_topology(topology)
    assert first.records == second.records == [record]
    assert first.records[0] is not second.records[0]
    assert record is not first.records[0]


def test_the_difference_is_named_by_its_field() -> None:
    assert difference(Pair(1, 2), Pair(1, 2), "Pair") is None
    assert difference(Everything(), changed(inner=Number(2)), "E") == "E.inner.n holds 1, and comes back as 2"


def test_run_bolt_tells_outputs_acks_failures_and_state() -> None:
    done = run_bolt(Totals(), [Number(1), Number(2), Number(1)], by=("n",), state={1: 10})
    assert done.outputs == [Number(11), Number(1), Number(12)]
    assert done.acked == [Number(1), Number(2), Number(1)]
    assert (done.failed, done.held, done.errors) == ([], [], [])
    assert done.state == {1: 12, 2: 1}


def test_run_bolt_with_a_key_of_several_fields_names_states_by_tuples() -> None:
    class Seen(Bolt):
        def process(self, pair: Pair, state: State[int]) -> None:
            state.set(state.get(0) + 1)

    done = run_bolt(Seen(), [Pair(1, 2), Pair(1, 3), Pair(1, 2)], by=("left", "right"), state={(1, 3): 5})
    assert done.state == {(1, 2): 2, (1, 3): 6}


def test_run_bolt_gives_outputs_by_class() -> None:
    class Two(Bolt):
        def process(self, number: Number) -> Iterator[Number | Pair]:
            yield number
            yield Pair(number.n, number.n)

    done = run_bolt(Two(), numbers(2))
    assert done.of(Pair) == [Pair(0, 0), Pair(1, 1)]
    assert done.of(Number) == numbers(2)


def test_run_bolt_takes_inputs_of_several_classes() -> None:
    class Either(Bolt):
        def process(self, record: Number | Pair) -> Iterator[Number]:
            yield Number(record.n if isinstance(record, Number) else record.left)

    inputs: list[Any] = [Number(1), Pair(2, 3)]
    done = run_bolt(Either(), inputs)
    assert sorted(one.n for one in done.outputs) == [1, 2]


def test_run_bolt_names_what_a_bolt_holds_and_forgets() -> None:
    def holds_odd(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        if tup.record.n % 2 == 0:
            out.ack(tup)

    done = run_bolt(Doing(holds_odd), numbers(4))
    assert done.acked == [Number(0), Number(2)]
    assert done.held == [Number(1), Number(3)]


def test_run_bolt_without_inputs_flushes() -> None:
    class Farewell(Bolt):
        def process(self, number: Number) -> Iterator[Number]:
            yield number

        def flush(self, out: Collector[Number]) -> None:
            out.emit(Number(-1))

    assert run_bolt(Farewell(), []).outputs == [Number(-1)]


def test_run_bolt_gives_the_bolt_a_task_with_virtual_clocks_and_seeded_randomness() -> None:
    class Tells(Bolt):
        def open(self, task: Task) -> None:
            self.task = task

        def process(self, number: Number) -> Iterator[Number]:
            yield Number(int(self.task.clock.monotonic()))
            yield Number(self.task.clock.utc().year)
            yield Number(self.task.random.randrange(1_000_000))

    start = datetime(2031, 1, 1, tzinfo=UTC)
    first = run_bolt(Tells(), [Number(0), Pause(100), Number(0)], start=start, seed=1)
    again = run_bolt(Tells(), [Number(0), Pause(100), Number(0)], start=start, seed=1)
    other = run_bolt(Tells(), [Number(0), Pause(100), Number(0)], start=start, seed=2)
    assert first.outputs == again.outputs != other.outputs
    assert [one.n for one in first.outputs[:2]] == [0, 2031]
    assert first.outputs[3] == Number(100)


def test_a_sink_that_gets_one_key_with_two_records_is_a_divergence_B2() -> None:
    class Changes(Bolt):
        def open(self, task: Task) -> None:
            self.count = 0

        def process(self, number: Number) -> Iterator[Number]:
            self.count += 1
            yield Number(self.count)

    topology, _ = line(ScriptedSpout(numbers(2)), Changes())
    with pytest.raises(Divergence, match="one key with other records"):
        run_topology(topology, replay_all=True)


def test_check_replays_returns_what_the_sink_holds() -> None:
    def make(captured: Captured[Number]) -> Topology:
        topology = Topology("same")
        stream = topology.spout("numbers", ScriptedSpout(numbers(5)))
        topology.bolt("captured", captured, topology.bolt("same", Same(), stream.shuffle()).shuffle())
        return topology

    assert sorted(one.n for one in check_replays(make).values()) == [0, 1, 2, 3, 4]


def test_a_subclass_of_a_scripted_spout_runs_as_what_it_is_in_each_task_and_shares_what_it_was_told() -> None:
    opened: list[int] = []

    class Opened(ScriptedSpout[Number]):
        def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
            opened.append(task.index)
            super().open(task, positions)

    spout, captured = Opened(numbers(4)), Captured[Number]()
    topology = Topology("subclass")
    topology.bolt("captured", captured, topology.spout("numbers", spout, tasks=2).shuffle())
    assert run_topology(topology).exit_status == 0
    assert sorted(opened) == [0, 1]
    assert sorted(one.n for one in captured.records) == [0, 1, 2, 3]
    assert sorted(spout.acked, key=str) == [0, 1, 2, 3]


def test_a_scripted_spout_keeps_to_its_pauses_also_when_its_polls_are_cancelled() -> None:
    topology, captured = line(ScriptedSpout[Number]([Number(0), Pause(1.5), Number(1), Pause(2), Number(2)]), Same())
    run_topology(topology)
    assert captured.times == pytest.approx([0, 1.5, 3.5])


def test_an_assertion_beside_a_run_reaches_the_test() -> None:
    async def wrong(run: Any) -> None:
        raise AssertionError("as the test says")

    topology, _ = line(ScriptedSpout[Number]([Number(0), Pause(100)]), Same())
    with pytest.raises(AssertionError, match="as the test says"):
        run_topology(topology, during=wrong)


class Reminds(Bolt):
    """A timer for in a quarter of an hour."""

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, number: Number, state: State[int]) -> None:
        state.timer(self.clock.utc() + timedelta(minutes=15))

    def on_timer(self, key: tuple[int], name: str, state: State[int]) -> Iterator[Number]:
        yield Number(key[0])


def test_the_time_that_inputs_take_is_as_long_as_a_test_of_timers_wants_it() -> None:
    assert run_bolt(Reminds(), [Number(1), Pause(899)], by=("n",)).well().outputs == []
    assert run_bolt(Reminds(), [Number(1), Pause(901)], by=("n",)).well().outputs == [Number(1)]
