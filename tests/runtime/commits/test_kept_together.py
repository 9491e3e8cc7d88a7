"""Who has a backlog commits many inputs together; a lone one waits for none. D1."""

import asyncio
import time
from pathlib import Path

import pytest

from topology.filesystem.files import DiskFiles
from topology.runtime.commits.group_commit import TOGETHER_MAX, TOGETHER_S, GroupCommit
from topology.storage.sqlite.schema import ID_BYTES, create_store
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes, KeptFloor


class Inputs:
    """A part that has inputs to keep. `told` has how many each commit was of."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self.told: list[int] = []
        self.waiting_to_be_kept = self._gathered = 0
        self._keeper = group_commit
        group_commit.add_urgent(self)

    def come(self, count: int = 1) -> None:
        """As an executor has it: a commit is asked for with the first, and may be made after each slice."""
        if not self.waiting_to_be_kept:
            self._keeper.hurry()
        self.waiting_to_be_kept += count
        self._keeper.commit_inline()

    def gather(self, changes: Changes) -> None:
        self._gathered = self.waiting_to_be_kept
        changes.floors.append(KeptFloor(1, b"%d" % len(self.told)))

    def kept(self) -> None:
        self.told.append(self._gathered)
        self.waiting_to_be_kept = self._gathered = 0

    def not_kept(self) -> None:
        raise AssertionError("there is room")


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    create_store(DiskFiles(), tmp_path / "worker-0.db", id=bytes(ID_BYTES), number=0)
    return SqliteStore(DiskFiles(), tmp_path / "worker-0.db")


@pytest.fixture
async def group_commit(store: SqliteStore) -> GroupCommit:
    return GroupCommit(store, lasting=False)


async def test_a_lone_input_is_kept_within_its_turn_D1(group_commit: GroupCommit) -> None:
    inputs = Inputs(group_commit)
    inputs.come()
    assert inputs.told == [1]
    await group_commit.settle(in_order=True)


async def test_inputs_that_are_at_hand_are_kept_with_it_at_the_end_of_the_turn_D1(group_commit: GroupCommit) -> None:
    inputs, left = Inputs(group_commit), 3
    group_commit.more_comes = lambda: bool(left)
    while left:
        inputs.come()
        assert not inputs.told
        left -= 1
    await asyncio.sleep(0)
    assert inputs.told == [3]
    await group_commit.settle(in_order=True)


async def test_the_last_that_is_at_hand_takes_the_others_along_D1(group_commit: GroupCommit) -> None:
    inputs = Inputs(group_commit)
    group_commit.more_comes = lambda: True
    inputs.come()
    group_commit.more_comes = lambda: False
    inputs.come()
    assert inputs.told == [2]
    await group_commit.settle(in_order=True)


async def test_so_many_wait_and_no_more_D1(group_commit: GroupCommit) -> None:
    inputs = Inputs(group_commit)
    group_commit.more_comes = lambda: True
    inputs.come(TOGETHER_MAX - 1)
    assert not inputs.told
    inputs.come()
    assert inputs.told == [TOGETHER_MAX]
    await group_commit.settle(in_order=True)


async def test_an_input_waits_so_long_and_no_longer_for_others_D1(group_commit: GroupCommit) -> None:
    inputs = Inputs(group_commit)
    group_commit.more_comes = lambda: True
    inputs.come()
    time.sleep(2 * TOGETHER_S)  # noqa: ASYNC251, what is read takes its time within one turn
    inputs.come()
    assert inputs.told == [2]
    await group_commit.settle(in_order=True)
