"""FileTail through rotation, truncation and inode reuse: every line once (F49), and no line under another's name (C2).

The tests of following put a last line behind everything and read up to it: what came twice would have come before it.
"""

import asyncio
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from source_kit import BANNER, LINES, Reading, SetClock, append, content_of, make_task, texts_of

from spouts import FileTail
from topology.storage.directory.state_dir import MemoryNotes

LAST = "the last line"
BOUNDARIES = range(LINES + 1)  # polls of one line each; a block has two or three, so these are block boundaries too


def follow(path: Path, notes: MemoryNotes | None = None, **options: Any) -> Reading:
    settings = {"block_bytes": 32, "poll_interval_s": 0.001, "rotated_wait_s": 0.02, **options}
    return Reading(FileTail(path, follow=True, **settings), make_task(notes), limit=1)


def rename_and_create(path: Path, new: bytes) -> None:
    path.rename(path.with_suffix(".1"))
    path.write_bytes(new)


def delete_and_create(path: Path, new: bytes) -> None:
    path.unlink()
    path.write_bytes(new)


def replace_by_rename(path: Path, new: bytes) -> None:
    beside = path.with_suffix(".beside")
    beside.write_bytes(new)
    beside.replace(path)


def turn_the_symlink(path: Path, new: bytes) -> None:
    path.rename(path.with_suffix(".1"))
    path.with_suffix(".2").write_bytes(new)
    path.symlink_to(path.with_suffix(".2"))


def rename_and_compress(path: Path, new: bytes) -> None:
    rename_and_create(path, new)
    path.with_suffix(".1.gz").write_bytes(b"\x1f\x8b")
    path.with_suffix(".1").unlink()


def copytruncate(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".1"))
    os.truncate(path, 0)
    append(path, *texts_of("new"))


def truncate_and_regrow_to_the_same_size(path: Path) -> None:
    size = path.stat().st_size
    os.truncate(path, 0)
    append(path, *texts_of("new"))
    assert path.stat().st_size == size


def truncate_and_regrow_larger(path: Path) -> None:
    os.truncate(path, 0)
    append(path, *texts_of("new"), *texts_of("more"))


ANOTHER_FILE = [rename_and_create, delete_and_create, replace_by_rename, turn_the_symlink, rename_and_compress]
SAME_FILE = [copytruncate, truncate_and_regrow_to_the_same_size, truncate_and_regrow_larger]


@pytest.mark.parametrize("banner", ["", BANNER], ids=["short", "same-banner"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("rotate", ANOTHER_FILE, ids=lambda rotate: rotate.__name__)
async def test_when_the_path_names_another_file_every_line_of_both_comes_once(
    tmp_path: Path, rotate: Callable[[Path, bytes], None], boundary: int, banner: str
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(banner.encode() + content_of("old"))
    header = banner.splitlines()
    reading = follow(path)
    await reading.until(boundary)
    rotate(path, banner.encode() + content_of("new"))
    append(path, LAST)
    emitted = await reading.until_text(LAST)
    assert reading.texts == [*header, *texts_of("old"), *header, *texts_of("new"), LAST]
    assert len(set(reading.pairs)) == len(emitted)
    reading.close()


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("rotate", SAME_FILE, ids=lambda rotate: rotate.__name__)
async def test_when_the_file_is_truncated_every_line_that_is_still_there_or_was_read_comes_once(
    tmp_path: Path, rotate: Callable[[Path], None], boundary: int
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content_of("old"))
    reading = follow(path)
    await reading.until(boundary)
    rotate(path)
    append(path, LAST)
    emitted = await reading.until_text(LAST)
    old = [text for text in reading.texts if text.startswith("old")]
    assert old == texts_of("old")[: len(old)]
    assert len(old) >= boundary
    assert reading.texts[len(old) : len(old) + LINES] == texts_of("new")
    assert len(set(reading.texts)) == len(set(reading.pairs)) == len(emitted)
    reading.close()


@pytest.mark.parametrize("boundary", range(1, LINES + 1))
async def test_a_file_that_starts_again_from_zero_is_another_generation_with_a_partition_of_its_own(
    tmp_path: Path, boundary: int
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content_of("old"))
    reading = follow(path)
    await reading.until(boundary)
    for generation in (1, 2, 3):
        os.truncate(path, 0)
        append(path, f"new {generation}")
        (*_, last) = await reading.until_text(f"new {generation}")
        assert (last.epoch, last.id) == (str(generation), 0)
        assert last.partition == f"{reading.emitted[0].partition}.{generation}"
    reading.close()


@pytest.mark.parametrize("changed", ["head", "tail"])
async def test_content_of_the_same_size_is_told_apart_by_its_head_or_by_what_is_before_the_next_line(
    tmp_path: Path, changed: str
) -> None:
    path = tmp_path / "a.log"
    same = "the same beat over and over\n" * 100
    contents = {"head": (f"old\n{same}", f"new\n{same}"), "tail": (f"{same}old\n", f"{same}new\n")}[changed]
    path.write_text(contents[0])
    reading = follow(path)
    await reading.until(101)
    descriptor = os.open(path, os.O_WRONLY)
    os.pwrite(descriptor, contents[1].encode(), 0)  # the size is never seen to be smaller
    os.close(descriptor)
    append(path, LAST)
    emitted = await reading.until_text(LAST)
    assert len(emitted) == 101 + 102
    assert len(set(reading.pairs)) == len(emitted)
    reading.close()


async def test_the_same_lines_again_after_a_truncation_that_was_seen_are_new_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("beat\n" * 3)
    reading = follow(path)
    await reading.until(3)
    os.truncate(path, 0)
    waiting = asyncio.create_task(reading.until_text(LAST))
    await asyncio.sleep(0)
    append(path, "beat", "beat", "beat", LAST)
    await waiting
    assert reading.texts == ["beat"] * 6 + [LAST]
    assert len(set(reading.pairs)) == 7
    reading.close()


async def test_fewer_of_the_same_lines_after_a_truncation_that_was_seen_are_new_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("beat\n" * 500)
    reading = follow(path)
    await reading.until(6)  # the first block; both windows will be as they were
    os.truncate(path, 0)
    append(path, *["beat"] * 100, LAST)
    await reading.until_text(LAST)
    assert reading.texts == ["beat"] * 106 + [LAST]
    assert len(set(reading.pairs)) == 107
    reading.close()


async def idle(reading: Reading) -> None:
    """Lets the source look at all its files once, and find nothing."""
    poll = asyncio.create_task(reading.poll())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not poll.done()
    poll.cancel()
    await asyncio.wait([poll])


async def test_a_rotated_file_is_read_on_while_its_writer_has_not_let_go_of_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "a.log", SetClock(datetime(2026, 3, 1, tzinfo=UTC))
    path.write_bytes(content_of("old"))
    reading = Reading(FileTail(path, follow=True, rotated_wait_s=5.0), make_task(clock=clock))
    await reading.until(LINES)
    await idle(reading)
    clock.now += timedelta(seconds=100)  # it was quiet before; what counts is the time since the rotation
    with path.open("ab", buffering=0) as writer:
        path.rename(path.with_suffix(".1"))
        append(path, "first of the new file")
        await reading.until_text("first of the new file")
        for number in range(4):
            await idle(reading)
            clock.now += timedelta(seconds=4.9)
            writer.write(f"late {number}\n".encode())
            await reading.until_text(f"late {number}")
        assert {one.partition for one in reading.emitted[LINES + 1 :]} == {reading.emitted[0].partition}
        await idle(reading)
        clock.now += timedelta(seconds=5.1)
        await idle(reading)
        writer.write(b"too late\n")
        await idle(reading)
    reading.close()


async def test_the_epoch_of_a_partition_never_changes_as_each_generation_is_one_of_its_own(tmp_path: Path) -> None:
    """Two files with one banner are read side by side, the first for as long as its writer has it."""
    path = tmp_path / "a.log"
    path.write_bytes(BANNER.encode() + content_of("old"))
    reading = Reading(FileTail(path, follow=True, poll_interval_s=0.001, rotated_wait_s=600), make_task())
    await reading.until(1 + LINES)
    with path.open("ab", buffering=0) as writer:
        path.rename(path.with_suffix(".1"))
        path.write_bytes(BANNER.encode() + content_of("new"))
        await reading.until(2 * (1 + LINES))
        writer.write(b"late\n")
        await reading.until_text("late")
    assert [one.epoch for one in reading.emitted] == [*"0" * (LINES + 1), *"1" * (LINES + 1), "0"]
    assert len({(one.partition, one.epoch) for one in reading.emitted}) == 2
    assert len({one.partition for one in reading.emitted}) == 2
    reading.close()


async def test_a_half_line_at_a_rotated_file_s_end_is_a_line_once_the_file_is_quiet(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content_of("old") + b"half a li")
    reading = follow(path)
    await reading.until(LINES)
    path.rename(path.with_suffix(".1"))
    append(path, LAST)
    await reading.until(LINES + 2)
    assert sorted(reading.texts[LINES:]) == ["half a li", LAST]
    reading.close()


async def test_rotated_files_are_closed_once_they_are_quiet(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("line 0\n")
    reading = follow(path, rotated_wait_s=0.001)
    open_before = len(os.listdir("/proc/self/fd"))
    for number in range(1, 50):
        await reading.until_text(f"line {number - 1}")
        path.rename(path.with_suffix(f".{number}"))
        path.write_text(f"line {number}\n")
    await reading.until(50)
    assert len(os.listdir("/proc/self/fd")) <= open_before + 16
    assert len(reading.spout.partitions()) <= 32
    reading.close()
    assert len(os.listdir("/proc/self/fd")) == open_before - 1
    assert reading.texts == [f"line {number}" for number in range(50)]


async def test_a_file_that_is_renamed_away_and_back_is_not_read_again(tmp_path: Path) -> None:
    path, away = tmp_path / "a.log", tmp_path / "a.log.1"
    path.write_bytes(content_of("old"))
    reading = follow(path, rotated_wait_s=60.0)
    await reading.until(LINES)
    path.rename(away)
    append(path, "for a moment")
    await reading.until_text("for a moment")
    away.replace(path)
    append(path, LAST)
    await reading.until_text(LAST)
    await idle(reading)
    assert reading.texts == [*texts_of("old"), "for a moment", LAST]
    reading.close()


async def test_while_the_path_names_no_file_the_open_one_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content_of("old"))
    reading = follow(path)
    path.rename(path.with_suffix(".1"))
    append(path.with_suffix(".1"), "still written")
    await reading.until_text("still written")
    append(path, LAST)
    await reading.until_text(LAST)
    assert reading.texts == [*texts_of("old"), "still written", LAST]
    reading.close()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
async def test_when_the_path_comes_to_name_no_regular_file_it_warns_once_and_goes_on(
    tmp_path: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """S5: the tailed path is swapped for a FIFO."""
    path, away = tmp_path / "a.log", tmp_path / "a.log.1"
    path.write_bytes(content_of("old"))
    reading = follow(path)
    await reading.until(LINES)
    path.rename(away)
    make(path)
    for number in range(3):
        append(away, f"meanwhile {number}")
        await reading.until_text(f"meanwhile {number}")
    path.rmdir() if path.is_dir() else path.unlink()
    append(path, LAST)
    await reading.until_text(LAST)
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert ["the file that replaced" in message for message in warned] == [True]
    assert len(reading.texts) == len(set(reading.texts)) == LINES + 4
    reading.close()
