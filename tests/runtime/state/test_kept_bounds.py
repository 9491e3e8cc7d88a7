"""Bounds of what survives: bytes that are remembered, and the files. Rules D4, D5, D14, E1, E4."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from kept_kit import Counting, kept_in, known_in, stored
from letters_kit import asked, dead_of, until
from positions_kit import Stuck
from runtime_kit import Number, line

from topology import Bolt, Config, Message, Positions, Record, Spout, State, Task, Topology, Tuple
from topology.core.source import Source
from topology.filesystem.files import DiskFiles
from topology.groupings import key_bytes
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.state.state_executor import StateExecutor
from topology.storage.sqlite.store import SqliteStore
from topology.testing import Captured, Crash, ScriptedSpout, Wait, run_topology


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


def task_of(run: EmbeddedRun, component: str = "bolt") -> StateExecutor:
    (executor,) = [one for worker in run.workers for one in worker.tasks_of(component)]
    assert isinstance(executor, StateExecutor)
    return executor


# -- D14


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("worker-*"))


def test_over_the_bound_of_bytes_sources_wait_and_go_on_when_messages_are_done_D14(tmp_path: Path) -> None:
    """No message is done while the next bolt is stuck: about 100 fit in."""
    bound = 50_000
    stuck = Stuck({*range(10**6)})
    topology, captured = line(
        Steady(1000), Counting(), stuck, by="n", config=Config(max_remembered_bytes=bound), concurrency=1
    )
    seen: list[int] = []

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and task_of(run).known.bytes > bound)
        for _ in range(100):
            await asyncio.sleep(0.1)
            seen.append(len(task_of(run).known))
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


# -- what is known of messages that are not done


def test_a_stuck_message_and_dead_letters_hold_up_nothing_but_what_is_known_of_them_E1_E4(tmp_path: Path) -> None:
    """100 dead letters and a message that is never done, spread over the first of 20,000."""

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
    known, sizes = list[int](), list[int]()

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and task_of(run).executed >= 8000)
        while task_of(run).executed < 20_000:
            await asyncio.sleep(1)
            known.append(len(task_of(run).known))
            sizes.append(size_of(tmp_path))
        await asyncio.sleep(5)
        assert len(task_of(run).known) == 101, "those that died, and the one that is stuck"
        over.append(True)

    run_topology(topology, seed=None, state_dir=tmp_path, during=look)
    assert len(sizes) >= 10
    assert max(known) < 4_000, known
    assert max(sizes[len(sizes) // 2 :]) <= 1.3 * max(sizes[: len(sizes) // 2])
    kept = known_in(tmp_path)
    assert len(kept) == 100
    with closing(SqliteStore(DiskFiles(), tmp_path / "worker-0.db")) as store:
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
        await until(lambda: bool(run.workers) and bool(captured.tuples) and not len(task_of(run).known))
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
        assert len(task_of(run).known) >= 3
        run.drain()

    async def replay(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and run.workers[0].spout_tasks["numbers", 0].counters.emitted >= 0)
        await asyncio.sleep(3)
        mended.mended = True
        assert len((await asked(run, "replay")).names) == 3
        while (await asked(run, "list")).letters:  # noqa: ASYNC110 – virtual time, and nothing tells
            await asyncio.sleep(0.05)
        await until(lambda: not len(task_of(run).known))
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
    assert all(not one.entries for one in stored(tmp_path))
