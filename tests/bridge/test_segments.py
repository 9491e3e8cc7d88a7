"""The log of a hand-over: a segment is durable before it has its name; one that is not whole is told by its file."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bolts.sinks.contract import SinkStoreBroken, StoreAway
from topology.codes.settings import DAMAGED_SPARK_HANDOVER, SPARK_DIR_UNUSABLE
from topology.errors import ConfigurationError

pa = pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import batch_of  # noqa: E402 - needs pyarrow

import bridge.files.segments  # noqa: E402
from bridge.files.segments import SegmentBounds, Segments, read_segment, sealed  # noqa: E402


@pytest.fixture
def segments(tmp_path: Path) -> Any:
    made = Segments(tmp_path / "q" / "stream" / "items" / "0")
    made.open()
    yield made
    made.close()


def test_what_was_written_is_read_again(segments: Segments) -> None:
    segments.write(0, batch_of(1, 2))
    segments.write(1, batch_of(3))
    assert [segments.read(number).to_pydict() for number in (0, 1)] == [{"number": [1, 2]}, {"number": [3]}]
    assert segments.numbers() == [0, 1]
    assert segments.path(1).name == "seg-000000000001.arrow"


def test_a_segment_is_an_arrow_file_that_others_can_read(segments: Segments) -> None:
    segments.write(0, batch_of(1, 2))
    with pa.memory_map(os.fspath(segments.path(0))) as file:
        assert pa.ipc.open_file(file).read_all().to_pydict() == {"number": [1, 2]}


def test_a_reader_looks_for_the_next_number_alone(segments: Segments) -> None:
    for number in range(3):
        segments.write(number, batch_of(number))
    reader = Segments(segments.folder)
    assert (reader.following(0), reader.following(2), reader.following(3)) == (3, 3, 3)
    assert reader.has(2)
    assert not reader.has(3)


def test_a_segment_is_synced_before_it_has_its_name_and_its_folder_after_C11(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    real_file, real_folder = bridge.files.segments.sync_file, bridge.files.segments.sync_folder

    def sync_file(fd: int) -> None:
        told.append(f"file, named: {segments.has(0)}, {os.fstat(fd).st_size > 0}")
        real_file(fd)

    def sync_folder(path: Path) -> None:
        told.append(f"folder, named: {segments.has(0)}, {path == segments.folder}")
        real_folder(path)

    monkeypatch.setattr(bridge.files.segments, "sync_file", sync_file)
    monkeypatch.setattr(bridge.files.segments, "sync_folder", sync_folder)
    segments.write(0, batch_of(1))
    assert told == ["file, named: False, True", "folder, named: True, True"]


# -- damage


WHOLE = bytes(sealed(batch_of(*range(50))))


@pytest.mark.parametrize("length", [0, 1, 8, 300, len(WHOLE) // 2, len(WHOLE) - 300, len(WHOLE) - 11, len(WHOLE) - 1])
def test_a_segment_that_is_cut_is_told_by_its_file(length: int, tmp_path: Path) -> None:
    path = tmp_path / "seg-000000000000.arrow"
    path.write_bytes(WHOLE[:length])
    with pytest.raises(
        ConfigurationError, match=r"seg-000000000000\.arrow (is empty|is truncated|was not written|does not match)"
    ):
        read_segment(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, len(WHOLE) - 1), bits=st.integers(1, 255))
def test_a_changed_byte_anywhere_in_a_segment_is_noticed(place: int, bits: int, tmp_path: Path) -> None:
    path = tmp_path / "seg-000000000000.arrow"
    changed = bytearray(WHOLE)
    changed[place] ^= bits
    path.write_bytes(changed)
    with pytest.raises(ConfigurationError, match=r"seg-000000000000\.arrow"):
        read_segment(path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=2_000))
def test_garbage_is_no_segment(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "seg-000000000000.arrow"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"seg-000000000000\.arrow"):
        read_segment(path)


def test_an_arrow_file_of_somebody_else_is_no_segment(tmp_path: Path) -> None:
    path = tmp_path / "seg-000000000000.arrow"
    with pa.ipc.new_file(path, batch_of(1).schema) as writer:
        writer.write_batch(batch_of(1))
    with pytest.raises(ConfigurationError, match="was not written by Kedge"):
        read_segment(path)


def test_a_gap_is_told_by_the_missing_file(segments: Segments) -> None:
    for number in range(4):
        segments.write(number, batch_of(number))
    segments.path(2).unlink()
    with pytest.raises(ConfigurationError, match=r"seg-000000000002\.arrow is missing"):
        segments.checked_numbers(SegmentBounds())


def test_what_readers_have_passed_may_be_missing_and_numbers_go_on_behind_it(segments: Segments) -> None:
    for number in range(4):
        segments.write(number, batch_of(number))
    segments.remove([0, 2])
    assert segments.checked_numbers(SegmentBounds(read=3)) == ([1, 3], 4)
    segments.remove([1, 3])
    assert segments.checked_numbers(SegmentBounds(over=4, read=4)) == ([], 4)
    (segments.folder / "done").write_text("4")
    assert segments.checked_numbers(SegmentBounds()) == ([], 4), "also where only the readers' word has lasted"


def test_other_files_in_the_folder_are_left_alone(segments: Segments) -> None:
    for name in ("notes.txt", "seg-1.arrow", "seg-000000000000.arrow.bak"):
        (segments.folder / name).write_text("?")
    segments.write(0, batch_of(1))
    assert segments.checked_numbers(SegmentBounds()) == ([0], 1)


def test_what_a_death_has_left_half_written_goes_when_the_folder_is_opened_F1(segments: Segments) -> None:
    half = segments.folder / ".tmp-7"
    half.write_bytes(WHOLE[:100])
    segments.close()
    segments.open()
    assert not half.exists()


# -- trouble


def test_a_folder_that_is_away_is_asked_again_and_leaves_nothing_behind(segments: Segments) -> None:
    aside = segments.folder.rename(segments.folder.with_name("aside"))
    with pytest.raises(StoreAway, match="can't be written: No such file or directory"):
        segments.write(0, batch_of(1))
    aside.rename(segments.folder)
    segments.write(0, batch_of(1))
    assert segments.read(0).num_rows == 1


def test_a_name_that_is_taken_is_never_written_over(segments: Segments) -> None:
    """Only a process that should be dead could have written it, or this is one."""
    segments.write(0, batch_of(1))
    with pytest.raises(SinkStoreBroken, match="already exists"):
        segments.write(0, batch_of(2))
    assert segments.read(0).to_pydict() == {"number": [1]}


@pytest.mark.parametrize("name", ["sync_file", "sync_folder"])
def test_a_failed_sync_is_a_broken_store_F18(name: str, segments: Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(bridge.files.segments, name, fails)
    with pytest.raises(SinkStoreBroken, match="could not be synced: Input/output error"):
        segments.write(0, batch_of(1))


def test_a_disk_that_says_only_at_the_sync_that_it_is_full_is_asked_again_F16(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(bridge.files.segments, "sync_file", fails)
        with pytest.raises(StoreAway, match="No space left on device"):
            segments.write(0, batch_of(1))
    assert not segments.has(0)
    assert not list(segments.folder.glob(".tmp-*"))
    segments.write(0, batch_of(1))


def test_a_folder_has_one_writer(segments: Segments) -> None:
    with pytest.raises(ConfigurationError, match="is being written by another sink or process"):
        Segments(segments.folder).open()


# -- the end, and what is kept


def test_the_end_holds_until_there_is_more(segments: Segments) -> None:
    segments.write(0, batch_of(1))
    segments.end(1)
    assert segments.has_ended(1)
    assert not segments.has_ended(0)
    segments.write(1, batch_of(2))
    assert not segments.has_ended(1)
    segments.end(2)
    assert segments.has_ended(2)
    segments.goes_on()
    assert not segments.has_ended(2)


def test_what_is_noted_is_read_again(segments: Segments) -> None:
    assert segments.kept() == SegmentBounds()
    kept = SegmentBounds(12, 10)
    segments.keep(kept)
    assert segments.kept() == kept


def test_floors_in_a_note_of_an_earlier_version_mean_nothing(segments: Segments) -> None:
    (segments.folder / "kept").write_text("over 12\nread 10\nfloor 00ff\nfloor 01\n", "ascii")
    assert segments.kept() == SegmentBounds(12, 10)


@pytest.mark.parametrize("content", [b"", b"over 1\n", b"over x\nread 1\n", b"over 1\nread\n", b"\xff\n\xff"])
def test_a_note_that_is_damaged_is_told_by_its_file(content: bytes, segments: Segments) -> None:
    (segments.folder / "kept").write_bytes(content)
    with pytest.raises(ConfigurationError, match="kept can't be read"):
        segments.kept()


@pytest.mark.parametrize(("content", "done"), [(b"7", 7), (b"", 0), (b"seven", 0), (None, 0)])
def test_readers_that_have_said_nothing_have_passed_nothing(
    content: bytes | None, done: int, segments: Segments
) -> None:
    if content is not None:
        (segments.folder / "done").write_bytes(content)
    assert segments.done() == done


def test_a_disk_that_is_read_only_is_away_though_nothing_can_be_removed_there(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F19: as Linux has it, which refuses to remove even what is not there."""
    refused = OSError(errno.EROFS, os.strerror(errno.EROFS))

    def raising(*_: object, **__: object) -> None:
        raise refused

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", raising)
        patched.setattr(os, "unlink", raising)
        with pytest.raises(StoreAway, match="can't be written: Read-only file system"):
            segments.write(0, batch_of(1))
    segments.write(0, batch_of(1))
    assert segments.numbers() == [0]


def test_a_segment_that_may_not_be_read_is_told_with_other_advice_than_one_that_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigurationError, match=r"folder can't be read \(.*Is a directory") as caught:
        read_segment(tmp_path / "folder")
    assert caught.value.code is DAMAGED_SPARK_HANDOVER

    def refused(path: Path, mode: str) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(bridge.files.segments, "open", refused, raising=False)  # root may read all
    with pytest.raises(ConfigurationError, match="segment can't be read: Permission denied") as caught:
        read_segment(tmp_path / "segment")
    assert caught.value.code is SPARK_DIR_UNUSABLE
