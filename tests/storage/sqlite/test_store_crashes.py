"""A store whose process is killed, or whose machine loses power, before any operation on its files: the next one finds
the last commit that was reported, or the one that was under way, whole (F20, F56)."""

from pathlib import Path
from random import Random

import pytest
from durable_kit import Died, FaultyFiles, full, killed, laid_out, letter, made, mark, store

from topology.errors import StartError
from topology.filesystem.files import DiskFiles
from topology.storage.sqlite.database import PAGE_BYTES
from topology.storage.sqlite.schema import create_store
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreFull
from topology.storage.values import Changes

SEED = 20260105


def changes(number: int) -> Changes:
    letters = [letter(f"0-{number}", record=b"x" * 3_000)]
    return Changes(marks=[mark(number)], letters=letters, gone=[f"0-{number - 2}"])


def reached(one: SqliteStore) -> int:
    """The last commit that is there; 0 where there is none."""
    marks = one.loaded.marks
    return int(marks[0].position) if marks else 0


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 12)


@pytest.mark.usefixtures("short_log")
@pytest.mark.parametrize("how", ["killed", "power lost"])
def test_what_was_reported_is_there_whenever_it_ends_F20(tmp_path: Path, how: str) -> None:
    (tmp_path / "whole").mkdir()
    path = made(tmp_path / "whole" / "worker-0.db")
    disk = FaultyFiles(tmp_path / "whole", remember=True)
    known = []  # at each moment: the last commit that was reported
    with store(path, disk, lives=True) as one:
        for number in range(1, 13):
            if number == 7:
                disk.fail(full, at=2, until=4)
                with pytest.raises(StoreFull):
                    one.commit(changes(100))
                disk.faults = None
            one.commit(changes(number))
            known += [number - 1] * (len(disk.moments) - len(known))
        one.ended_in_order()
    known += [12] * (len(disk.moments) - len(known))
    assert {moment.operation.split()[0] for moment in disk.moments} >= {"write", "sync", "truncate"}
    for number, moment in enumerate(disk.moments):
        files = moment.files if how == "killed" else moment.durable
        directory = laid_out(tmp_path / f"{number}", files)
        with store(directory / "worker-0.db") as found:
            last = reached(found)
            assert last in (known[number], known[number] + 1), f"before {moment.operation}, the {number}th"
            assert found.names() == [f"0-{one}" for one in (last - 1, last) if one > 0]


@pytest.mark.usefixtures("short_log")
def test_a_second_end_while_the_first_is_recovered_from_loses_nothing_either_F56(tmp_path: Path) -> None:
    """Killed at any operation, started and killed at any operation again: each start goes on."""
    print("seed", SEED)
    random = Random(SEED)
    most = 0
    for life in range(40):
        directory = tmp_path / f"{life}"
        directory.mkdir()
        path = made(directory / "worker-0.db")
        reported = 0
        for _ in range(6):
            disk = FaultyFiles(directory, remember=True)
            disk.fail(killed, at=random.randrange(1, 80))
            try:
                with store(path, disk, lives=True) as one:
                    assert reached(one) in (reported, reported + 1)
                    reported = reached(one)
                    while True:
                        one.commit(changes(reported + 1))
                        reported += 1
            except (Died, StartError):
                pass
            if random.random() < 0.5:  # and the machine with it
                for name, content in disk.moments[-1].durable.items():
                    (directory / name).write_bytes(content)
        with store(path) as one:
            assert reached(one) in (reported, reported + 1)
        most = max(most, reported)
    assert most > 5


def test_a_store_that_is_being_made_is_there_as_a_whole_or_is_made_again_F56(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    disk = FaultyFiles(tmp_path / "whole", remember=True)
    create_store(disk, tmp_path / "whole" / "worker-0.db", id=b"i" * 16, number=0)
    with store(laid_out(tmp_path / "at-the-end", disk.durable) / "worker-0.db") as one:
        assert one.commits == 1, "it is durable when it is made"
    for number, moment in enumerate(disk.moments):
        for how, files in (("killed", moment.files), ("power", moment.durable)):
            directory = laid_out(tmp_path / f"{how}-{number}", files)
            create_store(DiskFiles(), directory / "worker-0.db", id=b"i" * 16, number=0, first_letter=9)
            with store(directory / "worker-0.db") as one:
                assert (one.id, one.commits, one.loaded.next_letter) == (b"i" * 16, 1, 9)


def test_what_a_commit_without_room_has_left_is_no_damage_when_the_next_one_is_torn_F16_F21(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    path = made(tmp_path / "whole" / "worker-0.db")
    disk = FaultyFiles(tmp_path / "whole", remember=True)
    with store(path, disk) as one:
        one.commit(changes(1))
        disk.fail(full, at=30)
        with pytest.raises(StoreFull):
            one.commit(Changes(marks=[mark(100)], letters=[letter("0-9", record=b"x" * 200_000)]))
        disk.faults = None
        one.commit(Changes(marks=[mark(2)]))
        files = disk.contents()
    log = files["worker-0.db-wal"]
    frames = range(32, len(log), 24 + PAGE_BYTES)
    for number, at in enumerate(frames):
        torn = log[:at] + bytes(24 + PAGE_BYTES) + log[at + 24 + PAGE_BYTES :]
        directory = laid_out(tmp_path / f"{number}", {**files, "worker-0.db-wal": torn})
        with store(directory / "worker-0.db") as one:
            assert one.loaded.marks[0].position in (1, 2)
