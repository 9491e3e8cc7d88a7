"""The hand-over: when it acks, what it drops, what it forgets and removes, and what it says at the end."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import (
    WITHIN_S,
    becomes,
    handed_over,
    input_folder,
    numbers_stored,
    opened,
    own,
    say_done,
    segments_of,
    stored,
    task_of,
    tuple_of,
)

import bridge.files.segments
from bridge.engine.handover import HandOverBytes
from bridge.handover.bolt import HandOver
from topology.errors import ConfigurationError
from topology.records import Record
from topology.testing.sinks.driver import RecordedAnswers, SinkItem, feed, give

# -- acks


async def test_a_record_is_acked_only_when_its_file_has_its_name_and_both_are_synced_C11(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def spied(name: str, real: Callable[[Any], None]) -> Callable[[Any], None]:
        def call(what: Any) -> None:
            real(what)
            told.append(name)

        return call

    async with opened(tmp_path) as bolt:
        for name in ("sync_file", "sync_folder"):
            monkeypatch.setattr(bridge.files.segments, name, spied(name, getattr(bridge.files.segments, name)))
        await give(bolt, [tuple_of(1)], RecordedAnswers(lambda tup: told.append(f"ack, {numbers_stored(tmp_path)}")))
        await becomes(lambda: len(told) == 3)
    assert told[:3] == ["sync_file", "sync_folder", "ack, [1]"]


async def test_a_segment_has_the_identities_of_its_records_C7(tmp_path: Path) -> None:
    several = tuple_of(2, others=(7,))
    async with opened(tmp_path) as bolt:
        await feed(bolt, [tuple_of(1), several])
    rows = stored(tmp_path)
    assert [row["_id"] for row in rows] == [
        tup.origin.to_bytes(8, "big") + tup.identity.to_bytes(8, "big") for tup in (tuple_of(1), several)
    ]


async def test_a_record_that_has_no_place_fails_alone_with_class_and_field_C9_F46(tmp_path: Path) -> None:
    bad = [SinkItem(2**63, 1, "", 0.0), SinkItem(2**64, 1, "", 0.0), SinkItem(3, 1, "\udc80", 0.0)]
    async with opened(tmp_path) as bolt:
        out = await feed(
            bolt, [tuple_of(1), *(tuple_of(100 + at, record=one) for at, one in enumerate(bad)), tuple_of(2)]
        )
    assert [why for _, why in out.failed] == [
        "SinkItem.number: 9223372036854775808 does not fit in 64 bits",
        "SinkItem.number: 18446744073709551616 does not fit in 64 bits",
        "SinkItem.text: '\\udc80' has a lone surrogate, which is no character",
    ]
    assert numbers_stored(tmp_path) == [1, 2]


async def test_what_is_in_a_batch_twice_and_has_no_place_fails_twice_and_is_not_acked_F46(tmp_path: Path) -> None:
    """As two attempts of one message are, where the first was given up while the disk was full."""
    bad = SinkItem(2**63, 1, "", 0.0)
    async with opened(tmp_path, batch=4, within_ms=1_000) as bolt:
        out = await feed(bolt, [tuple_of(1), tuple_of(7, record=bad), tuple_of(7, record=bad), tuple_of(1)])
        assert (bolt.stored, bolt.duplicates, bolt.refused) == (1, 1, 2)
    assert [tup.record.number for tup, _ in out.failed] == [2**63] * 2
    assert len({why for _, why in out.failed}) == 1
    assert out.numbers == [1, 1]
    assert numbers_stored(tmp_path) == [1]


async def test_a_record_without_a_byte_form_fails_alone_where_records_stay_bytes_C9_F46(tmp_path: Path) -> None:
    bolt = HandOverBytes(SinkItem, "items")
    await bolt.open(task_of(tmp_path))
    try:
        tuples = [tuple_of(1), tuple_of(2, record=SinkItem(2, 1, "\udc80", 0.0)), tuple_of(3)]
        out = await feed(bolt, tuples)
    finally:
        await bolt.close()
    assert [tup.record.number for tup, _ in out.failed] == [2]
    assert out.failed[0][1].startswith("a SinkItem can't be encoded: ")
    assert out.numbers == [1, 3]


async def test_a_record_of_another_class_fails_with_both_names(tmp_path: Path) -> None:
    class Other(Record):
        number: int

    async with opened(tmp_path) as bolt:
        out = await feed(bolt, [tuple_of(1, record=Other(1)), tuple_of(2)])
    assert [why for _, why in out.failed] == ["received a Other; only SinkItem is handed over here"]
    assert numbers_stored(tmp_path) == [2]


async def test_big_records_become_segments_of_a_bounded_size(tmp_path: Path) -> None:
    big = [tuple_of(number, record=SinkItem(number, 1, "x" * 6_000_000, 0.0)) for number in range(6)]
    async with opened(tmp_path) as bolt:
        await feed(bolt, big)
    assert numbers_stored(tmp_path) == list(range(6))
    assert max(path.stat().st_size for path in segments_of(tmp_path)) < 17 * 2**20


def test_a_class_without_columns_is_refused_when_it_is_declared() -> None:
    class Either(Record):
        value: int | str

    with pytest.raises(ConfigurationError, match=r"Either\.value: .* several types"):
        HandOver(Either, "q", "items")


# -- replays


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 1), (3, 2), (2, 5)])
async def test_a_replay_after_a_restart_with_another_number_of_tasks_is_dropped_C4(
    before: int, after: int, tmp_path: Path
) -> None:
    await handed_over(tmp_path, range(100), before)
    out = await handed_over(tmp_path, range(50, 150), after)
    assert len(out.acked) == 100
    assert sorted(numbers_stored(tmp_path)) == list(range(150))


async def test_readers_are_told_how_many_tasks_there_are_now(tmp_path: Path) -> None:
    for tasks in (3, 2):
        await handed_over(tmp_path, range(3), tasks)
        assert (input_folder(tmp_path) / "tasks").read_text() == str(tasks)


async def test_a_segment_of_another_version_of_the_class_that_nobody_has_read_is_refused(tmp_path: Path) -> None:
    await handed_over(tmp_path, [1])

    class Changed(Record):
        number: int
        text: bytes
        more: int

    bolt = HandOver(Changed, "q", "items")
    with pytest.raises(
        ConfigurationError,
        match="another version of Changed: 'more' is new, 'revision' is gone, 'value' is gone, 'text' was string",
    ):
        await bolt.open(task_of(tmp_path))
    await bolt.close()
    say_done(tmp_path, 1)
    await bolt.open(task_of(tmp_path))
    await bolt.close()


@pytest.mark.parametrize("what", ["gap", "cut"])
async def test_a_damaged_folder_is_told_at_the_start_by_its_file(what: str, tmp_path: Path) -> None:
    for number in range(3):
        await handed_over(tmp_path, [number])
    victim = segments_of(tmp_path)[1]
    if what == "gap":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:500])
    with pytest.raises(ConfigurationError, match=r"seg-000000000001\.arrow is (missing|truncated)"):
        await handed_over(tmp_path, [3])


async def test_a_folder_that_cannot_be_made_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "spark").write_text("a file is in its place")
    with pytest.raises(ConfigurationError, match=r"can't be written: Not a directory"):
        await handed_over(tmp_path, [1])


# -- the end


async def test_flush_says_where_the_end_is_once_all_is_durable(tmp_path: Path) -> None:
    async with opened(tmp_path) as bolt:
        await give(bolt, map(tuple_of, range(25)), out := RecordedAnswers())
        await bolt.flush(out)
        assert own(tmp_path).has_ended(own(tmp_path).following(0))
        assert sorted(numbers_stored(tmp_path)) == list(range(25))
        assert len(out.acked) == 25


async def test_a_task_without_records_says_its_end_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as bolt:
        await bolt.flush(RecordedAnswers())
    assert own(tmp_path).has_ended(0)


async def test_a_run_that_goes_on_takes_the_end_back_and_says_another_one(tmp_path: Path) -> None:
    await handed_over(tmp_path, [1])
    async with opened(tmp_path) as bolt:
        assert not own(tmp_path).has_ended(1)
        await feed(bolt, [tuple_of(2)])
        assert own(tmp_path).has_ended(2)
        await feed(bolt, [tuple_of(3)])
        assert own(tmp_path).has_ended(3), "a replay had brought it something after its flush"
        assert not own(tmp_path).has_ended(2)


async def test_the_end_is_said_when_a_store_that_was_away_is_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as bolt:
        aside = input_folder(tmp_path).rename(tmp_path / "aside")
        await give(bolt, [tuple_of(1)], out := RecordedAnswers())
        await becomes(lambda: bool(bolt.away))
        await bolt.flush(out)
        assert not out.acked
        aside.rename(input_folder(tmp_path))
        await becomes(lambda: own(tmp_path).has_ended(1))
        assert len(out.acked) == 1


async def test_the_summary_says_how_many_were_handed_over(tmp_path: Path) -> None:
    async with opened(tmp_path) as bolt:
        await feed(bolt, [tuple_of(1), tuple_of(2), tuple_of(1)])
        assert list(bolt.summary()) == ["2 of 'items' handed over to 'q', 1 known already"]


async def test_records_that_came_during_a_write_wait_for_no_more_where_the_sources_wait_for_them(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, batch=5_000, within_ms=60_000) as bolt:
        written, goes_on, out = bolt._store.write, threading.Event(), RecordedAnswers()

        def held(tuples: Sequence[Any]) -> Any:
            goes_on.wait(WITHIN_S)
            return written(tuples)

        bolt._store.write = held
        await give(bolt, [tuple_of(1)], out)
        await becomes(lambda: not bolt.waiting)
        await give(bolt, map(tuple_of, range(2, 702)), out)
        goes_on.set()
        await becomes(lambda: len(out.acked) == 701)
    assert len(segments_of(tmp_path)) == 2
