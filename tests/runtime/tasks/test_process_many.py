"""`process_many`: many records in one call, each emitted, acked and failed for itself."""

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from runtime_kit import Number, line, numbers

from topology import Bolt, DeclarationError, State, Topology
from topology.runtime.tasks.many_executor import ManyExecutor
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Watch, run_bolt, run_topology


class Doubled(Bolt):
    """Number → its double, of odd ones nothing; notes how many came at once."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def process(self, number: Number) -> tuple[Number, ...] | None:
        return None if number.n % 2 else (Number(2 * number.n),)

    def process_many(self, records: Sequence[Number]) -> Any:
        self.calls.append(len(records))
        return [None if record.n % 2 else (Number(2 * record.n),) for record in records]


class OneByOne(Doubled):
    process_many = None  # type: ignore[assignment]


def names_of(bolt: Bolt) -> list[tuple[int, int, int]]:
    topology, captured = line(ScriptedSpout(numbers(500)), bolt)
    report = run_topology(topology, replay_all=True)
    assert report.ended == "ended"
    return sorted((tup.record.n, tup.origin, tup.identity) for tup in captured.tuples)


def test_many_records_come_in_one_call_and_their_outputs_have_the_names_that_process_gives_them() -> None:
    found = names_of(Doubled())
    assert found == names_of(OneByOne())
    assert len({identity for _, _, identity in found}) == 250


@pytest.mark.parametrize("seed", range(3))
def test_each_record_has_its_effect_once_though_workers_die_between_calls(tmp_path: Path, seed: int) -> None:
    """The source rests now and then, as workers die once so many messages are done."""
    script = [part for n, item in enumerate(numbers(2_000)) for part in ([item] if n % 100 else [Pause(0.3), item])]
    topology, captured = line(ScriptedSpout(script), Doubled(), tasks=2)
    crashes = [Crash("bolt", acked=200 * k) for k in (1, 3, 5)]
    report = run_topology(topology, workers=2, seed=seed, crashes=crashes, state_dir=tmp_path)
    assert report.restarts == 3
    named = {(tup.record.n, tup.origin, tup.identity) for tup in captured.tuples}
    assert sorted(n for n, _, _ in named) == [2 * n for n in range(2_000) if n % 2 == 0], "a replay has the same names"


def test_up_to_128_records_come_at_once_and_a_lone_one_comes_at_once_too() -> None:
    calls: list[int] = []

    class Noting(Doubled):
        def process_many(self, records: Sequence[Number]) -> list[Any]:
            calls.append(len(records))
            return super().process_many(records)

    done = run_bolt(Noting(), numbers(500))
    assert len(done.outputs) == 250
    assert sum(calls) == 500
    assert max(calls) > 1
    assert all(count <= 128 for count in calls)
    calls.clear()
    assert run_bolt(Noting(), numbers(1)).outputs == [Number(0)]
    assert calls == [1]


def test_where_it_raises_only_the_cause_fails_and_the_first_exception_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Poisoned(Doubled):
        def process(self, number: Number) -> tuple[Number, ...] | None:
            if number.n == 7:
                raise ValueError("seven")
            return super().process(number)

        def process_many(self, records: Sequence[Number]) -> list[Any]:
            return [self.process(record) for record in records]

    with caplog.at_level(logging.WARNING, "kedge"):
        done = run_bolt(Poisoned(), numbers(100))
    assert [one.record for one in done.failed] == [Number(7)]
    assert sorted(record.n for record in done.outputs) == [2 * n for n in range(0, 100, 2)]
    told = [one.getMessage() for one in caplog.records if "(K630)" in one.getMessage()]
    assert len(told) == 1
    assert "`process_many` of 'bolt' raised ValueError: seven" in told[0]
    assert "test_process_many.py" in told[0], "the user's traceback"
    assert "many_executor.py" not in told[0]


@pytest.mark.parametrize("more", [-1, 1])
def test_with_more_or_fewer_results_than_records_all_of_them_fail(more: int) -> None:
    class Wrong(Doubled):
        def process_many(self, records: Sequence[Number]) -> list[Any]:
            return [None] * (len(records) + more)

    done = run_bolt(Wrong(), numbers(3))
    assert done.outputs == []
    assert len(done.failed) == 3
    assert "did not return one result for each of" in done.failed[0].reason


def test_results_may_come_from_an_iterator_and_one_without_an_end_is_cut_short() -> None:
    class Endless(Doubled):
        def process_many(self, records: Sequence[Number]) -> Any:
            while True:
                yield None

    class Yields(Doubled):
        def process_many(self, records: Sequence[Number]) -> Any:
            yield from super().process_many(records)

    assert len(run_bolt(Endless(), numbers(3)).failed) == 3
    assert sorted(record.n for record in run_bolt(Yields(), numbers(4)).outputs) == [0, 4]


def test_a_result_that_is_no_iterable_fails_its_own_input() -> None:
    class Bare(Doubled):
        def process_many(self, records: Sequence[Number]) -> list[Any]:
            return [record if record.n == 1 else (record,) for record in records]

    done = run_bolt(Bare(), numbers(3))
    assert [one.record for one in done.failed] == [Number(1)]
    assert sorted(record.n for record in done.outputs) == [0, 2]


def test_a_bolt_with_state_or_that_is_async_has_none() -> None:
    class Counts(Bolt):
        def process(self, number: Number, state: State[int]) -> None:
            state.set(state.get(0) + 1)

        def process_many(self, records: Sequence[Number]) -> list[Any]:
            return []

    class Waits(Bolt):
        async def process(self, number: Number) -> list[Number]:
            return [number]

        def process_many(self, records: Sequence[Number]) -> list[Any]:
            return []

    class Threaded(Doubled):
        blocking = True

    for bolt, why in ((Counts(), "has state"), (Waits(), "is async"), (Threaded(), "blocking is True")):
        topology = Topology("wrong")
        source = topology.spout("numbers", ScriptedSpout(numbers(1)))
        topology.bolt("bolt", bolt, source.fields("n"))
        with pytest.raises(DeclarationError, match=f"`process_many`, and {why}"):
            run_topology(topology)


def test_replays_come_in_such_calls_too() -> None:
    class Once(Bolt):
        def __init__(self) -> None:
            self.seen: set[int] = set()

        def process(self, number: Number) -> tuple[Number]:
            if number.n not in self.seen:
                self.seen.add(number.n)
                raise ValueError("once")
            return (number,)

    topology = Topology("again")
    doubled = topology.bolt("doubled", Doubled(), topology.spout("numbers", ScriptedSpout(numbers(40))).shuffle())
    captured = Captured[Number]()
    topology.bolt("captured", captured, topology.bolt("once", Once(), doubled.shuffle()).shuffle())
    watch = Watch()
    report = run_topology(topology, watch=watch)
    assert report.snapshot.spouts["numbers"].replayed == 20
    assert sorted({tup.record.n for tup in captured.tuples}) == [2 * n for n in range(0, 40, 2)]


def test_a_nearer_class_with_a_process_of_its_own_is_not_overridden() -> None:
    class Special(Doubled):
        def process(self, number: Number) -> tuple[Number, ...]:
            return (Number(1_000 * number.n),)

    assert sorted(record.n for record in run_bolt(Special(), numbers(3)).outputs) == [0, 1_000, 2_000]


def test_the_records_are_the_callers_and_can_not_be_changed() -> None:
    kinds: list[type] = []

    class Removes(Doubled):
        def process_many(self, records: Sequence[Number]) -> list[Any]:
            kinds.append(type(records))
            return [(Number(2 * record.n),) for record in records if record.n != 1]

    done = run_bolt(Removes(), numbers(4))
    assert {*kinds} == {tuple}
    assert (done.outputs, len(done.failed)) == ([], 4), "a result is missing: none of them is of a certain record"


def test_a_result_that_must_be_awaited_fails_its_own_input_and_nothing_is_called_again() -> None:
    calls: list[int] = []

    class Later:
        def __await__(self) -> Iterator[None]:
            yield

    class Waits(Doubled):
        def process_many(self, records: Sequence[Number]) -> list[Any]:
            calls.append(len(records))
            return [Later() if record.n % 10 == 0 else (record,) for record in records]

    done = run_bolt(Waits(), numbers(50))
    assert sum(calls) == 50
    assert [one.record.n for one in done.failed] == [0, 10, 20, 30, 40]
    assert "which must be awaited" in done.failed[0].reason


def test_with_calls_that_take_long_fewer_records_come_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ManyExecutor, "slice_s", 0.001)
    calls: list[int] = []

    class Slow(Doubled):
        def process_many(self, records: Sequence[Number]) -> list[Any]:
            calls.append(len(records))
            time.sleep(0.0005 * len(records))
            return [()] * len(records)

    topology, _ = line(ScriptedSpout(numbers(300)), Slow())
    assert topology.run().exit_status == 0
    assert sum(calls) == 300
    assert max(calls[3:]) < 32
