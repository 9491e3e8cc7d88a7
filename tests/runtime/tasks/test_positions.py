"""Positions: a run that ends, however it does, is gone on with; nothing is skipped, and what is kept is not repeated
(E3, E4, E10, F59)."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from letters_kit import until
from positions_kit import Counted, Id, Slow, Stuck, aborted_when, marks_in, numbers_of, topology_of
from runtime_kit import Number, Same

from spouts import Items
from topology import Bolt, Config, Message, Positions, Task, Topology
from topology.filesystem.files import DiskFiles
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.tasks.marks import Markings
from topology.storage.directory.state_dir import StateDir
from topology.storage.sqlite.store import SqliteStore
from topology.testing import Captured, Crash, run_topology

# -- a second run


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_run_of_the_same_items_finds_nothing_new(tmp_path: Path, workers: int) -> None:
    for expected in (range(100), range(0)):
        topology, captured = topology_of(Items([Number(n) for n in range(100)]))
        report = run_topology(topology, state_dir=tmp_path, workers=workers)
        assert report.exit_status == 0
        assert numbers_of(captured) == [*expected]
    assert report.snapshot.total("emitted") == 0


@pytest.mark.parametrize("id_of", [int, lambda n: 10 * n + 7, lambda n: f"name {n}"], ids=["ints", "gaps", "names"])
def test_what_was_not_done_when_a_run_was_aborted_is_all_that_is_read_again_E4(
    tmp_path: Path, id_of: Callable[[int], Id]
) -> None:
    stuck = {3, 4, 50, 77}
    topology, captured = topology_of(Counted(100, id_of=id_of), Stuck(stuck))
    report = run_topology(topology, state_dir=tmp_path, during=lambda run: aborted_when(run, captured, 90))
    assert report.ended == "aborted"
    assert report.aborted == len(stuck)
    assert numbers_of(captured) == sorted({*range(100)} - stuck)

    spout = Counted(120, id_of=id_of)
    topology, captured = topology_of(spout)
    report = run_topology(topology, state_dir=tmp_path)
    assert spout.resumed == {"": id_of(3)}, "the oldest that was not done"
    assert numbers_of(captured) == sorted({*stuck, *range(100, 120)})
    assert set(spout.told) == {id_of(n) for n in range(3, 120)}, "what is passed over is told, too"


def test_a_source_that_begins_anew_is_passed_over_where_it_was_done_E3(tmp_path: Path) -> None:
    topology, captured = topology_of(Counted(100), Stuck({60}))
    run_topology(topology, state_dir=tmp_path, during=lambda run: aborted_when(run, captured, 99))
    topology, captured = topology_of(Counted(100, heeds=False))
    run_topology(topology, state_dir=tmp_path)
    assert numbers_of(captured) == [60]


def test_marks_of_another_epoch_say_nothing_C2(tmp_path: Path) -> None:
    for epoch in ("first", "second"):
        spout = Counted(20, epoch=epoch)
        topology, captured = topology_of(spout)
        run_topology(topology, state_dir=tmp_path)
        assert numbers_of(captured) == [*range(20)]


def test_a_message_in_back_off_holds_the_mark_E3(tmp_path: Path) -> None:
    class Failing(Bolt):
        def process(self, number: Number) -> Iterator[Number]:
            if number.n == 5:
                raise ValueError("not yet")
            yield number

    topology, captured = topology_of(Counted(50), Failing(), config=Config(max_replays=1_000))
    run_topology(topology, state_dir=tmp_path, during=lambda run: aborted_when(run, captured, 49))
    (mark,) = marks_in(tmp_path)
    assert mark.position == 5
    assert mark.newest == 49


def test_the_last_mark_is_kept_after_the_last_ack_E10(tmp_path: Path) -> None:
    topology, _ = topology_of(Counted(10))
    run_topology(topology, state_dir=tmp_path)
    (mark,) = marks_in(tmp_path)
    assert (mark.position, mark.newest) == (9, 9)
    store = SqliteStore(DiskFiles(), tmp_path / "worker-0.db")
    assert store.loaded.deaths == 0
    store.close()


def test_a_drained_run_is_gone_on_with_where_it_stood(tmp_path: Path) -> None:
    seen: list[int] = []
    for _ in range(20):
        topology, captured = topology_of(Counted(500), Stuck(set()), config=Config(max_pending=20))

        async def drained(run: EmbeddedRun, captured: Captured[Number] = captured) -> None:
            await until(lambda: bool(captured.records))
            run.drain()

        report = run_topology(topology, state_dir=tmp_path, during=drained, until_s=100)
        assert report.exit_status == 0
        seen += numbers_of(captured)
        if len(seen) == 500:
            break
    assert sorted(seen) == [*range(500)], "each once"


def test_at_most_once_what_was_emitted_is_not_emitted_again(tmp_path: Path) -> None:
    config = Config(guarantee="at-most-once")
    topology, captured = topology_of(Counted(30), Stuck({7}), config=config)
    run_topology(topology, state_dir=tmp_path, during=lambda run: aborted_when(run, captured, 29))
    topology, captured = topology_of(Counted(40), config=config)
    run_topology(topology, state_dir=tmp_path)
    assert numbers_of(captured) == [*range(30, 40)]


@pytest.mark.parametrize("seed", range(5))
def test_runs_that_are_cut_off_again_and_again_skip_nothing_and_repeat_only_what_was_in_flight(
    tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")
    random, seen = Random(seed), list[int]()
    for _ in range(200):
        topology, captured = topology_of(Counted(400), Stuck(set()), config=Config(max_pending=10))

        async def cut_off(run: EmbeddedRun, after: int, captured: Captured[Number] = captured) -> None:
            await until(lambda: len(captured.records) >= after)
            run.abort()

        after = random.randrange(1, 60)
        run_topology(
            topology, seed=seed, state_dir=tmp_path, during=lambda run, after=after: cut_off(run, after), until_s=1_000
        )  # type: ignore[misc]  # the default binds this turn's number
        seen += numbers_of(captured)
        if len(set(seen)) == 400:
            break
    assert set(seen) == {*range(400)}


class Late(Counted):
    """Gives nothing for a while."""

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        await asyncio.sleep(10)
        return await super().poll(limit)


def test_only_a_run_that_leaves_nothing_of_earlier_ones_either_ends_clean_B11(tmp_path: Path) -> None:
    def clean() -> bool:
        with contextlib.closing(StateDir(tmp_path, None)) as state:
            return state.clean

    topology, captured = topology_of(Counted(20), Stuck({7}))
    run_topology(topology, state_dir=tmp_path, during=lambda run: aborted_when(run, captured, 19))
    assert not clean()
    topology, captured = topology_of(Late(20))
    report = run_topology(topology, state_dir=tmp_path, until_s=1)
    assert (report.ended, report.aborted, captured.records) == ("stopped", 0, [])
    assert not clean(), "7 is not done"
    topology, captured = topology_of(Late(20))
    run_topology(topology, state_dir=tmp_path)
    assert numbers_of(captured) == [7]
    assert clean()


@pytest.mark.parametrize(
    ("spout", "until_s", "clean"),
    [
        (Late(30), 1, False),  # stopped before it has read anything
        (Slow(30), 0.01, False),
        (Late(30), 9, True),  # it has had nothing for a while
        (Slow(30), 0.12, True),  # it has given what is new
        (Counted(20), 9, True),  # it has ended
    ],
    ids=["not yet asked for long", "asked just now", "quiet", "new", "ended"],
)
def test_after_a_kill_a_run_ends_clean_once_its_sources_have_caught_up_B11(
    tmp_path: Path, spout: Counted, until_s: float, clean: bool
) -> None:
    """What was emitted after the last commit of the run that was killed is in no mark, and the last mark may say that
    all is done."""
    topology, _ = topology_of(Counted(20))
    assert run_topology(topology, state_dir=tmp_path).clean
    with contextlib.closing(StateDir(tmp_path, None)) as state:
        state.set_begun(state.shape or "")  # as a run that was killed before its first commit leaves it
    topology, _ = topology_of(spout)
    report = run_topology(topology, state_dir=tmp_path, until_s=until_s)
    assert (report.drained, report.clean) == (True, clean)


@pytest.mark.parametrize("seed", range(4))
def test_a_worker_that_dies_is_replaced_by_one_that_reads_on_from_its_marks_E3(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    spout = Slow(400)
    topology, captured = Topology("kept"), Captured[Number]()
    same = topology.bolt("same", Same(), topology.spout("numbers", spout).shuffle(), tasks=2)
    topology.bolt("captured", captured, same.shuffle())
    report = run_topology(
        topology,
        seed=seed,
        state_dir=tmp_path,
        workers=2,
        crashes=[Crash("numbers", acked=150), Crash("numbers", acked=300)],
    )
    assert report.exit_status == 0
    assert report.restarts == 2
    assert {*numbers_of(captured)} == {*range(400)}
    assert len(captured.records) < 600, "only what was in flight, and since the last commit, comes again"


class Rotating(Counted):
    """Each number is in a partition of its own, and the source names only that, and one that it never gives."""

    def open(self, task: Task, positions: Positions) -> None:
        self.resumed = dict(positions)

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        await asyncio.sleep(0.3)
        found = await super().poll(1)
        return [Message(one.record, 1, partition=f"p{one.record.n}") for one in found]

    def partitions(self) -> Mapping[str, str]:
        return {f"p{self.next - 1}": "", "p0": ""}


def test_of_partitions_that_a_source_does_not_name_any_more_only_the_last_are_kept_E4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is rotated every day would make the state larger for ever; one that is named stays, however old."""
    monkeypatch.setattr("topology.runtime.tasks.marks.PARTITIONS_KEPT", 5)
    for first, last in ((0, 20), (20, 40)):
        spout = Rotating(last)
        spout.next = first
        topology, _ = topology_of(spout)
        assert run_topology(topology, state_dir=tmp_path).clean
        kept = [mark.partition for mark in marks_in(tmp_path)]
        assert kept[0] == "p0"
        assert kept[-1] == f"p{last - 1}"
        assert len(kept) <= 5 + 3
        assert {f"p{n}" for n in range(last - 5, last)} <= {*kept}


# -- what a source gives


def test_an_id_that_is_given_again_while_it_is_under_way_is_one_message_and_both_are_told_F59() -> None:
    class Repeating(Counted):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            self.next += 1
            return [Message(Number(1), "again"), Message(Number(1), "again")] if self.next < 3 else []

    spout = Repeating(0)
    topology, captured = topology_of(spout)
    report = run_topology(topology)
    assert numbers_of(captured) == [1]
    assert report.snapshot.total("emitted") == report.snapshot.total("acked") == 1
    assert report.snapshot.rare["messages given again"] == 3
    assert spout.told == ["again"] * 4


@pytest.mark.parametrize("id_of", [int, lambda n: f"name {n}"], ids=["ints", "names"])
def test_an_id_that_is_given_twice_in_a_poll_is_passed_over_twice_where_an_earlier_run_has_done_it_F59(
    id_of: Callable[[int], Id], tmp_path: Path
) -> None:
    """While it is under way it is one message; so a source that does this, and is killed, has to be able to go on."""

    class Twice(Counted):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            found = await super().poll(10)
            return [one for one in found for _ in range(2)] + [*found]

    for stuck, expected in (({3, 15}, {*range(30)} - {3, 15}), (set[int](), {3, 15})):
        spout = Twice(30, id_of=id_of)
        topology, captured = topology_of(spout, Stuck(stuck))
        report = run_topology(
            topology,
            state_dir=tmp_path,
            during=(lambda run, captured=captured: aborted_when(run, captured, 28)) if stuck else None,
        )
        assert report.ended == ("aborted" if stuck else "ended"), report.error
        assert numbers_of(captured) == sorted(expected)
    assert [spout.told.count(id_of(n)) for n in range(10, 30)] == [3] * 20, "the source is told of each"


@pytest.mark.parametrize("id_of", [int, lambda n: f"name {n}"], ids=["ints", "names"])
def test_what_is_under_way_is_looked_for_once_a_poll_however_much_of_it_is_given_again_F59(
    id_of: Callable[[int], Id], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a broker gives all that is not acked again after a lost connection: the loop may not stand still for it."""
    looked, looks = Markings.unfinished, 0
    at_poll: list[int] = []

    def counting(markings: Markings) -> Any:
        nonlocal looks
        looks += 1
        return looked(markings)

    monkeypatch.setattr(Markings, "unfinished", counting)

    batches = [[*range(50)], [*range(50)], [*range(100, 150), *range(50)]]

    class Reconnected(Counted):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            at_poll.append(looks)
            if not batches:
                stuck.clear()
                return []
            return [Message(Number(n), id_of(n)) for n in batches.pop(0)]

    stuck = {*range(200)}
    topology, captured = topology_of(Reconnected(0), Stuck(stuck))
    report = run_topology(topology)
    assert report.snapshot.rare["messages given again"] == 100
    assert numbers_of(captured) == [*range(50), *range(100, 150)]
    first, second, third, end = at_poll
    assert second == first
    assert third - second <= 3, "one for the poll, and perhaps some for commits"
    assert end - third <= 3


@pytest.mark.parametrize("ids", [[1, 2, 3, 2], [1, 2, 2], [5, 4]])
def test_an_int_id_that_does_not_grow_ends_the_source_with_the_reason_K524(ids: list[int]) -> None:
    class Back(Counted):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            await asyncio.sleep(1)  # the one before is done
            self.next += 1
            return [Message(Number(self.next), ids[self.next - 1])] if self.next <= len(ids) else []

    topology, captured = topology_of(Back(0))
    report = run_topology(topology)
    assert report.ended == "failed"
    assert "int ids grow within an epoch" in str(report.error)
    assert len(captured.records) == len(ids) - 1, "what was read before is done"


def test_a_source_of_names_waits_earlier_since_each_of_them_is_kept_E4() -> None:
    """With a million names behind one stuck message each commit would hold up the loop."""

    class Timed(Counted):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            await asyncio.sleep(0.001)
            return await super().poll(limit)

    stuck = {0}
    spout = Timed(30_000, id_of=lambda n: f"name {n}")
    topology, captured = topology_of(spout, Stuck(stuck), config=Config(tree_timeout_s=1_000))

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: len(captured.records) >= 19_999)
        await asyncio.sleep(20)
        assert len(captured.records) == 19_999
        snapshot = run.snapshot()
        assert snapshot is not None
        assert "20,000 messages ahead of its oldest one that is not done (max_lag)" in snapshot.limit
        stuck.clear()

    run_topology(topology, during=look)
    assert numbers_of(captured) == [*range(30_000)]


def test_a_task_waits_at_max_lag_and_says_so_E4(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kedge")
    stuck = {0}
    topology, captured = topology_of(Counted(500), Stuck(stuck), config=Config(max_lag=50, tree_timeout_s=1_000))

    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(20)
        assert numbers_of(captured) == [*range(1, 50)]
        snapshot = run.snapshot()
        assert snapshot is not None
        assert "50 messages ahead of its oldest one that is not done (max_lag)" in snapshot.limit
        stuck.clear()

    run_topology(topology, during=look)
    assert numbers_of(captured) == [*range(500)]
    assert any("max_lag" in entry.getMessage() for entry in caplog.records)
