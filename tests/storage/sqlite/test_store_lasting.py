"""Commits that survive the process and not a loss of power, and those that make them lasting (D1, D12)."""

from pathlib import Path
from random import Random

import pytest
from durable_kit import FaultyFiles, begun, full, laid_out, made, store
from state_rows_kit import Held, put, reached, together

from topology.errors import StartError
from topology.storage.directory.state_dir import StateDir
from topology.storage.rescale.assign import opened_stores
from topology.storage.sqlite.database import _SETTINGS, PAGE_BYTES
from topology.storage.sqlite.header import durable_by
from topology.storage.store import StoreFull
from topology.storage.values import Changes

SEED = 20260106


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "whole").mkdir()
    return made(tmp_path / "whole" / "worker-0.db")


def syncs(disk: FaultyFiles) -> int:
    return sum(moment.operation.startswith("sync ") for moment in disk.moments)


def test_a_commit_that_need_not_last_syncs_nothing_and_the_next_that_must_syncs_all_before_it_D1(
    tmp_path: Path, path: Path
) -> None:
    disk = FaultyFiles(path.parent, remember=True)
    held: Held = {}
    with store(path, disk, lives=True) as one:
        put(one, together(held, 1))
        before = syncs(disk)
        for number in range(2, 8):
            put(one, together(held, number), lasting=False)
        assert syncs(disk) == before
        with store(laid_out(tmp_path / "power", disk.durable) / "worker-0.db") as found:
            assert reached(found) == 1
        with store(laid_out(tmp_path / "killed", disk.contents()) / "worker-0.db") as found:
            assert reached(found) == 7
        one.commit(Changes(begun=[begun()]))
        assert syncs(disk) == before + 1
        with store(laid_out(tmp_path / "lasting", disk.durable) / "worker-0.db") as found:
            assert reached(found) == 7


def test_only_commits_that_a_loss_of_power_leaves_are_counted_D12(path: Path) -> None:
    with store(path) as one:
        before = one.commits
        put(one, together({}, 1), lasting=False)
        assert one.commits == before
        one.commit(Changes(begun=[begun()]))
        assert one.commits == before + 2
        one.replace(Changes(begun=[begun()]), lasting=False)
    with store(path) as one:
        assert one.commits == before + 3, "and those that were there when it was opened, once they are settled"


def test_what_a_killed_process_left_unsynced_is_durable_before_the_directory_knows_of_it_D12(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    held: Held = {}
    with_stores(directory)
    with store(directory / "worker-0.db") as one:
        put(one, together(held, 1), lasting=False)
        disk = FaultyFiles(directory)
        left = one.commits + 1
    disk = FaultyFiles(directory)
    disk._durable.pop("worker-0.db-wal")  # nothing of the log was synced
    state = StateDir(directory, "t", files=disk)
    state.check_files()
    assert state.known_files == {"worker-0.db": left - 1}
    with opened_stores(state):
        pass
    assert state.known_files == {"worker-0.db": left}
    state.close()
    after = laid_out(tmp_path / "after", disk.durable)
    with_stores(after)
    with store(after / "worker-0.db") as one:
        assert reached(one) == 1


def with_stores(directory: Path) -> None:
    """Makes, or checks, a state directory with one store."""
    state = StateDir(directory, "t")
    state.check_files()
    state.make_stores([0])
    state.close()


def test_without_room_the_directory_goes_on_knowing_of_fewer_D12_F16(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    with_stores(directory)
    with store(directory / "worker-0.db") as one:
        put(one, together({}, 1))
    disk = FaultyFiles(directory)
    state = StateDir(directory, "t", files=disk)
    state.check_files()
    known = state.known_files
    with opened_stores(state):
        disk.fail(full)
    assert state.known_files == known
    state.close()


def test_any_torn_tail_of_commits_that_were_not_synced_is_no_damage_F21(tmp_path: Path, path: Path) -> None:
    """Of more than one commit: all of them were written, and none was reported to be durable."""
    print("seed", SEED)
    random = Random(SEED)
    held: Held = {}
    with store(path) as one:
        put(one, together(held, 1))
        synced = len((path.parent / "worker-0.db-wal").read_bytes())
        for number in range(2, 8):
            put(one, together(held, number), lasting=False)
        files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    log = files["worker-0.db-wal"]
    seen = set[int]()
    for number in range(60):
        torn = bytearray(log)
        for sector in range(-(-synced // 512), len(log) // 512 + 1):
            if random.random() < number / 300:
                torn[sector * 512 : (sector + 1) * 512] = bytes(len(torn[sector * 512 : (sector + 1) * 512]))
        directory = laid_out(tmp_path / f"torn-{number}", {**files, "worker-0.db-wal": bytes(torn)})
        with store(directory / "worker-0.db") as found:
            seen.add(reached(found))
    assert len(seen) > 2
    assert min(seen) >= 1


def test_a_flipped_byte_before_the_last_commit_that_was_synced_is_damage_F22(tmp_path: Path, path: Path) -> None:
    """However many unsynced ones came before and after it."""
    print("seed", SEED)
    random = Random(SEED)
    held: Held = {}
    ends = list[int]()
    with store(path) as one:
        for number in range(1, 9):
            put(one, together(held, number), lasting=number in (1, 4, 7))
            ends.append(len((path.parent / "worker-0.db-wal").read_bytes()))
        files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    log = files["worker-0.db-wal"]
    assert durable_by(log, bytes(16)) == 8, (
        "as many as the seventh commit has made durable, and that of the file's making"
    )
    for number in range(60):
        flipped = bytearray(log)
        flipped[random.randrange(ends[5])] ^= 1 << random.randrange(8)
        directory = laid_out(tmp_path / f"{number}", {**files, "worker-0.db-wal": bytes(flipped)})
        try:
            with store(directory / "worker-0.db") as found:
                assert reached(found) == 8, "a bit that nobody reads"
        except StartError as error:
            assert str(error.code) == "K430"  # noqa: PT017 - either may be


def test_a_commit_that_was_cut_short_is_behind_none_that_need_not_last_F20(tmp_path: Path, path: Path) -> None:
    """Killed before each operation, of commits of both kinds."""
    disk = FaultyFiles(path.parent, remember=True)
    held: Held = {}
    with store(path, disk, lives=True) as one:
        for number in range(1, 7):
            if number == 4:
                disk.fail(full, at=2)
                with pytest.raises(StoreFull):
                    put(one, together({**held}, number), lasting=False)
                disk.faults = None
            put(one, together(held, number), lasting=number % 3 == 0)
    last = 0
    for number, moment in enumerate(disk.moments):
        with store(laid_out(tmp_path / f"killed-{number}", moment.files) / "worker-0.db") as found:
            assert last <= (last := reached(found))
        with store(laid_out(tmp_path / f"power-{number}", moment.durable) / "worker-0.db") as found:
            assert reached(found) <= last
    assert last in (5, 6)


def test_a_long_log_is_put_into_the_file_with_commits_of_both_kinds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 30)
    log = path.parent / "worker-0.db-wal"
    held: Held = {}
    with store(path) as one:
        for number in range(1, 30):
            put(one, together(held, number), lasting=number % 4 == 0)
            assert log.stat().st_size < 60 * PAGE_BYTES
    with store(path) as found:
        assert reached(found) == 29


def test_a_file_with_the_larger_pages_of_earlier_versions_goes_on_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setitem(_SETTINGS, "page_size", "4096")
        path = made(tmp_path / "worker-0.db")
    held: Held = {}
    with store(path) as one:
        put(one, together(held, 1))
    with store(path) as one:
        put(one, together(held, 2))
        one.ended_in_order()
    assert path.stat().st_size % 4096 == 0
    with store(path) as found:
        assert reached(found) == 2
