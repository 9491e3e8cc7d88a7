"""Dead letters are kept in one commit with the mark that passes their message, and nobody is told before (E2, F11)."""

import asyncio
import logging
from pathlib import Path

import pytest
from letters_kit import Disk, Trying, asked, dead_of, letters_in, letters_of, run_kept, store_at, until
from runtime_kit import Number, Poisoned, Totals, balanced, built, line, numbers

from topology import Bolt, Config, Record, Reject, Topology
from topology.records import encode
from topology.runtime.embedded.run import EmbeddedRun
from topology.storage.store import StoreBroken
from topology.storage.values import Changes
from topology.testing import Captured, ScriptedSpout, Wait, Watch, run_topology

POISON = 3


def poisoned(
    count: int = 10, error: type[Exception] = ValueError, **config: object
) -> tuple[Topology, Captured[Number]]:
    settings = {"max_replays": 2, **config}
    return line(
        ScriptedSpout(numbers(count)), Poisoned(POISON, lambda: error("three is bad")), config=Config(**settings)
    )  # type: ignore[arg-type]


def test_a_message_whose_replays_are_spent_is_kept_with_all_that_is_needed_to_replay_it(tmp_path: Path) -> None:
    topology, captured = poisoned()
    report = run_kept(topology, store_at(tmp_path))
    (letter,) = letters_in(tmp_path)
    tup = next(one for one in captured.tuples if one.record.n == 4)
    assert (letter.name, letter.component, letter.task, letter.id) == ("0-1", "numbers", 0, POISON)
    assert (letter.record_class, letter.record, letter.text) == ("Number", encode(Number(POISON)), "Number(n=3)")
    assert (letter.failed_in, letter.reason, letter.code) == ("bolt", "raised", "K501")
    assert (letter.problem, letter.attempts, letter.deaths) == ("ValueError: three is bad", 3, 0)
    assert "in process" in letter.traceback
    assert "executor.py" not in letter.traceback
    assert letter.origin not in (0, tup.origin)
    assert letter.identity
    assert not letter.replaying
    assert letter.served  # nobody reads them
    assert (report.ended, report.exit_status) == ("ended", 1)
    assert sorted(one.n for one in captured.distinct.values()) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert balanced(report)


def test_a_rejected_message_is_kept_at_once(tmp_path: Path) -> None:
    topology, _ = poisoned(error=Reject)
    watch = Watch()
    report = run_kept(topology, store_at(tmp_path), watch=watch)
    (letter,) = letters_in(tmp_path)
    assert (letter.reason, letter.problem, letter.attempts) == ("rejected", "three is bad", 1)
    assert report.snapshot.spouts["numbers"].replayed == 0
    assert [one.id for one in watch.dead] == [POISON]


def test_the_line_that_tells_of_it_names_the_letter(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topology, _ = poisoned()
    with caplog.at_level(logging.WARNING, logger="kedge"):
        run_kept(topology, store_at(tmp_path))
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told.startswith("message 3 of 'numbers' is dead after 3 attempts, and kept as dead letter 0-1: raised in")


def test_letter_and_mark_are_one_commit_and_nobody_is_told_before_it_is_kept_E2(tmp_path: Path) -> None:
    spout = ScriptedSpout(numbers(10))
    topology, _ = line(spout, Poisoned(POISON, lambda: Reject("no")))
    told_before: list[tuple[bool, list[object]]] = []
    letters: set[object] = set()

    def before(changes: Changes) -> None:
        letters.update(letter.id for letter in changes.letters)
        for mark in changes.marks:
            passed = mark.position > POISON or any(span.first <= POISON <= span.last for span in mark.done)  # type: ignore[operator]
            told_before.append((passed, [*spout.failed]))
            assert passed == (POISON in letters)

    run_kept(topology, Trying(store_at(tmp_path), before))
    first = next(told for passed, told in told_before if passed)
    assert first == []  # the commit that passes it was on its way, and nobody knew of it yet
    assert spout.failed == [POISON]


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_store_that_dies_leaves_the_letter_with_a_mark_behind_it_or_neither_E2(tmp_path: Path, nth: int) -> None:
    topology, _ = poisoned(error=Reject)
    commits = 0

    def before(changes: Changes) -> None:
        nonlocal commits
        commits += 1
        if commits == nth:
            raise StoreBroken("the fsync failed")

    report = run_kept(topology, Trying(store_at(tmp_path), before))
    again = store_at(tmp_path)
    passed = any(
        mark.position > POISON or any(span.first <= POISON <= span.last for span in mark.done)  # type: ignore[operator]
        for mark in again.loaded.marks
    )
    assert passed == bool(again.loaded.letters), f"commit {nth}"
    again.close()
    if commits >= nth:
        assert report.ended == "failed"
        assert report.snapshot.total("dead") == again.loaded.letters  # F18: nobody was told of what is not kept


def test_a_full_store_loses_no_letter_and_the_message_stays_pending_until_there_is_room_F16(tmp_path: Path) -> None:
    disk = Disk()
    spout = ScriptedSpout(numbers(10))
    topology, captured = line(spout, Poisoned(POISON, lambda: Reject("no")))

    def filling(changes: Changes) -> None:
        disk.full = disk.full or bool(changes.letters and not disk.refused)
        disk.check(changes)

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: disk.refused >= 3)
        snapshot = run.snapshot()
        assert snapshot is not None
        assert (snapshot.total("dead"), snapshot.total("pending")) == (0, 1)
        assert spout.failed == []
        disk.full = False
        await dead_of(run, 1)
        disk.refused = -1  # and it is not filled again

    report = run_kept(topology, Trying(store_at(tmp_path), filling), during=during)
    assert [letter.id for letter in letters_in(tmp_path)] == [POISON]
    assert spout.failed == [POISON]
    assert len(captured.distinct) == 9
    assert report.snapshot.total("dead") == 1


def test_at_max_dead_further_ones_wait_and_the_sources_pause_until_some_are_dropped(tmp_path: Path) -> None:
    class Never(Poisoned):
        def process(self, number: Number) -> list[Number]:
            raise Reject("none of them")

    config = Config(max_dead=3, max_pending=5)
    topology, _ = line(ScriptedSpout(numbers(40)), Never(0, ValueError), config=config)
    said: list[str] = []

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 3)
        worker = await built(run)
        await until(lambda: bool(worker.spout_tasks["numbers", 0].pauses.reason))
        said.append(worker.spout_tasks["numbers", 0].pauses.reason)
        snapshot = run.snapshot()
        assert snapshot is not None
        assert snapshot.total("dead") == 3
        assert snapshot.total("emitted") == 3 + snapshot.total("pending") < 40
        while (snapshot := run.snapshot()) is not None and snapshot.total("dead") < 40:
            await asked(run, "drop")
            assert len(store.names()) < 4
            await asyncio.sleep(0.01)  # until others are kept

    store = store_at(tmp_path)
    report = run_kept(topology, store, during=during)
    assert said == ["the dead letters are full (3): `kedge dead list`, replay or drop some"]
    counts = report.snapshot.spouts["numbers"]
    assert (counts.emitted, counts.dead, counts.pending) == (40, 40, 0)
    assert len(letters_in(tmp_path)) <= 3


def test_the_stall_line_says_that_the_dead_letters_are_full(tmp_path: Path) -> None:
    class Never(Poisoned):
        def process(self, number: Number) -> list[Number]:
            raise Reject("none of them")

    topology, _ = line(ScriptedSpout([*numbers(9), Wait()]), Never(0, ValueError), config=Config(max_dead=2))
    said: list[str] = []

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: (snapshot := run.snapshot()) is not None and "full" in snapshot.limit)
        snapshot = run.snapshot()
        assert snapshot is not None
        said.append(snapshot.limit)
        run.abort()

    run_kept(topology, store_at(tmp_path), during=during)
    assert said[0].startswith("'numbers' is paused: the dead letters are full (2): `kedge dead list`, replay or drop")


def test_on_dead_stop_ends_the_run_once_the_letter_is_kept(tmp_path: Path) -> None:
    topology, _ = line(
        ScriptedSpout([*numbers(5), Wait()]), Poisoned(POISON, lambda: Reject("no")), config=Config(on_dead="stop")
    )
    report = run_kept(topology, store_at(tmp_path))
    assert (report.ended, report.exit_status) == ("failed", 1)
    assert len(letters_in(tmp_path)) == 1


def test_without_a_store_a_message_is_dead_at_once_and_nothing_is_kept() -> None:
    topology, _ = poisoned()
    watch = Watch()

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and run._serving)
        for act in ("list", "show", "drop", "replay"):
            assert "keeps no state" in (await asked(run, act)).problem

    report = run_kept(topology, None, watch=watch, during=during)
    assert [one.id for one in watch.dead] == [POISON]
    assert report.snapshot.total("dead") == 1


def test_texts_are_cut_and_the_record_is_whole(tmp_path: Path) -> None:
    class Long(Record):
        text: str

    class Raises(Bolt):
        def process(self, record: Long) -> None:
            raise ValueError("\x1b[2J\n" + "x" * 50_000)

    topology = Topology("long", Config(max_replays=0))
    topology.bolt("raises", Raises(), topology.spout("long", ScriptedSpout([Long("y" * 100_000)])).shuffle())
    run_kept(topology, store_at(tmp_path))
    (letter,) = letters_in(tmp_path)
    assert len(letter.record) > 100_000
    assert (len(letter.text), len(letter.problem), len(letter.traceback)) == (2_000, 2_000, 20_000)
    assert letter.problem.isprintable()


def test_a_traceback_shows_no_values_of_variables_S12(tmp_path: Path) -> None:
    class Raises(Bolt):
        def process(self, number: Number) -> None:
            password = "hunter2" * number.n
            raise ValueError(len(password))

    topology = Topology("canary", Config(max_replays=0))
    topology.bolt("raises", Raises(), topology.spout("numbers", ScriptedSpout([Number(3)])).shuffle())
    run_kept(topology, store_at(tmp_path))
    (letter,) = letters_in(tmp_path)
    assert "hunter2hunter2" not in str(letter)


def test_state_remembers_a_dead_message_while_its_letter_is_there_E1(tmp_path: Path) -> None:
    topology = Topology("remembers", Config(max_replays=1))
    counted = topology.bolt(
        "totals", Totals(), topology.spout("numbers", ScriptedSpout([*numbers(6), Wait()])).fields("n")
    )
    topology.bolt("poisoned", Poisoned(1, lambda: ValueError("each count is 1")), counted.shuffle())

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 6)
        worker = await built(run)
        numbers_of_dead = worker.dead_letters.unfinished()
        assert len(numbers_of_dead) == 6
        known = worker.executors["totals", 0].known  # type: ignore[attr-defined]
        before = {pair for pair, _ in known}
        assert len(before) == 6
        await until(lambda: worker.clock.monotonic() > 3)  # several checkpoints later
        assert {pair for pair, _ in known} == before
        await asked(run, "drop", "0-1", "0-2")
        assert len(worker.dead_letters.unfinished()) == 4
        await until(lambda: len(known) == 4)
        run.drain()

    run_kept(topology, store_at(tmp_path), during=during)


def test_names_of_letters_go_on_in_the_next_run(tmp_path: Path) -> None:
    first, _ = poisoned(error=Reject)
    run_kept(first, store_at(tmp_path))
    again = Topology("line")
    again.bolt("b", Poisoned(POISON, lambda: Reject("no")), again.spout("other", ScriptedSpout(numbers(5))).shuffle())
    run_kept(again, store_at(tmp_path))
    assert [letter.name for letter in letters_in(tmp_path)] == ["0-1", "0-2"]


def test_who_lists_shows_and_drops_gets_what_is_there(tmp_path: Path) -> None:
    class Never(Poisoned):
        def process(self, number: Number) -> list[Number]:
            raise Reject(f"not {number.n}")

    topology, _ = line(ScriptedSpout([*numbers(5), Wait()]), Never(0, ValueError))

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 5)
        page = await asked(run, "list", limit=2)
        assert [(one.name, one.record, one.traceback) for one in letters_of(page)] == [
            ("0-1", b"", ""),
            ("0-2", b"", ""),
        ]
        assert page.total == 5
        rest = await asked(run, "list", after="0-2")
        assert [one.name for one in letters_of(rest)] == ["0-3", "0-4", "0-5"]
        shown = await asked(run, "show", "0-4", "0-9")
        assert [(one.name, one.record) for one in letters_of(shown)] == [("0-4", encode(Number(3)))]
        assert shown.problem == "0-9: there is no such dead letter"
        dropped = await asked(run, "drop", "0-1", "0-9", "0-3")
        assert (dropped.names, dropped.problem, dropped.total) == (
            ("0-1", "0-3"),
            "0-9: there is no such dead letter",
            3,
        )
        assert [one.name for one in letters_of(await asked(run, "list"))] == ["0-2", "0-4", "0-5"]
        assert "not the name of a dead letter" in (await asked(run, "drop", "x")).problem
        assert "nothing can be done" in (await asked(run, "eat")).problem
        assert (await asked(run, "drop")).total == 0
        assert (await asked(run, "list")).letters == ()
        run.drain()

    run_kept(topology, store_at(tmp_path), during=during)
    assert letters_in(tmp_path) == []


def test_while_the_state_can_not_be_written_who_drops_is_told_so_within_a_bound(tmp_path: Path) -> None:
    disk = Disk()
    topology, _ = line(ScriptedSpout([*numbers(5), Wait()]), Poisoned(POISON, lambda: Reject("no")))

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        disk.full = True
        answer = await asked(run, "drop")
        assert answer.names == ()
        assert answer.problem.startswith("this is done as soon as the state can be written again: no space left")
        disk.full = False
        await until(lambda: not store.names())
        run.drain()

    store = store_at(tmp_path)
    run_kept(topology, Trying(store, disk.check), during=during)


def test_a_message_that_could_not_be_emitted_is_kept_too(tmp_path: Path) -> None:
    spout = ScriptedSpout([Number(1), Number("two"), Number(3)])  # type: ignore[arg-type]
    topology, _ = line(spout, config=Config(max_replays=0))
    run_kept(topology, store_at(tmp_path))
    (letter,) = letters_in(tmp_path)
    assert letter.text == "Number(n='two')"
    assert letter.reason == "could not emit"


def test_a_dead_message_changes_nothing_for_a_run_of_the_kit_without_a_store() -> None:
    topology, captured = poisoned()
    assert run_topology(topology).exit_status == 1
    assert len(captured.distinct) == 9
