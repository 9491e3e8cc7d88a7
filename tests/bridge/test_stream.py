"""What readers see of the segments of one input: `StreamInput`, over files that the hand-over's own log has written."""

import os
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from spark_kit import HandedOver

from bridge.files.input import StreamInput
from topology import Record


class Numbered(Record):
    number: int


@pytest.fixture
def given(tmp_path: Path) -> HandedOver:
    return HandedOver(tmp_path, "numbers", tasks=2)


def put_at(given: HandedOver, task: int, second: int) -> None:
    """A segment that was written then."""
    number = given.next[task]
    given.put([Numbered(second)], task=task)
    os.utime(given.folder / str(task) / f"seg-{number:012}.arrow", (second, second))


def test_of_a_backlog_what_was_written_first_is_read_first_whichever_task_wrote_it(given: HandedOver) -> None:
    """D16: one task's segments before another's would make these late."""
    for second in range(0, 40, 4):
        put_at(given, 0, second)
    for second in range(1, 10):
        put_at(given, 1, second)
    stream = StreamInput(given.folder)
    assert stream.reached({}, most=5) == {"0": 2, "1": 3}
    assert stream.reached({"0": 2, "1": 3}, most=5) == {"0": 3, "1": 7}
    assert stream.reached({"0": 3, "1": 7}) == {"0": 10, "1": 9}


def test_nothing_is_read_beyond_where_the_end_is_settled(given: HandedOver) -> None:
    for second in range(5):
        put_at(given, 0, second)
    stream = StreamInput(given.folder)
    assert stream.reached({"0": 1}, until={"0": 3, "1": 0}) == {"0": 3, "1": 0}
    assert stream.goes_on({"0": 3})
    assert not stream.goes_on({"0": 5, "1": 0})


def test_it_has_ended_once_each_task_of_the_present_run_has_said_so_and_not_where_one_goes_on(
    given: HandedOver,
) -> None:
    stream = StreamInput(given.folder)
    put_at(given, 1, 0)
    assert not stream.ended(stream.reached({}))
    given.end()
    ends = stream.reached({})
    assert stream.ended(ends)
    assert stream.is_at(ends)
    put_at(given, 1, 1)
    assert not stream.is_at(ends)
    given.begin()
    assert not stream.ended(stream.reached({}))


def test_a_run_with_fewer_tasks_ends_without_those_that_are_gone(given: HandedOver) -> None:
    stream = StreamInput(given.folder)
    put_at(given, 1, 0)
    (given.folder / "tasks").write_text("1")
    del given.next[1]
    given.end()
    assert stream.reached({}) == {"0": 0, "1": 1}
    assert stream.ended(stream.reached({}))


def test_nothing_that_was_never_handed_over_has_ended(tmp_path: Path) -> None:
    stream = StreamInput(tmp_path / "none")
    assert stream.reached({}) == {}
    assert not stream.ended({})
    assert not stream.goes_on({})
