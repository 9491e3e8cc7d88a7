"""Whether a query's checkpoint, its results and what was handed over belong together: folders as they are left by
drivers, with files that somebody has deleted. Without Spark."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from spark_kit import HandedOver

from bridge.files.consistency import ADVICE, disagreement, missing_epoch
from bridge.files.query import Epoch, QueryFolder, place
from topology import Record


class Numbered(Record):
    number: int


class Left:
    """A query that has begun batch 1, which is the second: three segments of task 0, and one of task 1."""

    def __init__(self, folder: Path, epoch: Epoch) -> None:
        self.folder, self.epoch = QueryFolder(folder), epoch
        self.input = HandedOver(folder, "numbers", tasks=2)
        for task in (0, 0, 0, 1):
            self.input.put([Numbered(1)], task)
        self.checkpoint = self.folder.checkpoint(epoch)
        self.offset(0, {"0": 2})
        self.offset(1, {"0": 3, "1": 1})
        self.done(0, 2)

    def offset(self, batch: int, numbers: dict[str, int]) -> None:
        line = json.dumps({"input": "numbers", "next": numbers, "ended": ""})
        place(self.checkpoint / "offsets" / str(batch), f'v1\n{{"batchWatermarkMs":0}}\n{line}'.encode())

    def done(self, task: int, number: int) -> None:
        place(self.input.folder / str(task) / "done", str(number).encode())

    def says(self) -> str:
        return disagreement(self.folder, self.epoch, ["numbers"])


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path / "query", Epoch())


def test_what_is_done_may_be_gone_and_so_may_what_a_note_that_is_durable_says(left: Left) -> None:
    assert left.says() == ""
    for number in (0, 1):
        left.input.forget(0, number)
    assert left.says() == ""
    (left.input.folder / "0" / "done").unlink()  # it is not synced: a loss of power takes it away
    (left.input.folder / "0" / "kept").write_text("over 2\nread 2\n")
    assert left.says() == ""


def test_a_segment_that_is_missing_is_named_though_the_hand_over_has_begun_anew(left: Left) -> None:
    left.input.forget(0, 2)
    assert left.says() == (
        f"{left.input.folder / '0' / 'seg-000000000002.arrow'} is missing, but the checkpoint has read it or is about "
        f"to: {ADVICE}"
    )


def test_a_checkpoint_that_is_gone_is_told_by_what_was_done_and_by_results_that_are_there(left: Left) -> None:
    for batch in (0, 1):
        (left.checkpoint / "offsets" / str(batch)).unlink()
    assert left.says() == f"{left.checkpoint} is empty, although segments of 'numbers' were read: {ADVICE}"
    left.done(0, 0)
    assert left.says() == ""
    place(left.folder.batch(0), b"rows")
    assert left.says() == f"{left.checkpoint} is empty, although there are results of it: {ADVICE}"


def test_an_epoch_that_has_just_begun_lacks_nothing(tmp_path: Path) -> None:
    """What is done is of the one before, and so are the results."""
    left = Left(tmp_path / "query", Epoch())
    place(left.folder.batch(1), b"rows")
    left.done(0, 3)
    left.done(1, 1)
    left.epoch = Epoch(1, base=2, begin={"numbers": {"0": 3, "1": 1}})
    assert left.says() == ""


def test_a_query_that_has_never_begun_lacks_nothing(tmp_path: Path) -> None:
    assert disagreement(QueryFolder(tmp_path / "none"), Epoch(), ["numbers"]) == ""


def test_a_query_whose_epoch_is_gone_is_not_begun_anew_where_anything_has_come_of_it(left: Left) -> None:
    """Its batches would be numbered from 0 again, and what has a number that was there is dropped."""
    epoch = left.folder.folder / "epoch"
    first = left.checkpoint / "offsets" / "0"
    assert missing_epoch(left.folder).startswith(
        f"{epoch} is missing, although the query has left files, such as {first.parent}"
    )
    left.folder.begin(Epoch(0))
    assert missing_epoch(left.folder) == ""
    epoch.unlink()
    for batch in (0, 1):
        (left.checkpoint / "offsets" / str(batch)).unlink()
    assert missing_epoch(left.folder) == "", "it had not begun a batch"
    place(left.folder.batch(3), b"rows")
    assert missing_epoch(left.folder).endswith(f"{left.folder.batch(3)}: {ADVICE}")


def test_checkpoints_of_earlier_epochs_go_and_nothing_else(tmp_path: Path) -> None:
    folder = QueryFolder(tmp_path)
    for number in (0, 1, 2, 10):
        place(folder.checkpoint(Epoch(number)) / "offsets" / "0", b"v1")
    (tmp_path / "checkpoint" / "notes").mkdir()
    folder.clear(Epoch(2))
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == ["10", "2", "notes"]
