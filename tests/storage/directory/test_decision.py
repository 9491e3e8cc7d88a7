"""The decision file: what is decided is durable when that is said, and nothing else is taken for it (P5, P14)."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from durable_kit import FaultyFiles, full, laid_out, made, mark, store, sync_fails

from topology.errors import StartError
from topology.filesystem.files import DiskFiles
from topology.storage.directory.decision import NAME, DecisionFile, decided_in
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes


@pytest.fixture
def disk(tmp_path: Path) -> FaultyFiles:
    (tmp_path / "whole").mkdir()
    return FaultyFiles(tmp_path / "whole", remember=True)


@pytest.fixture
def file(disk: FaultyFiles) -> Iterator[DecisionFile]:
    with closing(DecisionFile(disk, disk.directory / NAME, begins=3)) as one:
        yield one


def read(directory: Path) -> int:
    with closing(DecisionFile(DiskFiles(), directory / NAME)) as one:
        return one.checkpoint


def test_it_begins_with_a_number_and_numbers_only_grow(disk: FaultyFiles, file: DecisionFile) -> None:
    assert file.checkpoint == 3
    for checkpoint in (2, 3):
        with pytest.raises(ValueError, match=f"checkpoint {checkpoint} comes after 3, which is decided"):
            file.decide(checkpoint)
    for checkpoint in (4, 5, 9, 1 << 40):
        file.decide(checkpoint)
        assert file.checkpoint == read(disk.directory) == checkpoint
    with closing(DecisionFile(disk, file.path, begins=77)) as again:
        assert again.checkpoint == 1 << 40, "it is there: what it begins with is what it has"
    with closing(DecisionFile(disk, file.path, begins=(1 << 40) + 5)) as again:
        assert again.checkpoint == read(disk.directory) == (1 << 40) + 5, (
            "but for what a run with one worker has decided"
        )


def test_wherever_a_decision_ends_it_is_made_or_it_is_not_F20(tmp_path: Path, disk: FaultyFiles) -> None:
    known: list[int] = []
    with closing(DecisionFile(disk, disk.directory / NAME)) as file:
        known += [0] * len(disk.moments)
        for checkpoint in range(1, 6):
            file.decide(checkpoint)
            known += [checkpoint - 1] * (len(disk.moments) - len(known))
    assert len(known) > 10
    for number, (moment, decided) in enumerate(zip(disk.moments, known, strict=True)):
        for how, files in (("killed", moment.files), ("power", moment.durable)):
            directory = laid_out(tmp_path / f"{how}-{number}", files)
            assert read(directory) in (decided, decided + 1), f"before {moment.operation}"


def test_a_write_that_is_cut_short_leaves_the_one_before(tmp_path: Path, disk: FaultyFiles, file: DecisionFile) -> None:
    file.decide(4)
    before = file.path.read_bytes()
    file.decide(5)
    after = file.path.read_bytes()
    changed = [at for at in range(len(before)) if before[at] != after[at]]
    assert {at // 512 for at in changed} == {1}
    for cut in range(512, 1_025, 8):
        directory = laid_out(tmp_path / f"{cut}", {NAME: after[:cut] + before[cut:]})
        assert read(directory) in (4, 5)
        assert cut > 512 or read(directory) == 4


def test_a_byte_that_flips_changes_nothing_F22(tmp_path: Path, file: DecisionFile) -> None:
    file.decide(4)
    content = file.path.read_bytes()
    for offset in range(len(content)):
        flipped = bytearray(content)
        flipped[offset] ^= 1 << offset % 8
        assert read(laid_out(tmp_path / f"{offset}", {NAME: bytes(flipped)})) == 4


@pytest.mark.parametrize("content", [b"", b"x" * 1_024, bytes(1_024)])
def test_a_file_that_is_none_is_named_and_left_as_it_is_F22(tmp_path: Path, content: bytes) -> None:
    directory = laid_out(tmp_path / "s", {NAME: content})
    for read_it in (partial(read, directory), partial(decided_in, DiskFiles(), directory, ())):
        with pytest.raises(StartError, match="decided is not what was written") as told:
            read_it()
        assert str(told.value.code) == "K482"
    assert (directory / NAME).read_bytes() == content


def test_a_damaged_slot_is_told_even_if_the_other_is_whole_F22(tmp_path: Path, file: DecisionFile) -> None:
    content = file.path.read_bytes()
    for damaged in (content[:512] + bytes(512), bytes(512) + content[512:], content + b"x", content[:-1]):
        directory = laid_out(tmp_path / f"{hash(damaged)}", {NAME: damaged})
        with pytest.raises(StartError, match="is not what was written"):
            read(directory)


@pytest.mark.parametrize("how", ["symlink", "hard link", "directory"])
def test_only_a_plain_file_with_one_name_is_read_S5(tmp_path: Path, how: str) -> None:
    path, elsewhere = tmp_path / NAME, tmp_path / "elsewhere"
    DecisionFile(DiskFiles(), elsewhere).close()
    match how:
        case "symlink":
            path.symlink_to(elsewhere)
        case "hard link":
            os.link(elsewhere, path)
        case _:
            path.mkdir()
    for read_it in (partial(read, tmp_path), partial(decided_in, DiskFiles(), tmp_path, ())):
        with pytest.raises(StartError, match="is a link, or no plain file"):
            read_it()


def test_without_room_it_is_not_decided_and_may_be_given_up_or_decided_later_P14(
    tmp_path: Path, disk: FaultyFiles, file: DecisionFile
) -> None:
    def once(operation: str, name: str) -> None:
        disk.faults = None
        file.path.write_bytes(b"\xff" * 30 + file.path.read_bytes()[30:])  # some of it was written
        full(operation, name)

    file.decide(4)
    file.decide(5)
    for checkpoint in (6, 7, 7):
        disk.fail(once)
        with pytest.raises(StoreFull, match="can't be written: No space left on device"):
            file.decide(checkpoint)
        assert file.checkpoint == 5
        assert read(laid_out(tmp_path / f"{disk.count}", disk.durable)) == 5
    file.decide(8)
    assert read(disk.directory) == 8


def test_after_a_sync_that_failed_nothing_is_decided_any_more_P13(disk: FaultyFiles, file: DecisionFile) -> None:
    disk.fail(sync_fails)
    for _ in range(2):
        with pytest.raises(StoreBroken, match="decided on the disk is unknown: "):
            file.decide(4)
    disk.faults = None
    with pytest.raises(StoreBroken):
        file.decide(5)


def test_what_is_read_after_a_sync_that_failed_is_made_durable_before_anything_stands_on_it_F18(
    tmp_path: Path, disk: FaultyFiles, file: DecisionFile
) -> None:
    disk.fail(sync_fails)
    with pytest.raises(StoreBroken):
        file.decide(4)
    disk.faults = None
    assert read(laid_out(tmp_path / "before", disk.durable)) == 3, "the system has it, the disk has not"
    with closing(DecisionFile(disk, file.path, begins=4)) as again:
        assert again.checkpoint == 4
    assert read(laid_out(tmp_path / "after", disk.durable)) == 4


# -- of a directory


def test_the_decided_checkpoint_of_a_directory_is_the_latest_that_anything_in_it_knows_of(tmp_path: Path) -> None:
    files = DiskFiles()
    with store(made(tmp_path / "worker-0.db")) as one, store(made(tmp_path / "worker-1.db", 1)) as other:
        assert decided_in(files, tmp_path, [one, other]) == 0
        one.conclude(3, Changes(marks=[mark(1)]))
        assert decided_in(files, tmp_path, [one, other]) == 3
        DecisionFile(files, tmp_path / NAME, begins=2).close()
        assert decided_in(files, tmp_path, [one, other]) == 3
        with closing(DecisionFile(files, tmp_path / NAME)) as file:
            file.decide(9)
        assert decided_in(files, tmp_path, [one, other]) == 9


def test_without_the_file_nobody_knows_of_what_was_prepared_unless_a_store_was_told(tmp_path: Path) -> None:
    files = DiskFiles()
    with store(made(tmp_path / "worker-0.db")) as one, store(made(tmp_path / "worker-1.db", 1)) as other:
        for each in (one, other):
            each.prepare(1, Changes(marks=[mark(1)]))
        with pytest.raises(StartError, match="decided is missing, which says whether checkpoint 1 is decided") as told:
            decided_in(files, tmp_path, [one, other])
        assert str(told.value.code) == "K481"
        assert decided_in(files, tmp_path, [one, other], accept_loss=True) == 0
        one.decided(1)
        assert decided_in(files, tmp_path, [one, other]) == 1


def test_an_older_copy_of_the_file_does_not_say_what_was_decided_since(tmp_path: Path) -> None:
    files = DiskFiles()
    with store(made(tmp_path / "worker-0.db")) as one, store(made(tmp_path / "worker-1.db", 1)) as other:
        DecisionFile(files, tmp_path / NAME, begins=2).close()
        for each in (one, other):
            each.prepare(4, Changes(marks=[mark(1)]))
            each.decided(4)
            each.prepare(5, Changes(marks=[mark(2)]))
        with pytest.raises(
            StartError, match="decided is an older copy, of checkpoint 2, and does not say whether"
        ) as told:
            decided_in(files, tmp_path, [one, other])
        assert str(told.value.code) == "K481"
        assert decided_in(files, tmp_path, [one, other], accept_loss=True) == 4
        DecisionFile(files, tmp_path / NAME, begins=4).close()
        assert decided_in(files, tmp_path, [one, other]) == 4, "5 was not decided"


def test_of_a_decision_that_a_full_disk_has_cut_short_nothing_stays_P14(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(DecisionFile(DiskFiles(), tmp_path / NAME)) as file:
        file.decide(4)
        write, cut = file._file.write, [True]

        def cut_short(offset: int, parts: Sequence[bytes]) -> None:
            if cut.pop() if cut else False:
                write(offset, [parts[0][: len(parts[0]) // 2]])
                raise OSError(errno.ENOSPC, "no space")
            write(offset, parts)

        monkeypatch.setattr(file._file, "write", cut_short)
        with pytest.raises(StoreFull):
            file.decide(5)
    with closing(DecisionFile(DiskFiles(), tmp_path / NAME)) as file:
        assert file.checkpoint == 4
