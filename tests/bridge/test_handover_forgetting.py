"""What a hand-over forgets, and removes: what is done at a decided checkpoint, once all readers have passed it (D4, D5,
E1)."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

import pyarrow as pa
from handover_kit import (
    becomes,
    decide,
    handed_over,
    note,
    numbers_stored,
    opened,
    own,
    say_done,
    segments_of,
    tuple_of,
)

from acker.frontier import Decided
from bridge.files.segments import Segments
from bridge.handover import store
from topology.testing.sinks.driver import feed


async def test_what_is_done_is_forgotten_and_removed_once_readers_have_passed_it_D4(tmp_path: Path) -> None:
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        for number in (1, 2, 3):
            await feed(bolt, [tuple_of(number)])
        assert len(segments_of(tmp_path)) == 3
        decide(decided, note(3, 3))
        await becomes(lambda: len(bolt._segments.remembered) == 1)
        assert len(segments_of(tmp_path)) == 3, "no reader has passed them"
        say_done(tmp_path, 3)
        await becomes(lambda: len(segments_of(tmp_path)) == 1)
        assert numbers_stored(tmp_path) == [3], "passed, and not done yet"


async def test_what_readers_have_passed_stays_while_its_message_may_come_again_D4(tmp_path: Path) -> None:
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        await feed(bolt, [tuple_of(1)])
        await feed(bolt, [tuple_of(2)])
        say_done(tmp_path, 2)
        decide(decided, note(2, 1))
        await becomes(lambda: len(segments_of(tmp_path)) == 1)
        await feed(bolt, [tuple_of(1)])
    assert numbers_stored(tmp_path) == [1]


async def test_after_a_going_back_an_output_of_a_message_that_is_done_may_come_in_the_tree_of_another_D4(
    tmp_path: Path,
) -> None:
    """The second time, another message may be the one that a count names it by."""
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        await feed(bolt, [tuple_of(1)])
        decided.went_back()
        decide(decided, note(2, 2))
        await looked(bolt, decided)
        await feed(bolt, [tuple_of(1, others=[2])])
        assert numbers_stored(tmp_path) == [1]
        say_done(tmp_path, 1)
        for newest in (2, 2, 2):
            decide(decided, note(newest))
        await becomes(lambda: not segments_of(tmp_path))


async def test_an_input_that_came_before_a_going_back_counts_as_of_then_though_it_is_written_after_it_D4(
    tmp_path: Path,
) -> None:
    decided, may_write = Decided(), threading.Event()
    async with opened(tmp_path, decided=decided) as bolt:
        write = bolt._segments.write

        def late(tuples: Any) -> Any:
            assert may_write.wait(10)
            return write(tuples)

        bolt._segments.write = late
        before = asyncio.ensure_future(feed(bolt, [tuple_of(8)]))
        await becomes(lambda: not bolt.waiting and not bolt._idle.is_set())  # its segment is being written
        takes = asyncio.ensure_future(feed(bolt, [tuple_of(1)]))
        await becomes(lambda: bool(bolt.waiting == 1))
        decided.went_back()
        decide(decided, note(2, 2))
        may_write.set()
        await before
        await takes
        decide(decided, note(2, 2))
        await looked(bolt, decided)
        await feed(bolt, [tuple_of(1, others=[2])])
        assert numbers_stored(tmp_path) == [8, 1]


async def test_an_input_of_several_messages_is_kept_until_all_are_done_D15(tmp_path: Path) -> None:
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        await feed(bolt, [tuple_of(1, others=[9]), tuple_of(2)])
        say_done(tmp_path, 1)
        decide(decided, note(9, 9))
        await looked(bolt, decided)
        assert len(bolt._segments.remembered) == 2
        decide(decided, note(10))
        await becomes(lambda: not segments_of(tmp_path))


async def looked(bolt: Any, decided: Decided) -> None:
    """Returns once all was looked at after the last decision."""
    await becomes(lambda: all(one.looked == decided.version for one in [*bolt._segments.remembered._filed]))


async def test_a_dead_message_is_remembered_until_it_cannot_be_replayed_by_hand_E1(tmp_path: Path) -> None:
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        await feed(bolt, [tuple_of(1)])
        say_done(tmp_path, 1)
        decide(decided, note(5, 1))
        await looked(bolt, decided)
        await feed(bolt, [tuple_of(1, 6)])
        assert numbers_stored(tmp_path) == [1]
        decide(decided, note(6))
        await becomes(lambda: not segments_of(tmp_path))


async def test_what_an_earlier_process_had_given_is_kept_until_it_has_come_again_D4(tmp_path: Path) -> None:
    await handed_over(tmp_path, [1, 2])
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        say_done(tmp_path, 2)
        decide(decided, note(8, life=2))
        await looked(bolt, decided)
        out = await feed(bolt, [tuple_of(1, 9, life=2), tuple_of(2, 10, life=2)])
        assert len(out.acked) == bolt.duplicates == 2
        decide(decided, note(9, life=2))
        await looked(bolt, decided)
        assert len(bolt._segments.remembered) == 2, "both are in one segment"
        decide(decided, note(10, life=2))
        await becomes(lambda: not segments_of(tmp_path))


async def test_an_input_that_comes_again_under_another_number_is_done_with_that_D4(tmp_path: Path) -> None:
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        await feed(bolt, [tuple_of(1)])
        await feed(bolt, [tuple_of(1, 7)])
        say_done(tmp_path, 1)
        decide(decided, note(6))
        await looked(bolt, decided)
        assert len(bolt._segments.remembered) == 1
        decide(decided, note(7))
        await becomes(lambda: not segments_of(tmp_path))


async def test_an_input_that_comes_twice_within_a_batch_is_done_with_the_second_D4(tmp_path: Path) -> None:
    """The first one was waiting when a worker died."""
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        await feed(bolt, [tuple_of(1, life=1), tuple_of(1, 7, life=2)])
        assert (bolt.stored, bolt.duplicates) == (1, 1)
        say_done(tmp_path, 1)
        decide(decided, note(6, life=2))
        await looked(bolt, decided)
        assert len(bolt._segments.remembered) == 1
        decide(decided, note(7, life=2))
        await becomes(lambda: not segments_of(tmp_path))


async def test_what_was_handed_over_after_the_worker_had_gathered_stays_until_the_next_decision_P4(
    tmp_path: Path,
) -> None:
    decided = Decided()
    decided.gathered = 1
    async with opened(tmp_path, decided=decided) as bolt:
        await feed(bolt, [tuple_of(1)])
        decided.gathered = 0
        decide(decided, note(1))
        await looked(bolt, decided)
        assert len(bolt._segments.remembered) == 1
        decide(decided, note(1))
        await becomes(lambda: not len(bolt._segments.remembered))


async def test_numbers_go_on_where_they_were_though_all_segments_are_gone(tmp_path: Path) -> None:
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        await feed(bolt, [tuple_of(1)])
        await feed(bolt, [tuple_of(2)])
        say_done(tmp_path, 2)
        decide(decided, note(2))
        await becomes(lambda: not segments_of(tmp_path))
    await handed_over(tmp_path, [3])
    assert [path.name for path in segments_of(tmp_path)] == ["seg-000000000002.arrow"]


async def test_folders_of_tasks_that_are_no_more_are_cleared_by_those_there_are(tmp_path: Path) -> None:
    await handed_over(tmp_path, range(40), 4)
    for task in range(4):
        say_done(tmp_path, 100, task)
    decided = Decided()
    async with opened(tmp_path, 0, 2, decided) as first, opened(tmp_path, 1, 2, decided) as second:
        for bolt in (first, second):
            await feed(bolt, [tuple_of(number, life=2) for number in range(40)])
        say_done(tmp_path, 200, 0)
        say_done(tmp_path, 200, 1)
        decide(decided, note(40, life=2))
        await becomes(lambda: not segments_of(tmp_path))


async def test_what_is_done_and_unread_is_not_remembered_by_the_next_run(tmp_path: Path) -> None:
    """A backlog that Spark has to read costs no memory. What is decided last is forgotten when the bolt closes."""
    decided = Decided()
    async with opened(tmp_path, decided=decided) as bolt:
        await feed(bolt, map(tuple_of, range(1, 101)))
        decide(decided, note(100))
    there = len(segments_of(tmp_path))
    assert there == own(tmp_path).kept().over
    async with opened(tmp_path) as bolt:
        assert len(bolt._segments.remembered) == 0
        say_done(tmp_path, there)
        await becomes(lambda: not segments_of(tmp_path))


async def test_of_what_earlier_processes_have_left_the_newest_is_remembered_and_the_rest_is_told_K576(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1, 6):
        await handed_over(tmp_path, [number])
    monkeypatch.setattr(store, "EARLIER_MAX", 3)
    async with opened(tmp_path) as bolt:
        out = await feed(bolt, [tuple_of(number, life=2) for number in (3, 4, 5)])
        assert len(out.acked) == bolt.duplicates == 3
        assert "2 outputs of earlier processes" in caplog.text
        assert caplog.text.count("K576") == 1
        assert any(line.startswith("2 of earlier processes") for line in bolt.summary())
        say_done(tmp_path, 5)
        await becomes(lambda: len(segments_of(tmp_path)) == 3)
        assert numbers_stored(tmp_path) == [3, 4, 5]


async def test_segments_of_an_earlier_version_are_read_which_had_a_column_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Segments.write

    def as_before(self: Segments, number: int, batch: pa.RecordBatch) -> None:
        messages = pa.array([[1]] * batch.num_rows, pa.list_(pa.uint64()))
        field = pa.field("_message", messages.type, nullable=False)
        arrays = [*batch.columns, messages]
        write(self, number, pa.RecordBatch.from_arrays(arrays, schema=batch.schema.append(field)))

    with monkeypatch.context() as earlier:
        earlier.setattr(Segments, "write", as_before)
        await handed_over(tmp_path, [1, 2])
    told = await handed_over(tmp_path, [1, 2, 3])
    assert len(told.acked) == 3
    assert numbers_stored(tmp_path) == [1, 2, 3]
