"""A worker's end of checkpoints: from the note to the decision, and what becomes of one that is given up. P1, P4 to P6,
P13, P14."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from letters_kit import INCARNATIONS, Disk, Trying, store_at
from positions_kit import marks_in

from acker.frontier import Decided, Frontier, Note
from acker.roots import owner
from topology.filesystem.files import DiskFiles
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes, Mark
from topology.storage.worker_store import open_store
from topology.testing.virtual_time.loop import VirtualLoop, run_virtual

TAKES_S = 0.05  # virtual seconds that a thread waits, and then takes


class NotedMarks:
    """A noted part: its `value` goes into a mark."""

    def __init__(self) -> None:
        self.value = 0
        self.told: list[str] = []

    def gather(self, changes: Changes) -> None:
        self.told.append("gather")
        changes.marks.append(Mark("numbers", 0, "", "", self.value, (), self.value))

    def kept(self) -> None:
        self.told.append("kept")

    def not_kept(self) -> None:
        self.told.append("not kept")


class Snapshots:
    """A gathered part. `packed` has its value at each snapshot that was packed."""

    def __init__(self) -> None:
        self.value = 0
        self.told: list[str] = []
        self.packed: list[int] = []
        self.changed = True
        self._snapshot = 0

    def gather(self) -> None:
        self.told.append("gather")
        self._snapshot = self.value

    def pack(self, changes: Changes, frontier: Frontier) -> None:
        self.packed.append(self._snapshot)

    def kept(self) -> None:
        self.told.append("kept")

    def not_kept(self) -> None:
        self.told.append("not kept")

    def go_back(self) -> None:
        self.told.append("go back")


class Stage:
    """The checkpoints of worker 0 over a real store, with a part of each kind. `said` has what they answered."""

    def __init__(self, path: Path) -> None:
        self.disk = Disk()
        self.breaks: list[BaseException] = []
        self.said: list[tuple[Any, ...]] = []
        self.errors: list[BaseException] = []
        self.store = Trying(store_at(path, logged=False), before=self._before)
        self.decided = Decided()
        self.newest = 1
        self.checkpoints = one = WorkerCheckpoints(self.store, decided=self.decided, note_of=self.note_of)
        self.marks, self.state = NotedMarks(), Snapshots()
        one.add(self.marks)
        one.add_gathered(self.state)
        one.answers.prepared = lambda checkpoint, size, seconds: self.said.append(("prepared", checkpoint))
        one.answers.unprepared = lambda checkpoint, why: self.said.append(("unprepared", checkpoint, why))
        one.answers.settled = lambda checkpoint: self.said.append(("settled", checkpoint))
        one.answers.wanted = lambda: self.said.append(("wanted",))
        one.failed = self.errors.append

    def note_of(self) -> Note:
        return Note((owner(0, 1),), owner(0, 1) << 32 | self.newest)

    def _before(self, changes: Changes) -> None:
        self.disk.check(changes)
        if self.breaks:
            raise self.breaks.pop()

    def frontier(self, checkpoint: int) -> Frontier:
        return Frontier(checkpoint, {0: self.note_of()})

    def note(self, checkpoint: int) -> None:
        self.checkpoints.note(checkpoint)

    def gather(self, checkpoint: int) -> None:
        self.checkpoints.gather(self.frontier(checkpoint))

    async def prepared(self, checkpoint: int) -> None:
        self.note(checkpoint)
        self.gather(checkpoint)
        await until(lambda: ("prepared", checkpoint) in self.said)

    async def whole(self, checkpoint: int) -> None:
        await self.prepared(checkpoint)
        self.checkpoints.decided(checkpoint)
        await until(lambda: ("settled", checkpoint) in self.said)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 – virtual time, and nothing tells
            await asyncio.sleep(0.01)


def on_stage(path: Path, told: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.executor_takes = lambda: TAKES_S
        stage = Stage(path)
        try:
            await told(stage)
        finally:
            await stage.checkpoints.close(in_order=False)

    run_virtual(main(), seed=0)


# -- the steps


def test_a_checkpoint_is_noted_gathered_prepared_and_taken_in_P1_P5(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.marks.value, stage.state.value = 5, 50
        stage.note(7)
        assert (stage.marks.told, stage.state.told) == (["gather"], [])
        stage.marks.value, stage.state.value = 6, 60
        stage.gather(7)
        assert stage.state.told == ["gather"]
        assert stage.checkpoints.gathered == 7
        stage.state.value = 70
        await until(lambda: stage.said == [("prepared", 7)])
        assert stage.state.packed == [60], "the snapshot is of the barrier"
        assert stage.decided.frontier.checkpoint == 0, "nothing is forgotten before the decision (P4)"
        stage.checkpoints.decided(7)
        assert stage.decided.frontier.checkpoint == 7, "from this moment on"
        assert stage.state.told == ["gather", "kept"]
        await until(lambda: stage.said[-1] == ("settled", 7))
        assert stage.marks.told == ["gather", "kept"]

    on_stage(tmp_path, told)
    (mark,) = marks_in(tmp_path)
    assert mark.position == 5, "as it was noted (P2)"


def test_an_undecided_checkpoint_leaves_no_trace_P5(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        await stage.prepared(7)

    on_stage(tmp_path, told)
    store = store_at(tmp_path, logged=False)
    assert store.loaded.marks == ()
    store.close()


def test_a_prepared_checkpoint_that_is_decided_elsewhere_is_there_after_a_death_P5(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.marks.value = 5
        await stage.prepared(7)

    on_stage(tmp_path, told)
    file = tmp_path / "worker-0.db"
    store = open_store(DiskFiles(), file, owner=(0, next(INCARNATIONS)), decided=7, logged=False)
    assert [mark.position for mark in store.loaded.marks] == [5]
    store.close()


def test_a_worker_gathers_before_it_reads_a_tuple_whose_sender_has_gathered_P1(tmp_path: Path) -> None:
    """The colours of Lai and Yang."""

    async def told(stage: Stage) -> None:
        stage.state.value = 1
        stage.note(7)
        stage.checkpoints.saw(7)
        assert stage.state.told == ["gather"]
        stage.state.value = 2  # the effect of that tuple
        stage.checkpoints.saw(7)
        stage.gather(7)
        await until(lambda: bool(stage.said))
        assert stage.state.told == ["gather"], "once"
        assert stage.state.packed == [1]
        assert stage.said == [("prepared", 7)]

    on_stage(tmp_path, told)


def test_a_colour_of_no_checkpoint_under_way_gathers_nothing(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.checkpoints.saw(7)
        stage.note(8)
        stage.checkpoints.saw(7)
        stage.checkpoints.saw(9)
        assert stage.state.told == []

    on_stage(tmp_path, told)


def test_a_barrier_of_another_checkpoint_or_a_second_one_does_nothing(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.note(8)
        stage.gather(7)
        assert stage.state.told == []
        stage.gather(8)
        stage.gather(8)
        await until(lambda: bool(stage.said))
        await asyncio.sleep(1)
        assert stage.said == [("prepared", 8)]

    on_stage(tmp_path, told)


def test_the_only_worker_keeps_it_for_good_in_one_step(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.marks.value = 5
        stage.note(7)
        stage.checkpoints.gather(stage.frontier(7), alone=True)
        await until(lambda: bool(stage.said))
        assert stage.said == [("prepared", 7)]

    on_stage(tmp_path, told)
    assert [mark.position for mark in marks_in(tmp_path)] == [5]


# -- given up


@pytest.mark.parametrize("step", ["noted", "coloured", "gathered", "prepared"])
def test_what_was_given_up_is_gathered_again_P5(tmp_path: Path, step: str) -> None:
    async def told(stage: Stage) -> None:
        stage.marks.value, stage.state.value = 5, 50
        stage.note(7)
        if step == "coloured":
            stage.checkpoints.saw(7)
        elif step != "noted":
            stage.gather(7)
        if step == "prepared":
            await until(lambda: bool(stage.said))
        stage.checkpoints.given_up(7)
        assert stage.marks.told == ["gather", "not kept"]
        assert stage.state.told == ([] if step == "noted" else ["gather", "not kept"])
        stage.checkpoints.given_up(7)
        assert stage.marks.told == ["gather", "not kept"], "once"
        stage.marks.value, stage.state.value = 6, 60
        await stage.whole(8)
        assert stage.state.packed[-1] == 60
        assert ("prepared", 7) not in stage.said or step == "prepared"

    on_stage(tmp_path, told)
    assert [mark.position for mark in marks_in(tmp_path)] == [6]


def test_a_checkpoint_is_given_up_when_the_next_is_noted_or_a_generation_begins_P6(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.note(7)
        stage.gather(7)
        stage.note(8)
        assert stage.state.told == ["gather", "not kept"]
        stage.checkpoints.end()
        assert stage.marks.told == ["gather", "not kept", "gather", "not kept"]
        stage.checkpoints.end()
        await asyncio.sleep(1)
        assert stage.said == [], "nobody waits for either"
        await stage.whole(9)

    on_stage(tmp_path, told)


def test_a_generation_that_begins_while_a_decision_is_taken_in_leaves_it_decided_P5(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        await stage.prepared(7)
        stage.checkpoints.decided(7)
        stage.checkpoints.end()
        await until(lambda: stage.said[-1] == ("settled", 7))
        assert stage.marks.told == ["gather", "kept"]
        assert stage.state.told == ["gather", "kept"]

    on_stage(tmp_path, told)


def test_none_is_prepared_over_a_decision_that_is_not_taken_in_P6(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        await stage.prepared(7)
        stage.checkpoints.decided(7)
        stage.note(8)
        stage.gather(8)
        await until(lambda: ("settled", 7) in stage.said)
        assert [one[:2] for one in stage.said] == [("prepared", 7), ("unprepared", 8), ("settled", 7)]
        await stage.whole(9)

    on_stage(tmp_path, told)


def test_a_decision_for_what_is_not_prepared_here_is_a_mistake(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.note(7)
        stage.gather(7)
        with pytest.raises(AssertionError, match="checkpoint 7 is decided"):
            stage.checkpoints.decided(7)

    on_stage(tmp_path, told)


# -- a store that is full, or broken


def test_a_full_store_refuses_the_checkpoint_and_holds_the_sources_until_one_is_decided_P14(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.disk.full = True
        stage.note(7)
        stage.gather(7)
        await until(lambda: bool(stage.said))
        assert stage.said == [("unprepared", 7, "no space left on device")]
        assert "no space left" in stage.checkpoints.why_full
        room = asyncio.ensure_future(stage.checkpoints.room())
        stage.checkpoints.given_up(7)
        stage.disk.full = False
        await stage.prepared(8)
        assert not room.done(), "not before it is decided"
        stage.checkpoints.decided(8)
        await room
        assert stage.checkpoints.why_full == ""
        assert stage.errors == []

    on_stage(tmp_path, told)


def test_a_log_that_has_no_room_for_the_mark_refuses_the_checkpoint_P14(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        full = [True]

        def mark(checkpoint: int) -> None:
            if full:
                raise StoreFull("no space left on device")

        stage.checkpoints.before_gather = mark
        stage.note(7)
        stage.gather(7)
        await asyncio.sleep(1)
        assert stage.said == [("unprepared", 7, "no space left on device")]
        assert stage.state.told == [], "nothing is gathered"
        stage.checkpoints.given_up(7)
        full.clear()
        await stage.whole(8)

    on_stage(tmp_path, told)


@pytest.mark.parametrize("where", ["mark", "prepare"])
def test_a_store_that_breaks_ends_the_worker_and_keeps_nothing_any_more_P13(tmp_path: Path, where: str) -> None:
    async def told(stage: Stage) -> None:
        errors = [StoreBroken("the fsync failed")]

        def mark(checkpoint: int) -> None:
            if errors:
                raise errors.pop()

        if where == "mark":
            stage.checkpoints.before_gather = mark
        else:
            stage.breaks = [errors.pop()]
        stage.note(7)
        stage.gather(7)
        await until(lambda: bool(stage.said))
        assert [str(error) for error in stage.errors] == ["the fsync failed"]
        assert {*stage.said} == {("unprepared", 7, "the fsync failed")}
        stage.checkpoints.given_up(7)
        stage.note(8)
        stage.gather(8)
        await asyncio.sleep(1)
        assert stage.said[-1] == ("unprepared", 8, "the fsync failed"), "though it would go well now"

    on_stage(tmp_path, told)
    assert marks_in(tmp_path) == ()


# -- those who wait for a checkpoint


def test_a_commit_asks_for_a_checkpoint_and_waits_until_it_is_decided(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        waiting = asyncio.ensure_future(stage.checkpoints.commit())
        await until(lambda: ("wanted",) in stage.said)
        assert stage.said == [("wanted",)]
        await stage.prepared(7)
        assert not waiting.done()
        stage.checkpoints.decided(7)
        assert await waiting is True

    on_stage(tmp_path, told)


def test_a_commit_waits_for_a_checkpoint_that_was_noted_after_the_call(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.note(7)
        waiting = asyncio.ensure_future(stage.checkpoints.commit())
        await until(lambda: ("wanted",) in stage.said)
        stage.gather(7)
        await until(lambda: ("prepared", 7) in stage.said)
        stage.said.clear()
        stage.checkpoints.decided(7)
        await until(lambda: ("settled", 7) in stage.said)
        assert not waiting.done()
        assert ("wanted",) in stage.said, "asked for again"
        await stage.whole(8)
        assert await waiting is True

    on_stage(tmp_path, told)


def test_a_commit_whose_checkpoint_is_given_up_says_so(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        waiting = asyncio.ensure_future(stage.checkpoints.commit())
        await until(lambda: ("wanted",) in stage.said)
        stage.note(7)
        stage.checkpoints.given_up(7)
        assert await waiting is False

    on_stage(tmp_path, told)


def test_what_waits_for_a_checkpoint_in_which_nothing_has_changed_is_kept_already(tmp_path: Path) -> None:
    async def told(stage: Stage) -> None:
        stage.state.changed = False

        def nothing(changes: Changes) -> None:
            stage.marks.told.append("gather")

        stage.marks.gather = nothing  # type: ignore[method-assign]
        for checkpoint in (7, 8):
            stage.note(checkpoint)
            stage.checkpoints.gather(stage.frontier(checkpoint), alone=True)
            await until(lambda checkpoint=checkpoint: ("prepared", checkpoint) in stage.said)  # type: ignore[misc]
            stage.checkpoints.decided(checkpoint)
            await until(lambda checkpoint=checkpoint: ("settled", checkpoint) in stage.said)  # type: ignore[misc]
        waiting = asyncio.ensure_future(stage.checkpoints.commit())
        await until(lambda: ("wanted",) in stage.said)
        _, quiet = stage.checkpoints.note(9)
        assert quiet
        stage.checkpoints.given_up(9)
        assert await waiting is True
        assert stage.marks.told[-1] == "kept"

    on_stage(tmp_path, told)


# -- without a store


def test_without_a_store_parts_forget_all_the_same_P4() -> None:
    async def main() -> None:
        decided = Decided()
        checkpoints = WorkerCheckpoints(None, decided=decided, note_of=lambda: Note((1,), 5))
        state = Snapshots()
        checkpoints.add_gathered(state)
        said: list[int] = []
        checkpoints.answers.prepared = lambda checkpoint, size, seconds: said.append(size)
        assert await checkpoints.commit() is True
        checkpoints.note(7)
        checkpoints.gather(Frontier(7, {0: Note((1,), 5)}))
        await asyncio.sleep(0.1)
        assert said == [0]
        checkpoints.decided(7)
        assert state.told == ["gather", "kept"]
        await checkpoints.close(in_order=True)

    run_virtual(main(), seed=0)
