"""Bounds of what survives: bytes that are remembered, rows of the journal, and the file. Rules D4, D5, D14, E1, E4."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept_kit import Counting, kept_in, remembered_in, stored, through
from letters_kit import asked, dead_of, until
from positions_kit import Stuck
from runtime_kit import Number, line

from topology import Bolt, Config, Message, Positions, Record, Spout, State, Task, Topology, Tuple
from topology.components import Source
from topology.filesystem.files import DiskFiles
from topology.groupings import key_bytes
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.state import committed
from topology.runtime.state.committed import CommittedStateExecutor
from topology.runtime.tasks.executor import SLICE_MAX
from topology.storage.encoding.floors import floor_of
from topology.storage.sqlite.store import SqliteStore
from topology.testing import Captured, Crash, ScriptedSpout, Wait, Watch, run_topology


class Steady(Spout):
    """Numbers from 0 on, so many a second, under their own ids, up to `end`; goes on where it is told."""

    def __init__(self, end: int, *, per_s: int = 1000) -> None:
        self.end, self.per_s, self.next = end, per_s, 0

    def open(self, task: Task, positions: Positions) -> None:
        position = positions.of("", "")
        self.next = position if isinstance(position, int) else 0

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        await asyncio.sleep(0.02)
        found = range(self.next, min(self.end, self.next + min(limit, self.per_s // 50)))
        self.next += len(found)
        return [Message(Number(n), n) for n in found]


class Word(Record):
    text: str


def task_of(run: EmbeddedRun, component: str = "bolt") -> CommittedStateExecutor:
    (executor,) = [one for worker in run.workers for one in worker.tasks_of(component)]
    assert isinstance(executor, CommittedStateExecutor)
    return executor


# -- D14


def test_what_is_put_out_in_the_time_of_a_commit_is_bounded_in_bytes_too_D14(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one row of the journal, and the store takes no row of any length."""
    bound, rows = 100_000, list[int]()
    monkeypatch.setattr(committed, "GROUP_BYTES_MAX", bound)

    class Words(Bolt):
        def process(self, number: Number, state: State[int]) -> Iterator[Word]:
            yield Word("x" * 10_000)

    topology, captured = Topology("words"), Captured[Word]()
    stream = topology.spout("numbers", ScriptedSpout([Number(n) for n in range(500)]))
    topology.bolt("captured", captured, topology.bolt("words", Words(), stream.fields("n")).shuffle())
    kept = through(after=lambda changes: rows.extend(len(row.entries) for row in changes.journal), takes_s=0.1)
    assert run_topology(topology, state_dir=tmp_path, watch=Watch(before=kept)).exit_status == 0
    assert len(captured.records) == 500
    assert len(rows) > 3
    assert max(rows) < 2 * bound + SLICE_MAX * 10_100


def test_over_the_bound_of_bytes_sources_wait_and_go_on_when_messages_are_done_D14(tmp_path: Path) -> None:
    """No message is done while the next bolt is stuck: about 100 fit in."""
    bound = 50_000
    stuck = Stuck({*range(10**6)})
    topology, captured = line(
        Steady(1000), Counting(), stuck, by="n", config=Config(max_remembered_bytes=bound), concurrency=1
    )
    seen: list[int] = []

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and task_of(run).memory.bytes > bound)
        for _ in range(100):
            await asyncio.sleep(0.1)
            seen.append(len(task_of(run).remembered))
        snapshot = run.snapshot()
        assert snapshot is not None
        assert "bolt" in snapshot.limit
        stuck.stuck.clear()

    report = run_topology(topology, state_dir=tmp_path, during=look)
    assert report.exit_status == 0
    assert max(seen) == min(seen) < 200
    assert len(captured.distinct) == 1000
    assert sum(kept_in(tmp_path).values()) == 1000


@pytest.mark.parametrize("seed", range(3))
def test_a_source_whose_worker_begins_again_at_the_bound_is_not_held_for_ever_D14(tmp_path: Path, seed: int) -> None:
    """What the bolt remembers is of an earlier life of the source then, and over only once that has gone on."""
    stuck = Stuck({*range(10**6)})
    config = Config(max_remembered_bytes=50_000, max_restarts=20)
    topology, captured = line(Steady(500), Counting(), stuck, by="n", config=config)

    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(20)
        stuck.stuck.clear()

    crashes = [Crash("numbers", at_s=5), Crash("bolt", at_s=10), Crash("numbers", at_s=15)]
    report = run_topology(topology, seed=seed, workers=3, state_dir=tmp_path, crashes=crashes, during=look)
    assert report.exit_status == 0
    assert report.restarts == 3
    assert len(captured.distinct) == 500
    assert sum(kept_in(tmp_path).values()) == 500


# -- the journal


def rows_and_bytes(path: Path, run: EmbeddedRun) -> tuple[int, int]:
    return len(task_of(run).memory.rows), sum(file.stat().st_size for file in path.glob("worker-*.db"))


def test_a_stuck_message_and_dead_letters_hold_neither_rows_nor_the_file_up_E1_E4(tmp_path: Path) -> None:
    """100 dead letters and a message that is never done, spread over the first of 20,000: what little is remembered of
    old rows is filed again."""

    class Dies(Bolt):
        async def process(self, number: Number) -> list[Number]:
            if number.n % 50 == 7 and number.n < 5000:
                raise ValueError("dead")
            if number.n == 3:
                await until(lambda: bool(over))
            return []

    over: list[bool] = []
    config = Config(max_replays=0, process_timeout_s=1e6, max_lag=10**6)
    topology = Topology("steady", config)
    stream = topology.spout("numbers", Steady(20_000))
    topology.bolt("bolt", Counting(), stream.global_())
    topology.bolt("dies", Dies(), stream.shuffle(), concurrency=64)
    sizes: list[tuple[int, int]] = []

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and task_of(run).executed >= 8000)
        while task_of(run).executed < 20_000:
            await asyncio.sleep(1)
            sizes.append(rows_and_bytes(tmp_path, run))
        await asyncio.sleep(5)
        memory = task_of(run).memory
        assert len(memory) == 101, "those that died, and the one that is stuck"
        assert sum(len(row.pairs) for row in memory.rows.values()) < 8 * 101
        assert len(memory.rows) < 20
        over.append(True)

    run_topology(topology, seed=None, state_dir=tmp_path, during=look)
    assert len(sizes) >= 10
    assert max(rows for rows, _ in sizes) < 400, sizes
    assert max(size for _, size in sizes[len(sizes) // 2 :]) <= 1.3 * max(size for _, size in sizes[: len(sizes) // 2])
    kept = remembered_in(tmp_path)
    assert len({one.identity for one in kept}) < 4000
    assert len(kept) < 8000
    with closing(SqliteStore(DiskFiles(), tmp_path / "worker-0.db", lives=False)) as store:
        dead = {*store.loaded.dead_origins}
    assert len(dead) == 100
    assert dead <= {one.origin for one in kept}, "what may be replayed by hand is remembered"
    assert kept_in(tmp_path) == {(): 20_000}


# -- D5


def test_a_tuple_that_comes_when_its_message_is_done_is_refused_and_counted_D5(tmp_path: Path) -> None:
    """As one that a worker had which was stopped for a while."""
    topology, captured = line(ScriptedSpout([Number(1), Wait()]), Counting(), by="n")
    rare: list[int] = []

    async def come_late(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and bool(captured.tuples) and not task_of(run).remembered)
        source = Source("numbers", "Number", 0, lambda number: key_bytes(number.n))
        task_of(run).put([Tuple(Number(1), 5, 6, captured.tuples[0].root, (), source)])
        await until(lambda: task_of(run).stale > 0)
        snapshot = run.snapshot()
        assert snapshot is not None
        rare.append(snapshot.rare["stale tuples refused"])
        run.drain()

    run_topology(topology, state_dir=tmp_path, during=come_late)
    assert rare == [1]
    assert kept_in(tmp_path) == {1: 1}


def test_stale_roots_are_refused_after_a_restart_by_what_was_kept_of_floors_D5(tmp_path: Path) -> None:
    """The bolt's worker begins anew: what it had forgotten, and what comes late of it, is refused before a word of its
    home has come."""
    topology, _ = line(Steady(3000), Counting(), by="n")
    refused: list[bool] = []

    def before(worker: Any) -> None:
        if ("bolt", 0) in worker.executors and (floors := worker.group_commit.loaded.floors):
            progress = [floor_of(one.progress) for one in floors]
            refused.extend(
                worker.floors.refuses(one.first << 32 | 1) for one in progress if one.covers(one.first << 32 | 1)
            )

    run_topology(topology, state_dir=tmp_path, workers=2, crashes=[Crash("bolt", at_s=2.5)], watch=Watch(before=before))
    assert refused
    assert all(refused)
    assert sum(kept_in(tmp_path).values()) == 3000


# -- E1


class Mended(Bolt):
    """Raises for some numbers until somebody says that it is mended."""

    def __init__(self) -> None:
        self.mended = False

    def __deepcopy__(self, memo: object) -> "Mended":
        return self

    def process(self, number: Number) -> list[Number]:
        if number.n % 10 == 3 and not self.mended:
            raise ValueError("three is bad")
        return [number]


class Counts(Bolt):
    """Gives the number on; its state is how often it was counted."""

    def process(self, number: Number, state: State[int]) -> list[Number]:
        state.set(state.get(0) + 1)
        return [number]


def test_dead_letters_are_replayed_by_hand_runs_later_without_counting_twice_and_then_forgotten_E1(
    tmp_path: Path,
) -> None:
    mended = Mended()

    def topology_of() -> tuple[Topology, Captured[Number]]:
        script = [*map(Number, range(30)), Wait()]
        return line(ScriptedSpout[Number](script), Counts(), mended, by="n", config=Config(max_replays=1))  # type: ignore[arg-type]

    async def died(run: EmbeddedRun) -> None:
        await dead_of(run, 3)
        await asyncio.sleep(5)
        run.drain()

    async def idle(run: EmbeddedRun) -> None:
        await asyncio.sleep(30)
        assert len(task_of(run).remembered) >= 3
        run.drain()

    async def replay(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and run.workers[0].spout_tasks["numbers", 0].counters.emitted >= 0)
        await asyncio.sleep(3)
        mended.mended = True
        assert len((await asked(run, "replay")).names) == 3
        while (await asked(run, "list")).letters:  # noqa: ASYNC110 – virtual time, and nothing tells
            await asyncio.sleep(0.05)
        await until(lambda: not task_of(run).remembered)
        run.drain()

    topology, captured = topology_of()
    run_topology(topology, state_dir=tmp_path, during=died)
    assert kept_in(tmp_path, "bolt") == dict.fromkeys(range(30), 1)
    stored_numbers = Counter(one.n for one in captured.distinct.values())
    for during in (idle, replay):
        topology, captured = topology_of()
        run_topology(topology, state_dir=tmp_path, during=during)
        stored_numbers.update(one.n for one in captured.distinct.values())
    assert stored_numbers == Counter(range(30))
    assert kept_in(tmp_path, "bolt") == dict.fromkeys(range(30), 1)
    topology, _ = topology_of()
    run_topology(topology, state_dir=tmp_path, until_s=5)
    assert all(not one.journal for one in stored(tmp_path))
