"""Group commit of the log: which outputs leave when, and what a full or broken log holds back. P8, P13, P14."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from topology.runtime.checkpoints import log_commit
from topology.runtime.checkpoints.log_commit import LogCommit
from topology.runtime.checkpoints.store_room import StoreRoom
from topology.runtime.checkpoints.store_threads import StoreThreads
from topology.storage.store import StoreBroken, StoreFull
from topology.testing.virtual_time.loop import VirtualLoop, run_virtual

TAKES_S = 0.05  # virtual seconds until a sync is done, and as many until that is told


class MemoryLog:
    """A store's log, in memory. `groups` has what was appended; `marks` where a checkpoint was marked."""

    def __init__(self) -> None:
        self.groups: list[list[bytes]] = []
        self.marks: list[tuple[int, int]] = []  # checkpoint, records before it
        self.position = 0
        self.synced = 0
        self.full = self.refused = 0  # how many more appends find no room; how many have
        self.breaks: list[BaseException] = []  # what the next syncs raise
        self.room_for: int | None = None  # groups that still fit in

    def append(self, records: Sequence[bytes]) -> int:
        if self.full or self.room_for == 0:
            self.full = max(0, self.full - 1)
            self.refused += 1
            raise StoreFull("no space left on device")
        if self.room_for is not None:
            self.room_for -= 1
        self.groups.append([*records])
        self.position += len(records)
        return self.position

    def sync(self) -> int:
        if self.breaks:
            raise self.breaks.pop()
        self.synced = self.position
        return self.position

    def mark(self, checkpoint: int) -> None:
        self.marks.append((checkpoint, self.position))

    @property
    def records(self) -> list[bytes]:
        return [record for group in self.groups for record in group]


class Task:
    """A logged part. `gone` has the records whose outputs have left, with what the log had then."""

    def __init__(self, stage: "Stage") -> None:
        self._stage = stage
        self._open: list[bytes] = []
        self._taken: list[bytes] = []
        self._written: list[tuple[int, list[bytes]]] = []
        self.gone: list[bytes] = []

    def done(self, *records: bytes) -> None:
        """Inputs were processed in one slice."""
        self._open += records

    def take_records(self) -> list[bytes]:
        records, self._open = self._open, []
        self._taken += records
        return [record for record in records if record]

    def written(self, position: int) -> None:
        if self._taken:
            self._written.append((position, self._taken))
            self._taken = []

    def release(self, position: int) -> None:
        while self._written and self._written[0][0] <= position:
            records = self._written.pop(0)[1]
            safe = self._stage.log.records[: self._stage.log.synced if self._stage.synced else None]
            assert all(record in safe for record in records if record), "it leaves before the log has it"
            self.gone += records


class Stage:
    def __init__(self, *, synced: bool, tasks: int = 1) -> None:
        self.synced = synced
        log: Any = MemoryLog()
        self.log = log
        self.room = StoreRoom()
        self.errors: list[BaseException] = []
        self.commit = LogCommit(self.log, StoreThreads(), self.room, synced=synced)
        self.commit.failed = self.errors.append
        self.tasks = [Task(self) for _ in range(tasks)]
        for task in self.tasks:
            self.commit.add(task)
        self.task = self.tasks[0]


def on_stage(told: Callable[[Stage], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.executor_takes = lambda: TAKES_S
        stage = Stage(**settings)
        await told(stage)
        await stage.commit.close()

    run_virtual(main(), seed=0)


# -- when outputs leave


def test_what_is_written_while_a_sync_is_under_way_waits_for_the_next_one_together_P8() -> None:
    async def told(stage: Stage) -> None:
        stage.task.done(b"a")
        stage.commit.write()
        await asyncio.sleep(1.5 * TAKES_S)  # synced, and not told
        for record in (b"b", b"c", b"d"):
            stage.task.done(record)
            stage.commit.write()
        await asyncio.sleep(TAKES_S)
        assert stage.task.gone == [b"a"]
        await asyncio.sleep(2 * TAKES_S)
        assert stage.task.gone == [b"a", b"b", b"c", b"d"], "one sync for the three"

    on_stage(told, synced=True)


def test_all_that_was_done_in_one_turn_is_written_at_its_end() -> None:
    async def told(stage: Stage) -> None:
        for record in (b"a", b"b", b"c"):
            stage.task.done(record)
            stage.commit.soon()
        assert stage.log.groups == []
        await asyncio.sleep(0)
        assert stage.log.groups == [[b"a", b"b", b"c"]]
        assert stage.task.gone == [b"a", b"b", b"c"]

    on_stage(told, synced=False)


def test_records_of_all_tasks_are_written_and_each_task_gets_its_own() -> None:
    async def told(stage: Stage) -> None:
        for number, task in enumerate(stage.tasks):
            task.done(b"%d" % number)
        stage.commit.write()
        assert [task.gone for task in stage.tasks] == [[b"0"], [b"1"], [b"2"]]

    on_stage(told, synced=False, tasks=3)


@pytest.mark.parametrize("synced", [False, True])
def test_inputs_that_the_log_need_not_have_wait_for_those_before_them_alone(synced: bool) -> None:
    async def told(stage: Stage) -> None:
        stage.task.done(b"")
        stage.commit.write()
        assert stage.task.gone == [b""], "there is nothing to wait for"
        stage.task.done(b"a")
        stage.commit.write()
        stage.task.done(b"")
        stage.commit.write()
        await asyncio.sleep(3 * TAKES_S)
        assert stage.task.gone == [b"", b"a", b""]
        assert stage.log.groups == [[b"a"]]

    on_stage(told, synced=synced)


def test_many_bytes_go_in_several_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_commit, "GROUP_BYTES", 10)

    async def told(stage: Stage) -> None:
        stage.task.done(b"aaaa", b"bbbb", b"cccc", b"d" * 20, b"e")
        stage.commit.write()
        assert [len(group) for group in stage.log.groups] == [2, 1, 1, 1]
        assert b"".join(stage.log.records) == b"aaaabbbbcccc" + b"d" * 20 + b"e"
        assert len(stage.task.gone) == 5

    on_stage(told, synced=False)


# -- a full log


@pytest.mark.parametrize("synced", [False, True])
def test_a_full_log_lets_nothing_leave_and_loses_nothing_P8_P14(synced: bool) -> None:
    async def told(stage: Stage) -> None:
        stage.log.full = 3
        stage.task.done(b"a")
        stage.commit.write()
        stage.task.done(b"b")
        stage.commit.write()
        assert stage.log.refused == 1, "it is tried again later, not with each slice"
        assert "no space left" in stage.room.why_full
        await asyncio.sleep(0.15)
        assert (stage.task.gone, stage.log.refused) == ([], 2)
        room = asyncio.ensure_future(stage.room.wait())
        await asyncio.sleep(5)
        assert room.done()
        assert stage.task.gone == [b"a", b"b"]
        assert stage.log.records == [b"a", b"b"], "in their order, each once"
        assert stage.errors == []

    on_stage(told, synced=synced)


def test_outputs_of_what_did_not_fit_in_any_more_do_not_leave_with_what_did_P8_P14() -> None:
    async def told(stage: Stage) -> None:
        stage.log.room_for = 0
        stage.task.done(b"a")
        stage.commit.write()
        stage.task.done(b"b")
        stage.log.room_for = 1
        stage.tasks[1].done(b"c")
        await asyncio.sleep(0.11)
        for task in stage.tasks:
            assert all(record in stage.log.records for record in task.gone)
        stage.log.room_for = None
        await asyncio.sleep(5)
        assert [task.gone for task in stage.tasks] == [[b"a", b"b"], [b"c"]]
        assert sorted(stage.log.records) == [b"a", b"b", b"c"]

    on_stage(told, synced=False, tasks=2)


def test_a_checkpoint_is_marked_behind_all_records_of_its_snapshot() -> None:
    async def told(stage: Stage) -> None:
        stage.task.done(b"a", b"b")
        stage.commit.mark(7)
        assert stage.log.marks == [(7, 2)]
        stage.commit.soon()
        await asyncio.sleep(0)
        assert stage.task.gone == [b"a", b"b"]

    on_stage(told, synced=False)


def test_a_full_log_takes_no_mark_because_its_snapshot_has_what_the_log_has_not_P14() -> None:
    async def told(stage: Stage) -> None:
        stage.log.full = 2
        stage.task.done(b"a")
        stage.commit.write()
        with pytest.raises(StoreFull, match="no space left"):
            stage.commit.mark(7)
        assert stage.log.marks == []
        await asyncio.sleep(1)
        stage.commit.mark(8)
        assert stage.log.marks == [(8, 1)]

    on_stage(told, synced=False)


# -- a broken one, and the end


def test_a_sync_that_fails_ends_the_worker_and_nothing_leaves_any_more_P13() -> None:
    async def told(stage: Stage) -> None:
        stage.log.breaks = [StoreBroken("the fsync failed")]
        stage.task.done(b"a")
        stage.commit.write()
        await asyncio.sleep(3 * TAKES_S)
        assert [str(error) for error in stage.errors] == ["the fsync failed"]
        stage.task.done(b"b")
        stage.commit.write()
        await asyncio.sleep(3 * TAKES_S)
        assert stage.task.gone == [], "though the next sync would go well"
        assert stage.log.records == [b"a"]
        with pytest.raises(StoreBroken):
            stage.commit.mark(7)

    on_stage(told, synced=True)


def test_a_write_that_fails_ends_the_worker_and_nothing_is_tried_again_P13() -> None:
    async def told(stage: Stage) -> None:
        append, errors = stage.log.append, [StoreBroken("the disk is gone")]

        def breaks(records: Sequence[bytes]) -> int:
            if errors:
                raise errors.pop()
            return int(append(records))

        stage.log.append = breaks
        stage.task.done(b"a")
        stage.commit.write()
        stage.commit.write()
        assert [str(error) for error in stage.errors] == ["the disk is gone"]
        assert stage.task.gone == []
        assert stage.log.groups == []
        with pytest.raises(StoreBroken):
            stage.commit.mark(7)

    on_stage(told, synced=False)


def test_once_it_is_closed_nothing_is_written_and_a_sync_under_way_is_waited_for() -> None:
    async def told(stage: Stage) -> None:
        stage.task.done(b"a")
        stage.commit.write()
        closing = asyncio.ensure_future(stage.commit.close())
        await asyncio.sleep(0)
        stage.task.done(b"b")
        stage.commit.write()
        assert not closing.done()
        await closing
        assert stage.log.records == [b"a"]
        assert stage.log.synced == 1

    on_stage(told, synced=True)
