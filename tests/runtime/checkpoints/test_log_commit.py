"""Outputs leave once the log has the records of their inputs: with "process" written, with "disk" synced (P8)."""

import asyncio
from types import SimpleNamespace

from letters_kit import until

from topology.runtime.checkpoints.log_commit import LogCommit
from topology.runtime.checkpoints.store_room import StoreRoom
from topology.storage.store import StoreBroken, StoreFull


class Log:
    """A log whose syncs end when they are let."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.groups: list[list[bytes]] = []
        self.is_full = False
        self.marked_at = -1
        self.syncs: list[asyncio.Future[int]] = []

    def append(self, records: list[bytes]) -> int:
        if self.is_full:
            raise StoreFull("there is no room")
        self.records += records
        self.groups.append([*records])
        return len(self.records)

    def sync(self) -> int:
        return len(self.records)

    def mark(self, checkpoint: int) -> None:
        self.marked_at = len(self.records)

    def sync_soon(self, function: object) -> asyncio.Future[int]:
        self.syncs.append(asyncio.get_running_loop().create_future())
        return self.syncs[-1]


class Task:
    """Inputs that are done wait until they may leave."""

    def __init__(self) -> None:
        self.new: list[bytes] = []
        self.taken: list[bytes] = []
        self.waiting: list[tuple[int, list[bytes]]] = []
        self.left: list[bytes] = []

    def take_records(self) -> list[bytes]:
        records, self.new = self.new, []
        self.taken += records
        return records

    def written(self, position: int) -> None:
        if self.taken:
            self.waiting.append((position, self.taken))
        self.taken = []

    def release(self, position: int) -> None:
        while self.waiting and self.waiting[0][0] <= position:
            self.left += self.waiting.pop(0)[1]


class Stand:
    def __init__(self, *, synced: bool) -> None:
        self.log, self.task, self.errors = Log(), Task(), list[BaseException]()
        threads = SimpleNamespace(sync_soon=self.log.sync_soon)
        self.commit = LogCommit(self.log, threads, StoreRoom(), synced=synced)  # type: ignore[arg-type]
        self.commit.failed = self.errors.append
        self.commit.add(self.task)

    def does(self, *records: bytes) -> None:
        """Inputs are done, and it is written."""
        self.task.new += records
        self.commit.write()


async def test_outputs_leave_when_their_records_are_written_where_nothing_is_synced_P8() -> None:
    stand = Stand(synced=False)
    stand.does(b"one")
    assert stand.log.records == stand.task.left == [b"one"]
    assert not stand.log.syncs


async def test_outputs_leave_when_their_records_are_synced_and_not_when_they_are_written_P8_D1() -> None:
    stand = Stand(synced=True)
    stand.does(b"one")
    stand.does(b"two")
    assert stand.log.records == [b"one", b"two"]
    assert stand.task.left == []
    stand.log.syncs[0].set_result(1)
    await asyncio.sleep(0)
    assert stand.task.left == [b"one"], "the second one came after that sync had begun"
    stand.log.syncs[1].set_result(2)
    await asyncio.sleep(0)
    assert stand.task.left == [b"one", b"two"]


async def test_slices_that_end_during_a_sync_are_one_group_which_the_next_sync_makes_durable_P8() -> None:
    stand = Stand(synced=True)
    for record in (b"one", b"two", b"three"):
        stand.task.new.append(record)
        stand.commit.worked()
    assert stand.log.groups == [[b"one"]]
    stand.log.syncs[0].set_result(1)
    await asyncio.sleep(0)
    assert stand.log.groups == [[b"one"], [b"two", b"three"]]
    assert stand.task.left == [b"one"]
    stand.log.syncs[1].set_result(3)
    await asyncio.sleep(0)
    assert stand.task.left == [b"one", b"two", b"three"]
    assert len(stand.log.syncs) == 2, "nothing is left to be synced"


async def test_much_is_written_while_a_sync_is_under_way_and_leaves_after_the_next_one_P8() -> None:
    stand = Stand(synced=True)
    stand.does(b"one")
    stand.task.new.append(b"two")
    stand.commit.worked(is_much=True)
    assert stand.log.records == [b"one", b"two"]
    stand.log.syncs[0].set_result(1)
    await asyncio.sleep(0)
    assert stand.task.left == [b"one"]


async def test_nothing_leaves_that_a_full_log_has_not_and_all_of_it_once_there_is_room_P8_P14() -> None:
    stand = Stand(synced=False)
    stand.does(b"one")
    stand.log.is_full = True
    stand.does(b"two")
    stand.does(b"three")
    assert stand.task.left == [b"one"]
    stand.log.is_full = False
    await until(lambda: len(stand.task.left) == 3)
    assert stand.log.records == stand.task.left == [b"one", b"two", b"three"]


async def test_a_mark_stands_behind_all_that_was_done_before_it_P8() -> None:
    stand = Stand(synced=False)
    stand.task.new = [b"one", b"two"]
    stand.commit.mark(1)
    assert stand.log.marked_at == 2


async def test_a_sync_that_fails_ends_the_worker_and_nothing_leaves_P13() -> None:
    stand = Stand(synced=True)
    stand.does(b"one")
    stand.log.syncs[0].set_exception(StoreBroken("unknown"))
    await asyncio.sleep(0)
    assert [str(error) for error in stand.errors] == ["unknown"]
    assert stand.task.left == []
    assert len(stand.log.syncs) == 1
