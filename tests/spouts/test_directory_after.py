"""`Directory(after=…)`: a file is deleted or moved once all of its messages are settled, and never before."""

from pathlib import Path

import pytest
from directory_kit import WAIT_S, made, names_in, opened, place, read_all, texts, until

from spouts.directory.spout import Directory
from topology.testing.sources.driver import Memory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path / "in")


@pytest.mark.parametrize("follow", [True, False])
async def test_a_file_is_deleted_once_all_of_its_messages_are_settled(folder: Path, follow: bool) -> None:
    place(folder / "a", b"1\n2\n3\n")
    place(folder / "b", b"4\n")
    spout = Directory(folder / "*", follow=follow, quiet_s=0, after="delete", poll_interval_s=0.02)
    async with opened(spout) as source:
        await source.take(4, WAIT_S)
        await source.settle([source.messages[index] for index in (0, 2, 3)])
        await source.rest()
        await until(lambda: names_in(folder) == ["a"])
        await source.rest(1.5)
        assert names_in(folder) == ["a"], "one of its messages is not settled"
        await source.settle([source.messages[1]])
        await until(lambda: names_in(folder) == [])
        assert "2 files read to the end, 4 lines, of " in "".join(source.spout.summary())


async def test_files_are_moved_with_their_folders_and_keep_others_of_their_name(tmp_path: Path, folder: Path) -> None:
    done = tmp_path / "done"
    place(done / "x" / "a.log", b"before\n")
    place(folder / "x" / "a.log", b"1\n")
    place(folder / "b.log", b"2\n")
    await read_all(Directory(folder / "**" / "*.log", after=f"move:{done}"))
    assert names_in(folder) == []
    assert names_in(done) == ["b.log", "x/a.log", "x/a.log.1"]
    assert (done / "x" / "a.log").read_bytes() == b"before\n"


async def test_files_in_the_folder_that_they_are_moved_to_are_not_read(folder: Path) -> None:
    place(folder / "a.log", b"1\n")
    place(folder / "done" / "b.log", b"2\n")
    source = await read_all(Directory(folder / "**" / "*.log", after=f"move:{folder / 'done'}"))
    assert texts(source) == ["1"]
    assert names_in(folder) == ["done/a.log", "done/b.log"]


async def test_a_file_that_changed_after_it_was_read_is_not_deleted_but_read(folder: Path) -> None:
    path = place(folder / "a", b"1\n")
    spout = Directory(folder / "*", follow=True, quiet_s=0, after="delete", poll_interval_s=0.02)
    async with opened(spout) as source:
        await source.take(1, WAIT_S)
        with path.open("a") as file:
            file.write("2\n")
        await source.settle(source.messages[:1])
        await source.take(3, WAIT_S)
        assert texts(source) == ["1", "1", "2"]
        await source.rest(1.5)
        assert names_in(folder) == ["a"]
        await source.settle(source.messages[1:])
        await until(lambda: names_in(folder) == [])


async def test_a_file_that_cannot_be_moved_is_reported_and_the_next_run_moves_it(
    tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done, memory = tmp_path / "done", Memory()
    place(folder / "x" / "a.log", b"1\n")
    async with opened(Directory(folder / "*" / "*.log", after=f"move:{done}"), memory) as source:
        (done / "x").write_text("a file in place of the folder")
        await source.take(1, WAIT_S)
        await source.settle(source.messages)
        await source.rest()
    assert "can't be moved" in caplog.text
    assert names_in(folder) == ["x/a.log"]
    (done / "x").unlink()
    again = await read_all(Directory(folder / "*" / "*.log", after=f"move:{done}"), memory)
    assert again.messages == []
    assert names_in(done) == ["x/a.log"]


async def test_files_that_an_earlier_run_has_finished_are_deleted_when_that_is_wanted(folder: Path) -> None:
    memory = Memory()
    place(folder / "a", b"1\n")
    await read_all(Directory(folder / "*"), memory)
    assert (await read_all(Directory(folder / "*", after="delete"), memory)).messages == []
    assert names_in(folder) == []
