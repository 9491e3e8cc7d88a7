"""Stores that earlier releases have written: kept files, as bytes (F26)."""

import gzip
from pathlib import Path

import apsw
import pytest
from durable_kit import FaultyFiles, begun, laid_out, letter, mark, store, trial
from state_rows_kit import Held, change, held_by, row

from topology.errors import StartError
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreFull
from topology.storage.values import Changes

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
    assert (loaded.next_journal, loaded.floors) == (1, ())
    assert (one.id, one.number) == (bytes([7]) * 16, 0)
    assert held_by(one) == {}
    assert one.states().journal == []


def test_format_1_is_read_as_it_is_and_looking_changes_nothing_F26(path: Path) -> None:
    for checked in (False, True):
        with store(path, checked=checked) as one:
            has_what_format_1_had(one)
            assert (one.loaded.deaths, one.commits) == (1, 8)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == kept(1)


def test_a_life_writes_it_anew_as_format_2_with_all_that_it_had_F26(path: Path) -> None:
    held: Held = {}
    with store(path, lives=True) as one:
        has_what_format_1_had(one)
        one.commit(Changes(states=[change(held, row("k", 1))]))
        assert one._database.number("user_version") == 2
    with store(path) as one:
        assert held_by(one) == held
        assert (one.loaded.marks[0].position, one.commits, one.loaded.deaths) == (6, 10, 2)
        one.commit(Changes(letters=[letter("0-4")], gone=["0-2"]))
        assert one.names() == ["0-3", "0-4"]


def test_so_does_whatever_else_is_first_to_write_F26(tmp_path: Path, path: Path) -> None:
    with store(path) as one:
        one.replace(Changes(), marks=one.loaded.marks)
    with store(path) as one:
        assert (one.loaded.marks, one._database.number("user_version")) == ((), 2)
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
    assert {*formats} == {1, 2}


def test_without_room_it_stays_of_format_1_and_is_refused_as_any_other_F16_F26(path: Path) -> None:
    disk = FaultyFiles(path.parent)

    def no_room(operation: str, name: str) -> None:
        if operation == "write":
            raise apsw.FullError

    disk.fail(no_room)
    with pytest.raises(StartError, match="can't be written: No space left on device"):
        SqliteStore(disk, path)
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
