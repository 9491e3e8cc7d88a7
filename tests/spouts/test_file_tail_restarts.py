"""FileTail between runs: the same bytes keep their names, and other bytes never get them (B12, C2, F49)."""

import copy
import shutil
from pathlib import Path

import pytest
from source_kit import BANNER, LINES, Reading, append, content_of, make_task, texts_of

from spouts import FileTail
from topology.storage.directory.state_dir import MemoryNotes


def reuse_inode(path: Path, content: bytes) -> None:
    """Deletes the file and makes another one with the same inode, as ext4 does by itself."""
    inode = path.stat().st_ino
    path.unlink()
    for attempt in range(200):
        candidate = path.with_suffix(f".{attempt}")
        candidate.write_bytes(content)
        if candidate.stat().st_ino == inode:
            candidate.rename(path)
            return
    pytest.skip("this file system does not soon reuse an inode")


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("resumes", [True, False], ids=["with-position", "from-the-start"])
@pytest.mark.parametrize("boundary", range(1, LINES + 1))
async def test_another_file_with_the_same_inode_is_another_file(
    tmp_path: Path, boundary: int, resumes: bool, closed: bool
) -> None:
    path, notes = tmp_path / "a.log", MemoryNotes()
    path.write_bytes(content_of("old"))
    first = Reading(FileTail(path, block_bytes=32), make_task(notes), limit=1)
    (*_, last) = await first.until(boundary)
    left = notes if closed else copy.deepcopy(notes)  # a killed run notes nothing at its end
    first.close()
    reuse_inode(path, content_of("new"))
    positions = {last.partition: last.id} if resumes else None
    second = Reading(FileTail(path), make_task(left), positions)
    await second.to_the_end()
    assert second.texts == texts_of("new")
    assert not set(first.pairs) & set(second.pairs)
    second.close()


@pytest.mark.parametrize("grown_to", [30, 100, 1_023, 1_024, 5_000, 100_000])
async def test_a_file_that_grows_between_runs_keeps_the_name_it_began_with(tmp_path: Path, grown_to: int) -> None:
    path, notes = tmp_path / "a.log", MemoryNotes()
    path.write_bytes(b"first\n")
    texts = ["first"]
    names = []
    for _ in range(3):
        reading = Reading(FileTail(path), make_task(notes))
        assert [one.record.text for one in await reading.to_the_end()] == texts
        names.append({(one.partition, one.epoch) for one in reading.emitted})
        reading.close()
        texts.append("x" * grown_to)
        append(path, texts[-1])
    assert names[0] == names[1] == names[2]
    assert len(names[0]) == 1


async def test_the_path_is_no_part_of_an_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B12: a relative path, a symlink and a copy name the same lines."""
    path, other, link = tmp_path / "a.log", tmp_path / "copy.log", tmp_path / "link.log"
    path.write_text("".join(f"line {number}\n" for number in range(200)))
    shutil.copy(path, other)
    link.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    pairs = []
    for name in (path, "a.log", other, link):
        pairs.append([one.pair for one in await Reading(FileTail(name)).to_the_end()])  # each with notes of its own
    assert pairs[0] == pairs[1] == pairs[2] == pairs[3]


async def test_a_file_that_began_short_keeps_its_name_when_it_is_moved_once_it_has_grown(tmp_path: Path) -> None:
    path, moved, notes = tmp_path / "a.log", tmp_path / "moved.log", MemoryNotes()
    path.write_bytes(content_of("first"))
    reading = Reading(FileTail(path, follow=True, poll_interval_s=0.001), make_task(notes))
    await reading.until(LINES)
    append(path, *(f"line {number}" for number in range(200)))
    await reading.until(LINES + 200)
    reading.close()
    shutil.copy(path, moved)
    again = Reading(FileTail(moved), make_task(notes))
    await again.to_the_end()
    assert again.pairs == reading.pairs
    again.close()


async def test_a_short_file_is_not_taken_for_another_one_with_the_same_beginning(tmp_path: Path) -> None:
    pairs = set()
    for number in range(4):
        path = tmp_path / f"{number}.log"
        path.write_text("time,value\n")
        reading = Reading(FileTail(path))  # no notes, and the same random numbers each time
        pairs |= {one.pair for one in await reading.to_the_end()}
    assert len(pairs) == 4


async def test_a_short_file_is_not_taken_for_a_known_one_with_another_inode(tmp_path: Path) -> None:
    notes, pairs = MemoryNotes(), set()
    for number in range(4):
        path = tmp_path / f"{number}.log"
        path.write_text("time,value\n")
        reading = Reading(FileTail(path), make_task(notes))
        pairs |= {one.pair for one in await reading.to_the_end()}
        reading.close()
    assert len(pairs) == 4


async def test_what_was_read_is_noted_before_it_leaves_while_the_file_is_short(tmp_path: Path) -> None:
    """C2: the run is killed; a file with the same inode and the same first line follows."""
    path, notes, header = tmp_path / "a.log", MemoryNotes(), "time,value,unit,place,remark"
    path.write_text(f"{header}\nold\n")
    first = Reading(FileTail(path, block_bytes=32), make_task(notes))
    await first.to_the_end()
    left = copy.deepcopy(notes)
    first.close()
    reuse_inode(path, f"{header}\nnew\n".encode())
    second = Reading(FileTail(path), make_task(left))
    await second.to_the_end()
    assert second.texts == [header, "new"]
    assert not set(first.pairs) & set(second.pairs)
    second.close()


async def test_a_file_with_a_known_banner_and_other_lines_is_a_new_generation(tmp_path: Path) -> None:
    path, notes = tmp_path / "a.log", MemoryNotes()
    seen: dict[tuple[int, int], str] = {}
    for number in range(4):
        path.unlink(missing_ok=True)
        path.write_text(f"{BANNER}run {number}\n")
        reading = Reading(FileTail(path), make_task(notes))
        emitted = await reading.to_the_end()
        assert {one.epoch for one in emitted} == {str(number)}
        assert not seen.keys() & set(reading.pairs)
        seen |= {one.pair: one.record.text for one in emitted}
        reading.close()


@pytest.mark.parametrize("position", ["last id", "beyond the end"])
async def test_a_position_in_a_file_that_was_recreated_skips_nothing(tmp_path: Path, position: str) -> None:
    path, notes = tmp_path / "a.log", MemoryNotes()
    path.write_bytes(content_of("old"))
    first = Reading(FileTail(path), make_task(notes))
    last = (await first.to_the_end())[-1]
    if position == "last id":
        path.write_bytes(content_of("new"))
        positions = {last.partition: last.id}
    else:
        positions = {last.partition: 10_000}
    second = Reading(FileTail(path), make_task(notes), positions)
    assert len(await second.to_the_end()) == LINES
    assert not set(first.pairs) & set(second.pairs)


async def test_notes_stay_small_through_any_number_of_files(tmp_path: Path) -> None:
    path, notes = tmp_path / "a.log", MemoryNotes()
    for number in range(200):
        path.write_text(f"{number}\n" * 300)
        reading = Reading(FileTail(path), make_task(notes))
        assert len(await reading.to_the_end()) == 300
        reading.close()
    assert len(notes.get("files of lines") or "") < 5_000


async def test_what_came_and_went_is_read_though_the_file_was_truncated_before_anything_of_it_was_read(
    tmp_path: Path,
) -> None:
    """The inode stays, and of the file's present content nothing is known: it may be any."""
    path, notes = tmp_path / "a.log", MemoryNotes()

    def rotated(name: str) -> None:
        for number in (2, 1):
            if (older := tmp_path / f"a.log.{number}").exists():
                older.rename(tmp_path / f"a.log.{number + 1}")
        shutil.copy(path, tmp_path / "a.log.1")
        path.write_bytes(long(name) if name else b"")

    path.write_bytes(long("first"))
    reading = Reading(FileTail(path, follow=True, poll_interval_s=0.001), make_task(notes))
    (*_, last) = await reading.until(LONG)
    append(path, "later")
    rotated("")
    await reading.until_text("later")
    (*_, last) = reading.emitted
    killed = copy.deepcopy(notes)
    reading.close()
    path.write_bytes(long("second"))
    rotated("third")
    again = Reading(FileTail(path), make_task(killed), {last.partition: last.id})
    texts = [one.record.text for one in await again.to_the_end()]
    assert [text for text in texts if text.startswith(("second", "third"))] == [
        f"{name} line {number}" for name in ("second", "third") for number in range(LONG)
    ]
    again.close()


LONG = 200


def long(name: str) -> bytes:
    return "".join(f"{name} line {number}\n" for number in range(LONG)).encode()
