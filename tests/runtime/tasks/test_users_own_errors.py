"""What is told as an emission that could not go, and what as raised by the user's code: by who has refused what."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from letters_kit import letters_in, run_kept, store_at
from runtime_kit import AsyncPoisoned, Doing, Given, Number, Pair, Poisoned, line, numbers

from bolts import SqliteSink
from topology import (
    Bolt,
    Config,
    ConfigurationError,
    EmitError,
    Grouping,
    KedgeError,
    Record,
    RecordError,
    State,
    Topology,
    TupleStateError,
)
from topology.codes.code import Code
from topology.codes.runtime import USER_CODE_RAISED
from topology.codes.tuples import (
    DUPLICATE_EMIT_KEY,
    MUTABLE_STATE_VALUE,
    PROCESS_RETURNED_NO_ITERABLE,
    TUPLE_ALREADY_FINISHED,
    UNDECLARED_RECORD_CLASS,
)
from topology.runtime.failures import Failure, Reason
from topology.testing import Captured, ScriptedSpout, Watch, run_topology, simulate


class NoSuchTable(KedgeError):
    """A user's own."""


OWN = [
    KedgeError("no such table"),
    NoSuchTable("no such table"),
    ConfigurationError("no such table"),
    EmitError("no such table"),
    RecordError("no such table"),
    TupleStateError("no such table"),
]


class Keeps(Bolt):
    """Raises after it has set its state."""

    def process(self, number: Number, state: State[int]) -> list[Number]:
        state.set(number.n)
        raise NoSuchTable("no such table")


class KeepsLater(Bolt):
    async def process(self, number: Number, state: State[int]) -> list[Number]:
        await asyncio.sleep(0)
        raise NoSuchTable("no such table")


class InMemory(Keeps):
    recovery = "none"


def raises(bolt: Any, tup: Any, out: Any) -> None:
    raise NoSuchTable("no such table")


def only_failure(bolt: Bolt, *, by: str | None = None) -> Failure:
    """Of the one message that such a bolt is given."""
    watch = Watch()
    topology, _ = line(ScriptedSpout(numbers(1)), bolt, config=Config(max_replays=0), by=by)
    run_topology(topology, watch=watch)
    (dead,) = watch.dead
    assert [one.reason for one in watch.failures] == [dead.failure.reason]
    return dead.failure


# -- the user's own


@pytest.mark.parametrize("error", OWN, ids=lambda error: type(error).__name__)
def test_an_error_of_our_classes_that_a_bolt_raises_itself_is_told_as_raised_with_its_frames(error: KedgeError) -> None:
    failure = only_failure(Poisoned(0, lambda: error))
    assert str(failure) == f"raised in 'bolt': {type(error).__name__}: no such table"
    assert failure.code == USER_CODE_RAISED
    told = failure.traceback()
    assert "in process" in told
    assert "executor.py" not in told
    assert told.rstrip().endswith(f"{type(error).__name__}: no such table")


@pytest.mark.parametrize(
    ("bolt", "by"),
    [
        (AsyncPoisoned(0, lambda: NoSuchTable("no such table")), None),
        (Doing(raises), None),
        (Keeps(), "n"),
        (KeepsLater(), "n"),
        (InMemory(), "n"),
    ],
    ids=["asynchronous", "execute", "state", "asynchronous state", "state in memory"],
)
def test_it_is_told_so_by_every_kind_of_executor(bolt: Bolt, by: str | None) -> None:
    failure = only_failure(bolt, by=by)
    assert str(failure) == "raised in 'bolt': NoSuchTable: no such table"
    assert failure.traceback().startswith("Traceback")
    assert "topology/runtime" not in failure.traceback()


def test_what_comes_out_of_a_call_of_ours_that_emits_nothing_is_told_as_raised_and_keeps_its_code() -> None:
    def opens(number: Number) -> list[Number]:
        SqliteSink(":memory:", table="numbers")
        return [number]

    failure = only_failure(Given(opens))
    assert failure.reason is Reason.RAISED
    assert failure.text.startswith("ConfigurationError: SqliteSink: a database in memory is not durable")
    assert str(failure.code) == "K333"
    assert "in opens" in failure.traceback()


class OwnGrouping(Grouping):
    def choose(self, record: Record, tasks: int) -> list[int]:
        raise NoSuchTable("no such table")


def test_what_a_users_grouping_raises_is_the_users() -> None:
    watch = Watch()
    topology = Topology("grouped", Config(max_replays=0))
    numbered = topology.spout("numbers", ScriptedSpout(numbers(1)))
    given = topology.bolt("bolt", Poisoned(9, ValueError), numbered.shuffle())
    topology.bolt("captured", Captured[Number](), given.custom(OwnGrouping()))
    run_topology(topology, watch=watch)
    assert [str(one.failure) for one in watch.dead] == ["raised in 'bolt': NoSuchTable: no such table"]
    assert "in choose" in watch.dead[0].failure.traceback()


# -- emissions


class SetsList(Bolt):
    def process(self, number: Number, state: State[Any]) -> Iterator[Number]:
        state.set([number.n])
        yield number


def emits_twice(bolt: Any, tup: Any, out: Any) -> None:
    out.emit(Number(1), key="one")
    out.emit(Number(1), key="one")


def emits_late(bolt: Any, tup: Any, out: Any) -> None:
    out.fail(tup, "too late")
    out.emit(Number(1), anchors=[tup])


@pytest.mark.parametrize(
    ("bolt", "by", "code"),
    [
        (Given(lambda number: [Pair(1, 2)]), None, UNDECLARED_RECORD_CLASS),
        (Given(lambda number: 5), None, PROCESS_RETURNED_NO_ITERABLE),
        (Doing(emits_twice), None, DUPLICATE_EMIT_KEY),
        (SetsList(), "n", MUTABLE_STATE_VALUE),
    ],
    ids=["undeclared", "no iterable", "a key twice", "state"],
)
def test_what_an_emission_refuses_is_told_as_one_that_could_not_go(bolt: Bolt, by: str | None, code: Code) -> None:
    failure = only_failure(bolt, by=by)
    assert failure.reason is Reason.EMIT
    assert failure.code == code


def test_an_emission_on_an_input_that_is_finished_is_told_as_one_that_could_not_go_A3() -> None:
    watch = Watch()
    topology, _ = line(ScriptedSpout(numbers(1)), Doing(emits_late), config=Config(max_replays=0))
    run_topology(topology, watch=watch)
    assert [one.reason for one in watch.failures] == [Reason.FAILED, Reason.EMIT]
    assert watch.failures[-1].code == TUPLE_ALREADY_FINISHED


# -- whoever tells of it


def test_a_dead_letter_has_the_same_reason_code_and_frames(tmp_path: Path) -> None:
    topology, _ = line(
        ScriptedSpout(numbers(1)), Poisoned(0, lambda: NoSuchTable("no such table")), config=Config(max_replays=0)
    )
    run_kept(topology, store_at(tmp_path))
    (letter,) = letters_in(tmp_path)
    assert (letter.reason, letter.code, letter.problem) == ("raised", "K501", "NoSuchTable: no such table")
    assert "in process" in letter.traceback


def test_the_log_has_the_same_sentence_and_the_frames(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="kedge"):
        only_failure(Poisoned(0, lambda: NoSuchTable("no such table")))
    first = caplog.records[0].getMessage()
    assert first.startswith("raised in 'bolt': NoSuchTable: no such table; further ones like it are counted (K501)\n")
    assert "in process" in first


def test_a_simulation_tells_the_same() -> None:
    def made() -> Topology:
        topology = Topology("simulated", Config(max_replays=1))
        numbered = topology.spout("numbers", ScriptedSpout(numbers(5)))
        given = topology.bolt("bolt", Poisoned(3, lambda: NoSuchTable("no such table")), numbered.shuffle())
        topology.bolt("captured", Captured[Number](), given.shuffle())
        return topology

    report = simulate(made, seed=1)
    assert {str(one.failure) for one in report.dead} == {"raised in 'bolt': NoSuchTable: no such table"}
