"""Messages as Spark reads them for a topology that is on it: rows in their order, so many bytes at a time."""

from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from spark_kit import needs_spark

from bridge.engine.rows import SCHEMA, EngineRow, rows_of, unsigned
from bridge.files.query import QueryFolder
from bridge.files.segments import Segments

pytestmark = needs_spark


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    """Three of them, of two records each."""
    one = Segments(QueryFolder(tmp_path).input("numbers.Numbered") / "0")
    one.folder.mkdir(parents=True)
    (one.folder.parent / "tasks").write_text("1")
    for number in range(3):
        contents = pa.array([bytes([number, row]) for row in range(2)], pa.binary())
        ids = pa.array([pack(">QQ", 2**64 - 1 - number, row) for row in range(2)], pa.binary(16))
        one.write(number, pa.RecordBatch.from_arrays([contents, ids], names=["record", "_id"]))
    return one


def reader(folder: Path) -> Any:
    from bridge.engine.source import MessageReader

    options = {"folder": str(folder), "input": "numbers.Numbered", "begin": "{}", "life": "first"}
    return MessageReader({**options, "parts": "2", "number": "4", "among": "no"}, SCHEMA.names)


def offset(one: Any, start: Any) -> Any:
    return one.latestOffset(start, one.getDefaultReadLimit())


def read(one: Any, start: Any, end: Any) -> list[EngineRow]:
    return [row for part in one.partitions(start, end) for batch in one.read(part) for row in rows_of(batch)]


def test_rows_stand_in_the_order_in_which_they_were_handed_over(segments: Segments, tmp_path: Path) -> None:
    one = reader(tmp_path)
    start = one.initialOffset()
    rows = sorted(read(one, start, offset(one, start)), key=lambda row: row.position)
    assert [row.record for row in rows] == [bytes([number, row]) for number in range(3) for row in range(2)]
    assert [unsigned(row.origin) for row in rows] == [2**64 - 1 - number for number in (0, 0, 1, 1, 2, 2)]
    assert {row.to for row in rows} == {4}


def test_a_batch_has_so_many_bytes_and_a_segment_at_least(
    segments: Segments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.engine.source.BATCH_BYTES", 1)
    segments.end(3)
    one = reader(tmp_path)
    reached = [one.initialOffset()]
    while (end := offset(one, reached[-1])) != reached[-1]:
        reached.append(end)
    assert [end["next"].get("0", 0) for end in reached] == [0, 1, 2, 3]
    assert [end["ended"] for end in reached] == ["", "", "", "first"]


def test_available_now_ends_where_it_began_to_look_though_more_comes_and_the_first_are_gone(
    segments: Segments, tmp_path: Path
) -> None:
    (segments.folder / "done").write_bytes(b"1")
    segments.remove([0])
    one = reader(tmp_path)
    one.prepareForTriggerAvailableNow()
    contents, ids = pa.array([b"late"], pa.binary()), pa.array([bytes(16)], pa.binary(16))
    segments.write(3, pa.RecordBatch.from_arrays([contents, ids], names=["record", "_id"]))
    end = offset(one, {"input": "numbers.Numbered", "next": {"0": 1}, "ended": ""})
    assert end["next"] == {"0": 3}
    assert offset(one, end) == end
