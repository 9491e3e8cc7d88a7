"""A malformed message goes to the stream `malformed` of its source. Without a reader it becomes a dead letter, and is
never dropped without a report."""

from pathlib import Path
from typing import Any

import pytest
from runtime_kit import Number

from topology import Bolt, Config, Malformed, Message, Record, Spout, Topology
from topology.checks.declaration import mistakes
from topology.testing import Captured, run_topology


class Mixed(Spout):
    """Gives 200 numbers, with a malformed message after each tenth."""

    def __init__(self) -> None:
        self.next = 0

    def emits(self) -> tuple[type[Record], ...]:
        return (Number, Malformed)

    async def poll(self, limit: int) -> list[Message[Any]]:
        given: list[Message[Any]] = []
        while self.next < 220 and len(given) < limit:
            self.next += 1
            bad = not self.next % 11
            given.append(Message(Malformed(b"%d" % self.next, "no number") if bad else Number(self.next), self.next))
        return given


class Doubles(Bolt):
    def process(self, number: Number) -> list[Number]:
        return [Number(number.n * 2)]


def made(config: Config | None = None, *, read: bool) -> tuple[Topology, Captured[Number], Captured[Malformed]]:
    topology = Topology("malformed", config)
    numbers: Any = topology.spout("numbers", Mixed())
    good, bad = Captured[Number](), Captured[Malformed]()
    topology.bolt("good", good, topology.bolt("doubles", Doubles(), numbers.shuffle()).shuffle())
    if read:
        topology.bolt("bad", bad, numbers.malformed.shuffle())
    return topology, good, bad


def test_the_handle_of_a_source_is_its_records_and_malformed_is_a_stream_beside_it() -> None:
    topology, _, _ = made(read=True)
    assert not mistakes(topology)


def test_malformed_messages_reach_the_reader_of_their_stream_and_the_others_theirs() -> None:
    topology, good, bad = made(read=True)
    report = run_topology(topology)
    assert report.exit_status == 0
    assert sorted(number.n for number in good.records) == [2 * n for n in range(1, 221) if n % 11]
    assert sorted(int(one.data) for one in bad.records) == [n for n in range(1, 221) if not n % 11]
    assert report.snapshot.spouts["numbers"].dead == 0


@pytest.mark.parametrize("kept", [True, False])
def test_without_a_reader_each_malformed_message_is_a_dead_letter_and_nothing_else_is(
    tmp_path: Path, kept: bool
) -> None:
    topology, good, _ = made(read=False)
    report = topology.run(state_dir=tmp_path / "state") if kept else run_topology(topology)
    assert sorted(number.n for number in good.records) == [2 * n for n in range(1, 221) if n % 11]
    counts = report.snapshot.spouts["numbers"]
    assert (counts.dead, counts.acked) == (20, 200)
    assert report.exit_status == 1


def test_without_trees_a_malformed_message_that_is_not_read_is_counted_as_failed() -> None:
    topology, good, _ = made(Config(guarantee="at-most-once"), read=False)
    report = run_topology(topology)
    assert len(good.records) == 200
    assert report.snapshot.spouts["numbers"].failed == 20


def test_a_source_without_malformed_messages_has_no_such_stream() -> None:
    class Plain(Spout):
        async def poll(self, limit: int) -> list[Message[Number]]:
            return []

    topology = Topology("plain")
    numbers = topology.spout("numbers", Plain())
    topology.bolt("good", Captured[Number](), numbers.shuffle())
    topology.bolt("bad", Captured[Malformed](), numbers.malformed.shuffle())
    (mistake,) = mistakes(topology)
    assert "it emits no Malformed; it emits Number" in str(mistake)


def test_a_reader_that_takes_several_classes_may_read_both_streams() -> None:
    class Both(Bolt):
        def process(self, record: Number | Malformed) -> None:
            return None

    topology = Topology("both")
    numbers: Any = topology.spout("numbers", Mixed())
    topology.bolt("both", Both(), numbers.shuffle(), numbers.malformed.shuffle())
    report = run_topology(topology)
    assert (report.exit_status, report.snapshot.spouts["numbers"].acked) == (0, 220)
