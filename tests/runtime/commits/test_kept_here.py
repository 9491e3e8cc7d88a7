"""State that need not survive a loss of power: a little of it is kept on the loop, within the turn. D1, D2, D10."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Never

import pytest
from kept_kit import Counting, kept_in, of_row, through
from letters_kit import Disk
from runtime_kit import Number, line, numbers

from topology import Bolt, Collector, Config, Record, State, Topology, Tuple
from topology.runtime.commits import group_commit
from topology.runtime.commits.group_commit import GroupCommit
from topology.storage.store import StoreBroken
from topology.storage.values import Changes
from topology.testing import Captured, Pause, ScriptedSpout, Watch, crash_here, run_topology
from topology.testing.virtual_time.loop import spend

PROCESS = Config(durability="process")
THREAD_S = 0.05  # virtual seconds that a call of the store's thread waits here, and then takes
APART_S = 2.0  # between two inputs: what is kept in the thread of the one before, marks say, is over by then
KEYS = 5


class Timed(Counting):
    """Notes when it was given each number, too."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        self.times.append(asyncio.get_running_loop().time())
        return super().process(number, state)


def one_by_one(count: int) -> ScriptedSpout[Number]:
    """Numbers of a few keys, once the run has kept that it has begun."""
    script: list[Number | Pause] = [Pause(APART_S)]
    for n in range(count):
        script += [Number(n % KEYS), Pause(APART_S)]
    return ScriptedSpout[Number](script)


def counts(count: int) -> dict[int, int]:
    return dict(Counter(n % KEYS for n in range(count)))


def of_journal(changes: Changes) -> list[int]:
    return [one.origin for row in changes.journal for one in of_row(row)]


def unsynced(hook: Callable[[Changes], None]) -> Callable[[Changes], None]:
    """The hook, for commits alone that are not synced within."""
    return lambda changes: None if changes.lasting else hook(changes)


def test_a_little_is_kept_in_the_turn_in_which_it_was_processed_and_leaves_in_it_but_not_before_D1(
    tmp_path: Path,
) -> None:
    durable: set[int] = set()
    early: list[Number] = []

    class Sink(Captured[Number]):
        def execute(self, tup: Tuple[Number], out: Collector[Never]) -> None:
            if tup.origin not in durable:
                early.append(tup.record)
            super().execute(tup, out)

    topology, sink, bolt = Topology("first-durable", PROCESS), Sink(), Timed()
    counted = topology.bolt("bolt", bolt, topology.spout("numbers", one_by_one(20)).fields("n"), tasks=2)
    topology.bolt("sink", sink, counted.shuffle())
    watch = Watch(before=through(after=lambda changes: durable.update(of_journal(changes)), takes_s=THREAD_S))
    assert run_topology(topology, seed=None, state_dir=tmp_path, watch=watch).exit_status == 0
    assert early == []
    assert len(sink.records) == len(durable) == 20
    assert sink.times == bolt.times, "no thread was waited for"
    assert kept_in(tmp_path) == counts(20)


def test_bolts_with_state_behind_one_another_keep_theirs_in_the_same_turn_D1(tmp_path: Path) -> None:
    bolts = [Timed() for _ in range(3)]
    topology, captured = line(one_by_one(4), *bolts, by="n", config=PROCESS)
    watch = Watch(before=through(takes_s=THREAD_S))
    assert run_topology(topology, seed=None, state_dir=tmp_path, watch=watch).exit_status == 0
    assert captured.times == bolts[0].times == bolts[2].times
    assert len(captured.records) == 4


class Blob(Record):
    size: int
    data: bytes = b""


class Keeps(Bolt):
    """The state is as many bytes as it is told. Notes when it was first told so."""

    def __init__(self) -> None:
        self.begun: list[float] = []

    def __deepcopy__(self, memo: object) -> "Keeps":
        return self

    def process(self, blob: Blob, state: State[bytes]) -> Iterator[Number]:
        self.begun.append(asyncio.get_running_loop().time())
        state.set(bytes(blob.size))
        yield Number(blob.size)


def test_much_is_written_in_the_thread_whether_in_bytes_or_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "INLINE_MAX_INPUTS", 16)  # fewer than come in one turn

    def taken_s(*given: Blob) -> float:
        topology, captured, bolt = Topology("much", PROCESS), Captured[Number](), Keeps()
        spout = ScriptedSpout[Blob]([Pause(APART_S), *given])
        kept = topology.bolt("bolt", bolt, topology.spout("blobs", spout).fields("data"))
        topology.bolt("captured", captured, kept.shuffle())
        watch = Watch(before=through(takes_s=THREAD_S))
        folder = tmp_path / str(len(given) + given[0].size)
        assert run_topology(topology, seed=None, state_dir=folder, watch=watch).exit_status == 0
        assert len(captured.records) == len(given)
        return captured.times[0] - bolt.begun[0]

    assert taken_s(Blob(10)) == 0
    assert taken_s(Blob(group_commit.INLINE_MAX_BYTES + 1)) >= THREAD_S
    assert taken_s(*[Blob(1, b"%d" % n) for n in range(group_commit.INLINE_MAX_INPUTS + 1)]) >= THREAD_S


def test_a_disk_that_makes_writes_wait_holds_the_loop_up_once_a_second_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[float] = []
    commit_here = GroupCommit._write_inline

    def counted(group_commit: GroupCommit) -> None:
        here.append(group_commit.time())
        commit_here(group_commit)

    monkeypatch.setattr(GroupCommit, "_write_inline", counted)
    script: list[Number | Pause] = [Pause(1)]
    for n in range(100):
        script += [Number(n % KEYS), Pause(0.05)]
    topology, captured = line(ScriptedSpout(script), Counting(), by="n", config=PROCESS)
    watch = Watch(before=through(before=unsynced(lambda changes: spend(2 * group_commit.INLINE_SLOW_S))))
    assert run_topology(topology, seed=None, state_dir=tmp_path, watch=watch).exit_status == 0
    assert len(captured.records) == 100
    assert len(here) > 3
    assert min(after - before for before, after in pairwise(here)) >= group_commit.INLINE_RETRY_S
    assert kept_in(tmp_path) == counts(100)


def test_where_it_must_survive_a_loss_of_power_nothing_is_kept_on_the_loop(tmp_path: Path) -> None:
    topology, captured = line(one_by_one(3), bolt := Timed(), by="n")
    watch = Watch(before=through(takes_s=THREAD_S))
    assert run_topology(topology, seed=None, state_dir=tmp_path, watch=watch).exit_status == 0
    assert [after - before for before, after in zip(bolt.times, captured.times, strict=True)] == pytest.approx(
        [2 * THREAD_S] * 3
    )


# -- D2, D10


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_that_dies_around_a_commit_on_the_loop_loses_and_doubles_nothing_D1_D2(
    tmp_path: Path, when: str
) -> None:
    over: list[bool] = []

    def crash(changes: Changes) -> None:
        if changes.journal and not over:
            over.append(True)
            crash_here()

    bolt = Counting()
    topology, captured = line(one_by_one(6), bolt, by="n", config=PROCESS)
    hooks: dict[str, Any] = {when: unsynced(crash)}
    report = run_topology(topology, seed=None, state_dir=tmp_path, watch=Watch(before=through(**hooks)), may_crash=True)
    assert (report.exit_status, report.restarts) == (0, 1)
    assert len(bolt.given) == 6 + (when == "before"), "what was kept is not processed again"
    assert len(captured.records) == len(captured.distinct) == 6
    assert kept_in(tmp_path) == counts(6)


def test_a_disk_that_is_full_when_the_loop_writes_fails_and_doubles_nothing_D10(tmp_path: Path) -> None:
    disk, bolt = Disk(), Counting()

    def full(changes: Changes) -> None:
        now = asyncio.get_running_loop().time()
        disk.full = 8 < now < 20.5
        disk.check(changes)

    topology, captured = line(one_by_one(20), bolt, by="n", config=PROCESS)
    watch = Watch(before=through(before=full))
    report = run_topology(topology, seed=None, state_dir=tmp_path, watch=watch)
    assert report.exit_status == 0
    assert disk.refused > 1
    assert watch.failures == []
    assert len(bolt.given) == len(captured.records) == len(captured.distinct) == 20
    assert kept_in(tmp_path) == counts(20)


def test_a_store_that_breaks_when_the_loop_writes_ends_the_worker_without_an_ack_D10_F18(tmp_path: Path) -> None:
    errors = [StoreBroken("what is on the disk is unknown")]

    def broken(changes: Changes) -> None:
        if errors and changes.states:  # once: nothing is tried again, though it would go well
            raise errors.pop()

    spout = one_by_one(3)
    topology, captured = line(spout, Counting(), by="n", config=PROCESS)
    watch = Watch(before=through(before=unsynced(broken)))
    report = run_topology(topology, seed=None, state_dir=tmp_path, watch=watch)
    assert report.ended == "failed"
    assert isinstance(report.error, StoreBroken)
    assert not captured.records
    assert not spout.acked


def test_without_a_store_nothing_waits_for_a_turn_of_the_loop() -> None:
    """Where a bolt with timers keeps its state in memory alone."""

    class Timers(Timed):
        def on_timer(self, key: Number, name: str, state: State[int]) -> Iterator[Number]:
            yield from ()

    bolt = Timers()
    topology, captured = line(ScriptedSpout(numbers(3)), bolt, by="n")
    assert run_topology(topology, seed=None).exit_status == 0
    assert captured.times == bolt.times
