"""The list of files that are done: in the notes while it is small, in a file of the run when it is not, and exact."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from directory_kit import WAIT_S, made, names_in, place, settled_by, task_of

from spouts.directory.finished import NOTED_MAX, FinishedFiles
from spouts.directory.progress import FilesUnderWay, UnsettledIds
from spouts.directory.spout import Directory
from topology.components import Positions
from topology.errors import NotesAway, StartError
from topology.storage.directory.state_dir import MemoryNotes


class FullNotes(MemoryNotes):
    """Notes that have no room, or cannot be stored now."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None

    def set(self, name: str, text: str) -> None:
        if self.error is not None and (not isinstance(self.error, StartError) or len(text) > 20):
            raise self.error
        super().set(name, text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path / "in")


def fill(folder: Path, count: int, first: int = 0) -> list[str]:
    for number in range(first, first + count):
        place(folder / f"{number:05}", f"{number}\n".encode())
    return [str(number) for number in range(first, first + count)]


@pytest.mark.parametrize("count", [NOTED_MAX - 10, 2 * NOTED_MAX + 50], ids=["in the notes", "in a file"])
async def test_files_that_are_done_are_known_without_their_positions(folder: Path, tmp_path: Path, count: int) -> None:
    notes, kept = MemoryNotes(), tmp_path / "kept"
    wanted = fill(folder, count)
    assert await settled_by(Directory(folder / "*"), task_of(notes, kept)) == wanted
    assert kept.exists() == (count > NOTED_MAX), "a file of the run is made only if it is needed"
    more = fill(folder, 5, first=count)
    assert await settled_by(Directory(folder / "*"), task_of(notes, kept)) == more
    assert await settled_by(Directory(folder / "*"), task_of(notes, kept)) == []


async def test_interruptions_while_the_list_grows_forget_nothing(folder: Path, tmp_path: Path) -> None:
    notes, kept = MemoryNotes(), tmp_path / "kept"
    wanted, parts = fill(folder, 1_500), list[list[str]]()
    while part := await settled_by(Directory(folder / "*"), task_of(notes, kept), count=130):
        parts.append(part)
    assert sum(map(len, parts)) == 1_500
    assert [text for part in parts for text in part] == wanted


async def test_a_write_that_a_crash_has_cut_does_not_spoil_the_list(folder: Path, tmp_path: Path) -> None:
    notes, kept = MemoryNotes(), tmp_path / "kept"
    await settled_by(Directory(folder / "*"), task_of(notes, kept)) if fill(folder, 1_000) else None
    (name,) = names_in(kept)
    with (kept / name).open("ab") as file:
        file.write(b"abc")
    more = fill(folder, 3, first=1_000)
    assert await settled_by(Directory(folder / "*"), task_of(notes, kept)) == more
    assert await settled_by(Directory(folder / "*"), task_of(notes, kept)) == []


async def test_tasks_know_what_any_number_of_tasks_has_finished(folder: Path, tmp_path: Path) -> None:
    notes, kept = MemoryNotes(), tmp_path / "kept"
    wanted = fill(folder, 300)
    found = [await settled_by(Directory(folder / "*"), task_of(notes, kept, 3, index)) for index in range(3)]
    assert sorted(text for part in found for text in part) == sorted(wanted)
    assert await settled_by(Directory(folder / "*"), task_of(notes, kept)) == []
    assert await settled_by(Directory(folder / "*"), task_of(notes, kept, 2, 1)) == []


async def test_files_that_are_gone_make_room_in_the_notes(folder: Path, tmp_path: Path) -> None:
    notes, kept = MemoryNotes(), tmp_path / "kept"
    for begin in range(0, 3_000, 600):
        wanted = fill(folder, 600, first=begin)
        assert await settled_by(Directory(folder / "*"), task_of(notes, kept)) == wanted
        for name in names_in(folder):
            (folder / name).unlink()
    assert not kept.exists()


async def test_notes_without_room_send_the_list_to_a_file(folder: Path, tmp_path: Path) -> None:
    notes, kept = FullNotes(), tmp_path / "kept"
    notes.error = StartError("the notes would exceed 65536 bytes")
    wanted = fill(folder, 20)
    assert await settled_by(Directory(folder / "*"), task_of(notes, kept)) == wanted
    assert kept.exists()
    assert await settled_by(Directory(folder / "*"), task_of(notes, kept)) == []


async def test_while_notes_cannot_be_stored_it_says_so_and_later_they_are(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spouts.directory.keeper.LATER_S", 0.05)
    monkeypatch.setattr("spouts.directory.keeper.AGAIN_S", 0.05)
    monkeypatch.setattr("spouts.directory.progress.OVER_MAX", 30)
    notes = FullNotes()
    notes.error = NotesAway("the disk is full")
    wanted = fill(folder, 100)
    spout: Any = Directory(folder / "*")
    spout.open(task_of(notes, tmp_path / "kept"), Positions())
    found: list[str] = []

    async def read() -> None:
        while messages := await spout.poll(128):
            found.extend(message.record.text for message in messages)
            for message in messages:
                spout.settled([message.id], message.partition)

    reading = asyncio.ensure_future(read())
    async with asyncio.timeout(WAIT_S):
        while not spout.away or len(found) < 30:  # noqa: ASYNC110  # `away` sets no event
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert len(found) == 30, "it reads no more files than the runtime can remember"
        assert "can't be stored: the disk is full" in spout.away
        notes.error = None
        await reading
    assert found == wanted
    assert not spout.away
    await spout.close()
    assert await settled_by(Directory(folder / "*"), task_of(notes, tmp_path / "kept")) == []


async def test_a_close_while_notes_cannot_be_stored_ends_and_the_next_run_asks_again(
    folder: Path, tmp_path: Path
) -> None:
    notes = FullNotes()
    notes.error = NotesAway("the disk is full")
    wanted = fill(folder, 10)
    async with asyncio.timeout(WAIT_S):
        assert await settled_by(Directory(folder / "*"), task_of(notes, tmp_path / "kept")) == wanted
        assert await settled_by(Directory(folder / "*"), task_of(notes, tmp_path / "kept")) == wanted


@pytest.mark.parametrize("text", ["no base64!", "in a file"])
async def test_a_damaged_list_is_one_sentence(tmp_path: Path, text: str) -> None:
    notes = MemoryNotes()
    notes.set("finished files of lines, task 0", text)
    with pytest.raises(StartError, match=r"^the list of 'finished files of lines, task 0' is damaged: "):
        FinishedFiles(task_of(notes, tmp_path / "kept"))


def test_ids_that_are_settled_twice_or_unknown_count_once_or_not_at_all() -> None:
    ids = UnsettledIds()
    ids.add(range(0, 100_000, 10))
    for one in range(0, 99_990, 10):
        ids.settle([one, one, one + 1, "other", b"other"])
    assert not ids.are_none
    ids.settle([99_990])
    assert ids.are_none
    ids.add([100_000])
    assert not ids.are_none
    ids.settle([5, 100_000])
    assert ids.are_none


def test_a_file_with_too_many_unsettled_lines_is_not_known_to_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spouts.directory.progress.UNSETTLED_MAX", 100)
    ids = UnsettledIds()
    ids.add(range(101))
    ids.settle(range(101))
    assert not ids.are_none


async def test_a_file_is_begun_only_if_there_is_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spouts.directory.progress.BEGUN_MAX", 2)
    under_way = FilesUnderWay()
    one: Any = object()
    under_way.begin(one, "a")
    assert under_way.has_room
    second = under_way.begin(one, "b")
    assert not under_way.has_room
    assert under_way.why_full.startswith("2 files are read and not done")
    under_way.read(second)
    under_way.kept([*under_way.over])
    assert under_way.has_room
    assert not under_way.why_full
