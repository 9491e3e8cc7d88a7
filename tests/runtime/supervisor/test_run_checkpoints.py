"""Checkpoints of worker processes, which are puppets: orders, answers, decisions in a thread, and deaths meanwhile."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from puppet_kit import GOOD, Stage, staged

from topology.runtime.checkpoints.coordinator import GivenUp
from topology.runtime.control.messages import Drain
from topology.runtime.supervisor import checkpoints as checkpoints_of_runs
from topology.runtime.supervisor.checkpoints import RunCheckpoints, UnkeptDecisions
from topology.runtime.supervisor.fleet import Fleet
from topology.runtime.supervisor.worker_handle import WorkerState

NOTES = "say(Log(20, str(sorted((worker, note.owners[0]) for worker, note in order.notes.items()))))"
KEEPS = "say(Prepared(order.checkpoint, 1, 0.0))"


class HeldDecisions(UnkeptDecisions):
    """Decisions that take until `go` is set. `asked` is set once one was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()

    def decide(self, checkpoint: int) -> None:
        self.asked.set()
        self.go.wait(20.0)
        super().decide(checkpoint)


class BrokenDecisions(UnkeptDecisions):
    def decide(self, checkpoint: int) -> None:
        raise OSError("the disk is gone")


@asynccontextmanager
async def checkpointed(
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    does: dict[int, list[dict[str, str]]] | None = None,
    decisions: UnkeptDecisions | None = None,
    every_s: float = 0.01,
) -> AsyncIterator[tuple[Stage, Fleet, RunCheckpoints, "asyncio.Task[None]"]]:
    """A fleet whose checkpoints are taken, by the task that comes with it."""
    async with staged(monkeypatch, workers, does) as (stage, fleet):
        checkpoints = RunCheckpoints(decisions or UnkeptDecisions(), every_s=every_s)
        checkpoints.attach(fleet)
        stage.before_death = checkpoints.died
        stage.answered = checkpoints.heard  # type: ignore[assignment]  # puppets say nothing else
        taking = asyncio.ensure_future(checkpoints.run())
        try:
            yield stage, fleet, checkpoints, taking
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)


def of_checkpoints(orders: list[str]) -> list[str]:
    """What was ordered, from the start of the tasks on."""
    return orders[orders.index("Start") + 1 :]


async def test_each_worker_is_asked_told_of_all_notes_and_told_of_the_decision_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tells = {"Barrier": f"{NOTES}; {KEEPS}"}
    decisions = UnkeptDecisions()
    async with checkpointed(monkeypatch, 2, {0: [tells]}, decisions) as (stage, _, checkpoints, _):
        await stage.until(lambda: "TakeNote 3" in stage.of(0) and "TakeNote 3" in stage.of(1))
        turn = ["TakeNote {0}", "Barrier {0}", "CheckpointDecided {0}"]
        orders = [line.format(checkpoint) for checkpoint in (1, 2) for line in turn]
        assert of_checkpoints(stage.of(1))[:6] == orders
        assert of_checkpoints(stage.of(0))[1:3] == ["Barrier 1", "[(0, 1), (1, 1)]"]
        assert decisions.decided >= checkpoints.decided >= 2


async def test_a_death_while_a_decision_is_written_is_dealt_with_after_all_were_told_of_it_p5(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions = HeldDecisions()
    async with checkpointed(monkeypatch, 3, decisions=decisions) as (stage, fleet, checkpoints, _):
        await stage.until(decisions.asked.is_set)
        dead = fleet.handles[1]
        os.kill(dead.pid, signal.SIGKILL)
        await stage.until(lambda: dead.state is WorkerState.DEAD)
        await asyncio.sleep(0.3)
        assert fleet.handles[1] is dead, "what replaces it has to begin as of the decision"
        assert of_checkpoints(stage.of(0)) == ["TakeNote 1", "Barrier 1"]
        decisions.go.set()
        await stage.until(lambda: fleet.handles[1] is not dead)
        assert checkpoints.decided == 1
        for survivor in (0, 2):
            await stage.until(lambda survivor=survivor: any("Generation" in order for order in stage.of(survivor)))
            told = ["CheckpointDecided 1", f"Generation 2 after {dead.owner}"]
            assert of_checkpoints(stage.of(survivor))[2:4] == told
        await stage.until(lambda: "CheckpointDecided 2" in stage.of(1))


async def test_a_death_before_the_decision_gives_the_checkpoint_up_and_its_number_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = {"Barrier": ""}
    decisions = UnkeptDecisions()
    async with checkpointed(monkeypatch, 2, {1: [silent, {}]}, decisions) as (stage, fleet, checkpoints, _):
        await stage.until(lambda: "Barrier 1" in stage.of(1) and "Barrier 1" in stage.of(0))
        await asyncio.sleep(0.1)
        assert checkpoints.decided == decisions.decided == 0
        os.kill(fleet.handles[1].pid, signal.SIGKILL)
        await stage.until(lambda: checkpoints.decided > 0)
        assert checkpoints.decided >= 2
        assert not any(order.startswith("CheckpointDecided 1") and len(order) == 19 for order in stage.of(0))
        generation = next(place for place, order in enumerate(stage.of(0)) if "Generation" in order)
        assert any("TakeNote 2" in order for order in stage.of(0)[generation:])


@pytest.mark.parametrize("step", ["TakeNote", "Barrier"])
async def test_a_worker_that_dies_as_it_answers_last_has_the_checkpoint_given_up_p5(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its answer and its end are read in one turn, as where the supervisor was busy meanwhile."""
    dies = {step: f"time.sleep(0.3); {GOOD[step]}; os.kill(os.getpid(), 9)"}
    decisions = UnkeptDecisions()
    async with checkpointed(monkeypatch, 2, {1: [dies, {}]}, decisions) as (stage, _, checkpoints, _):
        await stage.until(lambda: f"{step} 1" in stage.of(0) and f"{step} 1" in stage.of(1))
        time.sleep(0.6)  # noqa: ASYNC251  the loop is to read both at once
        await stage.until(lambda: checkpoints.decided > 1)
        assert "CheckpointDecided 1" not in stage.of(0)


async def test_one_that_can_not_keep_its_part_has_the_checkpoint_given_up_everywhere_p14(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = {"Barrier": f"if order.checkpoint == 1: say(Unprepared(1, 'the disk is full'))\nelse: {KEEPS}"}
    async with checkpointed(monkeypatch, 2, {1: [full]}) as (stage, _, checkpoints, _):
        await stage.until(lambda: checkpoints.decided >= 2)
        for worker in (0, 1):
            assert "CheckpointGivenUp 1" in stage.of(worker)
            assert "CheckpointDecided 1" not in stage.of(worker)


async def test_a_worker_that_wants_one_gets_it_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    wants = {"Drain": "say(CheckpointWanted())"}
    async with checkpointed(monkeypatch, 2, {1: [wants]}, every_s=60.0) as (stage, fleet, checkpoints, _):
        await stage.until(lambda: "CheckpointDecided 1" in stage.of(1) and checkpoints.decided == 1)
        await asyncio.sleep(0.1)
        assert checkpoints.decided == 1
        fleet.handles[1].say(Drain())
        await stage.until(lambda: checkpoints.decided == 2)


async def closed(fleet: Fleet, checkpoints: RunCheckpoints) -> None:
    await fleet.close(10.0, asyncio.Event(), 1.0, checkpoints.last)


CLOSES = {"Close": f"say(Log(20, f'kept: {{order.kept}}')); {GOOD['Close']}"}


async def test_the_last_checkpoint_is_noted_after_all_have_stopped_and_they_close_after_it_e10(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = {**CLOSES, "StopWork": "time.sleep(0.3); say(WorkStopped())"}
    async with checkpointed(monkeypatch, 2, {0: [CLOSES], 1: [slow]}, every_s=60.0) as (stage, fleet, checkpoints, _):
        await stage.until(lambda: checkpoints.decided == 1)
        await closed(fleet, checkpoints)
        assert checkpoints.decided == 3, "the second one has what waits for the decision of the first"
        last = [f"{order} {number}" for number in (2, 3) for order in ("TakeNote", "Barrier", "CheckpointDecided")]
        ending = ["StopWork", *last, "Close", "kept: True"]
        assert stage.of(0)[-9:] == stage.of(1)[-9:] == ending


async def test_a_death_before_the_last_decision_is_no_reason_to_wait_and_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dies = {"Barrier": f"if order.checkpoint == 1: {KEEPS}\nelse: os._exit(9)"}
    async with checkpointed(monkeypatch, 2, {0: [CLOSES], 1: [dies]}, every_s=60.0) as (stage, fleet, checkpoints, _):
        await stage.until(lambda: checkpoints.decided == 1)
        since = time.monotonic()
        with caplog.at_level(logging.WARNING, "kedge"):
            await closed(fleet, checkpoints)
        assert time.monotonic() - since < 5.0
        assert stage.of(0)[-2:] == ["Close", "kept: False"]
        assert (
            "the next run repeats what was done since the last positions were kept: ended with status 9" in caplog.text
        )
        assert stage.lives == [0, 1], "nobody is replaced any more"


async def test_a_last_checkpoint_that_nobody_can_take_does_not_hold_the_end_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints_of_runs, "LAST_S", 0.3)
    silent = {"Barrier": f"if order.checkpoint == 1: {KEEPS}"}
    async with checkpointed(monkeypatch, 2, {0: [CLOSES], 1: [silent]}, every_s=60.0) as (stage, fleet, checkpoints, _):
        await stage.until(lambda: checkpoints.decided == 1)
        await closed(fleet, checkpoints)
        assert checkpoints.decided == 1
        assert stage.of(0)[-2:] == ["Close", "kept: False"]
        assert sorted(stage.ends) == [(0, WorkerState.ENDED), (1, WorkerState.ENDED)]


async def test_a_disk_that_makes_room_in_the_last_checkpoint_gets_a_second_one_p14(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = {"Barrier": f"if order.checkpoint == 2: say(Unprepared(2, 'the disk is full'))\nelse: {KEEPS}"}
    async with checkpointed(monkeypatch, 2, {0: [CLOSES], 1: [full]}, every_s=60.0) as (stage, fleet, checkpoints, _):
        await stage.until(lambda: checkpoints.decided == 1)
        await closed(fleet, checkpoints)
        assert checkpoints.decided == 4, "2 was given up, and 4 has what waits for the decision of 3"
        assert stage.of(0)[-1] == "kept: True"


async def test_while_a_worker_is_away_no_last_checkpoint_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    never = {"Begin": "time.sleep(60)"}
    async with checkpointed(monkeypatch, 2, {0: [CLOSES], 1: [{}, never]}, every_s=60.0) as (
        stage,
        fleet,
        checkpoints,
        _,
    ):
        await stage.until(lambda: checkpoints.decided == 1)
        dead = fleet.handles[1]
        os.kill(dead.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.handles[1] is not dead)
        await fleet.close(0.5, asyncio.Event(), 1.0, checkpoints.last)
        assert checkpoints.decided == 1
        assert "StopWork" not in stage.of(0)
        assert stage.of(0)[-1] == "kept: False"


async def test_a_decision_that_can_not_be_written_ends_the_checkpoints_with_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with checkpointed(monkeypatch, 2, decisions=BrokenDecisions()) as (stage, _, _, taking):
        await stage.until(taking.done)
        with pytest.raises(OSError, match="the disk is gone"):
            taking.result()
        assert "CheckpointDecided 1" not in [*stage.of(0), *stage.of(1)]


async def test_a_malformed_note_ends_who_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = {"TakeNote": "say(HomeNote(order.checkpoint, PackedNote((1,), 1, b'1234567', b'', b'', False)))"}
    async with checkpointed(monkeypatch, 2, {1: [odd, {}]}) as (stage, _, checkpoints, _):
        await stage.until(lambda: checkpoints.decided > 0)
        assert "it has said what it should not: 7 bytes are not made of 64-bit numbers" in stage.told[0]


# -- copies of stores


async def test_each_worker_copies_its_store_before_the_next_checkpoint_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    async with checkpointed(monkeypatch, 2) as (stage, _, checkpoints, _):
        await stage.until(lambda: checkpoints.decided > 0)
        assert await checkpoints.copies(Path("/saved")) == {0: 5, 1: 5}
        for worker in (0, 1):
            orders = [
                line for line in stage.of(worker) if line.split()[0] in ("TakeNote", "CheckpointDecided", "CopyStore")
            ]
            at = next(at for at, line in enumerate(orders) if line.startswith("CopyStore"))
            number = orders[at].split()[1]
            assert orders[at - 2 : at] == [f"TakeNote {number}", f"CheckpointDecided {number}"]


async def test_a_worker_that_dies_while_it_copies_gives_the_copies_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with checkpointed(monkeypatch, 2, {1: [{"CopyStore": "os.kill(os.getpid(), 9)"}, {}]}) as (
        stage,
        _,
        checkpoints,
        _,
    ):
        await stage.until(lambda: checkpoints.decided > 0)
        with pytest.raises(GivenUp, match=r"^a worker was killed by SIGKILL"):
            await checkpoints.copies(Path("/saved"))
        before = checkpoints.decided
        await stage.until(lambda: checkpoints.decided > before)
        assert await checkpoints.copies(Path("/saved")) == {0: 5, 1: 5}


async def test_a_worker_that_can_not_copy_gives_the_copies_up_once_all_have_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    does = {1: [{"CopyStore": "say(StoreCopied(order.checkpoint, 0, 'no room'))"}]}
    async with checkpointed(monkeypatch, 2, does) as (stage, _, checkpoints, _):
        await stage.until(lambda: checkpoints.decided > 0)
        with pytest.raises(GivenUp, match=r"^worker 1: no room$"):
            await checkpoints.copies(Path("/saved"))
        assert any(line.startswith("CopyStore") for line in stage.of(0))
        before = checkpoints.decided
        await stage.until(lambda: checkpoints.decided > before)
