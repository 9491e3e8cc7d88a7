"""`Directory` without `follow`: a file that cannot be read is tried again, and then fails the run; none stays open."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from directory_kit import WAIT_S, opened, place, read_all, texts, until

from spouts.directory.content import DirectoryFile
from spouts.directory.spout import TRIES_MAX, Directory
from topology import ConfigurationError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "in"
    found.mkdir()
    return found


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], list[str]]:
    """Let the first reads of a file fail; the returned list has each path that was read."""
    monkeypatch.setattr("spouts.directory.spout.AGAIN_FIRST_S", 0.01)
    pread = os.pread

    def fails(name: str, times: int) -> list[str]:
        read: list[str] = []

        def breaks(descriptor: int, size: int, offset: int) -> bytes:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if path.endswith(name):
                read.append(path)
                if len(read) <= times:
                    raise OSError(5, "Input/output error")
            return pread(descriptor, size, offset)

        monkeypatch.setattr("spouts.directory.content.os.pread", breaks)
        return read

    return fails


async def test_a_file_that_can_be_read_again_is_read_before_the_source_ends(
    folder: Path, failing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    place(folder / "a.log", b"x\ny\n")
    place(folder / "b.log", b"z\n")
    failing("a.log", TRIES_MAX - 1)
    source = await read_all(Directory(folder / "*.log"))
    assert texts(source) == ["z", "x", "y"]
    assert caplog.text.count("it is tried again") == 1


async def test_a_file_that_stays_unreadable_ends_the_run_with_an_error_that_names_it(
    folder: Path, failing: Any
) -> None:
    place(folder / "a.log", b"x\n")
    place(folder / "b.log", b"z\n")
    read = failing("a.log", 10**9)
    async with opened(Directory(folder / "*.log")) as source:
        with pytest.raises(ConfigurationError) as caught:
            await source.take(3, WAIT_S)
    assert str(caught.value).startswith(
        f"Directory: the file '{folder}/a.log' can't be read: Input/output error; it was tried {TRIES_MAX} times"
    )
    assert texts(source) == ["z"], "the others were read"
    assert len(read) == TRIES_MAX


async def test_files_that_are_read_well_at_a_later_try_do_not_count_among_those_that_cannot_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spouts.directory.spout.AGAIN_FIRST_S", 0.01)
    monkeypatch.setattr("spouts.directory.spout.FAILED_MAX", 2)
    pread, read = os.pread, set[str]()

    def breaks_once(descriptor: int, size: int, offset: int) -> bytes:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path not in read:
            read.add(path)
            raise OSError(5, "Input/output error")
        return pread(descriptor, size, offset)

    monkeypatch.setattr("spouts.directory.content.os.pread", breaks_once)
    async with opened(Directory(folder / "*.log")) as source:
        for number in range(5):
            place(folder / f"{number}.log", b"%d\n" % number)
            await source.take(number + 1, WAIT_S)
        await source.take(6, WAIT_S)
        assert source.ended
    assert texts(source) == [*"01234"]
    assert len(read) == 5, "each has failed once"


async def test_an_unreadable_file_that_goes_away_is_no_trouble(folder: Path, failing: Any) -> None:
    path = place(folder / "a.log", b"x\n")
    place(folder / "b.log", b"z\n")
    read = failing("a.log", 10**9)
    async with opened(Directory(folder / "*.log")) as source:
        await source.take(1, WAIT_S)
        await until(lambda: bool(read))
        path.unlink()
        await source.take(2, WAIT_S)
        assert source.ended
    assert texts(source) == ["z"]


async def test_a_source_that_is_closed_while_it_opens_a_file_leaves_none_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(folder / "a.log", b"x\n")
    begin, began, may_go_on = DirectoryFile.begin, threading.Event(), threading.Event()

    def waits(file: DirectoryFile, *given: Any) -> Any:
        began.set()
        assert may_go_on.wait(WAIT_S)
        return begin(file, *given)

    monkeypatch.setattr(DirectoryFile, "begin", waits)
    async with opened(Directory(folder / "*.log")) as source:
        polling = asyncio.ensure_future(source.poll())
        await until(began.is_set)
        polling.cancel()
        await asyncio.wait((polling,))
        closing = asyncio.ensure_future(source.close())
        await asyncio.sleep(0)
        may_go_on.set()
        await closing
        assert not [link for link in _open_files() if link.startswith(str(folder))]


def _open_files() -> list[str]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:  # that of the list itself
            continue
    return found
