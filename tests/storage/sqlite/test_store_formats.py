"""Stores that earlier releases have written: kept files, as bytes (F26)."""

import gzip
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from durable_kit import FaultyFiles, begun, laid_out, letter, mark, store, trial
from state_rows_kit import Held, change, held_by, row

from topology.errors import StartError
from topology.storage.directory.manifest import StoreEntry
from topology.storage.directory.state_dir import StateDir
from topology.storage.encoding.entries import named
from topology.storage.rescale.assign import opened_stores
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreFull
from topology.storage.values import Begun, Changes, StateRow
from topology.storage.worker_store import open_store

KEPT = Path(__file__).parents[1] / "kept"


def kept(format: int) -> dict[str, bytes]:
    """The files of a store that a process has left behind as it was killed."""
    ends = f".format-{format}.gz"
    return {file.name.removesuffix(ends): gzip.decompress(file.read_bytes()) for file in KEPT.glob(f"*{ends}")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return laid_out(tmp_path / "s", kept(1)) / "worker-0.db"


def has_what_format_1_had(one: SqliteStore) -> None:
    loaded = one.loaded
    assert loaded.marks == (mark(6, done=((7, 9),)), mark("a", partition="q"))
    assert loaded.begun == (begun(0, 2), begun(1, 2))
    assert loaded.trials == (trial(11, deaths=2),)
    assert one.letters() == [letter("0-2", served=False, origin=77), letter("0-3", replaying=True, origin=78)]
    assert (loaded.unserved, loaded.replaying, loaded.next_letter) == (("0-2",), ("0-3",), 4)
    assert loaded.dead_origins == (77, 78)
    assert loaded.checkpoint == 0
    assert (one.id, one.number) == (bytes([7]) * 16, 0)
    assert held_by(one) == {}
    assert one.states().entries == []


def test_format_1_is_read_as_it_is_and_looking_changes_nothing_F26(path: Path) -> None:
    for checked in (False, True):
        with store(path, checked=checked) as one:
            has_what_format_1_had(one)
            assert (one.loaded.deaths, one.commits) == (1, 8)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == kept(1)


def test_a_life_writes_it_anew_as_format_3_with_all_that_it_had_F26(path: Path) -> None:
    held: Held = {}
    with store(path, lives=True) as one:
        has_what_format_1_had(one)
        one.commit(Changes(states=[change(held, row("k", 1))]))
        assert one._database.number("user_version") == one.format == 3
    with store(path) as one:
        assert held_by(one) == held
        assert (one.loaded.marks[0].position, one.commits, one.loaded.deaths) == (6, 10, 2)
        one.commit(Changes(letters=[letter("0-4")], gone=["0-2"]))
        assert one.names() == ["0-3", "0-4"]


def test_so_does_whatever_else_is_first_to_write_F26(tmp_path: Path, path: Path) -> None:
    with store(path) as one:
        one.replace(Changes(), marks=one.loaded.marks)
    with store(path) as one:
        assert (one.loaded.marks, one._database.number("user_version")) == ((), 3)
    with store(laid_out(tmp_path / "fresh", kept(1)) / "worker-0.db") as one:
        one.forget()
        assert (one.reread().marks, one.names()) == ((), ["0-2", "0-3"])


def test_it_is_of_one_format_or_the_other_wherever_that_ends_F20_F26(tmp_path: Path, path: Path) -> None:
    disk = FaultyFiles(path.parent, remember=True)
    with store(path, disk, lives=True):
        pass
    formats = list[int]()
    for number, moment in enumerate(disk.moments):
        for how, files in (("killed", moment.files), ("power", moment.durable)):
            with store(laid_out(tmp_path / f"{how}-{number}", files) / "worker-0.db") as one:
                has_what_format_1_had(one)
                formats.append(one._database.number("user_version"))
    assert {*formats} == {1, 3}


def test_without_room_it_stays_of_format_1_and_is_refused_as_any_other_F16_F26(path: Path) -> None:
    disk = FaultyFiles(path.parent)

    def no_room(operation: str, name: str) -> None:
        if operation == "write":
            raise apsw.FullError

    disk.fail(no_room)
    with pytest.raises(StartError, match="can't be written: No space left on device"):
        open_store(disk, path, owner=(0, 1), decided=0, logged=False)
    with store(path, disk) as one, pytest.raises(StoreFull):
        one.commit(Changes(marks=[mark(7)]))
    with store(path) as one:
        has_what_format_1_had(one)
        one.commit(Changes(marks=[mark(7)]))
        assert one.reread().marks[0] == mark(7)


def test_a_byte_that_flips_in_a_log_of_format_1_is_told_F22(tmp_path: Path) -> None:
    files = kept(1)
    told = 0
    for number, offset in enumerate(range(0, len(files["worker-0.db-wal"]) // 2, 211)):
        log = bytearray(files["worker-0.db-wal"])
        log[offset] ^= 0x04
        directory = laid_out(tmp_path / f"{number}", {**files, "worker-0.db-wal": bytes(log)})
        try:
            with store(directory / "worker-0.db"):
                pass
        except StartError as error:
            told += str(error.code) == "K430"
    assert told > 20


# -- format 2


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return laid_out(tmp_path / "second", kept(2)) / "worker-0.db"


def has_what_format_2_had(one: SqliteStore, inputs: dict[str, set[int]]) -> None:
    assert one.loaded.marks == (mark(6, done=((7, 9),)),)
    assert one.loaded.begun == (Begun("lines", 0, 2),)
    assert one.loaded.trials == (trial(11, deaths=2),)
    assert one.letters() == [letter("0-2", origin=77)]
    assert (one.loaded.checkpoint, one.prepared, one.has_log) == (0, 0, False)
    rows: list[StateRow] = [row("a", 1), row("b", 3)]
    assert [*one.states().rows["count"]] == rows
    found: dict[str, set[int]] = {}
    for entries in one.states().entries:
        found.setdefault(entries.component, set()).update(known.entry.identity for known in named(entries.entries))
    assert found == inputs
    assert [*one.entries()] == [*one.states().entries]


ALL = {"count": {50, 51, 60, 70}, "gone": {80}}


def test_format_2_is_read_as_it_is_and_looking_changes_nothing_F26(second: Path) -> None:
    with store(second) as one:
        assert one.format == 2
        has_what_format_2_had(one, ALL)
    assert {file.name: file.read_bytes() for file in second.parent.iterdir()} == kept(2)


def test_the_first_commit_writes_it_anew_with_the_inputs_that_were_known_F26(second: Path) -> None:
    with store(second) as one:
        one.end_run()
        one.commit(Changes(begun=[Begun("lines", 0, 2)]))
        assert one.format == 3
        has_what_format_2_had(one, ALL)
    with store(second) as one:
        has_what_format_2_had(one, ALL)
        one.replace(Changes(), entries=())
        assert one.states().entries == []


def test_format_2_becomes_this_one_as_a_whole_wherever_that_ends_F20_F26(tmp_path: Path, second: Path) -> None:
    disk = FaultyFiles(second.parent, remember=True)
    with store(second, disk) as one:
        one.replace(Changes(), entries=one.entries()[:1])
    formats = set[int]()
    for number, moment in enumerate(disk.moments):
        for how, files in (("killed", moment.files), ("power", moment.durable)):
            with store(laid_out(tmp_path / f"{how}-{number}", files) / "worker-0.db") as found:
                has_what_format_2_had(found, ALL if found.format == 2 else {"count": {50, 60, 70}})
                formats.add(found.format)
    assert formats == {2, 3}


def directory_of(tmp_path: Path, files: dict[str, bytes], *, clean: bool) -> Path:
    """A state directory that an older version has left."""
    path = tmp_path / "directory"
    with closing(StateDir(path, "t")) as state:
        state._manifest.files = {"worker-0.db": StoreEntry((bytes([8]) * 16).hex(), 2)}
        state.set_begun("shape")
        if clean:
            state._manifest.clean = True
            state._store()
    for name, content in files.items():
        (path / name).write_bytes(content)
    return path


def test_after_a_clean_end_only_inputs_that_may_come_again_are_known_on_F26(tmp_path: Path) -> None:
    """Those of a dead letter, those for several messages, and a timer's; their messages were those of another run."""
    with closing(StateDir(directory_of(tmp_path, kept(2), clean=True), "t")) as state:
        state.check_files()
        with opened_stores(state) as stores:
            has_what_format_2_had(stores[0], {"count": {51, 60, 70}})
            known = [one.entry for row in stores[0].entries() for one in named(row.entries)]
            assert all(entry.messages == () for entry in known)
            assert stores[0].format == 3


def test_after_an_interrupted_run_an_older_format_is_refused_and_left_as_it_is_F26(tmp_path: Path) -> None:
    path = directory_of(tmp_path, kept(2), clean=False)
    with closing(StateDir(path, "t")) as state:
        state.check_files()
        with (
            pytest.raises(StartError, match="has format 2, and the last run was interrupted") as told,
            opened_stores(state),
        ):
            pass
    assert str(told.value.code) == "K483"
    assert {name: (path / name).read_bytes() for name in kept(2)} == kept(2)
    with closing(StateDir(path, "t", fresh=True)) as state:
        state.check_files()
        with opened_stores(state) as stores:
            assert (stores[0].loaded.marks, stores[0].names(), stores[0].entries()) == ((), ["0-2"], [])
