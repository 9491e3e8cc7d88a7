"""Who is blamed for what: exceptions that can't be told, and errors of a task that works in another one's turn."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_kit import Number, Poisoned, Same, built, line, numbers

from topology import Bolt, Config, EmitError, State
from topology.core.choice import COMPILED
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import ScriptedSpout, Watch, run_bolt, run_topology
from topology.user_frames import described, shown, users_place


class Untellable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class KeepsAndRaises(Bolt):
    async def process(self, number: Number, state: State[int]) -> list[Number]:
        await asyncio.sleep(0.01)
        if number.n == 1:
            raise Untellable
        return [number]


def test_an_exception_whose_text_can_not_be_told_fails_only_its_tuple() -> None:
    topology, captured = line(ScriptedSpout(numbers(3)), Poisoned(1, Untellable), config=Config(max_replays=1))
    report = run_topology(topology, seed=1)
    assert report.ended == "ended"
    assert report.snapshot.total("dead") == 1
    assert sorted(one.n for one in captured.records) == [0, 2]


def test_such_an_exception_does_not_keep_the_key_of_its_input_under_way() -> None:
    topology, captured = line(
        ScriptedSpout([Number(1), Number(2)]), KeepsAndRaises(), config=Config(max_replays=0), by="n", concurrency=4
    )
    report = run_topology(topology, seed=1)
    assert report.ended == "ended"
    assert [one.n for one in captured.records] == [2]


def test_what_is_told_of_an_exception_or_a_value_never_raises() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    assert described(Untellable()) == "Untellable: its text can't be shown"
    assert shown(Odd(), 100) == "a Odd that can't be shown"


@pytest.mark.parametrize("hand_on", [True, False])
def test_an_executor_that_breaks_in_the_turn_of_its_spout_is_the_one_that_is_named_A14(hand_on: bool) -> None:
    topology, _ = line(ScriptedSpout(numbers(3)), Same())

    def breaks(count: int) -> int:
        raise MemoryError("in the runtime's own loop")

    async def during(run: EmbeddedRun) -> None:
        executor = (await built(run)).executors["bolt", 0]
        executor.hand_on = hand_on
        executor.slice = breaks  # type: ignore[method-assign]  # what a bug of ours would do

    watch = Watch()
    report = run_topology(topology, seed=None, during=during, watch=watch)
    assert report.ended == "failed"
    assert isinstance(report.error, MemoryError)
    assert "bolt.0" in {failure.component for failure in watch.failures}
    assert "numbers.0" not in {failure.component for failure in watch.failures}


class SetsNested(Bolt):
    def process(self, number: Number, state: State[Any]) -> Iterator[Number]:
        state.set(([number.n],))
        yield number


def test_a_state_that_holds_a_list_at_any_depth_is_refused_D9() -> None:
    done = run_bolt(SetsNested(), numbers(1), by=["n"])
    assert done.outputs == []
    assert isinstance(done.failed[0].error, EmitError)
    assert "immutable through and through" in done.failed[0].reason


def test_a_compiled_frame_is_no_frame_of_the_users() -> None:
    for module in COMPILED:
        code = compile("def fails():\n    raise ValueError", f"{module.replace('.', '/')}.py", "exec")
        found: dict[str, Any] = {}
        exec(code, found)  # noqa: S102 - a function whose file has the path that a compiled one has
        with pytest.raises(ValueError, match=r"^$") as raised:
            found["fails"]()
        assert module.split(".")[-1] not in users_place(raised.value)
