"""The store of a worker: all or nothing, whatever ids there are, and it says what is wrong before it gives up (E2, F16,
F18)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from durable_kit import FaultyFiles, begun, full, letter, made, mark, store, sync_fails, trial, write_fails

from topology.errors import StartError
from topology.storage.sqlite import state_table, tables
from topology.storage.sqlite.database import PAGE_BYTES, Database
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes, EntryRow, StateChange, StateRow
from topology.storage.worker_store import is_behind

IDS = [1, "1", b"1", 0, -1, 2**63, -(2**63) - 1, 2**200, "", b"", "\ud800", "ä\0", b"\xff\0"]


def test_what_was_committed_is_there_after_the_process_for_ids_of_every_kind(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    marks = [mark(id, partition=f"p{number}", done=((id, id),)) for number, id in enumerate(IDS)]
    trials = [trial(id) for id in IDS]
    letters = [letter(f"0-{number}", id=id, at=None) for number, id in enumerate(IDS, start=1)]
    with store(path) as one:
        one.commit(Changes(marks=marks, begun=[begun()], trials=trials, letters=letters))
    with store(path) as one:
        assert one.loaded.marks == tuple(marks)
        assert one.loaded.begun == (begun(),)
        assert one.loaded.trials == tuple(trials)
        assert one.letters() == letters
        assert [type(mark.position) for mark in one.loaded.marks] == [type(id) for id in IDS]


def test_later_entries_for_the_same_thing_replace_earlier_ones_and_keep_their_place(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        one.commit(Changes(marks=[mark(1), mark(2), mark(1, partition="q")], trials=[trial(1), trial(2)]))
        one.commit(Changes(marks=[mark(9)], trials=[trial(1, deaths=3)], acquitted=[trial(2)]))
    with store(path) as one:
        assert one.loaded.marks == (mark(9), mark(1, partition="q"))
        assert one.loaded.trials == (trial(1, deaths=3),)


def test_each_commit_is_counted_and_one_of_nothing_is_none_D12(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        before = one.commits
        one.commit(Changes())
        one.commit(Changes(begun=[begun()]))
        assert one.commits == before + 1
    with store(path) as one:
        assert one.commits == before + 1


def test_letters_are_listed_by_page_without_what_is_long_and_shown_whole(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-3.db", number=3)
    letters = [letter(f"3-{number}") for number in (1, 2, 9, 10, 11)] + [letter("12-1")]
    with store(path) as one:
        one.commit(Changes(letters=letters[::-1]))
        assert [found.name for found in one.letters(limit=2)] == ["3-1", "3-2"]
        assert [found.name for found in one.letters(after="3-2", limit=3)] == ["3-9", "3-10", "3-11"]
        assert [found.name for found in one.letters(after="3-5")] == ["3-9", "3-10", "3-11", "12-1"], "3-5 is gone"
        assert one.letters(["3-10", "7-7"]) == [letters[3]]
        (listed,) = one.listed(after="3-11")
        assert (listed.record, listed.traceback, listed.text) == (b"", "", letters[0].text)
        assert one.names() == [one.name for one in letters]


def test_a_letters_number_is_never_used_again(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        one.commit(Changes(letters=[letter("0-1"), letter("0-2"), letter("5-70")]))
        one.commit(Changes(gone=["0-2", "0-1"]))
    with store(path) as one:
        assert (one.loaded.next_letter, one.loaded.letters) == (3, 1)


def test_what_is_to_be_done_with_letters_is_loaded(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        one.commit(
            Changes(letters=[letter("0-1", served=False), letter("0-2", replaying=True), letter("0-3", text="é" * 10)])
        )
    with store(path) as one:
        assert (one.loaded.unserved, one.loaded.replaying, one.loaded.letters) == (("0-1",), ("0-2",), 3)
        long = [letter("0-1"), letter("0-2"), letter("0-3", text="é" * 10)]
        size = sum(len(one.record) + len(one.text) + len(one.problem) + len(one.traceback) for one in long)
        assert abs(one.loaded.letter_bytes - size) < 20


def test_deaths_are_counted_until_a_worker_ends_in_order_E7(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    deaths = []
    for ends in (False, False, True, True, False, False):
        with store(path, lives=True) as one:
            deaths.append(one.loaded.deaths)
            if ends:
                one.ended_in_order()
        with store(path):
            pass  # who only looks counts as nobody
    assert deaths == [0, 1, 2, 0, 0, 1]


def test_only_one_process_has_it_open(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        with pytest.raises(StartError, match=r"worker-0\.db can't be used: another process has it open") as refused:
            SqliteStore(one_disk(tmp_path), path)
        assert "workers of a run that was just killed end within 3 s" in refused.value.next
        one.commit(Changes(marks=[mark(1)]))
        one.close()
        one.close()


def one_disk(directory: Path) -> FaultyFiles:
    return FaultyFiles(directory)


# -- disks that fail


def test_where_there_is_no_room_nothing_is_kept_nothing_is_lost_and_the_next_commit_is_good_F16(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    disk = FaultyFiles(tmp_path)
    with store(path, disk) as one:
        one.commit(Changes(marks=[mark(1)], letters=[letter("0-1")]))
        for at in range(1, 6):
            disk.fail(full, at)
            with pytest.raises(StoreFull, match=r"worker-0\.db can't be written: No space left on device"):
                one.commit(Changes(marks=[mark(100 + at)], letters=[letter("0-2", record=b"x" * 50_000)]))
            disk.faults = None
            one.commit(Changes(marks=[mark(at)], gone=["0-2"]))
            assert one.reread().marks == (mark(at),)
            assert one.names() == ["0-1"]
    with store(path) as one:
        assert (one.loaded.marks, one.names()) == ((mark(5),), ["0-1"])


@pytest.mark.parametrize("fault", [sync_fails, write_fails])
def test_after_an_error_of_the_disk_nothing_is_tried_again_and_the_next_process_reads_what_is_there_F18(
    tmp_path: Path, fault: object
) -> None:
    path = made(tmp_path / "worker-0.db")
    disk = FaultyFiles(tmp_path)
    with store(path, disk) as one:
        one.commit(Changes(marks=[mark(1)]))
        disk.fail(fault)  # type: ignore[arg-type]
        with pytest.raises(StoreBroken, match=r"worker-0\.db on the disk is unknown: .*K537"):
            one.commit(Changes(marks=[mark(2)]))
        disk.faults = None
        before = disk.count
        for _ in range(2):
            with pytest.raises(StoreBroken, match="on the disk is unknown"):
                one.commit(Changes(marks=[mark(3)]))
        with pytest.raises(StoreBroken, match="on the disk is unknown"):
            one.ended_in_order()
        one.close()
        assert disk.count == before, "neither a commit nor closing wrote anything"
    with store(path) as one:
        assert one.loaded.marks in ((mark(1),), (mark(2),))


def test_an_error_of_fsync_while_the_log_is_emptied_is_passed_over_by_nobody_F18(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own checkpoint would go on: it tells nobody."""
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 20)
    path = made(tmp_path / "worker-0.db")
    disk = FaultyFiles(tmp_path)

    def file_only(operation: str, name: str) -> None:
        if not name.endswith("-wal"):
            sync_fails(operation, name)

    committed = 0
    with store(path, disk) as one:
        disk.fail(file_only)
        with pytest.raises(StoreBroken):  # noqa: PT012 - how many commits hold until then is the question
            for number in range(1, 100):
                one.commit(Changes(marks=[mark(number)]))
                committed = number
    assert 2 < committed < 30
    with store(path) as one:
        assert one.loaded.marks in ((mark(committed),), (mark(committed + 1),))


def test_a_log_that_can_not_be_emptied_has_a_bound_and_commits_before_it_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 10)
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES_FULL", 40)
    path = made(tmp_path / "worker-0.db")
    disk = FaultyFiles(tmp_path)

    def file_only(operation: str, name: str) -> None:
        if not name.endswith("-wal"):
            full(operation, name)

    last = 0
    with store(path, disk) as one:
        disk.fail(file_only)
        with pytest.raises(StoreFull):  # noqa: PT012 - how many commits hold until then is the question
            for number in range(1, 1000):
                one.commit(Changes(marks=[mark(number)]))
                last = number
        assert 10 < last < 41
        assert one.reread().marks == (mark(last),)
        disk.faults = None
        one.commit(Changes(marks=[mark(last + 1)]))
        assert (tmp_path / "worker-0.db-wal").stat().st_size < 20 * PAGE_BYTES
    with store(path) as one:
        assert one.loaded.marks == (mark(last + 1),)


def test_the_log_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 50)
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        for number in range(200):
            one.commit(Changes(marks=[mark(number)]))
            assert (tmp_path / "worker-0.db-wal").stat().st_size < 60 * 4200


def test_a_letter_that_is_too_long_is_refused_and_the_others_of_its_commit_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROW_BYTES_MAX", 1_000)
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        with pytest.raises(ValueError, match=r"1,\d\d\d bytes are too many for a row of contents; at most 1,000"):
            one.commit(Changes(letters=[letter("0-1"), letter("0-2", record=b"x" * 1_001)]))
        assert one.names() == []
        with pytest.raises(ValueError, match="'' is not the name of a dead letter"):
            one.commit(Changes(marks=[mark(1)], letters=[letter("")]))
        one.commit(Changes(letters=[letter("0-2")]))
        assert (one.names(), one.reread().marks) == (["0-2"], ())


def test_a_copy_without_the_log_says_that_a_run_has_begun_D12(tmp_path: Path) -> None:
    """So it is refused as older, once the run has decided a checkpoint."""
    with store(path := made(tmp_path / "worker-0.db")) as one:
        one.begin_life((0, 1), has_log=False)
        (tmp_path / "worker-1.db").write_bytes(path.read_bytes())
    with store(tmp_path / "worker-1.db") as copy:
        assert copy.takes_part
        assert is_behind(copy, 1)


def test_no_checkpoint_is_prepared_that_could_not_be_taken_in_once_it_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory could not be opened any more."""
    monkeypatch.setattr(tables, "ROW_BYTES_MAX", 1_000)
    monkeypatch.setattr(state_table, "ROW_BYTES_MAX", 1_000)
    with store(made(tmp_path / "worker-0.db")) as one:
        for changes in (
            Changes(states=[StateChange("count", [StateRow(1, b"key", bytes(1_001))], 0)]),
            Changes(entries=[EntryRow("count", bytes(1_001))]),
        ):
            with pytest.raises(ValueError, match="bytes"):
                one.prepare(1, changes)
            with pytest.raises(ValueError, match="bytes"):
                one.conclude(1, changes)
        assert (one.prepared, one.checkpoint) == (0, 0)


def test_what_is_read_anew_while_positions_are_filed_is_not_the_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start reads it several times for each spout, and ten thousand letters take a second."""
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        one.commit(Changes(marks=[mark(1)], letters=[letter("0-1")]))
        loaded = tables.loaded
        read: list[str] = []

        def noted(database: Database, table: tables.RowTable) -> Iterator[tuple[bytes, bytes]]:
            read.append(table.name)
            return loaded(database, table)

        monkeypatch.setattr(tables, "loaded", noted)
        one.commit(Changes(marks=[mark(2)], letters=[letter("0-2")]))
        held = one.reread()
        assert (held.marks, held.next_letter) == ((mark(2),), 3)
        assert read == ["marks", "begun", "trials"]
        assert one.names() == ["0-1", "0-2"]


# -- files that are not opened


def test_a_newer_format_is_refused_F26(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        with one._database.transaction() as database:
            database.run("PRAGMA user_version = 4")
        one._database.checkpoint()
    with pytest.raises(StartError, match=r"worker-0\.db has format 4; this Kedge reads formats up to 3"), store(path):
        pass


@pytest.mark.parametrize("content", [b"", b"x", b"SQLite format 3\0", b"\0" * 8192])
def test_what_is_no_store_is_said_to_be_damaged_and_left_as_it_is_F22(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "worker-0.db"
    path.write_bytes(content)
    with pytest.raises(StartError, match=r"the state file .*worker-0\.db is damaged: "), store(path, lives=True):
        pass
    assert path.read_bytes() == content


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("how", ["symlink", "hard link", "fifo", "directory"])
def test_only_plain_files_with_one_name_are_opened_S5(tmp_path: Path, suffix: str, how: str) -> None:
    path = made(tmp_path / "worker-0.db")
    planted = tmp_path / f"worker-0.db{suffix}"
    elsewhere = tmp_path / "elsewhere"
    planted.rename(elsewhere) if planted.exists() else elsewhere.write_bytes(b"")
    match how:
        case "symlink":
            planted.symlink_to(elsewhere)
        case "hard link":
            os.link(elsewhere, planted)
        case "fifo":
            os.mkfifo(planted)
        case _:
            planted.mkdir()
    with pytest.raises(StartError, match="is a link, or no plain file"), store(path):
        pass


def test_nobody_else_may_read_what_it_makes_S17(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with store(made(tmp_path / "worker-0.db"), lives=True) as one:
            one.commit(Changes(marks=[mark(1)]))
            assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    finally:
        os.umask(before)
