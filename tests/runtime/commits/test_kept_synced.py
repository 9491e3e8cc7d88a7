"""Where commits need not survive a loss of power, those of all parts are synced beside others. D1, D4, D5, D17, F18."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from kept_kit import Counting, kept_in, stored, through
from letters_kit import Trying
from runtime_kit import Number, line

from topology import Config
from topology.filesystem.files import DiskFiles
from topology.runtime.commits.group_commit import COMMIT_S, INLINE_MAX_INPUTS, GroupCommit
from topology.runtime.state.garbage import GONE_BYTES, GONE_EACH, Leaving
from topology.storage.sqlite.schema import ID_BYTES, create_store
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken
from topology.storage.values import Changes, KeptFloor
from topology.testing import Pause, ScriptedSpout, Watch, run_topology
from topology.testing.virtual_time.loop import VirtualLoop, run_virtual

PROCESS = Config(durability="process")
TAKES_S = 0.05  # virtual seconds until what a thread does is done, and as many until that is told


class Part:
    """One of a keeper's. Notes when it was told what."""

    def __init__(self, urgent: int = 0) -> None:
        self.waiting_to_be_kept = urgent
        self.number = 0
        self.idle = False  # it has nothing to keep
        self.forgotten_bytes = 0  # of what it has removed
        self.told: list[tuple[str, int]] = []  # what, and of which gathering

    def gather(self, changes: Changes) -> None:
        assert len(self.told) == self.number, "it is told of one before it is asked for the next"
        self.number += 1
        changes.forgotten_bytes += self.forgotten_bytes
        if not self.idle:
            changes.floors.append(KeptFloor(id(self) % 1_000, b"%d" % self.number))

    def kept(self) -> None:
        self.told.append(("kept", self.number))

    def not_kept(self) -> None:
        self.told.append(("not kept", self.number))


class Kept:
    """A keeper over a real store on a virtual loop, whose threads take their time, with a part of each kind."""

    def __init__(self, path: Path, *, lasting: bool = False) -> None:
        self.synced: list[int] = []
        self.failing = False
        self.store = Trying(SqliteStore(DiskFiles(), path), synced=self.on_sync)
        self.group_commit = GroupCommit(self.store, lasting=lasting)
        self.mark, self.state = Part(), Part(urgent=1)
        self.group_commit.add(self.mark)
        self.group_commit.add_urgent(self.state)

    def on_sync(self, commits: int) -> None:
        if self.failing:
            raise StoreBroken("what is on the disk is unknown")
        self.synced.append(commits)


def on_virtual(path: Path, scenario: Callable[[Kept], Awaitable[None]], *, lasting: bool = False) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.executor_takes = lambda: TAKES_S
        kept = Kept(path, lasting=lasting)
        try:
            await scenario(kept)
        finally:
            kept.store.close()

    run_virtual(main(), seed=0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_store(DiskFiles(), tmp_path / "worker-0.db", id=bytes(ID_BYTES), number=0)
    return tmp_path / "worker-0.db"


def test_who_is_in_no_hurry_is_told_once_it_is_synced_and_who_is_at_once_D1_D4(path: Path) -> None:
    async def scenario(kept: Kept) -> None:
        whole = asyncio.ensure_future(kept.group_commit.commit())
        await asyncio.sleep(TAKES_S / 2)
        assert (kept.state.told, kept.mark.told, kept.synced) == ([("kept", 1)], [], [])
        assert await whole
        assert kept.mark.told == [("kept", 1)]
        assert kept.synced == [kept.store.commits]

    on_virtual(path, scenario)


def test_others_are_committed_while_it_is_synced_and_wait_for_nothing_D1(path: Path) -> None:
    async def scenario(kept: Kept) -> None:
        whole = asyncio.ensure_future(kept.group_commit.commit())
        await asyncio.sleep(TAKES_S / 2)
        for number in range(2, 10):
            kept.group_commit.hurry()
            kept.group_commit.commit_inline()
            assert kept.state.told[-1] == ("kept", number)
        assert not kept.mark.told
        assert await whole

    on_virtual(path, scenario)


def test_what_is_asked_for_while_it_is_written_does_not_wait_for_the_sync_D1(path: Path) -> None:
    async def scenario(kept: Kept) -> None:
        kept.state.waiting_to_be_kept = INLINE_MAX_INPUTS + 1  # so it is written in a thread
        running = asyncio.ensure_future(kept.group_commit.run())
        await asyncio.sleep(COMMIT_S + TAKES_S / 2)
        kept.state.waiting_to_be_kept = 1
        kept.group_commit.hurry()
        kept.group_commit.commit_inline()
        assert not kept.state.told
        await asyncio.sleep(2 * TAKES_S)
        assert kept.state.told == [("kept", 1), ("kept", 2)]
        assert not kept.mark.told
        running.cancel()
        await asyncio.wait({running})

    on_virtual(path, scenario)


def test_what_was_committed_on_the_loop_is_synced_by_the_next_commit_of_all_though_that_has_nothing(path: Path) -> None:
    async def scenario(kept: Kept) -> None:
        assert await kept.group_commit.commit()
        before = kept.store.commits
        kept.group_commit.hurry()
        kept.group_commit.commit_inline()
        assert kept.store.commits == before
        kept.mark.idle = kept.state.idle = True
        assert await kept.group_commit.commit()
        assert kept.store.commits == before + 1
        synced = len(kept.synced)
        assert await kept.group_commit.commit()
        assert len(kept.synced) == synced, "there is nothing to sync"

    on_virtual(path, scenario)


def test_where_each_commit_is_synced_nothing_is_apart_D1(path: Path) -> None:
    async def scenario(kept: Kept) -> None:
        assert await kept.group_commit.commit()
        assert kept.mark.told == kept.state.told == [("kept", 1)]
        assert not kept.synced

    on_virtual(path, scenario, lasting=True)


def test_a_sync_that_fails_ends_it_and_nobody_was_told_F18(path: Path) -> None:
    async def scenario(kept: Kept) -> None:
        kept.failing = True
        with pytest.raises(StoreBroken):
            await kept.group_commit.commit()
        with pytest.raises(StoreBroken):
            await kept.group_commit.commit()
        assert not kept.mark.told

    on_virtual(path, scenario)


@pytest.mark.parametrize("after_s", [TAKES_S / 2, 1.5 * TAKES_S])
@pytest.mark.parametrize("waiting", [1, INLINE_MAX_INPUTS + 1], ids=["written on the loop", "written in a thread"])
def test_what_was_under_way_when_it_was_cancelled_is_synced_before_anybody_is_told_D4(
    path: Path, after_s: float, waiting: int
) -> None:
    async def scenario(kept: Kept) -> None:
        kept.state.waiting_to_be_kept = waiting
        running = asyncio.ensure_future(kept.group_commit.run())
        await asyncio.sleep(COMMIT_S + after_s)
        running.cancel()
        await asyncio.wait({running})
        assert not kept.mark.told
        assert await kept.group_commit.settle(in_order=True)
        assert kept.mark.told == [("kept", 1), ("kept", 2)]
        assert kept.synced[-1] == kept.store.commits - 1, "the last commit says that it ended in order"

    on_virtual(path, scenario)


def test_a_run_syncs_apart_and_all_of_it_is_kept(tmp_path: Path) -> None:
    synced: list[int] = []
    script: list[Number | Pause] = [part for n in range(50) for part in (Number(n % 5), Pause(0.05))]
    topology, captured = line(ScriptedSpout(script), Counting(), by="n", config=PROCESS)
    watch = Watch(before=through(synced=synced.append, takes_s=TAKES_S))
    assert run_topology(topology, seed=None, state_dir=tmp_path, watch=watch).exit_status == 0
    assert len(captured.distinct) == 50
    assert len(synced) > 3
    assert kept_in(tmp_path) == dict.fromkeys(range(5), 10)


def test_of_long_rows_fewer_leave_with_a_commit_as_each_page_of_theirs_is_written_to_D5() -> None:
    leaving = Leaving()
    leaving.add(dict.fromkeys(range(100), GONE_BYTES // 2) | dict.fromkeys(range(100, 200), 10))
    left: list[tuple[int, int]] = []
    while sum(many for many, _ in left) < 200:
        changes = Changes()
        leaving.gather(changes)
        leaving.kept()
        left.append((len(changes.forgotten), changes.forgotten_bytes))
        assert changes.size >= changes.forgotten_bytes
    assert left[0] == (2, GONE_BYTES)
    assert max(many for many, _ in left) == GONE_EACH
    assert max(size for _, size in left) <= GONE_BYTES + 10 * GONE_EACH


def test_a_commit_in_which_much_goes_is_not_the_loops(path: Path) -> None:
    async def scenario(kept: Kept) -> None:
        kept.state.forgotten_bytes = 1 << 20
        kept.group_commit.hurry()
        kept.group_commit.commit_inline()
        assert kept.state.told == [("not kept", 1)]
        running = asyncio.ensure_future(kept.group_commit.run())
        await asyncio.sleep(TAKES_S / 2)
        assert "kept" not in dict(kept.state.told), "it is under way in the thread"
        await asyncio.sleep(3 * TAKES_S)
        assert "kept" in dict(kept.state.told)
        running.cancel()
        await asyncio.wait({running})

    on_virtual(path, scenario)


def test_rows_that_nobody_needs_leave_a_few_with_each_commit_D5(tmp_path: Path) -> None:
    forgotten: list[int] = []

    def script() -> Iterator[Number | Pause]:
        for n in range(600):
            yield from (Number(n % 5), Pause(0.01))

    topology, _ = line(ScriptedSpout([*script()]), Counting(), by="n", config=PROCESS)
    watch = Watch(before=through(before=lambda changes: forgotten.append(len(changes.forgotten))))
    assert run_topology(topology, seed=None, state_dir=tmp_path, watch=watch).exit_status == 0
    assert sum(1 for count in forgotten if count) > 10
    assert max(forgotten[:-2]) <= GONE_EACH
    left = sum(len(kept.journal) for kept in stored(tmp_path))
    assert sum(forgotten) + left == 600
    assert left < 30, "of the messages whose end the last progress did not tell of"
