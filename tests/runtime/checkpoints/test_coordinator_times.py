"""When the coordinator takes checkpoints, what goes on when its caller is cancelled, and copies. P5."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest
from coordinator_kit import KEEP, NOTE, SETTLE, Stage, begun, story, turns

from acker.frontier import Frontier
from topology.runtime.checkpoints.coordinator import AGAIN_FIRST_S, GivenUp
from topology.storage.store import StoreFull
from topology.testing import run_virtual

# -- when


async def taken_at(stage: Stage, meanwhile: Callable[[], Awaitable[None]], for_s: float) -> list[float]:
    """When checkpoints were decided in a run of so many seconds."""
    loop = asyncio.get_running_loop()
    times: list[float] = []
    decide = stage._decide

    async def timed(checkpoint: int) -> None:
        await decide(checkpoint)
        times.append(round(loop.time(), 3))

    stage.coordinator._decide = timed
    running = asyncio.ensure_future(stage.coordinator.run())
    await meanwhile()
    await asyncio.sleep(for_s - loop.time())
    running.cancel()
    return times


@story
async def test_they_are_so_many_seconds_apart() -> None:
    async def nothing() -> None:
        pass

    assert await taken_at(Stage(answers=True), nothing, 3.5) == [0.0, 1.0, 2.0, 3.0]


@story
async def test_one_that_is_wanted_comes_at_once_and_those_who_want_it_share_it() -> None:
    stage = Stage(answers=True)

    async def wanted() -> None:
        await asyncio.sleep(0.4)
        for _ in range(10):
            stage.coordinator.wanted()

    assert await taken_at(stage, wanted, 2.0) == [0.0, 0.4, 1.4]


@pytest.mark.parametrize(("takes_s", "expected"), [(0.02, 0.2), (0.1, 0.5), (3.0, 3.002)])
def test_slow_ones_are_further_apart_for_at_most_a_second(takes_s: float, expected: float) -> None:
    """Five times as long as one takes, up to a second; one that takes longer is followed at once."""

    async def told() -> None:
        stage = Stage(answers=True, every_s=0.2)
        decide = stage._decide

        async def slow(checkpoint: int) -> None:
            await asyncio.sleep(takes_s)
            await decide(checkpoint)

        stage._decide = slow  # type: ignore[method-assign]
        stage.coordinator._decide = slow

        async def nothing() -> None:
            pass

        times = await taken_at(stage, nothing, 5 * expected)
        assert [after - before for before, after in pairwise(times)] == pytest.approx([expected] * (len(times) - 1))
        assert len(times) > 3

    run_virtual(told(), seed=None)


@story
async def test_where_nothing_changes_they_are_a_second_apart_until_something_has() -> None:
    stage, loop = Stage(answers=True, every_s=0.2), asyncio.get_running_loop()
    asked: list[float] = []
    first = stage.puppets[0]
    ask = first.ask_note

    def timed(checkpoint: int) -> None:
        asked.append(round(loop.time(), 3))
        ask(checkpoint)

    first.ask_note = timed  # type: ignore[method-assign]
    stage.quiet = True
    running = asyncio.ensure_future(stage.coordinator.run())
    await asyncio.sleep(3.5)
    assert asked == [0.0, 0.2, 0.4, 0.6, 0.8, 1.8, 2.8]
    stage.quiet = False
    stage.coordinator.wanted()
    await asyncio.sleep(0.5)
    assert asked[7:] == [3.5, 3.7, 3.9]
    running.cancel()


@story
async def test_one_that_is_wanted_while_one_is_noted_follows_it() -> None:
    stage = Stage()
    running = asyncio.ensure_future(stage.coordinator.run())
    await turns()
    stage.coordinator.wanted()
    for step in (NOTE, KEEP, SETTLE):
        stage.answer(step, 0, 1)
        await turns()
    await asyncio.sleep(0.01)
    assert stage.log[-2:] == [("note 8", 0), ("note 8", 1)]
    running.cancel()


@story
async def test_after_one_that_was_given_up_it_waits_longer_each_time() -> None:
    stage = Stage(answers=True)
    loop = asyncio.get_running_loop()
    times: list[float] = []

    def is_full(frontier: Frontier, *, alone: bool) -> None:
        times.append(round(loop.time(), 3))
        stage.coordinator.unprepared(0, frontier.checkpoint, "it is full")

    stage.puppets[0].send_barrier = is_full
    running = asyncio.ensure_future(stage.coordinator.run())
    await asyncio.sleep(20)
    running.cancel()
    gaps = [round(later - before, 3) for before, later in pairwise(times)]
    assert gaps[:4] == [AGAIN_FIRST_S, 2 * AGAIN_FIRST_S, 4 * AGAIN_FIRST_S, 8 * AGAIN_FIRST_S]
    assert max(gaps) == 5.0


@story
async def test_while_a_worker_is_away_it_looks_often_as_others_wait_for_the_next_one() -> None:
    stage = Stage(answers=True)
    there, stage.members = stage.members, None
    running = asyncio.ensure_future(stage.coordinator.run())
    await asyncio.sleep(3)
    stage.members = there
    await asyncio.sleep(1.1 * AGAIN_FIRST_S)
    assert stage.decided == [7]
    running.cancel()


# -- cancelled


@story
async def test_one_whose_caller_is_cancelled_goes_on_so_that_a_decision_is_told_P5() -> None:
    stage = Stage()
    taking = begun(stage)
    await turns()
    stage.answer(NOTE, 0, 1)
    await turns()
    taking.cancel()
    settling = asyncio.ensure_future(stage.coordinator.settle())
    stage.answer(KEEP, 0, 1)
    await turns()
    assert stage.log[-2:] == [("decided 7", 0), ("decided 7", 1)]
    assert not settling.done()
    stage.answer(SETTLE, 0, 1)
    await settling
    assert stage.coordinator.facts.checkpoint == 7


@story
async def test_the_last_one_of_a_run_is_followed_by_another_which_mostly_finds_nothing_new() -> None:
    stage = Stage(answers=True)
    assert await stage.coordinator.take_last()
    assert stage.decided == [7, 8]


@story
async def test_a_last_one_that_is_given_up_is_tried_once_more() -> None:
    stage = Stage(answers=True)
    stage.fails = [StoreFull("no space left on device")]
    assert await stage.coordinator.take_last()
    assert stage.decided == [8, 9]
    stage.fails = [StoreFull("no space left on device")] * 2
    assert not await stage.coordinator.take_last()


# -- copies


@story
async def test_copies_are_made_of_a_checkpoint_that_is_decided_before_the_next_begins() -> None:
    stage = Stage(answers=True)
    copying = asyncio.ensure_future(stage.coordinator.copies(Path("there")))
    await turns(10)
    assert stage.log[-2:] == [("copy 7", 0), ("copy 7", 1)]
    later = begun(stage)
    stage.coordinator.copied(0, 7, 30, "")
    await turns()
    assert ("note 8", 0) not in stage.log
    stage.coordinator.copied(1, 7, 40, "")
    assert await copying == {0: 30, 1: 40}
    assert await later


@story
async def test_copies_fail_with_what_a_worker_says_of_its_own() -> None:
    stage = Stage(answers=True)
    copying = asyncio.ensure_future(stage.coordinator.copies(Path("there")))
    await turns(10)
    stage.coordinator.copied(0, 7, 30, "")
    stage.coordinator.copied(1, 7, 0, "no space left on device")
    with pytest.raises(GivenUp, match="worker 1: no space left on device"):
        await copying
