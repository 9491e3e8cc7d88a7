"""The wait of `--trigger available-now` for all that is handed over. Without Spark."""

from pathlib import Path

import pyarrow as pa
import pytest

from bridge.engine.run import EndWait
from bridge.files.input import StreamInput
from bridge.files.segments import Segments

COUNT = 50
ROW = pa.RecordBatch.from_arrays([pa.array([1])], names=["number"])


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    """Fifty, and no end yet."""
    one = Segments(tmp_path / "numbers" / "0")
    one.folder.mkdir(parents=True)
    (one.folder.parent / "tasks").write_text("1")
    for number in range(COUNT):
        one.write(number, ROW)
    return one


def test_a_look_asks_for_what_may_have_come_since_and_for_no_segment_that_it_has_seen(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = EndWait([StreamInput(segments.folder.parent)])
    assert not waiting.over()
    asked: list[int] = []
    path = Segments.path

    def counting(one: Segments, number: int) -> Path:
        asked.append(number)
        return path(one, number)

    monkeypatch.setattr(Segments, "path", counting)
    assert not waiting.over()
    assert {*asked} == {COUNT}
    segments.write(COUNT, ROW)
    segments.end(COUNT + 1)
    asked.clear()
    assert waiting.over()
    assert {*asked} == {COUNT, COUNT + 1}


def test_it_is_over_where_the_first_segments_are_gone_and_not_while_an_input_goes_on(segments: Segments) -> None:
    stream, other = StreamInput(segments.folder.parent), StreamInput(segments.folder.parents[1] / "others")
    stream.say_done({"0": 5})
    segments.remove(range(5))
    segments.end(COUNT)
    assert EndWait([stream]).over()
    waiting = EndWait([stream, other])
    assert not waiting.over(), "nobody has begun to hand that over"
    (other.folder / "0").mkdir(parents=True)
    (other.folder / "tasks").write_text("1")
    assert not waiting.over()
    other.of("0").end(0)
    assert waiting.over()
    segments.write(COUNT, ROW)
    assert not waiting.over(), "it goes on"
