"""Items and Ticker: what is theirs alone. What all sources promise is in test_source_conformance."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from source_kit import Reading, SetClock, make_task

from spouts import Items, Line, Tick, Ticker
from topology.components import Positions
from topology.errors import ConfigurationError
from topology.records import Record

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class Other(Record):
    text: str
    raw: bytes | None = None


class Anything(Record):
    value: Any


LETTERS = [Line(letter) for letter in "abcdefg"]


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 9])
async def test_tasks_share_the_items_and_ids_stay_the_indexes(tasks: int) -> None:
    emitted = []
    for index in range(tasks):
        mine = await Reading(Items(LETTERS), make_task(index=index, tasks=tasks), limit=2).to_the_end()
        assert [one.id for one in mine] == list(range(index, 7, tasks))
        emitted += mine
    assert {one.id: one.record for one in emitted} == dict(enumerate(LETTERS))


@pytest.mark.parametrize("tasks", [1, 2, 3])
@pytest.mark.parametrize("position", range(8))
async def test_tasks_resume_together_at_a_position(tasks: int, position: int) -> None:
    ids: list[Any] = []
    for index in range(tasks):
        reading = Reading(Items(LETTERS), make_task(index=index, tasks=tasks), {"": position})
        mine: list[Any] = [one.id for one in await reading.to_the_end()]
        assert {id % tasks for id in mine} <= {index}
        ids += mine
    assert sorted(ids) == list(range(position, 7))


@pytest.mark.parametrize(
    "others",
    [
        [Line("a"), Line("b"), Line("c")],
        [Line("b"), Line("a")],
        [Line("a")],
        [Other("a"), Other("b")],
        [Line("ab")],
        [Line("a"), Line("b", b"b")],
    ],
)
async def test_other_items_in_a_second_run_are_not_taken_for_the_first_ones(others: list[Record]) -> None:
    """C2: an index names another item there."""
    first = Reading(Items([Line("a"), Line("b")]))
    second = Reading(Items(others))
    await first.to_the_end()
    await second.to_the_end()
    assert not set(first.pairs) & set(second.pairs)


async def test_a_position_among_other_items_skips_none_of_these_C2() -> None:
    first = Reading(Items(LETTERS))
    *_, last = await first.to_the_end()
    positions = Positions({"": last.id}, {"": last.epoch})
    same = Reading(Items(LETTERS), positions=positions)
    assert [one.id for one in await same.to_the_end()] == [last.id]
    others = Reading(Items([Line(letter) for letter in "ABCDEFGHI"]), positions=positions)
    assert [one.id for one in await others.to_the_end()] == [*range(9)]


async def test_no_items_end_at_once() -> None:
    assert await Reading(Items([])).to_the_end() == []


async def test_an_item_that_cannot_be_encoded_is_named_by_its_index() -> None:
    with pytest.raises(ConfigurationError, match="item 1 can't be emitted: a Anything can't be encoded"):
        Reading(Items([Anything(1), Anything(object())]))


@pytest.mark.parametrize("position", [-1, "3", True])
async def test_a_position_that_is_no_index_is_refused(position: Any) -> None:
    with pytest.raises(ConfigurationError, match="a position in items is an index"):
        Reading(Items(LETTERS), positions={"": position})


async def test_ticks_come_at_multiples_of_the_period_with_the_due_time_as_id() -> None:
    reading = Reading(Ticker(0.02, count=4))
    emitted = await reading.to_the_end()
    ids = [one.id for one in emitted]
    assert len(ids) == len(set(ids)) == 4
    for one in emitted:
        assert isinstance(one.id, int)
        assert one.id % 20_000 == 0
        assert one.record == Tick(datetime.fromtimestamp(0, UTC) + timedelta(microseconds=one.id))


async def test_a_tick_carries_its_due_time_as_event_time() -> None:
    ticker = Ticker(60)
    ticker.open(make_task(clock=SetClock(NOON)), {})
    (message,) = await ticker.poll(10)
    assert message.at == message.record.at == NOON


async def test_a_tick_never_comes_before_it_is_due() -> None:
    clock = SetClock(NOON + timedelta(microseconds=1))
    ticker = Ticker(60)
    ticker.open(make_task(clock=clock), {})
    poll = asyncio.create_task(ticker.poll(1))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not poll.done()
    clock.now = NOON + timedelta(seconds=60)
    (message,) = await asyncio.wait_for(poll, 10)
    assert message.record.at == clock.now


async def test_of_missed_ticks_only_the_latest_comes() -> None:
    clock = SetClock(NOON)
    reading = Reading(Ticker(10), make_task(clock=clock))
    await reading.poll()
    clock.now = NOON + timedelta(seconds=57)
    await reading.poll()
    clock.now = NOON + timedelta(seconds=60)
    await reading.poll()
    assert [(one.record.at - NOON).total_seconds() for one in reading.emitted] == [0, 50, 60]


@pytest.mark.parametrize("down_s", [0.0, 0.4, 9.9, 10.0, 35.0])
async def test_after_a_restart_another_tick_has_another_id(down_s: float) -> None:
    """C2: a counter would begin again."""
    clock = SetClock(NOON)
    first = Reading(Ticker(10), make_task(clock=clock))
    await first.poll()
    clock.now += timedelta(seconds=down_s)
    second = Reading(Ticker(10), make_task(clock=clock))
    clock.now += timedelta(seconds=10)
    await second.poll()
    by_pair = {one.pair: one.record for one in second.emitted}
    assert all(by_pair.get(one.pair, one.record) == one.record for one in first.emitted)
    assert second.emitted[0].record.at >= NOON + timedelta(seconds=10)


async def test_while_the_clock_is_set_back_no_tick_comes_twice() -> None:
    clock = SetClock(NOON)
    reading = Reading(Ticker(10), make_task(clock=clock))
    await reading.poll()
    clock.now = NOON - timedelta(hours=1)
    poll = asyncio.create_task(reading.poll())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not poll.done()
    clock.now = NOON + timedelta(seconds=10)
    await asyncio.wait_for(poll, 10)
    assert [one.record.at for one in reading.emitted] == [NOON, NOON + timedelta(seconds=10)]


async def test_a_tick_that_was_not_done_comes_again_after_a_restart() -> None:
    clock = SetClock(NOON)
    first = Reading(Ticker(10), make_task(clock=clock))
    await first.poll()
    clock.now += timedelta(seconds=3)
    second = Reading(Ticker(10), make_task(clock=clock), {"": first.emitted[0].id})
    await second.poll()
    assert second.pairs == first.pairs


async def test_a_cancelled_poll_skips_no_tick() -> None:
    clock = SetClock(NOON + timedelta(seconds=1))
    reading = Reading(Ticker(10), make_task(clock=clock))
    poll = asyncio.create_task(reading.poll())
    await asyncio.sleep(0)
    poll.cancel()
    await asyncio.wait([poll])
    clock.now = NOON + timedelta(seconds=10)
    await reading.poll()
    assert [one.record.at for one in reading.emitted] == [NOON + timedelta(seconds=10)]


@pytest.mark.parametrize("every_s", [0, -1, 0.0001, float("inf"), float("nan")])
def test_a_period_that_cannot_be_kept_is_refused(every_s: float) -> None:
    with pytest.raises(ConfigurationError, match="every_s"):
        Ticker(every_s)


async def test_counts_positions_and_tasks_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="count is at least 1"):
        Ticker(1, count=0)
    with pytest.raises(ConfigurationError, match="has one task, not 2"):
        Ticker(1).open(make_task(tasks=2), {})
    with pytest.raises(ConfigurationError, match="a position of a ticker"):
        Ticker(1).open(make_task(), {"": "noon"})
