"""State, its timers and what is remembered of inputs go by slots to the stores of their tasks' workers: whatever the
plans were, wherever it was cut short, nothing is lost and nothing is in two places (D7, F56)."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from durable_kit import Died, FaultyFiles, full, killed, laid_out, store
from slots_kit import CLASSES, TWO, Placements, filed, fill

from topology.errors import StartError
from topology.groupings import key_bytes, slot_of, task_of_slot
from topology.storage.directory.state_dir import StateDir
from topology.storage.encoding import state as states
from topology.storage.encoding.entries import KnownEntry, unpacked
from topology.storage.rescale.assign import refile
from topology.storage.sqlite.database import Database
from topology.storage.store import StoreBroken
from topology.storage.values import Changes, EntryRow, StateChange, StateRow

THREE: Placements = {"count": [0, 1, 2], "drawn": [2, 1, 0]}
ONE: Placements = {"count": [1], "drawn": [1]}
SHARED: Placements = {"count": [0, 1, 0, 1], "drawn": [1, 1]}


@dataclass
class Held:
    """What all stores have: which worker's store has which key's body and which entries; an entry twice is once."""

    rows: dict[tuple[str, bytes], list[tuple[int, int, bytes]]] = field(default_factory=dict)  # worker, slot, body
    entries: dict[tuple[str, int], list[tuple[int, KnownEntry]]] = field(default_factory=dict)  # by identity


def held(path: Path) -> Held:
    found = Held()
    for file in sorted(path.glob("worker-*.db")):
        with store(file) as one:
            loaded = one.states()
            for component, rows in loaded.rows.items():
                for slot, key, body in rows:
                    found.rows.setdefault((component, key), []).append((one.number, slot, body))
            for row in loaded.entries:
                classes, entries = unpacked(row.entries)
                assert not any(entry.outputs for entry in entries) or classes == CLASSES
                for entry in entries:
                    places = found.entries.setdefault((row.component, entry.identity), [])
                    if (one.number, entry) not in places:
                        places.append((one.number, entry))
    return found


def is_home(found: Held, placements: Placements) -> bool:
    """Whether each is where its slot's task is, and nowhere else."""

    def home(component: str, slot: int) -> int:
        return placements[component][task_of_slot(slot, len(placements[component]))]

    rows = [
        len(places) == 1 and places[0][0] == home(component, places[0][1])
        for (component, _), places in found.rows.items()
    ]
    entries = [
        len(places) == 1 and places[0][0] == home(component, places[0][1].slot)
        for (component, _), places in found.entries.items()
    ]
    return all(rows) and all(entries)


def what(found: Held) -> tuple[object, object]:
    """All that there is, wherever it is; asserts that what is in several places is the same."""
    assert all(len({place[1:] for place in places}) == 1 for places in found.rows.values())
    assert all(len({place[1] for place in places}) == 1 for places in found.entries.values())
    rows = {name: places[0][1:] for name, places in found.rows.items()}
    return rows, {name: places[0][1] for name, places in found.entries.items()}


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps for little."""
    monkeypatch.setattr("topology.storage.sqlite.state_table.PAGE_ROWS", 7)
    monkeypatch.setattr("topology.storage.encoding.entries.ENTRIES_MAX", 300)
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 12)


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """After a run on two workers that was cut short."""
    path = tmp_path / "s"
    filed(path, TWO)
    fill(path, TWO)
    return path


def without_gone(found: Held) -> Held:
    """Without the component that the plans do not have."""
    entries = {name: places for name, places in found.entries.items() if name[0] != "gone"}
    return Held(found.rows, entries)


@pytest.mark.usefixtures("small_pages")
def test_whatever_the_plans_were_each_slot_is_where_its_task_is_D7(used: Path) -> None:
    before = what(without_gone(held(used)))
    for placements in (TWO, THREE, ONE, SHARED, TWO, ONE, THREE):
        filed(used, placements)
        found = held(used)
        assert is_home(without_gone(found), placements)
        assert what(without_gone(found)) == before
        gone = [worker for (name, _), places in found.entries.items() if name == "gone" for worker, _ in places]
        assert sorted(gone) == [0, 1], "what nobody runs now stays where it is"


def test_nothing_is_written_and_no_row_is_read_where_nothing_moves(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filed(used, THREE)
    filed(used, THREE)  # what the logs had is in the files by now
    read: list[str] = []
    each = Database.each

    def noted(self: Database, sql: str, values: Sequence[object] = ()) -> object:
        read.append(sql)
        return each(self, sql, values)

    monkeypatch.setattr(Database, "each", noted)
    before = {file.name: file.read_bytes() for file in used.glob("worker-*")}
    filed(used, THREE)
    assert {file.name: file.read_bytes() for file in used.glob("worker-*")} == before
    assert not [sql for sql in read if "FROM state" in sql]
    assert not [sql for sql in read if "FROM entries" in sql and "length(body)" not in sql]


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize(("placements", "step"), [(THREE, 3), (ONE, 5), (SHARED, 5)])
@pytest.mark.parametrize("how", ["killed", "power lost"])
def test_it_is_completed_wherever_it_was_cut_short_and_whatever_the_next_plan_is_F56(
    used: Path, tmp_path: Path, placements: Placements, step: int, how: str
) -> None:
    before = what(held(used))
    shutil.copytree(used, tmp_path / "whole")
    disk = FaultyFiles(tmp_path / "whole", remember=True)
    filed(tmp_path / "whole", placements, disk)
    assert len(disk.moments) > 100
    for number, moment in list(enumerate(disk.moments))[::step]:
        files = moment.files if how == "killed" else moment.durable
        copy = laid_out(tmp_path / "copy", files)
        following = (placements, TWO, ONE)[number % 3]  # as it was meant, as it had been, or another
        assert what(held_as_it_is(copy)) == before, f"lost before {moment.operation}, the {number}th"
        filed(copy, following)
        found = held(copy)
        assert is_home(without_gone(found), following), f"after {moment.operation}, the {number}th"
        assert what(found) == before
        shutil.rmtree(copy)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("placements", [THREE, ONE])
def test_a_row_leaves_its_store_only_once_it_is_durable_where_it_goes_D7(
    tmp_path: Path, placements: Placements
) -> None:
    """Without known inputs, whose commits would make it durable just in time."""
    path = tmp_path / "s"
    filed(path, TWO)
    fill(path, TWO, remembered=False)
    before = what(held(path))
    disk = FaultyFiles(path, remember=True)
    filed(path, placements, disk)
    for number, moment in enumerate(disk.moments):
        copy = laid_out(tmp_path / "copy", moment.durable)
        assert what(held_as_it_is(copy)) == before, f"lost before {moment.operation}, the {number}th"
        shutil.rmtree(copy)


def held_as_it_is(path: Path) -> Held:
    """Of a directory that was cut short: a store that was being made is none."""
    with closing(StateDir(path, "t")) as state:
        known = state.known_files
    for file in path.glob("worker-*.db"):
        if file.name not in known:
            file.unlink()
    return held(path)


@pytest.mark.usefixtures("small_pages")
def test_killed_again_and_again_it_comes_to_the_right_end_F56(used: Path) -> None:
    before = what(held(used))
    for number in range(4, 200, 9):
        disk = FaultyFiles(used)
        disk.fail(killed, at=number)
        placements = (THREE, ONE, TWO)[number % 3]
        try:
            filed(used, placements, disk)
        except (Died, StartError):
            continue
        assert is_home(without_gone(held(used)), placements)
        assert what(held(used)) == before
    filed(used, THREE)
    assert is_home(without_gone(held(used)), THREE)
    assert what(held(used)) == before


def test_where_there_is_no_room_it_says_so_and_goes_on_next_time_F16(used: Path) -> None:
    before = what(held(used))
    disk = FaultyFiles(used)
    disk.fail(full, at=20)
    with pytest.raises(StartError, match=r"could not be filed for this run's workers: .*No space left|can't be"):
        filed(used, ONE, disk)
    filed(used, ONE)
    assert what(held(used)) == before


def test_inputs_that_are_known_after_a_clean_end_are_known_on_D4(used: Path) -> None:
    """The last checkpoint has those that may come again, and no others."""
    before = what(held(used))
    for placements in (TWO, ONE):
        filed(used, placements, clean=True)
        assert what(held(used)) == before


def test_a_damaged_row_of_inputs_is_named_and_nothing_is_moved_F22(used: Path) -> None:
    with store(used / "worker-0.db") as one:
        one.replace(Changes(), entries=[EntryRow("count", b"nothing of ours")])
    with pytest.raises(StartError, match=r"worker-0.db is damaged: a row of known inputs can't be read") as told:
        filed(used, ONE)
    assert (str(told.value.code), "move worker-0.db away" in told.value.next) == ("K430", True)


def test_a_row_that_is_missing_is_told_before_any_row_moves_F22(used: Path) -> None:
    with store(used / "worker-0.db") as one, one._database.transaction() as database:
        database.run("DELETE FROM state WHERE key = (SELECT min(key) FROM state)")
    with pytest.raises(StartError, match=r"worker-0.db is damaged: rows of state are missing") as told:
        filed(used, ONE)
    assert str(told.value.code) == "K430"
    with store(used / "worker-0.db") as one, pytest.raises(StoreBroken):
        one.row("count", 1, b"a key that it may have had")


def test_what_an_older_copy_has_takes_nothing_back_that_is_further_on(used: Path, tmp_path: Path) -> None:
    """One that was accepted: what its key's new home has is what was done since."""
    shutil.copytree(used, tmp_path / "older")
    filed(used, ONE)
    key = key_bytes("key 0")
    slot = slot_of(key)
    with store(used / "worker-1.db") as one:
        (before,) = [row for row in one.states().rows["count"] if row.key == key]
        after = StateRow(slot, key, states.body_of(states.seed_of("count", slot), key, states.packed(b"later", {})))
        digest = states.sum_of(before.body) ^ states.sum_of(after.body)
        one.commit(Changes(states=[StateChange("count", [after], digest)]))
    for file in (tmp_path / "older").glob("worker-0.db*"):
        shutil.copy(file, used / file.name)
    with closing(StateDir(used, "t")) as state:
        state.check_files(accept_loss=True)
        refile(state, {1: []}, ONE)
    ((worker, _, body),) = held(used).rows["count", key]
    assert (worker, states.content_of(body[8:]).value) == (1, b"later")
