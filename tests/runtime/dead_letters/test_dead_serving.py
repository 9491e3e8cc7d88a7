"""Dead letters that bolts read: each is a message of its own, in its own tree, once its letter is kept (A16, E2)."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from letters_kit import Disk, Paged, Trying, asked, dead_of, letters_in, run_kept, store_at, until
from runtime_kit import Number, Poisoned, balanced, built, numbers

from topology import Bolt, Collector, Config, DeadLetter, Reject, State, Topology, Tuple
from topology.records import decoder
from topology.runtime.embedded.run import EmbeddedRun
from topology.storage.store import StoreBroken
from topology.storage.values import Changes
from topology.testing import Captured, Crash, ScriptedSpout, Wait, Watch, run_topology

POISON = 3


def paging(
    page: Any, spout: ScriptedSpout[Number] | None = None, config: Config | None = None
) -> tuple[Topology, Captured[DeadLetter], ScriptedSpout[Number]]:
    """numbers → poisoned → captured; and who reads the dead letters of numbers → what it gives of them."""
    spout = spout or ScriptedSpout(numbers(10))
    topology = Topology("paging", config or Config(max_replays=1))
    stream = topology.spout("numbers", spout)
    passed = topology.bolt("poisoned", Poisoned(POISON, lambda: ValueError("three is bad")), stream.shuffle())
    topology.bolt("sink", Captured[Number](), passed.shuffle())
    paged = Captured[DeadLetter]()
    pages: Any = topology.bolt("page", page, stream.dead.shuffle())
    topology.bolt("paged", paged, pages.shuffle())
    return topology, paged, spout


@pytest.mark.parametrize("kept", [True, False])
def test_who_reads_dead_letters_gets_each_once_it_is_kept(tmp_path: Path, kept: bool) -> None:
    page = Paged()
    topology, paged, _ = paging(page)
    store = store_at(tmp_path) if kept else None
    seen_by: list[int] = []

    def after(changes: Changes) -> None:
        seen_by.extend(len(page.letters) for _ in changes.letters)

    report = run_kept(topology, Trying(store, after=after) if store else None)
    (letter,) = page.letters
    assert (letter.name, letter.spout, letter.message_id) == ("0-1" if kept else "", "numbers", "3")
    assert (letter.stream, decoder(Number)(letter.record), letter.text) == ("Number", Number(3), "Number(n=3)")
    assert (letter.component, letter.reason, letter.problem) == ("poisoned", "raised", "ValueError: three is bad")
    assert (letter.attempts, letter.deaths) == (2, 0)
    assert "in process" in letter.traceback
    assert len(paged.distinct) == 1
    assert balanced(report)  # it is no message of the spout
    counts = report.snapshot.spouts["numbers"]
    assert (counts.emitted, counts.acked, counts.dead, counts.pending) == (10, 9, 1, 0)
    assert report.aborted == 0
    if kept:
        assert seen_by[0] == 0
        assert [(one.served, one.unheard) for one in letters_in(tmp_path)] == [(True, "")]


def test_reading_dead_letters_changes_no_identity_of_the_messages_B1() -> None:
    def identities(read: bool) -> set[tuple[int, int]]:
        topology, captured = Topology("read"), Captured[Number]()
        stream = topology.spout("numbers", ScriptedSpout(numbers(20)))
        passed = topology.bolt("poisoned", Poisoned(POISON, lambda: Reject("no")), stream.shuffle())
        if read:
            topology.bolt("page", Paged(), stream.dead.shuffle())
        topology.bolt("captured", captured, passed.shuffle())
        run_topology(topology)
        return set(captured.distinct)

    assert identities(True) == identities(False)


def test_a_letter_that_is_served_again_has_the_identity_that_it_had(tmp_path: Path) -> None:
    """The run ends before that it was served is kept; the next one serves it again, and a sink drops it."""
    broken = False

    def before(changes: Changes) -> None:
        nonlocal broken
        broken = broken or any(letter.served for letter in changes.letters)
        if broken:
            raise StoreBroken("the fsync failed")

    topology, first, _ = paging(Paged())
    report = run_kept(topology, Trying(store_at(tmp_path), before))
    assert report.ended == "failed"
    assert [one.served for one in letters_in(tmp_path)] == [False]
    again, second, _ = paging(Paged(), ScriptedSpout[Number]([Wait()], emits=[Number]))

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: bool(second.tuples))
        run.drain()

    run_kept(again, store_at(tmp_path), during=during)
    assert len(first.distinct) == 1
    assert second.distinct == first.distinct
    assert [one.served for one in letters_in(tmp_path)] == [True]


def test_who_reads_them_is_given_a_letter_again_while_it_fails(tmp_path: Path) -> None:
    attempts = 0

    def fails(letter: DeadLetter) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise OSError("the pager is away")

    page = Paged(fails)
    topology, _, spout = paging(page, config=Config(max_replays=4))
    run_kept(topology, store_at(tmp_path))
    assert (attempts, len(page.letters)) == (3, 1)
    assert spout.failed == [POISON]


def test_who_fails_for_a_letter_again_and_again_is_told_of_and_makes_no_dead_letter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(letter: DeadLetter) -> None:
        raise OSError("the pager is away")

    page = Paged(fails)
    topology, _, _ = paging(page, config=Config(max_replays=2))
    with caplog.at_level(logging.ERROR, logger="kedge"):
        report = run_kept(topology, store_at(tmp_path))
    (letter,) = letters_in(tmp_path)
    assert page.tried == 3
    assert letter.id == POISON
    assert letter.served
    assert "OSError: the pager is away" in letter.unheard
    assert [one.getMessage() for one in caplog.records if "(K538)" in one.getMessage()]
    assert report.snapshot.total("dead") == 1


@pytest.mark.parametrize("kept", [True, False])
def test_who_rejects_a_letter_does_not_get_it_again(tmp_path: Path, kept: bool) -> None:
    def fails(letter: DeadLetter) -> None:
        raise Reject("not mine")

    page = Paged(fails)
    topology, _, _ = paging(page)
    report = run_kept(topology, store_at(tmp_path) if kept else None)
    assert page.tried == 1
    assert report.ended == "ended"


@pytest.mark.parametrize("kept", [True, False])
def test_the_end_of_a_run_waits_for_who_reads_them_and_flushes_them_last(tmp_path: Path, kept: bool) -> None:
    calls: list[str] = []

    class Holding(Bolt):
        """Holds all of its inputs until it is flushed."""

        def __init__(self, name: str) -> None:
            self.name = name
            self.held: list[Tuple[Number | DeadLetter]] = []

        def execute(self, tup: Tuple[Number | DeadLetter], out: Collector[Number]) -> None:
            self.held.append(tup)

        def flush(self, out: Collector[Number]) -> None:
            calls.append(f"{self.name} {len(self.held)}")
            for tup in self.held:
                out.emit(Number(POISON), anchors=[tup])
                out.ack(tup)
            self.held.clear()

    topology = Topology("held", Config(max_replays=0))
    stream = topology.spout("numbers", ScriptedSpout(numbers(4)))
    topology.bolt("letters", Holding("letters"), stream.dead.shuffle())
    held = topology.bolt("held", Holding("held"), stream.shuffle())
    topology.bolt("poisoned", Poisoned(POISON, lambda: ValueError("three")), held.shuffle())
    report = run_kept(topology, store_at(tmp_path) if kept else None)
    assert calls == ["held 4", "letters 4"]
    assert (report.ended, report.snapshot.total("dead")) == ("ended", 4)


def test_a_drain_waits_for_who_reads_them(tmp_path: Path) -> None:
    class Slow(Paged):
        async def process(self, letter: DeadLetter) -> list[DeadLetter]:  # type: ignore[override]
            await asyncio.sleep(2)
            self.letters.append(letter)
            return []

    page = Slow()
    topology = Topology("slow", Config(max_replays=0))
    stream = topology.spout("numbers", ScriptedSpout([*numbers(5), Wait()]))
    topology.bolt("poisoned", Poisoned(POISON, lambda: ValueError("three")), stream.shuffle())
    topology.bolt("page", page, stream.dead.shuffle())

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        run.drain()

    report = run_kept(topology, store_at(tmp_path), during=during)
    assert (report.ended, len(page.letters)) == ("stopped", 1)


def test_a_full_store_serves_no_letter_before_it_is_kept_F16(tmp_path: Path) -> None:
    disk = Disk()
    page = Paged()
    topology, _, _ = paging(page)

    def filling(changes: Changes) -> None:
        disk.full = disk.full or bool(changes.letters and not disk.refused)
        disk.check(changes)

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: disk.refused > 2)
        assert page.tried == 0
        disk.full = False
        await dead_of(run, 1)

    run_kept(topology, Trying(store_at(tmp_path), filling), during=during)
    assert len(page.letters) == 1


class Gate:
    """A reader whose queue is full until it is opened."""

    def __init__(self) -> None:
        self.full = True
        self.open = asyncio.Event()

    async def room(self) -> None:
        await self.open.wait()
        self.full = False


class Odd(Bolt):
    """Rejects odd numbers, a second after it was given them."""

    async def process(self, number: Number) -> None:
        await asyncio.sleep(1)
        if number.n % 2:
            raise Reject("odd")


def waiting_for_a_gate(page: Paged) -> tuple[Topology, Callable[[EmbeddedRun], Gate]]:
    """Two dead letters, whose readers' queues have a gate before them."""
    topology = Topology("gated")
    stream = topology.spout("numbers", ScriptedSpout([*numbers(4), Wait()]))
    topology.bolt("odd", Odd(), stream.shuffle(), concurrency=4)
    topology.bolt("page", page, stream.dead.shuffle())

    def gated(run: EmbeddedRun) -> Gate:
        gate, way = Gate(), run.workers[0].dead_letters.routes["numbers"]
        run.workers[0].dead_letters.routes["numbers"] = replace(way, below=[*way.below, gate])  # type: ignore[list-item]
        return gate

    return topology, gated


def test_a_letter_that_is_dropped_while_it_waits_for_room_is_gone_and_is_not_served(tmp_path: Path) -> None:
    """It was read from the store together with one that waits for room before it."""
    page = Paged()
    topology, gated = waiting_for_a_gate(page)

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers))
        gate = gated(run)
        await dead_of(run, 2)
        await asyncio.sleep(1)
        assert (await asked(run, "drop", "0-2")).names == ("0-2",)
        gate.open.set()
        await until(lambda: bool(page.letters))
        await asyncio.sleep(1)
        assert [one.name for one in page.letters] == ["0-1"]
        assert (await asked(run, "list")).total == 1
        run.drain()

    run_kept(topology, store_at(tmp_path), during=during, limit_s=200.0)
    assert [(one.name, one.served) for one in letters_in(tmp_path)] == [("0-1", True)]


def test_a_letter_whose_replay_was_asked_for_while_it_waited_to_be_served_is_not_forgotten(tmp_path: Path) -> None:
    """What is kept of it when it has been served is the letter as it is then."""
    page = Paged()
    topology, gated = waiting_for_a_gate(page)

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers))
        gate = gated(run)
        await dead_of(run, 2)
        await asyncio.sleep(1)
        assert (await asked(run, "replay", "0-2")).names == ("0-2",)
        await dead_of(run, 3)
        gate.open.set()
        await until(lambda: len(page.letters) >= 2)
        await asyncio.sleep(1)
        run.drain()

    run_kept(topology, store_at(tmp_path), during=during, limit_s=200.0)
    assert [(one.name, one.attempts, one.served) for one in letters_in(tmp_path)] == [
        ("0-1", 1, True),
        ("0-2", 2, True),
    ]
    assert page.letters[-1].attempts == 2


def test_more_letters_than_may_be_under_way_are_all_served_and_state_counts_each_once(tmp_path: Path) -> None:
    class Count(Bolt):
        def process(self, letter: DeadLetter, state: State[int]) -> Iterator[DeadLetter]:
            state.set(state.get(0) + 1)
            yield letter

    topology = Topology("many", Config(max_replays=0, max_pending=500))
    stream = topology.spout("numbers", ScriptedSpout([Number(POISON)] * 400))
    topology.bolt("poisoned", Poisoned(POISON, lambda: ValueError("three")), stream.shuffle())
    counted = topology.bolt("count", Count(), stream.dead.fields("component"))
    captured = Captured[DeadLetter]()
    topology.bolt("captured", captured, counted.shuffle())
    watch = Watch()
    run_kept(topology, store_at(tmp_path), watch=watch)
    assert [*watch.state("count").values()] == [400]
    assert len(captured.distinct) == 400
    assert all(letter.served for letter in letters_in(tmp_path))


def test_without_a_store_letters_that_nobody_has_processed_are_bounded_and_the_sources_wait() -> None:
    released = False

    def fails(letter: DeadLetter) -> None:
        if not released:
            raise OSError("the pager is away")

    page = Paged(fails)
    topology = Topology("bounded", Config(max_replays=60, max_dead=3, max_pending=5))
    stream = topology.spout("numbers", ScriptedSpout(numbers(40)))

    class Never(Bolt):
        def process(self, number: Number) -> None:
            raise Reject("none of them")

    topology.bolt("never", Never(), stream.shuffle())
    topology.bolt("page", page, stream.dead.shuffle())

    async def during(run: EmbeddedRun) -> None:
        nonlocal released
        await dead_of(run, 3)
        worker = await built(run)
        await until(lambda: bool(worker.spout_tasks["numbers", 0].pauses.reason))
        assert "that no bolt has processed yet are at their bound (3)" in worker.spout_tasks["numbers", 0].pauses.reason
        snapshot = run.snapshot()
        assert snapshot is not None
        assert snapshot.total("emitted") < 40
        released = True

    report = run_kept(topology, None, during=during)
    assert report.snapshot.total("dead") == 40 == len({letter.message_id for letter in page.letters})


@pytest.mark.parametrize("seed", range(3))
def test_letters_reach_who_reads_them_on_another_worker_though_that_dies(seed: int) -> None:
    topology = Topology("two", Config(max_replays=0))
    spout = ScriptedSpout([*numbers(200)])
    stream = topology.spout("numbers", spout)
    odd = Captured[Number]()

    class Odd(Bolt):
        def process(self, number: Number) -> Iterator[Number]:
            if number.n % 2:
                raise ValueError("odd")
            yield number

    topology.bolt("odd", Odd(), stream.shuffle())
    paged = Captured[DeadLetter]()
    pages = topology.bolt("page", Paged(), stream.dead.fields("message_id"), tasks=2)
    topology.bolt("paged", paged, pages.shuffle())
    watch = Watch()
    report = run_topology(topology, seed=seed, workers=2, crashes=[Crash(1, acked=20)], watch=watch)
    assert report.restarts == 1, f"seed {seed}"
    assert {one.message_id for one in paged.records} == {str(n) for n in range(1, 200, 2)}, f"seed {seed}"
    assert not odd.records


def test_the_letter_of_a_letter_there_is_not(tmp_path: Path) -> None:
    """Who reads dead letters, and fails below: what it has emitted is in the letter's own tree."""
    topology = Topology("below", Config(max_replays=1))
    stream = topology.spout("numbers", ScriptedSpout(numbers(5)))
    topology.bolt("poisoned", Poisoned(POISON, lambda: Reject("no")), stream.shuffle())

    class Forward(Bolt):
        def process(self, letter: DeadLetter) -> Iterator[Number]:
            yield Number(POISON)

    forwarded = topology.bolt("forward", Forward(), stream.dead.shuffle())
    topology.bolt("below", Poisoned(POISON, lambda: ValueError("again")), forwarded.shuffle())
    report = run_kept(topology, store_at(tmp_path))
    (letter,) = letters_in(tmp_path)
    assert "raised in 'below'" in letter.unheard
    assert report.snapshot.total("dead") == 1
