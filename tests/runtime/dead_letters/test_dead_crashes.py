"""Workers die while messages do: each dead message has one letter in the end, and who reads it stores it once.

Virtual time, two workers, real stores in a state directory; every seed draws when who dies.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from letters_kit import asked, dead_of, until
from letters_kit import letters_of as answered

from topology import Bolt, Config, DeadLetter, Grouping, Record, Reject, Topology
from topology.filesystem.files import DiskFiles
from topology.runtime.embedded.run import EmbeddedRun
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Letter
from topology.testing import Captured, Crash, ScriptedSpout, Wait, Watch, crash_here, run_topology

COUNT = 400


class Number(Record):
    n: int


class Odd(Bolt):
    """Rejects each tenth number, and raises for the one behind it."""

    def process(self, number: Number) -> Iterator[Number]:
        if number.n % 10 == 3:
            raise Reject(f"not {number.n}")
        if number.n % 10 == 4:
            raise ValueError(f"bad {number.n}")
        yield number


class Page(Bolt):
    def process(self, letter: DeadLetter) -> Iterator[DeadLetter]:
        yield letter


BAD = {n for n in range(COUNT) if n % 10 in (3, 4)}


def dying() -> tuple[Topology, Captured[Number], Captured[DeadLetter]]:
    topology = Topology("dying", Config(max_replays=1, max_pending=50, max_restarts=100))
    stream = topology.spout("numbers", ScriptedSpout([Number(n) for n in range(COUNT)]))
    passed = topology.bolt("odd", Odd(), stream.shuffle(), tasks=2)
    captured, paged = Captured[Number](), Captured[DeadLetter]()
    topology.bolt("captured", captured, passed.global_())
    pages = topology.bolt("page", Page(), stream.dead.fields("message_id"), tasks=2)
    topology.bolt("paged", paged, pages.global_())
    return topology, captured, paged


def letters_of(state: Path) -> list[Letter]:
    found: list[Letter] = []
    for path in sorted(state.glob("worker-*.db")):
        store = SqliteStore(DiskFiles(), path)
        found += store.letters()
        store.close()
    return found


@pytest.mark.parametrize("seed", range(12))
def test_each_dead_message_has_one_letter_whoever_dies_when_E2(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    crashes = [Crash(random.randrange(2), acked=random.randrange(300)) for _ in range(random.randrange(1, 4))]
    topology, captured, paged = dying()
    report = run_topology(topology, seed=seed, workers=2, crashes=crashes, state_dir=tmp_path / "state")
    letters = letters_of(tmp_path / "state")
    assert Counter(letter.id for letter in letters) == Counter(BAD), f"seed {seed}"
    assert {one.n for one in captured.distinct.values()} == set(range(COUNT)) - BAD, f"seed {seed}"
    assert len(captured.distinct) == COUNT - len(BAD), f"seed {seed}"
    assert {one.message_id for one in paged.distinct.values()} == {str(n) for n in BAD}, f"seed {seed}"
    assert len(paged.distinct) == len(BAD), f"seed {seed}"
    assert all(letter.served and not letter.unheard for letter in letters), f"seed {seed}"
    assert report.exit_status == 1
    assert report.restarts == len(crashes)


class Deadly(Bolt):
    """Takes its worker down for each letter that it is given."""

    def __init__(self) -> None:
        self.given = 0

    def __deepcopy__(self, memo: object) -> "Deadly":
        return self

    def process(self, letter: DeadLetter) -> None:
        self.given += 1
        crash_here()


class ToTheSecond(Grouping):
    def choose(self, record: DeadLetter, tasks: int) -> list[int]:
        return [1]


def test_a_letter_that_takes_its_readers_worker_down_is_given_up_and_the_messages_go_on(tmp_path: Path) -> None:
    topology = Topology("deadly", Config(max_replays=1, max_restarts=20))
    stream = topology.spout("numbers", ScriptedSpout([Number(n) for n in range(5)]))
    captured = Captured[Number]()
    topology.bolt("captured", captured, topology.bolt("odd", Odd(), stream.shuffle()).shuffle())
    deadly = Deadly()
    topology.bolt("deadly", deadly, stream.dead.custom(ToTheSecond()), tasks=2)
    report = run_topology(topology, workers=2, state_dir=tmp_path / "state", may_crash=True)
    assert {letter.id: bool(letter.unheard) for letter in letters_of(tmp_path / "state")} == {3: True, 4: True}
    assert {one.n for one in captured.records} == {0, 1, 2}
    assert (report.ended, report.snapshot.total("dead")) == ("ended", 2)
    assert 6 <= report.restarts <= 12


class Picky(Bolt):
    """Rejects one number; once it is `armed`, takes its worker down for it."""

    def __init__(self) -> None:
        self.armed = False

    def __deepcopy__(self, memo: object) -> "Picky":
        return self

    def process(self, number: Number) -> Iterator[Number]:
        if number.n == 3 and self.armed:
            crash_here()
        if number.n in (3, 5):
            raise Reject("not now")
        yield number


def test_a_message_that_takes_its_own_worker_down_when_it_is_replayed_by_hand_is_a_letter_again(tmp_path: Path) -> None:
    bolt, captured = Picky(), Captured[Number]()
    topology = Topology("picky")
    stream = topology.spout("numbers", ScriptedSpout([*(Number(n) for n in range(8)), Wait()]))
    topology.bolt("captured", captured, topology.bolt("picky", bolt, stream.shuffle()).shuffle())

    async def during(run: EmbeddedRun) -> None:
        await dead_of(run, 2)
        bolt.armed = True
        run_dead = asyncio.ensure_future(asked(run, "replay", "0-1"))
        await until(lambda: len(watch.deaths) == 4)
        run_dead.cancel()
        await until(lambda: len(run.workers) == 1 and run.workers[0].started)  # type: ignore[attr-defined]
        while any(one.replaying for one in answered(await asked(run, "list"))):  # noqa: ASYNC110 – virtual time
            await asyncio.sleep(0.1)
        run.drain()

    watch = Watch()
    report = run_topology(topology, state_dir=tmp_path / "state", may_crash=True, during=during, watch=watch)
    assert [(letter.id, letter.replaying) for letter in letters_of(tmp_path / "state")] == [(3, False), (5, False)]
    assert report.restarts == 4


def test_letters_that_take_down_the_worker_that_serves_them_are_given_up_one_by_one_and_others_are_served(
    tmp_path: Path,
) -> None:
    class SomeDeadly(Bolt):
        def process(self, letter: DeadLetter) -> Iterator[DeadLetter]:
            if letter.message_id in ("3", "14"):
                crash_here()
            yield letter

    topology = Topology("served", Config(max_replays=1))
    stream = topology.spout("numbers", ScriptedSpout([Number(n) for n in range(30)]))
    topology.bolt("odd", Odd(), stream.shuffle())
    paged = Captured[DeadLetter]()
    topology.bolt("paged", paged, topology.bolt("page", SomeDeadly(), stream.dead.shuffle()).shuffle())
    report = run_topology(topology, state_dir=tmp_path / "state", may_crash=True)
    assert {one.message_id for one in paged.distinct.values()} == {"4", "13", "23", "24"}
    unheard = {letter.id for letter in letters_of(tmp_path / "state") if letter.unheard}
    assert unheard == {3, 14}
    assert (report.ended, report.exit_status) == ("ended", 1)
    assert report.restarts <= 6
