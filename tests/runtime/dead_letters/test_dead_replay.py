"""Dead letters replayed by hand: the message as it was, under a new number; its letter is gone once it is done (E1)."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from letters_kit import Disk, Paged, Trying, asked, dead_of, letters_in, letters_of, run_kept, store_at, until
from runtime_kit import Number, balanced

from topology import Bolt, Config, Record, Reject, State, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.storage.store import StoreBroken
from topology.storage.values import Changes
from topology.testing import Captured, ScriptedSpout, Wait, Watch
from topology.testing.virtual_time.loop import VirtualLoop

POISON = 3


class Mended(Bolt):
    """Raises for one number until somebody says that it is mended; counts what it was given of that one."""

    def __init__(self) -> None:
        self.mended = False
        self.given = 0

    def __deepcopy__(self, memo: object) -> "Mended":
        return self

    def process(self, number: Number) -> Iterator[Number]:
        self.given += number.n == POISON
        if number.n == POISON and not self.mended:
            raise ValueError("three is bad")
        yield number


def mending(bolt: Bolt, *, config: Config | None = None, count: int = 6) -> tuple[Topology, Captured[Number]]:
    """numbers, which never end → totals by number → mended → captured."""
    topology = Topology("mending", config or Config(max_replays=1))
    stream = topology.spout("numbers", ScriptedSpout([*[Number(n) for n in range(count)], Wait()]))
    counted = topology.bolt("totals", Counted(), stream.fields("n"))
    passed = topology.bolt("mended", bolt, counted.shuffle())  # type: ignore[call-overload]  # any bolt of the tests
    captured = Captured[Number]()
    topology.bolt("captured", captured, passed.shuffle())
    return topology, captured


class Counted(Bolt):
    """Gives the number on; its state is how often it was counted."""

    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        yield number


async def gone(run: EmbeddedRun) -> None:
    """Returns once no letter is left."""
    while (await asked(run, "list")).letters:  # noqa: ASYNC110 – virtual time, and nothing tells
        await asyncio.sleep(0.05)


def test_a_replayed_message_is_done_with_its_old_identity_and_its_letter_is_gone_E1(tmp_path: Path) -> None:
    bolt, watch = Mended(), Watch()
    topology, captured = mending(bolt)
    counts: list[int] = []

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        (letter,) = letters_of(await asked(run, "show", "0-1"))
        bolt.mended = True
        await asyncio.sleep(2)  # several announcements of what is done
        assert (await asked(run, "replay", "0-1")).names == ("0-1",)
        await gone(run)
        tup = next(one for one in captured.tuples if one.record.n == POISON)
        assert tup.origin == letter.origin
        counts.extend(watch.state("totals").values())
        snapshot = run.snapshot()
        assert snapshot is not None
        one = snapshot.spouts["numbers"]
        assert (one.emitted, one.acked, one.dead, one.pending) == (7, 6, 1, 0)
        run.drain()

    report = run_kept(topology, store_at(tmp_path), during=during, watch=watch)
    assert counts == [1] * 6  # the bolt with state had counted it when it died, and has not counted it again
    assert sorted(one.n for one in captured.distinct.values()) == [*range(6)]
    assert letters_in(tmp_path) == []
    assert balanced(report)


def test_a_message_that_dies_again_replaces_its_letter_with_attempts_added_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bolt = Mended()
    topology, _ = mending(bolt, config=Config(max_replays=2))

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        (before,) = letters_of(await asked(run, "show"))
        await asked(run, "replay")
        await dead_of(run, 2)
        (letter,) = letters_of(await asked(run, "show"))
        assert (letter.name, letter.attempts, letter.replaying) == ("0-1", 6, False)
        assert (letter.origin, letter.identity, letter.record) == (before.origin, before.identity, before.record)
        assert letter.died_at > before.died_at
        assert bolt.given == 6
        bolt.mended = True
        await asked(run, "replay", "0-1")
        await gone(run)
        run.drain()

    report = run_kept(topology, store_at(tmp_path), during=during)
    counts = report.snapshot.spouts["numbers"]
    assert (counts.emitted, counts.acked, counts.dead, counts.pending) == (8, 6, 2, 0)
    told = [line.split(": ")[0] for line in caplog.messages if "(K520)" in line]
    assert [line.split(" is dead ")[1] for line in told] == [
        "after 3 attempts, and kept as dead letter 0-1",
        "after 6 attempts, and kept as dead letter 0-1",
    ]


def test_a_replay_that_is_asked_for_while_a_letter_waits_to_be_kept_again_is_done(tmp_path: Path) -> None:
    """Both are in one commit then: that it has died again, and that it is to be replayed once more."""
    bolt, disk = Mended(), Disk()
    topology, captured = mending(bolt)

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        await asked(run, "replay", "0-1")
        await until(lambda: bolt.given == 3)
        disk.full = True
        await until(lambda: bolt.given == 4 and disk.refused > 0)
        bolt.mended = True
        again = asyncio.ensure_future(asked(run, "replay", "0-1"))
        await asyncio.sleep(1)
        assert not again.done()
        disk.full = False
        assert (await again).names == ("0-1",)
        await gone(run)
        run.drain()

    run_kept(topology, Trying(store_at(tmp_path), before=disk.check), during=during)
    assert POISON in {one.n for one in captured.distinct.values()}
    assert letters_in(tmp_path) == []


def test_a_letter_that_dies_again_is_another_event_for_who_reads_them(tmp_path: Path) -> None:
    page = Paged()
    topology = Topology("again", Config(max_replays=0))
    stream = topology.spout("numbers", ScriptedSpout([Number(POISON), Wait()]))
    topology.bolt("mended", Mended(), stream.shuffle())
    pages = topology.bolt("page", page, stream.dead.shuffle())
    captured = Captured[Record]()
    topology.bolt("captured", captured, pages.shuffle())  # type: ignore[type-var]

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: len(page.letters) == 1)
        await asked(run, "replay")
        await until(lambda: len(page.letters) == 2)
        run.drain()

    run_kept(topology, store_at(tmp_path), during=during)
    assert len(captured.distinct) == 2
    assert [letter.attempts for letter in page.letters] == [1, 2]
    assert [letter.name for letter in page.letters] == ["0-1", "0-1"]


def test_that_a_replay_is_asked_for_is_durable_before_the_answer_and_before_it_begins(tmp_path: Path) -> None:
    bolt = Mended()
    topology, _ = mending(bolt)
    asked_for: list[int] = []

    def before(changes: Changes) -> None:
        asked_for.extend(bolt.given for letter in changes.letters if letter.replaying)

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        given = bolt.given
        await asked(run, "replay", "0-1")
        assert asked_for == [given]
        bolt.mended = True
        await gone(run)
        run.drain()

    run_kept(topology, Trying(store_at(tmp_path), before), during=during)


def test_a_replay_that_could_not_be_kept_within_a_bound_is_done_once_there_is_room_F16(tmp_path: Path) -> None:
    bolt, disk = Mended(), Disk()
    topology, captured = mending(bolt)

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        bolt.mended, disk.full = True, True
        answer = await asked(run, "replay")
        assert answer.names == ()
        assert answer.problem.startswith("this is done as soon as the state can be written again: no space left")
        await asyncio.sleep(5)
        assert POISON not in {one.n for one in captured.distinct.values()}  # nothing begins that is not kept
        disk.full = False
        await gone(run)
        assert POISON in {one.n for one in captured.distinct.values()}
        run.drain()

    run_kept(topology, Trying(store_at(tmp_path), disk.check), during=during, limit_s=200.0)
    assert letters_in(tmp_path) == []


def test_a_replay_whose_worker_dies_in_the_middle_is_gone_on_with(tmp_path: Path) -> None:
    bolt = Mended()
    topology, captured = mending(bolt)
    store = store_at(tmp_path)

    def before(changes: Changes) -> None:
        if changes.gone:
            raise StoreBroken("the fsync failed")

    async def asking(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        bolt.mended = True
        await asked(run, "replay", "0-1")

    report = run_kept(topology, Trying(store, before), during=asking)
    assert report.ended == "failed"
    assert [letter.replaying for letter in letters_in(tmp_path)] == [True]

    async def waiting(run: EmbeddedRun) -> None:
        await until(lambda: bool(second.tuples))
        await gone(run)
        run.drain()

    again = Topology("mending")
    spout = ScriptedSpout[Number]([Wait()], emits=[Number])
    second = Captured[Number]()
    passed = again.bolt(
        "mended", bolt, again.bolt("totals", Counted(), again.spout("numbers", spout).fields("n")).shuffle()
    )
    again.bolt("captured", second, passed.shuffle())
    run_kept(again, store_at(tmp_path), during=waiting)
    assert letters_in(tmp_path) == []
    (key,) = second.distinct
    assert captured.distinct[key] == Number(POISON)  # it is the same for a sink, which had it before the crash


class Other(Record):
    text: str


@pytest.mark.parametrize(
    ("name", "record", "problem"),
    [
        ("numbers", Other("x"), "'numbers' emits no Number any more; it emits Other"),
        ("renamed", Number(1), "there is no spout 'numbers' any more"),
    ],
)
def test_a_letter_whose_spout_or_record_is_gone_stays_and_says_so(
    tmp_path: Path, name: str, record: Record, problem: str
) -> None:
    topology, _ = mending(Mended())

    async def dying(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        run.drain()

    run_kept(topology, store_at(tmp_path), during=dying)
    changed = Topology("mending")
    captured = Captured[Record]()
    changed.bolt("captured", captured, changed.spout(name, ScriptedSpout([record, Wait()])).shuffle())  # type: ignore[type-var]

    async def asking(run: EmbeddedRun) -> None:
        await until(lambda: run._serving)
        answer = await asked(run, "replay")
        assert (answer.names, answer.problem) == ((), f"0-1: {problem}")
        assert (
            await asked(run, "replay", "0-1", "0-7")
        ).problem == f"0-1: {problem}\n0-7: there is no such dead letter"
        run.drain()

    run_kept(changed, store_at(tmp_path), during=asking)
    assert [(one.name, one.replaying) for one in letters_in(tmp_path)] == [("0-1", False)]


def test_a_record_that_can_not_be_decoded_any_more_is_a_problem_in_one_sentence(tmp_path: Path) -> None:
    spout = ScriptedSpout([Number("three"), Number(1), Wait()])  # type: ignore[arg-type]
    topology = Topology("decode", Config(max_replays=0))
    captured = Captured[Number]()
    topology.bolt("captured", captured, topology.spout("numbers", spout).shuffle())

    async def asking(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        answer = await asked(run, "replay")
        assert answer.problem.startswith("0-1: the bytes of a Number can't be decoded:")
        assert "\n" not in answer.problem
        run.drain()

    run_kept(topology, store_at(tmp_path), during=asking)
    assert len(letters_in(tmp_path)) == 1


def test_a_letter_that_is_being_replayed_is_not_dropped(tmp_path: Path) -> None:
    class Held(Bolt):
        def __init__(self) -> None:
            self.release: asyncio.Event | None = None

        def __deepcopy__(self, memo: object) -> "Held":
            return self

        async def process(self, number: Number) -> list[Number]:
            if self.release is None:
                raise Reject("not yet")
            await self.release.wait()
            return [number]

    bolt = Held()
    topology = Topology("held")
    stream = topology.spout("numbers", ScriptedSpout([Number(1), Wait()]))
    topology.bolt("held", bolt, stream.shuffle(), concurrency=2)

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        bolt.release = asyncio.Event()
        await asked(run, "replay")
        assert "being replayed" in (await asked(run, "drop", "0-1")).problem
        assert (await asked(run, "replay", "0-1")).names == ("0-1",)  # once more is the same
        bolt.release.set()
        await gone(run)
        run.drain()

    report = run_kept(topology, store_at(tmp_path), during=during)
    counts = report.snapshot.spouts["numbers"]
    assert (counts.emitted, counts.acked, counts.dead) == (2, 1, 1)


def test_hundreds_are_replayed_within_a_bound_and_make_room_for_the_sources(tmp_path: Path) -> None:
    class Odd(Bolt):
        def __init__(self) -> None:
            self.mended = False

        def __deepcopy__(self, memo: object) -> "Odd":
            return self

        def process(self, number: Number) -> Iterator[Number]:
            if number.n % 2 and not self.mended:
                raise Reject("odd")
            yield number

    bolt, captured = Odd(), Captured[Number]()
    topology = Topology("hundreds", Config(max_dead=100, max_pending=50))
    stream = topology.spout("numbers", ScriptedSpout([*[Number(n) for n in range(600)], Wait()]))
    topology.bolt("captured", captured, topology.bolt("odd", bolt, stream.shuffle()).shuffle())

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 100)
        bolt.mended = True
        answer = await asked(run, "replay")
        assert len(answer.names) == 100
        await until(lambda: len(captured.distinct) > 550)  # the sources went on
        await asked(run, "replay")  # what had died before it was mended, and waited for room
        await until(lambda: len(captured.distinct) == 600)
        await gone(run)
        run.drain()

    report = run_kept(topology, store_at(tmp_path), during=during)
    assert len(captured.distinct) == 600
    assert balanced(report)
    assert report.snapshot.total("dead") >= 100
    assert letters_in(tmp_path) == []


def test_on_a_drain_a_replay_that_has_not_begun_is_left_for_the_next_run(tmp_path: Path) -> None:
    bolt = Mended()
    topology, _ = mending(bolt)

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.executor_takes = lambda: 0.05
        asking = asyncio.ensure_future(asked(run, "replay"))
        await asyncio.sleep(0.25)  # names and letters are read, and the request is not durable
        run.drain()
        await asking

    run_kept(topology, store_at(tmp_path), during=during)
    assert bolt.given == 2
    (letter,) = letters_in(tmp_path)
    assert letter.replaying
    bolt.mended = True
    again, captured = mending(bolt, count=1)

    async def waiting(run: EmbeddedRun) -> None:
        await until(lambda: any(one.record.n == POISON for one in captured.tuples))
        await gone(run)
        run.drain()

    run_kept(again, store_at(tmp_path), during=waiting)
    assert letters_in(tmp_path) == []


class Taking(Bolt):
    """Rejects one number until it is `fixed`, and then takes 30 s for it. Raises five times for each other number."""

    def __init__(self) -> None:
        self.fixed = False
        self.given = Counter[int]()

    def __deepcopy__(self, memo: object) -> "Taking":
        return self

    async def process(self, number: Number) -> list[Number]:
        self.given[number.n] += 1
        if number.n == POISON:
            if not self.fixed:
                raise Reject("three is bad")
            await asyncio.sleep(30)
        elif self.given[number.n] <= 5:
            raise ValueError("not yet")
        return [number]


def test_a_message_that_waits_for_the_place_of_a_replayed_letter_is_replayed_once_that_is_done(tmp_path: Path) -> None:
    topology = Topology("crowded", Config(max_pending=1, max_replays=10, process_timeout_s=60))
    bolt, captured = Taking(), Captured[Number]()
    stream = topology.spout("numbers", ScriptedSpout([Number(POISON), Number(1), Wait()]))
    topology.bolt("captured", captured, topology.bolt("taking", bolt, stream.shuffle()).shuffle())

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: bolt.given[1] == 5)
        bolt.fixed = True
        await asked(run, "replay")  # the letter is in the one place when the message's sixth attempt is due
        await asyncio.sleep(20)
        assert bolt.given[1] == 5
        await gone(run)
        await asyncio.sleep(1)
        assert sorted(one.n for one in captured.distinct.values()) == [1, POISON]
        run.drain()

    run_kept(topology, store_at(tmp_path), during=during)
