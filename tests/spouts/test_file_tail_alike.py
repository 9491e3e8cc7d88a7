"""FileTail and files that begin alike: a banner longer than 1,024 bytes, or one path truncated again and again. Which
is which is told after a kill too, and what was read of each and is not done comes again, under its own name (C2, E3).
"""

import copy
import gzip
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from source_kit import (
    BANNER,
    LAST,
    LINES,
    Emitted,
    Reading,
    aged,
    append,
    content_of,
    make_task,
    reads_the_rest_once,
    texts_of,
)

from spouts import FileTail
from spouts.file_tail import open_file, rotations
from spouts.file_tail import spout as file_tail
from topology.components import Positions
from topology.storage.directory.state_dir import MemoryNotes
from topology.storage.rescale.positions import positions
from topology.storage.values import Begun, Mark

BOUNDARIES = range(1, LINES + 2)
HEAD = BANNER.rstrip("\n")


def write(path: Path, name: str) -> list[str]:
    """A file with the banner that all have; its lines."""
    path.write_bytes(BANNER.encode() + content_of(name))
    return [HEAD, *texts_of(name)]


def renamed(path: Path) -> list[str]:
    aged(path.rename(f"{path}.1"), 1)
    return write(path, "new")


def renamed_twice(path: Path) -> list[str]:
    aged(path.rename(f"{path}.2"), 2)
    between = write(Path(f"{path}.1"), "between")
    aged(Path(f"{path}.1"), 1)
    return [*between, *write(path, "new")]


def truncated(path: Path) -> None:
    """With a copy of what it was beside it."""
    Path(f"{path}.1").write_bytes(path.read_bytes())
    aged(Path(f"{path}.1"), 1)
    os.truncate(path, 0)


def copied_and_truncated(path: Path) -> list[str]:
    truncated(path)
    return write(path, "new")


def packed(path: Path, number: int) -> None:
    there = Path(f"{path}.{number}.gz")
    there.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    aged(there, 1)


def compressed(path: Path) -> list[str]:
    packed(path, 1)
    return write(path, "new")


WAYS = [renamed, renamed_twice, copied_and_truncated, compressed]


def kept(emitted: Sequence[Emitted], done: Sequence[Emitted] = ()) -> Positions:
    """Where a run resumes that was killed after these were emitted, and some of them done."""
    marks: dict[tuple[str, str], Mark] = {}
    for one in emitted:
        at = one.partition, one.epoch
        before = marks.get(at)
        lowest = one.id if before is None or emitted_at(emitted, before) in done else before.position
        marks[at] = Mark("lines", 0, *at, lowest, (), one.id)
    found = positions([*marks.values()], [Begun("lines", 0, 1)], "lines", 0, 1)
    ids = {partition: mark.position for partition, mark in found.items()}
    return Positions(ids, {partition: mark.epoch for partition, mark in found.items()})


def emitted_at(emitted: Sequence[Emitted], mark: Mark) -> Emitted:
    at = mark.partition, mark.epoch, mark.position
    return next(one for one in emitted if (one.partition, one.epoch, one.id) == at)


async def killed(path: Path, count: int, notes: MemoryNotes) -> tuple[list[Emitted], MemoryNotes]:
    """What a run has read that ends without a word, of lines that were written under the banner one by one, and what is
    noted then."""
    append(path, HEAD)
    reading = Reading(FileTail(path, follow=True, block_bytes=32, poll_interval_s=0.001), make_task(notes), limit=1)
    await reading.until(1)
    for text in texts_of("old"):
        append(path, text)
        await reading.until(min(len(reading.emitted) + 1, count))
    left = copy.deepcopy(notes)
    emitted = list(reading.emitted)
    reading.close()
    return emitted, left


@pytest.mark.parametrize("follow", [False, True], ids=["to-the-end", "followed"])
@pytest.mark.parametrize(
    ("rotate", "boundary"),
    # Where the banner alone was read, the inode has to tell which file it was.
    [(rotate, n) for rotate in WAYS for n in BOUNDARIES if n > 1 or rotate in (renamed, renamed_twice)],
)
async def test_c2_after_a_kill_and_a_rotation_files_with_one_banner_are_not_taken_for_each_other(
    rotate: Callable[[Path], list[str]], boundary: int, follow: bool, tmp_path: Path
) -> None:
    path = tmp_path / "auth.log"
    before, notes = await killed(path, boundary, MemoryNotes())
    expected = [HEAD, *texts_of("old"), *rotate(path)]
    spout = FileTail(path, block_bytes=32, follow=follow, poll_interval_s=0.001, rotated_wait_s=0.02)
    second = Reading(spout, make_task(notes), kept(before, before))
    await reads_the_rest_once(second, path, before, expected, follow)
    second.close()


@pytest.mark.parametrize("boundary", BOUNDARIES)
async def test_two_rotations_between_two_looks_are_seen_though_all_files_have_one_banner(
    boundary: int, tmp_path: Path
) -> None:
    path = tmp_path / "auth.log"
    path.write_text(BANNER)
    spout = FileTail(path, follow=True, block_bytes=32, poll_interval_s=0.001, rotated_wait_s=0.02)
    reading = Reading(spout, make_task(), limit=1)
    await reading.until(1)
    append(path, *texts_of("old"))
    await reading.until(boundary)
    path.rename(f"{path}.2")
    between = write(Path(f"{path}.1"), "between")
    new = write(path, "new")
    append(path, LAST)
    await reading.until_text(LAST)
    assert reading.texts == [HEAD, *texts_of("old"), *between, *new, LAST]
    assert len(set(reading.pairs)) == len(reading.texts)
    reading.close()


@pytest.mark.parametrize("oldest", range(LINES + 1))
@pytest.mark.parametrize("rotate", [renamed, copied_and_truncated], ids=lambda rotate: rotate.__name__)
async def test_e3_lines_that_are_not_done_come_again_from_every_file_with_the_same_banner(
    rotate: Callable[[Path], list[str]], oldest: int, tmp_path: Path
) -> None:
    """The run has read both files, and is killed while a line of the first, and all of the second, are under way."""
    path, notes = tmp_path / "auth.log", MemoryNotes()
    write(path, "old")
    first = Reading(FileTail(path, follow=True, poll_interval_s=0.001, rotated_wait_s=0.01), make_task(notes))
    old = list(await first.until(LINES + 1))
    rotate(path)
    append(path, LAST)
    await first.until_text(LAST)
    new = first.emitted[len(old) :]
    left = copy.deepcopy(notes)
    first.close()
    second = Reading(FileTail(path), make_task(left), kept(first.emitted, old[:oldest]))
    await second.to_the_end()
    assert second.emitted == [*old[oldest:], *new]
    second.close()


@pytest.mark.parametrize("more", [False, True], ids=["all-read", "copy-had-more"])
@pytest.mark.parametrize("oldest", range(LINES))
async def test_e3_lines_that_are_not_done_come_again_from_the_copy_of_a_short_file_that_was_truncated(
    oldest: int, more: bool, tmp_path: Path
) -> None:
    path, notes = tmp_path / "auth.log", MemoryNotes()
    path.write_bytes(content_of("old"))
    first = Reading(FileTail(path, follow=True, poll_interval_s=0.001), make_task(notes))
    await first.until(LINES)
    if more:
        append(path, "more")
    truncated(path)
    append(path, "new", LAST)
    await first.until_text(LAST)
    assert first.texts == [*texts_of("old"), *(["more"] if more else []), "new", LAST]
    left = copy.deepcopy(notes)
    first.close()
    second = Reading(FileTail(path), make_task(left), kept(first.emitted, first.emitted[:oldest]))
    await second.to_the_end()
    assert second.emitted == first.emitted[oldest:]
    second.close()


async def test_what_a_release_before_has_noted_goes_on_under_its_names(tmp_path: Path) -> None:
    """There all generations had one partition: what sinks hold of them must be known again."""
    path, notes = tmp_path / "auth.log", MemoryNotes()
    write(path, "old")
    first = Reading(FileTail(path), make_task(notes))
    (*_, last) = await first.to_the_end()
    first.close()
    name = "files of lines"
    ((partition, _, device, inode, offset, seen, *_),) = json.loads(notes.get(name) or "[]")
    notes.set(name, json.dumps([[partition, 3, device, inode, offset, seen]]))
    second = Reading(FileTail(path), make_task(notes), {last.partition: last.id})
    (again,) = await second.to_the_end()
    assert (again.partition, again.epoch, again.id) == (partition, "3", last.id)
    second.close()


async def test_compressed_files_that_are_something_else_are_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unpacking takes long, and a source that does it holds its worker's loop up."""

    def unpacked(_: object) -> int:
        raise AssertionError("unpacked")

    monkeypatch.setattr(rotations, "_unpacked", unpacked)
    path, notes = tmp_path / "auth.log", MemoryNotes()
    for number in range(3):
        write(path, f"history {number}")
        packed(path, number)
    path.write_bytes(content_of("old") * 40)
    source = FileTail(path, follow=True, poll_interval_s=0.001)
    first = Reading(copy.deepcopy(source), make_task(notes))
    await first.until(40 * LINES)
    first.close()
    second = Reading(source, make_task(notes), kept(first.emitted, first.emitted))
    os.truncate(path, 0)
    append(path, LAST)
    await second.until_text(LAST)
    second.close()


async def test_a_rotation_between_a_look_and_the_opening_loses_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reading = await following(tmp_path)
    path.rename(f"{path}.2")
    path.write_bytes(content_of("between"))

    def rotate() -> None:
        path.rename(f"{path}.1")
        path.write_bytes(content_of("new"))

    before_opening(monkeypatch, rotate)
    append(path, "late")
    await reading.until(3 * LINES + 1)
    assert reading.texts == [*texts_of("old"), *texts_of("between"), "late", *texts_of("new")]
    reading.close()


async def test_a_file_that_is_renamed_back_between_a_look_and_the_opening_is_not_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reading = await following(tmp_path)
    path.rename(tmp_path / "aside")
    append(path, "never looked at")
    before_opening(monkeypatch, lambda: (tmp_path / "aside").replace(path))
    append(tmp_path / "aside", LAST)
    await reading.until_text(LAST)
    append(path, "more")
    await reading.until_text("more")
    assert reading.texts == [*texts_of("old"), LAST, "more"]
    reading.close()


async def following(folder: Path) -> tuple[Path, Reading]:
    """A log that has been read, and that is followed."""
    path = folder / "auth.log"
    append(path, *texts_of("old"))
    reading = Reading(FileTail(path, follow=True, poll_interval_s=0.001, rotated_wait_s=0.02), make_task())
    await reading.until(LINES)
    return path, reading


def before_opening(monkeypatch: pytest.MonkeyPatch, does: Callable[[], object]) -> None:
    """Something that happens once, after the source has looked and before it opens what it has seen."""
    real = open_file.open_regular

    def late(name: str) -> int:
        monkeypatch.setattr(file_tail, "open_regular", real)
        does()
        return real(name)

    monkeypatch.setattr(file_tail, "open_regular", late)


@pytest.mark.parametrize("unseen", [False, True], ids=["known", "came-and-went"])
async def test_a_rotated_file_and_its_compressed_copy_beside_it_are_read_once(unseen: bool, tmp_path: Path) -> None:
    """gzip removes the one when it has written the other: for a while both are there."""
    path = tmp_path / "auth.log"
    before, notes = await killed(path, 3, MemoryNotes())
    expected = [HEAD, *texts_of("old")]
    aged(path.rename(f"{path}.2"), 2)
    if unseen:
        expected += write(Path(f"{path}.1"), "between")
        aged(Path(f"{path}.1"), 1)
    double(Path(f"{path}.1" if unseen else f"{path}.2"))
    expected += write(path, "new")
    second = Reading(FileTail(path), make_task(notes), kept(before, before))
    await second.to_the_end()
    assert [one.record.text for one in [*before, *second.emitted[1:]]] == expected
    second.close()


def copied(path: Path) -> None:
    Path(f"{path}.1.orig").write_bytes(path.read_bytes())


def double(path: Path) -> None:
    """Compressed, with the same time of change, as gzip leaves it."""
    there = Path(f"{path}.gz")
    there.write_bytes(gzip.compress(path.read_bytes()))
    at = path.stat().st_mtime_ns
    os.utime(there, ns=(at, at))


async def test_a_copy_that_is_made_beside_the_log_before_it_is_rotated_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "auth.log"
    write(path, "old")
    reading = Reading(FileTail(path, follow=True, poll_interval_s=0.001, rotated_wait_s=0.02), make_task())
    await reading.until(1 + LINES)
    copied(path)
    path.rename(f"{path}.1")
    new = write(path, "new")
    append(path, LAST)
    await reading.until_text(LAST)
    assert reading.texts == [HEAD, *texts_of("old"), *new, LAST]
    reading.close()
