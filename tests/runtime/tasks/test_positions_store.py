"""Positions and their store: what is durable before what, and a store that is full or broken (E11, D4, F16, F18)."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from letters_kit import Disk, Trying, run_kept, store_at, until
from positions_kit import Counted, Slow, marks_in, numbers_of, topology_of
from runtime_kit import Number

from topology import Bolt, State, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.state.state_executor import StateExecutor
from topology.storage.store import StoreBroken
from topology.storage.values import Changes
from topology.testing import Captured


def test_nothing_is_emitted_before_it_is_kept_that_the_task_has_begun(tmp_path: Path) -> None:
    commits: list[tuple[int, Changes]] = []
    topology, captured = topology_of(Counted(100))
    store = Trying(store_at(tmp_path), before=lambda changes: commits.append((len(captured.records), changes)))
    run_kept(topology, store)
    emitted, first = commits[0]
    assert emitted == 0
    assert [(one.component, one.task, one.tasks) for one in first.begun] == [("numbers", 0, 1)]
    assert not any(changes.begun for _, changes in commits[1:])


def test_a_full_disk_pauses_the_sources_and_loses_nothing_F16(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    topology, captured = topology_of(Slow(200))
    store = Trying(store_at(tmp_path), before=disk.check)

    async def fill(run: EmbeddedRun) -> None:
        await until(lambda: len(captured.records) >= 20)
        disk.full = True
        await until(lambda: disk.refused > 0)
        await asyncio.sleep(1)
        before = len(captured.records)
        await asyncio.sleep(30)
        assert len(captured.records) == before, "nothing is read"
        snapshot = run.snapshot()
        assert snapshot is not None
        assert "no space left on device" in snapshot.limit
        assert "no space left on device" in snapshot.held_by["numbers"], "from the first moment on"
        assert disk.refused < 20, "it is tried again with a back-off"
        disk.full = False

    report = run_kept(topology, store, during=fill)
    assert report.exit_status == 0
    assert numbers_of(captured) == [*range(200)]
    (mark,) = marks_in(tmp_path)
    assert mark.position == 199
    assert any("K536" in entry.getMessage() for entry in caplog.records)


def test_a_store_that_makes_room_itself_is_asked_again_without_a_word_F16(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its log is emptied before it is tried again; on a disk with little room that happens all the time."""
    disk = Disk()
    topology, captured = topology_of(Slow(200))

    def check(changes: Changes) -> None:
        disk.full = not disk.full
        disk.check(changes)

    report = run_kept(topology, Trying(store_at(tmp_path), before=check))
    assert report.exit_status == 0
    assert disk.refused > 1
    assert numbers_of(captured) == [*range(200)]
    assert [entry.getMessage() for entry in caplog.records if "K5" in entry.getMessage()] == []


def test_a_run_can_be_drained_while_its_disk_is_full_and_what_was_not_kept_is_repeated_F16(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()
    topology, captured = topology_of(Slow(200))
    store = Trying(store_at(tmp_path), before=disk.check)

    async def fill(run: EmbeddedRun) -> None:
        await until(lambda: len(captured.records) >= 20)
        disk.full = True
        await until(lambda: disk.refused > 0)
        run.drain()

    report = run_kept(topology, store, during=fill)
    assert report.ended == "stopped"
    assert report.aborted == 0
    assert any("K526" in entry.getMessage() for entry in caplog.records)
    first = numbers_of(captured)
    topology, captured = topology_of(Slow(200))
    run_kept(topology, store_at(tmp_path))
    assert {*first, *numbers_of(captured)} == {*range(200)}


def test_a_disk_that_is_full_before_the_first_message_holds_the_source_and_a_drain_ends_it(tmp_path: Path) -> None:
    disk = Disk()
    disk.full = True
    topology, captured = topology_of(Counted(10))

    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(20)
        run.drain()

    report = run_kept(topology, Trying(store_at(tmp_path), before=disk.check), during=look)
    assert report.ended == "stopped"
    assert not captured.records


def test_a_failed_fsync_ends_the_run_and_keeps_nothing_after_it_F18(tmp_path: Path) -> None:
    commits = 0

    def broken(changes: Changes) -> None:
        nonlocal commits
        commits += 1
        if commits >= 3:
            raise StoreBroken("fsync: input/output error")

    topology, _ = topology_of(Slow(200))
    report = run_kept(topology, Trying(store_at(tmp_path), before=broken))
    assert report.ended == "failed"
    assert report.exit_status == 1
    assert "input/output error" in str(report.error)
    assert commits == 3, "nothing is tried again"
    before = marks_in(tmp_path)
    topology, captured = topology_of(Slow(200))
    run_kept(topology, store_at(tmp_path))
    assert {*range(int(before[0].position), 200)} >= set(numbers_of(captured)) >= {*range(50, 200)}


def test_what_is_remembered_is_forgotten_only_once_the_mark_is_kept_D4(tmp_path: Path) -> None:
    """Counts of a bolt with state: remembered until a frontier is decided, and on a full disk none is."""
    disk = Disk()

    class Count(Bolt):
        def process(self, number: Number, state: State[int]) -> Iterable[Number]:
            state.set((state.get() or 0) + 1)
            return [number]

    topology, captured = Topology("kept"), Captured[Number]()
    counts = topology.bolt("count", Count(), topology.spout("numbers", Slow(60)).fields("n"))
    topology.bolt("captured", captured, counts.shuffle())
    remembered: list[int] = []

    def count_of(run: EmbeddedRun) -> int:
        executor = run.workers[0].executors["count", 0]
        assert isinstance(executor, StateExecutor)
        return len(executor.known)

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: len(captured.records) >= 20)
        disk.full = True
        await until(lambda: disk.refused > 0)
        await asyncio.sleep(5)
        remembered.append(count_of(run))
        disk.full = False
        await until(lambda: count_of(run) < remembered[0])

    run_kept(topology, Trying(store_at(tmp_path), before=disk.check), during=look)
    assert remembered[0] > 0
    assert len(captured.records) == 60
