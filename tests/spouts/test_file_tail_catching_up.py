"""FileTail after rotations that it did not see (F49, E3): a run is killed at every read boundary, the log is rotated in
each of the ways that there are, and the next run reads what is left: every line once, under its own name."""

import asyncio
import copy
import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from topology.components import Positions
from topology.storage.directory.state_dir import MemoryNotes

BOUNDARIES = range(1, LINES + 1)
LONG = "x" * 1_100 + " "  # with it each line proves which file it is in


def lines_of(name: str, prefix: str) -> list[str]:
    return [f"{prefix.replace('name', name * 300)}{text}" for text in texts_of(name)]


def write(path: Path, name: str, prefix: str) -> None:
    append(path, *lines_of(name, prefix))


def renamed(path: Path, prefix: str) -> list[str]:
    path.rename(f"{path}.1")
    aged(Path(f"{path}.1"), 1)
    write(path, "new", prefix)
    return lines_of("new", prefix)


def renamed_by_date(path: Path, prefix: str) -> list[str]:
    path.rename(f"{path}-20261121")
    aged(Path(f"{path}-20261121"), 1)
    write(path, "new", prefix)
    return lines_of("new", prefix)


def renamed_twice(path: Path, prefix: str) -> list[str]:
    path.rename(f"{path}.2")
    aged(Path(f"{path}.2"), 2)
    write(Path(f"{path}.1"), "between", prefix)
    aged(Path(f"{path}.1"), 1)
    write(path, "new", prefix)
    return [*lines_of("between", prefix), *lines_of("new", prefix)]


def compressed(path: Path, prefix: str) -> list[str]:
    packed = Path(f"{path}.1.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    aged(packed, 1)
    write(path, "new", prefix)
    return lines_of("new", prefix)


def copied_and_truncated(path: Path, prefix: str) -> list[str]:
    shutil.copy(path, f"{path}.1")
    aged(Path(f"{path}.1"), 1)
    os.truncate(path, 0)
    write(path, "new", prefix)
    return lines_of("new", prefix)


WAYS = [renamed, renamed_by_date, renamed_twice, copied_and_truncated]


async def killed(path: Path, notes: MemoryNotes, boundary: int, **options: Any) -> tuple[list[Emitted], MemoryNotes]:
    """What a run has read that ends without a word, and what is noted then."""
    reading = Reading(FileTail(path, block_bytes=32, **options), make_task(notes), limit=1)
    emitted = list(await reading.until(boundary))
    left = copy.deepcopy(notes)
    reading.close()
    return emitted, left


def resumed(path: Path, notes: MemoryNotes, emitted: list[Emitted], **options: Any) -> Reading:
    last = emitted[-1]
    positions = Positions({last.partition: last.id}, {last.partition: last.epoch})
    return Reading(FileTail(path, block_bytes=32, **options), make_task(notes), positions)


@pytest.mark.parametrize("prefix", ["", LONG, "name "], ids=["short", "long", "long-of-its-own"])
@pytest.mark.parametrize("follow", [False, True], ids=["to-the-end", "followed"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("rotate", WAYS, ids=lambda rotate: rotate.__name__)
async def test_what_a_killed_run_has_left_is_read_after_a_rotation_every_line_once(
    rotate: Callable[[Path, str], list[str]], boundary: int, follow: bool, prefix: str, tmp_path: Path
) -> None:
    path = tmp_path / "auth.log"
    write(path, "old", prefix)
    before, notes = await killed(path, MemoryNotes(), boundary, follow=follow, poll_interval_s=0.001)
    expected = [*lines_of("old", prefix), *rotate(path, prefix)]
    second = resumed(path, notes, before, follow=follow, poll_interval_s=0.001, rotated_wait_s=0.02)
    await reads_the_rest_once(second, path, before, expected, follow)
    second.close()


@pytest.mark.parametrize("boundary", BOUNDARIES)
async def test_a_rotated_file_that_was_compressed_meanwhile_is_read_on(boundary: int, tmp_path: Path) -> None:
    path = tmp_path / "auth.log"
    path.write_text(BANNER + content_of("old").decode())
    before, notes = await killed(path, MemoryNotes(), 1 + boundary)
    new = compressed(path, LONG)
    second = resumed(path, notes, before)
    await second.to_the_end()
    assert [one.record.text for one in [*before, *second.emitted[1:]]] == [BANNER.rstrip("\n"), *texts_of("old"), *new]
    second.close()


async def test_a_compressed_file_that_is_damaged_is_warned_of_and_the_rest_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "auth.log"
    write(path, "old", LONG)
    before, notes = await killed(path, MemoryNotes(), 3)
    compressed(path, LONG)
    os.truncate(f"{path}.1.gz", 40)
    second = resumed(path, notes, before)
    await second.to_the_end()
    assert second.texts == lines_of("new", LONG)
    assert "can't be unpacked" in caplog.text
    assert "any lines after that byte are lost" in caplog.text
    second.close()


async def test_a_compressed_file_that_would_fill_the_disk_is_warned_of_and_the_rest_is_read_S4(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "auth.log"
    write(path, "old", LONG)
    before, notes = await killed(path, MemoryNotes(), 3)
    fewer = path.stat().st_size - 1
    monkeypatch.setattr("spouts.file_tail.rotations.UNPACKED_BYTES_MAX", fewer)
    compressed(path, LONG)
    second = resumed(path, notes, before)
    await second.to_the_end()
    assert second.texts == lines_of("new", LONG)
    assert f"it has more than {fewer:,} bytes" in caplog.text
    second.close()


async def test_what_is_left_of_a_file_that_is_gone_is_said_to_be_lost_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "auth.log"
    write(path, "old", LONG)
    before, notes = await killed(path, MemoryNotes(), 3)
    path.unlink()
    write(path, "new", LONG)
    for _ in range(2):
        second = resumed(path, notes, before)
        assert (await second.to_the_end())[0].record.text == lines_of("new", LONG)[0]
        second.close()
    assert caplog.text.count("are lost") == 1


async def test_files_beside_it_that_were_never_its_own_are_not_read(tmp_path: Path) -> None:
    """A first run reads what the path names; rotated files of before it are history."""
    path = tmp_path / "auth.log"
    write(Path(f"{path}.1"), "history", "")
    write(path, "old", "")
    for name in ("auth.log.bak", "auth.log.new", "other.log.1", "auth.log.1.swp.tmp~"):
        write(tmp_path / name, "strange", "")
    before, notes = await killed(path, MemoryNotes(), 4)
    second = resumed(path, notes, before)
    await second.to_the_end()
    assert [one.record.text for one in [*before, *second.emitted[1:]]] == texts_of("old")
    second.close()


async def test_a_file_that_was_read_to_its_end_is_not_opened_again(tmp_path: Path) -> None:
    path, notes = tmp_path / "auth.log", MemoryNotes()
    write(path, "old", "")
    first = Reading(FileTail(path, follow=True, poll_interval_s=0.001, rotated_wait_s=0.01), make_task(notes))
    await first.until(LINES)
    renamed(path, "")
    append(path, LAST)
    await first.until_text(LAST)
    waiting = asyncio.ensure_future(first.poll())
    async with asyncio.timeout(20):
        while len(first.spout._files) > 1:  # noqa: ASYNC110  # nobody tells when it lets go of one
            await asyncio.sleep(0.001)
    append(path, "more")
    await waiting
    first.close()
    second = resumed(path, notes, first.emitted)
    assert len(second.spout._files) == 1
    second.close()


@pytest.mark.parametrize("follow", [False, True], ids=["to-the-end", "followed"])
@pytest.mark.parametrize("oldest", range(LINES))
async def test_lines_that_were_read_and_are_not_done_come_again_though_their_file_was_let_go_E3(
    oldest: int, follow: bool, tmp_path: Path
) -> None:
    """A sink is away for longer than a rotated file stays open, and the run is killed meanwhile."""
    path = tmp_path / "auth.log"
    write(path, "old", "name ")
    options: dict[str, Any] = {"follow": follow, "poll_interval_s": 0.001, "rotated_wait_s": 0.01}
    before, notes = await killed(path, MemoryNotes(), 1, **options)
    new = renamed(path, "name ")
    first = resumed(path, notes, before, **options)
    if follow:
        await first.until_text(new[-1])
        waiting = asyncio.ensure_future(first.poll())
        async with asyncio.timeout(20):
            while len(first.spout._files) > 1:  # noqa: ASYNC110  # nobody tells when it lets go of one
                await asyncio.sleep(0.001)
        append(path, LAST)
        await waiting
    else:
        await first.to_the_end()
    left = copy.deepcopy(notes)
    first.close()
    old = [one for one in first.emitted if one.partition == before[0].partition]
    assert len(old) == LINES
    second = resumed(path, left, [old[oldest]], **options)
    append(path, "more")
    await second.until_text("more")
    assert [one for one in second.emitted if one.partition == before[0].partition] == old[oldest:]
    second.close()


@pytest.mark.parametrize("prefix", ["", LONG, "name "], ids=["short", "long", "long-of-its-own"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
async def test_two_rotations_between_two_looks_are_seen(boundary: int, prefix: str, tmp_path: Path) -> None:
    """A source that has to wait, for a sink that is away say, does not look."""
    path = tmp_path / "auth.log"
    write(path, "old", prefix)
    spout = FileTail(path, follow=True, block_bytes=32, poll_interval_s=0.001, rotated_wait_s=0.02)
    reading = Reading(spout, make_task(), limit=1)
    await reading.until(boundary)
    path.rename(f"{path}.2")
    write(Path(f"{path}.1"), "between", prefix)
    write(path, "new", prefix)
    append(path, LAST)
    await reading.until_text(LAST)
    expected = [*lines_of("old", prefix), *lines_of("between", prefix), *lines_of("new", prefix), LAST]
    assert reading.texts == expected
    assert len(set(reading.pairs)) == len(expected)
    reading.close()


@pytest.mark.parametrize("boundary", BOUNDARIES)
async def test_lines_that_were_truncated_before_they_were_read_are_read_in_the_copy(
    boundary: int, tmp_path: Path
) -> None:
    path = tmp_path / "auth.log"
    write(path, "old", "")
    reading = Reading(
        FileTail(path, follow=True, block_bytes=32, poll_interval_s=0.001, rotated_wait_s=600), make_task(), limit=1
    )
    await reading.until(boundary)
    copied_and_truncated(path, "")
    append(path, LAST)
    await reading.until_text(LAST)
    assert reading.texts == [*texts_of("old"), *texts_of("new"), LAST]
    assert len(set(reading.pairs)) == len(reading.pairs)
    reading.close()
