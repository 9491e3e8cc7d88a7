"""Paced: when messages come, and that all else is the wrapped spout's. What all sources promise is in conformance."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from acker.identity import MessageId
from spouts import FileTail, Items, Line, Paced, Tick
from topology import Bolt, ConfigurationError, Message, Reject, Spout, Task, Topology
from topology.testing import Captured, Pause, ScriptedSpout, Wait, run_topology

LINES = [Line(str(number)) for number in range(50)]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACES = {"here": "first", "there": "second"}


class Generated(Spout):
    """A spout of the other kind, which tells all that happens to it. Its tasks are this one object."""

    outside_ids: ClassVar[bool] = True

    def __init__(self, count: int = len(LINES)) -> None:
        self.count = count
        self.told: list[Any] = []

    def __deepcopy__(self, memo: object) -> "Generated":
        return self

    async def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        await asyncio.sleep(0)
        self.told.append(("open", task.component, positions))

    async def records(self) -> AsyncIterator[Message[Line]]:
        try:
            for number in range(self.count):
                yield Message(Line(str(number)), f"id {number}", "here" if number % 2 else "there")
        finally:
            self.told.append("ended")

    def partitions(self) -> Mapping[str, str]:
        return PLACES

    def ack(self, id: MessageId) -> None:
        self.told.append(("ack", id))

    def fail(self, id: MessageId) -> None:
        self.told.append(("fail", id))

    def summary(self) -> Iterable[str]:
        return ["what there is to say"]

    def close(self) -> Awaitable[None]:
        return self._closed()

    async def _closed(self) -> None:
        await asyncio.sleep(0)
        self.told.append("closed")


def times_of(spout: Paced[Line], *, tasks: int = 1, **how: Any) -> list[float]:
    """When its lines came, in seconds since the first one, on virtual time."""
    captured = Captured[Line]()
    topology = Topology("paced")
    topology.bolt("captured", captured, topology.spout("lines", spout, tasks=tasks).global_())
    report = run_topology(topology, **how)
    assert report.exit_status == 0
    return [time - captured.times[0] for time in captured.times]


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_a_configuration_error(rate: float) -> None:
    with pytest.raises(ConfigurationError, match="rate is a number of messages per second above 0, not "):
        Paced(Items(LINES), rate)


@pytest.mark.parametrize(("spout", "why"), [(FileTail, "give an instance"), (Bolt(), "Bolt is a bolt"), (7, "int")])
def test_what_is_no_spout_is_a_configuration_error(spout: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Paced: .*{why}"):
        Paced(spout, 1.0)


@pytest.mark.parametrize("make", [lambda: Items(LINES), Generated], ids=["poll", "records"])
@pytest.mark.parametrize("rate", [2.0, 100.0, 1_000.0])
def test_messages_come_at_the_rate_whichever_kind_of_spout_it_is(make: Any, rate: float) -> None:
    times = times_of(Paced(make(), rate))
    assert len(times) == len(LINES)
    for number, time in enumerate(times):
        assert (number - rate / 100 - 1) / rate <= time <= (number + 1) / rate + 0.01, "10 ms of them come together"


def test_several_tasks_share_the_rate() -> None:
    times = times_of(Paced(Items(LINES), 10.0), tasks=2)
    assert times[-1] == pytest.approx(4.8, abs=0.3)


def test_after_a_pause_a_tenth_of_a_second_is_caught_up_and_no_more() -> None:
    times = times_of(Paced(ScriptedSpout[Line]([LINES[0], Pause(10), *LINES[1:]]), 50.0))
    since = times[1]
    assert since == pytest.approx(10, abs=0.1)
    assert sum(time - since < 0.01 for time in times[1:]) <= 7
    assert times[-1] - since == pytest.approx(48 / 50 - 0.1, abs=0.05)


def test_drained_while_it_waits_it_ends_at_once_and_the_next_run_goes_on_there(tmp_path: Any) -> None:
    captured = Captured[Line]()
    for until_s in (2.75, None):
        topology = Topology("paced")
        topology.bolt("captured", captured, topology.spout("lines", Paced(Items(LINES), 2.0)).global_())
        report = run_topology(topology, until_s=until_s, state_dir=tmp_path)
        assert report.exit_status == 0
    assert len(captured.distinct) == len(LINES)
    assert report.snapshot.spouts["lines"].acked >= len(LINES) - 6


def test_the_wrapped_spout_is_told_all_and_asked_for_all() -> None:
    class Picky(Bolt):
        def process(self, line: Line) -> None:
            if line.text == "1":
                raise Reject("not this one")

    inner = Generated(count=3)
    topology = Topology("paced")
    topology.bolt("picky", Picky(), topology.spout("lines", Paced(inner, 100.0)).shuffle())
    report = run_topology(topology)
    assert inner.told[0] == ("open", "lines", {})
    assert sorted(inner.told[1:-1], key=str) == [("ack", "id 0"), ("ack", "id 2"), ("fail", "id 1"), "ended"]
    assert inner.told[-1] == "closed"
    assert "what there is to say" in str(report.summaries)


def test_a_generator_that_is_not_at_its_end_is_ended() -> None:
    inner = Generated(count=2_000)
    assert len(times_of(Paced(inner, 2.0), until_s=3.0)) < 10
    assert inner.told[-2:] == ["ended", "closed"]


def test_it_emits_what_the_wrapped_spout_emits_under_the_same_identities() -> None:
    def held(spout: Any) -> list[dict[tuple[int, int], Any]]:
        lines, ticks = Captured[Line](), Captured[Tick]()
        topology = Topology("paced")
        both = topology.spout("both", spout)
        topology.bolt("lines", lines, both[Line].shuffle())
        topology.bolt("ticks", ticks, both[Tick].shuffle())
        run_topology(topology)
        return [lines.distinct, ticks.distinct]

    script = [Message(Line("a"), "x", "here"), Pause(1), Message(Tick(NOON), "x", "there", NOON)]
    plain = held(ScriptedSpout[Any](script))
    assert held(Paced(ScriptedSpout[Any](script), 5.0)) == plain
    assert [len(one) for one in plain] == [1, 1]


def test_ids_that_strangers_choose_stay_hashed_with_a_key_s19() -> None:
    assert Paced(Generated(), 1.0).outside_ids is True
    assert Paced(Items(LINES), 1.0).outside_ids is False


def test_what_opens_badly_is_closed_all_the_same() -> None:
    class Missing(Generated):
        async def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
            raise ConfigurationError("it is not there")

    inner = Missing()
    with pytest.raises(ConfigurationError, match="it is not there"):
        times_of(Paced(inner, 1.0))
    assert inner.told == ["closed"]


def test_a_source_that_waits_for_ever_is_drained() -> None:
    assert len(times_of(Paced(ScriptedSpout[Line]([LINES[0], Wait()]), 5.0), until_s=3.0)) == 1


def test_the_wrapped_spout_hears_what_is_settled_by_its_partitions() -> None:
    heard: list[tuple[str, MessageId]] = []

    class Settling(Generated):
        def settled(self, ids: Sequence[MessageId], partition: str) -> None:
            heard.extend((partition, one) for one in ids)

    topology = Topology("paced")
    topology.bolt("seen", Captured[Line](), topology.spout("lines", Paced(Settling(4), 1_000)).shuffle())
    assert run_topology(topology).exit_status == 0
    assert sorted(heard) == [("here", "id 1"), ("here", "id 3"), ("there", "id 0"), ("there", "id 2")]


def test_it_is_away_while_the_wrapped_spout_is() -> None:
    spout = Generated()
    paced = Paced(spout, 10)
    assert paced.away == ""
    vars(spout)["away"] = "no server"
    assert paced.away == "no server"
