"""A worker that is killed, or whose machine loses power, before any operation on its files, and again while it opens
them: its next life has what was decided, and what its log kept (F20, F56)."""

import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from durable_kit import Died, FaultyFiles, full, laid_out, made
from worker_store_kit import Worker, content_of

from topology.storage.log.log import LogSizes
from topology.storage.store import StoreFull
from topology.storage.worker_store import open_store

SEED = 20260301
SIZES = LogSizes(step=4_096, keep=6_000)


class Known:
    """At each moment: which checkpoint is decided, and how much is kept at least and at most."""

    def __init__(self, disk: FaultyFiles) -> None:
        self.disk = disk
        self.decided = 0
        self.synced = 0
        self.done = 0
        self.moments: list[tuple[int, int, int]] = []

    def until_now(self, *, most: int | None = None) -> None:
        """All operations since the last call were under what is known now."""
        state = self.decided, self.synced, self.done if most is None else most
        self.moments += [state] * (len(self.disk.moments) - len(self.moments))


def a_life(disk: FaultyFiles, path: Path, *, logged: bool) -> Known:
    known = Known(disk)
    worker = Worker.opened(disk, path, 1, 0, logged=logged)
    known.until_now()
    for number in range(1, 7):
        worker.take(2)
        if logged:
            known.until_now(most=worker.done)
            known.done = worker.done
            worker.store.sync()
            known.until_now()
            known.synced = worker.done
            worker.take(1)
            known.until_now(most=worker.done)
            known.done = worker.done
        worker.store.mark(number)
        changes = worker.changes(forget=worker.done - worker.first if number % 2 else 1)
        if number == 3:
            disk.fail(full, at=2, until=3)
            with pytest.raises(StoreFull):
                worker.store.prepare(number, changes)
            disk.faults = None
        worker.store.prepare(number, changes)
        known.until_now()
        if number != 4:  # that one is given up
            known.decided, known.synced, known.done = number, worker.done, worker.done
            worker.store.decided(number)
            worker.is_decided(changes)
            known.until_now()
    worker.store.close()
    known.until_now()
    return known


@pytest.mark.parametrize("logged", [True, False])
def test_the_next_life_has_what_was_decided_and_what_was_logged_F20(
    tmp_path: Path, logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 20)
    monkeypatch.setattr("topology.storage.log.opening.LogSizes", lambda: SIZES)
    (tmp_path / "whole").mkdir()
    path = made(tmp_path / "whole" / "worker-0.db")
    disk = FaultyFiles(path.parent, remember=True)
    known = a_life(disk, path, logged=logged)
    assert len(disk.moments) > (100 if logged else 50)
    assert {moment.operation.split()[0] for moment in disk.moments} >= {"write", "sync", "truncate"}
    for number, (moment, (decided, synced, done)) in enumerate(zip(disk.moments, known.moments, strict=True)):
        for how, files in (("killed", moment.files), ("power", moment.durable)):
            least = (done - 2 if how == "killed" else synced) if logged else 0
            again = laid_out(tmp_path / "again", files)
            opening = FaultyFiles(again, remember=True)
            found = check(opening, decided, least, done, f"{how} before {moment.operation}, the {number}th", logged)
            if number % 23 == 0:
                for step, second in list(enumerate(opening.moments))[number % 3 :: 3]:
                    for which, left in (("killed", second.files), ("power", second.durable)):
                        third = FaultyFiles(laid_out(tmp_path / "third", left))
                        told = f"{how} before {moment.operation}, and {which} before {second.operation}, the {step}th"
                        assert check(third, decided, found, found, told, logged) == found
                        shutil.rmtree(third.directory)
            shutil.rmtree(again)


def check(disk: FaultyFiles, decided: int, least: int, most: int, told: str, logged: bool) -> int:
    """Return how much the next life has."""
    with_life = open_store(disk, disk.directory / "worker-0.db", owner=(0, 2), decided=decided, logged=logged)
    try:
        done, _ = content_of(with_life)
        assert with_life.loaded.checkpoint == decided, told
        assert least <= done <= most, f"{told}: {done} of {least} to {most}"
        return done
    finally:
        with_life.close()


def test_killed_again_and_again_it_goes_on_with_all_that_was_logged_F56(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 20)
    monkeypatch.setattr("topology.storage.log.opening.LogSizes", lambda: SIZES)
    print("seed", SEED)
    random = Random(SEED)
    path = made(tmp_path / "worker-0.db")
    files = {path.name: path.read_bytes()}
    decided = done = most = 0
    for life in range(1, 100):
        disk = FaultyFiles(laid_out(tmp_path / f"{life}", files))
        left: list[dict[str, bytes]] = []

        def dies(operation: str, name: str, disk: FaultyFiles = disk, left: list[dict[str, bytes]] = left) -> None:
            disk.faults = None
            left.append(disk.contents())
            raise Died

        disk.fail(dies, at=random.randrange(1, 250))
        with suppress(Died), Worker.opened(disk, disk.directory / path.name, life, decided) as worker:
            assert done <= worker.done <= most
            done = most = worker.done
            while True:
                most += 3
                worker.take(3)
                done += 3
                number = decided + 1
                if random.random() < 0.2:
                    worker.store.mark(number)
                    worker.store.prepare(number, worker.changes())
                    break
                worker.store.mark(number)
                changes = worker.changes(forget=random.randrange(3) if worker.first + 3 < worker.done else 0)
                worker.store.prepare(number, changes)
                decided = number
                worker.store.decided(number)
                worker.is_decided(changes)
        files = left[0] if left else disk.contents()
        shutil.rmtree(disk.directory)
    assert decided > 60
    assert done > 200
