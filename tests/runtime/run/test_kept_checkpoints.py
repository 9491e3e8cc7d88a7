"""A run keeps a checkpoint under a name while it goes on, or says why not, and is none the worse for it."""

import asyncio
import errno
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from runtime_kit import Number

from topology import Bolt, ConfigurationError, Message, Record, Spout, StartError, State, Topology
from topology.filesystem.files import DiskFiles
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run import savepoints as savepoints_of_runs
from topology.runtime.run.lifecycle import Takeover
from topology.runtime.run.startup import Terms
from topology.storage.directory import savepoints
from topology.storage.sqlite.database import Database

PATIENCE_S = 30.0


class Counts(Spout):
    """Endless numbers, from the one after the last that was done."""

    shared_ids = True

    async def records(self) -> AsyncIterator[Message[Number]]:
        n = 0
        while True:
            yield Message(Number(n % 7), n)
            n += 1
            await asyncio.sleep(0.001)


class Total(Record):
    n: int
    count: int


class Count(Bolt):
    """Counts how often each number has come; `seen` is of this process."""

    seen: dict[int, int] = {}  # noqa: RUF012 - of a test

    def process(self, number: Number, state: State[int]) -> None:
        count = state.get(0) + 1
        state.set(count)
        Count.seen[number.n] = count


def topology(**config: Any) -> Topology:
    from topology import Config

    made = Topology("counted", Config(**config))
    made.bolt("count", Count(), made.spout("numbers", Counts()).fields("n"), tasks=2)
    return made


@asynccontextmanager
async def running(
    path: Path | None, *, workers: int = 1, source: Path | None = None, **config: Any
) -> AsyncIterator[EmbeddedRun]:
    Count.seen = {}
    takeover = Takeover(Terms(source=source))
    run = EmbeddedRun(topology(**config), state_dir=path, workers=workers, takeover=takeover)
    ending = asyncio.ensure_future(run.finish())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: len(Count.seen) == 7 or ending.done())
            yield run
        run.drain()
        report = await ending
        assert report.error is None
    finally:
        run.abort()
        await asyncio.gather(ending, return_exceptions=True)


async def until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.005)


async def goes_on() -> None:
    before = dict(Count.seen)
    await until(lambda: all(count > before[n] for n, count in Count.seen.items()))


def names(path: Path) -> list[str]:
    return [kept.name for kept in savepoints.listed(DiskFiles(), path)]


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_run_keeps_one_while_it_goes_on_and_another_begins_from_it(tmp_path: Path, workers: int) -> None:
    async with running(tmp_path / "one", workers=workers) as run:
        before = dict(Count.seen)
        kept = await run.save("friday")
        after = dict(Count.seen)
        await goes_on()
    assert names(tmp_path / "one") == ["friday"] == [kept.name]
    assert sorted(kept.manifest.files) == [f"worker-{number}.db" for number in range(workers)]
    async with running(tmp_path / "other", workers=3 - workers, source=kept.path):
        first = dict(Count.seen)
        await goes_on()
    assert all(before[n] <= first[n] <= after[n] + 3 for n in before) or first.keys() == before.keys()


async def test_two_at_once_come_one_after_the_other_and_one_of_a_name_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, workers=2) as run:
        found = await asyncio.gather(*map(run.save, ("a", "b", "a", "", "")), return_exceptions=True)
    (refused,) = [one for one in found if isinstance(one, BaseException)]
    assert isinstance(refused, StartError)
    assert str(refused.code) == "K802"
    assert len(names(tmp_path)) == 4
    assert {"a", "b"} < {*names(tmp_path)}


@pytest.mark.parametrize("name", ["a/b", "..", "auto-x", "before-x", "-"])
async def test_a_wrong_name_is_a_mistake_of_the_caller(tmp_path: Path, name: str) -> None:
    async with running(tmp_path) as run:
        with pytest.raises(ConfigurationError) as told:
            await run.save(name)
        await goes_on()
    assert str(told.value.code) == "K801"
    assert names(tmp_path) == []


async def test_a_full_disk_gives_it_up_and_leaves_nothing_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Database._copy_pages

    def full(self: Database, target: Path) -> None:
        if target.name == "worker-1.db":
            target.write_bytes(b"a part")
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        copy(self, target)

    async with running(tmp_path, workers=2) as run:
        monkeypatch.setattr(Database, "_copy_pages", full)
        with pytest.raises(StartError, match=r"worker 1: .*worker-1.db can't be written: No space left") as told:
            await run.save("friday")
        assert str(told.value.code) == "K804"
        assert not (tmp_path / "checkpoints/friday").exists()
        await goes_on()
        monkeypatch.undo()
        await run.save("friday")
    assert names(tmp_path) == ["friday"]


async def test_a_full_disk_at_its_manifest_gives_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = DiskFiles.create

    def full(self: DiskFiles, path: Path, content: bytes) -> None:
        if path.parent.name == "friday":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        create(self, path, content)

    async with running(tmp_path) as run:
        monkeypatch.setattr(DiskFiles, "create", full)
        with pytest.raises(StartError, match="No space left"):
            await run.save("friday")
        await goes_on()
    assert not (tmp_path / "checkpoints/friday").exists()


async def test_what_keeps_no_state_or_is_ending_keeps_none(tmp_path: Path) -> None:
    async with running(None) as run:
        with pytest.raises(StartError, match="keeps no state") as told:
            await run.save("friday")
    assert str(told.value.code) == "K804"
    run = EmbeddedRun(topology(), state_dir=tmp_path)
    with pytest.raises(StartError, match="has not begun"):
        await run.save("friday")


async def test_the_end_of_a_run_gives_those_under_way_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Database._copy_pages
    begun = threading.Event()

    def slow(self: Database, target: Path) -> None:
        begun.set()
        time.sleep(0.2)
        copy(self, target)

    async with running(tmp_path, workers=2) as run:
        monkeypatch.setattr(Database, "_copy_pages", slow)
        asked = [asyncio.ensure_future(run.save(name)) for name in ("friday", "saturday")]
        await until(begun.is_set)
        run.drain()
        told = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(one, StartError) and "the run is ending" in str(one) for one in told)
    assert names(tmp_path) == []


async def test_the_end_of_a_run_waits_for_a_copy_of_a_store_that_no_worker_has_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the end would meet a store that is open, and would not be noted."""
    begun, over = threading.Event(), threading.Event()

    def slow(self: Any, folder: Path) -> dict[str, int]:
        begun.set()
        time.sleep(0.3)
        over.set()
        return {}

    monkeypatch.setattr(savepoints_of_runs.RunSavepoints, "_others", slow)
    async with running(tmp_path) as run:
        asked = asyncio.ensure_future(run.save("friday"))
        await until(begun.is_set)
        run.drain()
        with pytest.raises(StartError, match="the run is ending"):
            await asked
        assert over.is_set()
    assert names(tmp_path) == []


async def test_one_that_is_being_completed_as_the_run_ends_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete, begun = savepoints.complete, threading.Event()

    def slow(*values: Any) -> None:
        begun.set()
        time.sleep(0.3)
        complete(*values)

    monkeypatch.setattr(savepoints, "complete", slow)
    async with running(tmp_path) as run:
        asked = asyncio.ensure_future(run.save("friday"))
        await until(begun.is_set)
        run.drain()
        kept = await asked
    assert names(tmp_path) == ["friday"] == [kept.name]
    assert (kept.path / "worker-0.db").exists()


async def test_a_caller_that_goes_away_does_not_stop_it(tmp_path: Path) -> None:
    async with running(tmp_path, workers=2) as run:
        asked = asyncio.ensure_future(run.save("friday"))
        await asyncio.sleep(0.002)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await until(lambda: names(tmp_path) == ["friday"])
        await goes_on()


async def test_a_run_keeps_as_many_older_ones_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savepoints_of_runs, "EACH_S", 0.05)
    monkeypatch.setattr(savepoints_of_runs, "SHARE", 0)
    async with running(tmp_path, keep_checkpoints=3) as run:
        await run.save("friday")
        await until(lambda: len(names(tmp_path)) >= 3)
        first = {*names(tmp_path)}
        await until(lambda: len({*names(tmp_path)} & first) == 1)
    assert "friday" in names(tmp_path), "those that were named stay"
    own = [name for name in names(tmp_path) if name.startswith("auto-")]
    assert len(own) <= 3


async def test_a_run_deletes_none_before_there_are_more_than_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savepoints_of_runs, "EACH_S", 0.02)
    monkeypatch.setattr(savepoints_of_runs, "SHARE", 0)
    deleted: list[str] = []
    monkeypatch.setattr(savepoints, "delete", lambda files, directory, name: deleted.append(name))
    async with running(tmp_path, keep_checkpoints=7) as run:
        await until(lambda: len(names(tmp_path)) >= 5)
        assert deleted == []
        await until(lambda: bool(deleted))
        assert run.snapshot() is not None
    assert len(names(tmp_path)) > 6


async def test_a_run_that_keeps_only_the_last_one_has_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savepoints_of_runs, "EACH_S", 0.02)
    async with running(tmp_path):
        await goes_on()
    assert not (tmp_path / "checkpoints").exists()


async def test_the_end_of_a_run_waits_for_older_ones_that_are_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savepoints_of_runs, "EACH_S", 0.02)
    monkeypatch.setattr(savepoints_of_runs, "SHARE", 0)
    delete, steps = savepoints.delete, list[str]()

    def slow(files: Any, directory: Path, name: str) -> None:
        steps.append("begun")
        time.sleep(0.2)
        delete(files, directory, name)
        steps.append("ended")

    monkeypatch.setattr(savepoints, "delete", slow)
    async with running(tmp_path, keep_checkpoints=2):
        await until(lambda: "begun" in steps)
    assert steps.count("begun") == steps.count("ended")
