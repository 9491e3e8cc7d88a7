"""A folder of a query that somebody has deleted is told, and not begun anew: what was in it would be missing, and what
comes again be counted twice."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import (
    becomes,
    dealt,
    handed_over,
    input_folder,
    notes_of,
    numbers_stored,
    opened,
    own,
    sink,
    task_of,
    tuple_of,
)

from bridge.files.query import Epoch, QueryFolder, place
from bridge.files.started import Started
from topology import ConfigurationError
from topology.codes.startup import SPARK_QUERY_FILES_MISSING
from topology.storage.directory.state_dir import MemoryNotes
from topology.testing.sinks.driver import RecordedAnswers, feed, give


async def refused(folder: Path, index: int = 0, tasks: int = 1) -> str:
    """What a hand-over says that can't be opened, and has made nothing."""
    with pytest.raises(ConfigurationError) as caught:
        async with opened(folder, index, tasks):
            raise AssertionError("it was opened")
    assert caught.value.code is SPARK_QUERY_FILES_MISSING
    return str(caught.value)


async def test_a_hand_over_whose_folder_has_gone_is_refused_and_makes_no_new_one(tmp_path: Path) -> None:
    await handed_over(tmp_path, range(5))
    shutil.rmtree(tmp_path / "spark")
    gone = input_folder(tmp_path) / "0"
    assert await refused(tmp_path) == f"{gone} is missing, but query 'q' has already used it"
    assert not (tmp_path / "spark").exists()


async def test_it_goes_on_once_the_folder_is_back(tmp_path: Path) -> None:
    await handed_over(tmp_path, range(5))
    (tmp_path / "spark").rename(tmp_path / "aside")
    await refused(tmp_path)
    (tmp_path / "aside").rename(tmp_path / "spark")
    await handed_over(tmp_path, range(7))
    assert sorted(numbers_stored(tmp_path)) == [*range(7)], "what it had is known"


async def test_the_folder_of_a_task_that_there_is_no_more_is_missed_too(tmp_path: Path) -> None:
    """C4: by the task whose it is now."""
    await handed_over(tmp_path, range(20), tasks=5)
    shutil.rmtree(input_folder(tmp_path) / "3")
    assert (
        await refused(tmp_path, 1, 2) == f"{input_folder(tmp_path) / '3'} is missing, but query 'q' has already used it"
    )
    async with opened(tmp_path, 0, 2):
        """The other one lacks nothing."""


async def test_more_tasks_than_ever_begin_folders_of_their_own(tmp_path: Path) -> None:
    await handed_over(tmp_path, range(20), tasks=2)
    await handed_over(tmp_path, range(40), tasks=4)
    assert sorted(numbers_stored(tmp_path)) == [*range(40)]


async def test_a_run_that_was_killed_before_it_was_noted_begins_again(tmp_path: Path) -> None:
    """The folder is there first, and the note second; the other way round nobody could begin any more."""
    await handed_over(tmp_path, range(3))
    notes = notes_of(tmp_path)
    assert Started(notes, "q").is_noted("items/0")
    notes._notes.clear()
    await handed_over(tmp_path, range(5))
    assert sorted(numbers_stored(tmp_path)) == [*range(5)]
    assert Started(notes, "q").is_noted("items/0")


def test_a_folder_that_may_not_be_looked_into_is_not_called_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = MemoryNotes()
    Started(notes, "one").note("results")

    def refused(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "exists", refused)  # root may look into all
    Started(notes, "one").check("results", tmp_path / "nothing")


def test_queries_and_parts_of_them_are_told_apart(tmp_path: Path) -> None:
    notes = MemoryNotes()
    Started(notes, "one").note("results")
    assert not Started(notes, "two").is_noted("results")
    assert not Started(notes, "one").is_noted("results/0")
    Started(notes, "two").check("results", tmp_path / "nothing")
    with pytest.raises(ConfigurationError, match="nothing is missing, but query 'one' has already used it"):
        Started(notes, "one").check("results", tmp_path / "nothing")


async def test_the_last_segment_that_has_gone_is_missed_by_the_end_that_was_said(tmp_path: Path) -> None:
    """Its number would be given to another one, which a reader that has read it would never look at."""
    async with opened(tmp_path) as bolt:
        for number in range(3):
            await feed(bolt, [tuple_of(number)], RecordedAnswers())
        await bolt.flush(RecordedAnswers())
    last = own(tmp_path).path(2)
    last.unlink()
    with pytest.raises(ConfigurationError, match=rf"{last} is missing, but the previous run had ended after it"):
        async with opened(tmp_path):
            raise AssertionError("it was opened")
    assert own(tmp_path).has_ended(3), "nothing was changed"


@pytest.mark.parametrize("known", ["written", "read", "begun after"])
async def test_the_last_segment_that_has_gone_after_a_kill_is_missed_by_what_was_written_or_read(
    tmp_path: Path, known: str
) -> None:
    """F23: no end was said, and a loss of power may take away what the writer has noted, which is not synced."""
    async with opened(tmp_path) as bolt:
        for number in range(3):
            out = RecordedAnswers()
            await give(bolt, [tuple_of(number)], out)
            await becomes(lambda out=out: len(out.acked) == 1)  # type: ignore[misc]
    last = own(tmp_path).path(2)
    last.unlink()
    if known != "written":
        (last.parent / "lock").write_bytes(b"")
        query, ends = QueryFolder(input_folder(tmp_path).parents[1]), {"0": 3}
        epoch = Epoch(1, 7, {"items": ends} if known == "begun after" else {})
        query.begin(epoch)
        if known == "read":
            offset = json.dumps({"input": "items", "next": ends, "ended": ""})
            place(query.checkpoint(epoch) / "offsets" / "4", f'v1\n{{"batchWatermarkMs":0}}\n{offset}'.encode())
    why = "it was written" if known == "written" else "the checkpoint has read it or is about to"
    with pytest.raises(ConfigurationError, match=f"{last} is missing, but {why}"):
        async with opened(tmp_path):
            raise AssertionError("it was opened")


async def test_what_is_no_number_of_tasks_is_written_anew(tmp_path: Path) -> None:
    await handed_over(tmp_path, range(3))
    (input_folder(tmp_path) / "tasks").write_bytes(b"\xd2\x00")
    await handed_over(tmp_path, range(4))
    assert (input_folder(tmp_path) / "tasks").read_text() == "1"
    assert sorted(numbers_stored(tmp_path)) == [*range(4)]


async def test_a_keeper_that_has_ended_by_a_mistake_ends_the_flush_too(tmp_path: Path) -> None:
    """Nobody would say the end any more, and the run would wait for it for ever."""
    (tuples,) = dealt(range(2), 1).values()
    bolt: Any = sink()
    await bolt.open(task_of(tmp_path))
    try:
        await feed(bolt, tuples, RecordedAnswers())

        def broken(*_: object) -> None:
            raise KeyError("ours")

        bolt._segments.forgotten = broken
        await becomes(lambda: bolt._keeper.done())
        with pytest.raises(RuntimeError, match="the task that keeps the hand-over's folder has ended") as caught:
            await bolt.flush(RecordedAnswers())
        assert isinstance(caught.value.__cause__, KeyError)
    finally:
        await bolt.close()
