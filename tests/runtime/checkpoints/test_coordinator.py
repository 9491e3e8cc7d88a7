"""The coordinator of checkpoints: its steps, answers that nobody waits for, and what ends a checkpoint. P1, P5, P6,
P13, P14."""

import asyncio

import pytest
from coordinator_kit import KEEP, NOTE, SETTLE, Stage, begun, note, story, turns

from topology.storage.store import StoreBroken, StoreFull
from topology.testing import run_virtual

# -- the steps


@story
async def test_each_step_begins_once_all_have_answered_the_one_before_P1_P5() -> None:
    stage = Stage()
    taking = begun(stage)
    await turns()
    assert stage.log == [("note 7", 0), ("note 7", 1)]
    stage.answer(NOTE, 1)
    await turns()
    assert len(stage.log) == 2, "no worker may gather before all have noted"
    stage.answer(NOTE, 0)
    await turns()
    assert stage.log[2:] == [("barrier 7", 0), ("barrier 7", 1)]
    stage.answer(KEEP, 0)
    await turns()
    assert stage.decided == [], "one has not kept its part"
    stage.answer(KEEP, 1)
    await turns()
    assert stage.log[4:] == [("durable", 7), ("decided 7", 0), ("decided 7", 1)], "durable before anybody hears"
    assert not taking.done()
    stage.answer(SETTLE, 0, 1)
    assert await taking
    assert stage.coordinator.facts.checkpoint == 7
    assert stage.coordinator.facts.bytes == 200


@story
async def test_the_frontier_has_the_notes_of_all_workers() -> None:
    stage = Stage(3, answers=True)
    assert await stage.coordinator.take()
    for puppet in stage.puppets:
        (frontier,) = puppet.frontiers
        assert frontier.notes == {worker: note(worker) for worker in range(3)}
        assert puppet.alone == [False]


@story
async def test_the_only_worker_decides_by_what_it_keeps() -> None:
    stage = Stage(1, answers=True)
    assert await stage.coordinator.take()
    assert stage.puppets[0].alone == [True]
    assert stage.decided == []
    assert stage.puppets[0].told == ["note 7", "barrier 7", "decided 7"]


@story
async def test_where_nothing_was_kept_no_decision_is_made_durable() -> None:
    stage = Stage(answers=True)
    stage.size = 0
    assert await stage.coordinator.take()
    assert stage.decided == []
    assert stage.coordinator.facts.checkpoint == 7


@story
async def test_where_nothing_has_changed_there_is_no_checkpoint() -> None:
    stage = Stage()
    taking = begun(stage)
    await turns()
    for worker in (0, 1):
        stage.coordinator.noted(worker, 7, note(worker), True)
    assert await taking, "all is in the one before"
    assert stage.coordinator.facts.checkpoint == 6
    assert [puppet.told for puppet in stage.puppets] == [["note 7", "given up 7"]] * 2


@story
async def test_the_next_one_begins_after_all_have_taken_the_decision_in_P6() -> None:
    stage = Stage()
    first, second = begun(stage), begun(stage)
    await turns()
    stage.answer(NOTE, 0, 1)
    await turns()
    stage.answer(KEEP, 0, 1)
    await turns()
    stage.answer(SETTLE, 0)
    await turns()
    assert ("note 8", 0) not in stage.log
    stage.answer(SETTLE, 1)
    await turns()
    assert first.done()
    assert stage.log[-2:] == [("note 8", 0), ("note 8", 1)]
    stage.coordinator.give_up("the test is over")
    assert not await second


# -- answers that nobody waits for


@pytest.mark.parametrize("step", [NOTE, KEEP, SETTLE])
def test_a_worker_that_answers_twice_answers_for_no_other(step: str) -> None:
    async def told() -> None:
        stage = Stage()
        taking = begun(stage)
        await turns()
        for one in (NOTE, KEEP, SETTLE):
            stage.answer(one, 0, 0, 0)
            await turns()
            if one == step:
                break
            stage.answer(one, 1)
            await turns()
        before = len(stage.log)
        await asyncio.sleep(1)
        assert len(stage.log) == before
        assert not taking.done()
        taking.cancel()

    run_virtual(told(), seed=None)


@story
async def test_bytes_of_a_worker_that_answers_twice_count_once() -> None:
    stage = Stage()
    taking = begun(stage)
    await turns()
    stage.answer(NOTE, 0, 1)
    await turns()
    stage.answer(KEEP, 0, 0, 1)
    await turns()
    stage.answer(SETTLE, 0, 1)
    assert await taking
    assert stage.coordinator.facts.bytes == 200


@story
async def test_answers_for_other_checkpoints_and_steps_count_for_nothing() -> None:
    stage = Stage()
    taking = begun(stage)
    await turns()
    stage.answer(NOTE, 0, 1, checkpoint=6)
    stage.answer(NOTE, 0, 1, checkpoint=8)
    stage.answer(KEEP, 0, 1)
    stage.answer(SETTLE, 0, 1)
    stage.coordinator.unprepared(0, 6, "of the one before")
    await turns()
    assert stage.log == [("note 7", 0), ("note 7", 1)]
    assert not taking.done()
    taking.cancel()


@story
async def test_a_late_answer_to_what_was_given_up_is_none_for_the_next() -> None:
    stage = Stage()
    taking = begun(stage)
    await turns()
    stage.answer(NOTE, 0)
    stage.coordinator.give_up("worker 1 has died")
    assert not await taking
    taking = begun(stage)
    await turns()
    stage.answer(NOTE, 1)  # of 7
    stage.answer(NOTE, 0, checkpoint=8)
    await turns()
    assert ("barrier 8", 0) not in stage.log
    taking.cancel()


# -- what ends one


@pytest.mark.parametrize("step", [NOTE, KEEP])
def test_a_death_gives_the_present_one_up_and_those_that_live_are_told_P5(step: str) -> None:
    async def told() -> None:
        stage = Stage()
        taking = begun(stage)
        await turns()
        if step == KEEP:
            stage.answer(NOTE, 0, 1)
            await turns()
            stage.answer(KEEP, 0)
        stage.coordinator.give_up("worker 1 has died")
        assert not await taking
        assert stage.decided == []
        assert stage.log[-2:] == [("given up 7", 0), ("given up 7", 1)]
        assert stage.coordinator.facts.checkpoint == 6

    run_virtual(told(), seed=None)


@pytest.mark.parametrize("step", [NOTE, KEEP])
def test_a_death_in_the_turn_of_the_last_answer_gives_it_up_too_P5(step: str) -> None:
    """What a process has said before its end is read with the news of its end. The others begin a generation, without
    this checkpoint: it must not be decided, nor wait for them."""

    async def told() -> None:
        stage = Stage()
        taking = begun(stage)
        await turns()
        if step == KEEP:
            stage.answer(NOTE, 0, 1)
            await turns()
        stage.answer(step, 0, 1)
        stage.coordinator.give_up("worker 1 has died")
        await turns()
        assert taking.done(), "nobody answers any more"
        assert not await taking
        assert stage.decided == []
        assert stage.log[-2:] == [("given up 7", 0), ("given up 7", 1)]
        for puppet in stage.puppets:
            stage.obliging(puppet)
        assert await stage.coordinator.take()
        assert stage.decided == [8]

    run_virtual(told(), seed=None)


@story
async def test_one_that_could_not_be_kept_is_none_and_the_next_has_a_higher_number_P14() -> None:
    stage = Stage()
    taking = begun(stage)
    await turns()
    stage.answer(NOTE, 0, 1)
    await turns()
    stage.coordinator.unprepared(1, 7, "no space left on device")
    assert not await taking
    assert stage.decided == []
    for puppet in stage.puppets:
        stage.obliging(puppet)
    assert await stage.coordinator.take()
    assert stage.decided == [8]


@story
async def test_a_death_while_the_decision_is_taken_in_changes_nothing_P5() -> None:
    stage = Stage()
    taking = begun(stage)
    await turns()
    stage.answer(NOTE, 0, 1)
    await turns()
    stage.answer(KEEP, 0, 1)
    await turns()
    stage.coordinator.give_up("worker 1 has died")
    assert await taking
    assert stage.decided == [7]
    assert stage.coordinator.facts.checkpoint == 7
    assert not any(what.startswith("given up") for what, _ in stage.log)


@story
async def test_a_death_while_the_decision_is_made_durable_changes_nothing_P5() -> None:
    stage = Stage(answers=True)
    writing = asyncio.Event()

    async def slowly(checkpoint: int) -> None:
        await writing.wait()
        stage.decided.append(checkpoint)

    stage.coordinator._decide = slowly
    taking = begun(stage)
    await turns()
    stage.coordinator.give_up("worker 1 has died")
    await turns()
    writing.set()
    assert await taking
    assert stage.decided == [7]


@story
async def test_while_a_worker_is_away_there_is_none() -> None:
    stage = Stage(answers=True)
    members, stage.members = stage.members, None
    assert not await stage.coordinator.take()
    stage.members = members
    assert await stage.coordinator.take()
    assert stage.decided == [7]


# -- a decision that fails


@story
async def test_a_decision_that_finds_no_room_is_given_up_and_tried_again_P14() -> None:
    stage = Stage(answers=True)
    stage.fails = [StoreFull("no space left on device")]
    assert not await stage.coordinator.take()
    assert stage.log[-2:] == [("given up 7", 0), ("given up 7", 1)]
    assert await stage.coordinator.take()
    assert stage.decided == [8]


@story
async def test_after_a_decision_that_has_failed_there_is_no_further_one_P13() -> None:
    """It is unknown whether it is made: no worker may prepare another one over it."""
    stage = Stage(answers=True)
    stage.fails = [StoreBroken("the fsync failed")]
    for _ in range(2):
        with pytest.raises(StoreBroken):
            await stage.coordinator.take()
    assert [puppet.told for puppet in stage.puppets] == [["note 7", "barrier 7"]] * 2


@story
async def test_a_decision_that_has_failed_ends_the_run_of_checkpoints_P13() -> None:
    stage = Stage(answers=True)
    stage.fails = [StoreBroken("the fsync failed")]
    with pytest.raises(StoreBroken):
        await stage.coordinator.run()
