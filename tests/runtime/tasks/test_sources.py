"""Spouts in a run: `records` and `poll`, partitions and epochs, several tasks, what they are told. Rules B12, C2."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from runtime_kit import Number, Same, balanced, line, numbers

from topology import Config, Message, Spout, Task, Topology
from topology.runtime.tasks.polling import Pumped
from topology.runtime.tasks.spout_reader import SpoutReader
from topology.testing import Captured, Pause, ScriptedSpout, Wait, run_topology


class Generated(Spout):
    """Numbers from a generator, which says when it is closed."""

    def __init__(self, count: int, closed: list[str], error: BaseException | None = None) -> None:
        self.count, self.closed, self.error = count, closed, error

    def __deepcopy__(self, memo: Any) -> "Generated":
        return Generated(self.count, self.closed, self.error)

    async def records(self) -> AsyncIterator[Message[Number]]:
        try:
            for n in range(self.count):
                if n % 100 == 0:
                    await asyncio.sleep(0.1)
                yield Message(Number(n), n)
            if self.error is not None:
                raise self.error
            if self.count == 7:
                await asyncio.get_running_loop().create_future()
        finally:
            self.closed.append("closed")


def test_a_generator_of_records_is_read_to_its_end_in_order() -> None:
    closed: list[str] = []
    topology, captured = line(Generated(1000, closed), Same())
    report = run_topology(topology)
    assert [one.n for one in captured.records] == list(range(1000))
    assert closed == ["closed"]
    assert report.snapshot.spouts["numbers"].acked == 1000


def test_a_generator_is_closed_when_the_run_is_drained() -> None:
    closed: list[str] = []
    topology, captured = line(Generated(7, closed), Same())
    report = run_topology(topology, until_s=3)
    assert (report.ended, len(captured.records), closed) == ("stopped", 7, ["closed"])


async def test_a_generator_whose_loop_is_gone_while_it_waits_is_let_go_without_a_word() -> None:
    """As the garbage collector does it: nothing can be awaited any more."""
    pump = Pumped(Generated(1, []), 10)._pump()
    pump.send(None)
    pump.close()


async def test_what_a_generator_yields_after_the_close_is_not_read_and_what_it_had_given_is_left() -> None:
    for given, left in ((0, 0), (2, 2)):
        source = Pumped(Generated(1, []), 10)
        source._ahead += [(Message(Number(n), n), {}) for n in range(given)]
        reader = SpoutReader(source, reread_max=1)
        reader.drain()
        assert reader.unread == given
        reader.close()
        source._ahead.append((Message(Number(7), 7), {}))
        assert reader.unread == left


def test_a_generator_that_raises_ends_the_run_after_what_it_gave_is_done() -> None:
    topology, captured = line(Generated(50, [], OSError("gone")), Same())
    report = run_topology(topology)
    assert (report.ended, report.exit_status) == ("failed", 1)
    assert isinstance(report.error, OSError)
    assert len(captured.records) == 50
    assert balanced(report)


def test_a_generator_that_ignores_its_cancellation_does_not_hold_up_the_end() -> None:
    class Stubborn(Spout):
        async def records(self) -> AsyncIterator[Message[Number]]:
            yield Message(Number(1), 1)
            while True:
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    continue

    topology, captured = line(Stubborn(), Same())
    report = run_topology(topology, until_s=1)
    assert (report.ended, len(captured.records)) == ("stopped", 1)


def test_a_poll_that_ignores_its_cancellation_does_not_hold_up_the_end() -> None:
    class Stubborn(Spout):
        def __init__(self) -> None:
            self.given = False

        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            if not self.given:
                self.given = True
                return [Message(Number(1), 1)]
            while True:
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    continue

    topology, captured = line(Stubborn(), Same())
    report = run_topology(topology, until_s=1)
    assert (report.ended, len(captured.records)) == ("stopped", 1)


def test_a_poll_that_is_cancelled_by_a_drain_has_lost_nothing() -> None:
    spout = ScriptedSpout[Number]([*numbers(3), Pause(10), Number(3), Wait()])
    topology, captured = line(spout, Same())
    report = run_topology(topology, until_s=5)
    assert (len(captured.records), report.snapshot.spouts["numbers"].emitted) == (3, 3)
    assert report.exit_status == 0


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_the_tasks_of_a_spout_share_its_messages_and_each_ends_by_itself(tasks: int) -> None:
    spout, topology, captured = ScriptedSpout(numbers(33)), Topology("tasks"), Captured[Number]()
    topology.bolt("captured", captured, topology.spout("numbers", spout, tasks=tasks).shuffle())
    report = run_topology(topology)
    assert sorted(one.n for one in captured.records) == sorted(spout.acked) == list(range(33))
    assert report.snapshot.spouts["numbers"].acked == 33


def test_the_number_of_spout_tasks_changes_no_identity() -> None:
    def run(tasks: int) -> dict[tuple[int, int], Number]:
        topology, captured = Topology("tasks"), Captured[Number]()
        topology.bolt("captured", captured, topology.spout("numbers", ScriptedSpout(numbers(9)), tasks=tasks).shuffle())
        run_topology(topology)
        return captured.distinct

    assert run(1) == run(4)


class Epochs(Spout):
    """The same three names in each epoch of one partition, and of another partition."""

    def __init__(self, epochs: Sequence[str]) -> None:
        self.epochs = epochs
        self.current: Mapping[str, str] = {"file": "", "other": ""}
        self.polls = 0

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        if self.polls == len(self.epochs):
            return []
        self.current = {"file": self.epochs[self.polls], "other": "always"}
        self.polls += 1
        return [Message(Number(n), f"n{n}", partition) for partition in ("file", "other") for n in range(3)]

    def partitions(self) -> Mapping[str, str]:
        return self.current


def test_the_same_ids_in_a_new_epoch_are_new_messages_and_in_the_same_one_are_not_C2() -> None:
    topology, captured = line(Epochs(["first", "first", "second"]), Same())
    report = run_topology(topology)
    assert len(captured.records) == report.snapshot.spouts["numbers"].emitted >= 9
    assert len(captured.distinct) == 3 + 3 + 3  # first, second, and the other partition


def test_a_replay_keeps_the_epoch_that_its_message_was_emitted_in_C2() -> None:
    topology, captured = line(Epochs(["first", "second"]), Same())
    report = run_topology(topology, replay_all=True)
    assert len(captured.records) == 2 * report.snapshot.spouts["numbers"].emitted >= 2 * 9
    assert len(captured.distinct) == 3 + 3 + 3


def test_a_message_of_a_partition_that_is_not_named_ends_the_run_with_the_reason() -> None:
    class Unnamed(Spout):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            return [Message(Number(1), 1, "nowhere")]

    topology, _ = line(Unnamed(), Same())
    report = run_topology(topology)
    assert report.ended == "failed"
    assert "'nowhere'" in str(report.error)


def test_ids_of_three_types_that_look_alike_are_three_messages_B12() -> None:
    spout = ScriptedSpout([Message(Number(0), 1), Message(Number(1), "1"), Message(Number(2), b"1")])
    topology, captured = line(spout, Same())
    run_topology(topology)
    assert len(captured.distinct) == 3


def test_an_id_that_can_not_name_a_message_fails_that_message_alone() -> None:
    wrong: Any = 1.5
    spout = ScriptedSpout([Message(Number(0), 0), Message(Number(1), wrong), Message(Number(2), 2)])
    topology, captured = line(spout, Same(), config=Config(max_replays=1))
    report = run_topology(topology)
    assert sorted(one.n for one in captured.records) == [0, 2]
    assert report.snapshot.spouts["numbers"].dead == 1


def test_what_the_callbacks_of_a_spout_raise_is_told_and_changes_nothing() -> None:
    class Angry(ScriptedSpout[Number]):
        def ack(self, id: Any) -> None:
            raise SystemExit(f"acked {id}")

    topology, captured = line(Angry(numbers(5)), Same())
    report = run_topology(topology)
    assert (report.exit_status, report.snapshot.spouts["numbers"].acked) == (0, 5)
    assert len(captured.records) == 5


def test_a_poll_that_returns_none_ends_the_run_with_the_reason() -> None:
    class Nothing(Spout):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            return None  # type: ignore[return-value]

        def open(self, task: Task, positions: Any) -> None:
            assert positions == {}

    topology, _ = line(Nothing(), Same())
    report = run_topology(topology)
    assert report.ended == "failed"
    assert "returned None" in str(report.error)
