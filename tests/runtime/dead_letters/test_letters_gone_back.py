"""Letters that were delivered while a checkpoint was decided, and another worker died at once (E1, P9)."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acker.frontier import Decided, Frontier, Note

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # `tests` is not installed

from tests.storage.durable_kit import letter
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.dead_letters import letter_store
from topology.runtime.dead_letters.letter import altered
from topology.runtime.dead_letters.letter_store import LetterStore
from topology.storage.values import Changes, Letter, Loaded


class Disk:
    """A store with one letter. It keeps nothing."""

    loaded = Loaded(letters=1, next_letter=2, dead_origins=(7,))
    is_owing, log_bytes = False, 0

    def prepare(self, checkpoint: int, changes: Changes) -> None:
        """Keeps nothing."""

    def decided(self, checkpoint: int) -> None:
        """Keeps nothing."""


class Stand:
    """The checkpoints of a worker, and its letters. `failed` has errors, and `again` each letter delivered again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(letter_store, "size_of", lambda letter: 10)
        self.failed: list[BaseException] = []
        self.again: list[str] = []
        self.prepared = asyncio.Event()
        disk: Any = Disk()
        self.checkpoints = WorkerCheckpoints(disk, decided=Decided(), note_of=lambda: Note((1,), 1 << 32))
        self.checkpoints.failed = self.failed.append
        self.checkpoints.answers.prepared = lambda *_: self.prepared.set()
        self.letters = LetterStore(0, self.checkpoints, 100, lambda name: None)
        self.checkpoints.add(self.letters)

    def serve(self, letter: Letter) -> None:
        """Take note that a bolt has read the letter."""
        self.letters.change(altered(letter, served=True), again=lambda: self.again.append(letter.name))

    async def kept(self, done: asyncio.Future[None]) -> Changes:
        """Keep a checkpoint, by which this is done."""
        self.letters.gather(changes := Changes())
        self.letters.kept()
        await done
        return changes

    def remove(self, name: str, number: int) -> None:
        """Take note that a letter was replayed, in a message of this number."""
        letter: Any = SimpleNamespace(name=name, origin=7)
        self.letters.remove(letter, done=frozenset({number}), again=lambda: self.again.append(name))

    async def prepare(self) -> None:
        note, _ = self.checkpoints.note(1)
        self.checkpoints.gather(Frontier(1, {0: note}))
        await self.prepared.wait()

    def go_back(self) -> None:
        """Begin a generation, as a worker does."""
        self.checkpoints.end()
        self.checkpoints.go_back()
        self.letters.go_back()


async def test_a_letter_that_a_decided_checkpoint_has_is_not_delivered_again_though_it_is_not_taken_in_yet_P9(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = Stand(monkeypatch)
    stand.remove("0-1", 5)
    await stand.prepare()
    stand.checkpoints.decided(1)
    stand.go_back()
    await asyncio.sleep(0.1)
    assert (stand.again, stand.failed) == ([], [])


async def test_the_numbers_of_a_delivery_stay_unfinished_if_the_letter_is_delivered_again_E1_P9(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = Stand(monkeypatch)
    stand.remove("0-1", 5)
    await stand.prepare()
    stand.go_back()
    assert stand.again == ["0-1"]
    for _ in range(3):
        stand.letters.gather(Changes())
        stand.letters.kept()
        assert 5 in stand.letters.unfinished()
    assert not stand.failed


async def test_a_letter_that_a_person_drops_stays_dropped_if_the_run_goes_back_before_its_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand, unserved = Stand(monkeypatch), letter("0-1", served=False)
    stand.serve(unserved)
    stand.letters.remove(unserved)
    dropped = stand.letters.durable()
    stand.go_back()
    changes = await stand.kept(dropped)
    assert ([*changes.gone], [*changes.letters], stand.again) == (["0-1"], [], [])


async def test_a_letter_that_a_person_replays_is_replayed_though_the_run_goes_back_before_its_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand, unserved = Stand(monkeypatch), letter("0-1", served=False)
    stand.serve(unserved)
    stand.letters.change(altered(stand.letters.now(unserved) or unserved, replaying=True))
    asked = stand.letters.durable()
    stand.go_back()
    changes = await stand.kept(asked)
    assert [*changes.letters] == [letter("0-1", served=False, replaying=True)]
    assert (changes.gone, stand.again) == ([], ["0-1"])


async def test_a_letter_that_was_read_and_replayed_is_read_and_replayed_again_if_the_run_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand, asked = Stand(monkeypatch), letter("0-1", served=False, replaying=True)
    stand.letters.take(asked)
    stand.serve(asked)
    stand.remove("0-1", 5)
    stand.go_back()
    assert stand.again == ["0-1", "0-1"]
    assert stand.letters.now(asked) == stand.letters.current("0-1") == asked
