"""Other state in place of a component's, over several stores: all of it or none, wherever it is cut short (F56)."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from durable_kit import Died, FaultyFiles, full, laid_out
from slots_kit import TWO, filed, fill

from topology.filesystem.files import DiskFiles
from topology.groupings import key_bytes, slot_of
from topology.storage.directory.state_dir import StateDir
from topology.storage.rescale import partition
from topology.storage.rescale.assign import opened_stores
from topology.storage.rescale.partition import KeptKey, Twice
from topology.storage.store import StoreFull

NEW = [
    KeptKey(slot_of(key_bytes(n)), key_bytes(n), str(n).encode() * 9, {"t": n} if n % 2 else {}, n % 3, n % 4)
    for n in range(50)
]
OTHER = [KeptKey(slot_of(key_bytes(n)), key_bytes(n), b"other", {}) for n in range(3)]

State = dict[str, dict[bytes, KeptKey]]


@pytest.fixture
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two stores with state of one component."""
    for module in ("sqlite.state_table", "rescale.partition"):
        monkeypatch.setattr(f"topology.storage.{module}.PAGE_ROWS", 7)
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 12)
    path = tmp_path / "s"
    filed(path, TWO)
    fill(path, TWO)
    return path


def restored(path: Path, components: Mapping[str, list[KeptKey]], files: DiskFiles | None = None) -> dict[str, int]:
    with closing(StateDir(path, "t", files=files)) as state:
        state.check_files()
        with opened_stores(state) as stores:
            return partition.restore(stores, components.items())


def state_in(path: Path) -> State:
    """What there is, after what was cut short is completed; asserts that no key is there twice."""
    found: State = {}
    with closing(StateDir(path, "t")) as state:
        state.check_files()
        with opened_stores(state) as stores:
            partition.complete(stores)
            for name in {name for store in stores.values() for name in store.known}:
                kept = [*partition.checkpoint(stores, name)]
                found[name] = {one.key: one for one in kept}
                assert len(found[name]) == len(kept) == partition.count(stores, name)
                assert all(partition.found(stores, name, one.slot, one.key) == one for one in kept)
            for store in stores.values():
                store.states()  # every checksum
    return {name: kept for name, kept in found.items() if kept}


def by_key(kept: list[KeptKey]) -> dict[bytes, KeptKey]:
    return {one.key: one for one in kept}


def test_what_is_restored_is_all_that_there_is_and_the_next_run_finds_it_at_home(used: Path) -> None:
    assert restored(used, {"count": NEW, "fresh": OTHER}) == {"count": 50, "fresh": 3}
    assert state_in(used) == {"count": by_key(NEW), "fresh": by_key(OTHER)}
    filed(used, TWO)
    assert state_in(used) == {"count": by_key(NEW), "fresh": by_key(OTHER)}
    assert restored(used, {"count": []}) == {"count": 0}
    assert state_in(used) == {"fresh": by_key(OTHER)}


def test_what_raises_on_the_way_changes_nothing(used: Path) -> None:
    before = state_in(used)

    def breaks() -> Iterator[KeptKey]:
        yield from NEW
        raise ValueError("line 51")

    with (
        closing(StateDir(used, "t")) as state,
        opened_stores(state) as stores,
        pytest.raises(ValueError, match="line 51"),
    ):
        partition.restore(stores, [("fresh", OTHER), ("count", breaks())])
    assert state_in(used) == before


@pytest.mark.parametrize(("rows", "at"), [([*NEW, NEW[3]], 50), ([*NEW[:5], NEW[4], *NEW[5:]], 5), ([*OTHER, *NEW], 3)])
def test_a_key_that_comes_twice_is_told_and_nothing_is_changed(used: Path, rows: list[KeptKey], at: int) -> None:
    before = state_in(used)
    with pytest.raises(Twice) as told:
        restored(used, {"fresh": OTHER, "count": rows})
    assert told.value.at == at
    assert state_in(used) == before


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "power lost"])
def test_wherever_it_ends_it_is_all_of_the_one_or_all_of_the_other_F56(used: Path, tmp_path: Path, how: str) -> None:
    before = state_in(used)
    after = {"count": by_key(NEW), "fresh": by_key(OTHER)}
    shutil.copytree(used, tmp_path / "whole")
    disk = FaultyFiles(tmp_path / "whole", remember=True)
    restored(tmp_path / "whole", {"count": NEW, "fresh": OTHER}, disk)
    assert len(disk.moments) > 100
    seen = []
    for number, moment in list(enumerate(disk.moments))[::2]:
        copy = laid_out(tmp_path / "copy", moment.files if how == "killed" else moment.durable)
        if number % 3 == 0:
            filed(copy, TWO)
        found = state_in(copy)
        assert found in (before, after), f"before {moment.operation}, the {number}th"
        seen.append(found == after)
        shutil.rmtree(copy)
    assert seen == sorted(seen)
    assert seen[-1] is not seen[0]


def test_without_room_nothing_is_changed_F16(used: Path) -> None:
    before = state_in(used)
    for at in (10, 40, 70):
        disk = FaultyFiles(used)
        disk.fail(full, at=at)
        with pytest.raises((StoreFull, Died)):
            restored(used, {"count": NEW}, disk)
        assert state_in(used) == before
