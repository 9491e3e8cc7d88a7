"""What is kept of a stream for batch jobs: each record once, whatever dies, until a job has had it and it is old."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import becomes, decide, handed_over, input_folder, note, opened, segments_of, tuple_of
from jobs_kit import Clock
from spark_kit import HandedOver

from acker.frontier import Decided
from bridge.files import history as module
from bridge.files.history import History, Piece, outlived, pieces_between
from bridge.files.input import StreamInput
from bridge.files.segments import Segments, read_segment
from topology import ConfigurationError, Record
from topology.testing.sinks.driver import feed

RETENTION_S = 1_000
FOLD = 4


class Number(Record):
    number: int


class Killed(Exception):
    """The process dies here."""


class Kept:
    """A hand-over of two tasks, the history of it, and what that should be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "history"
        self.input = HandedOver(folder, "records", tasks=2)
        self.clock = Clock()
        self.stream = StreamInput(self.input.folder)
        self.written: dict[int, list[tuple[int, list[int]]]] = {0: [], 1: []}  # of each segment: when, and what
        self.passed: dict[str, int] = {}
        self.count = 0
        self.open()

    def open(self, **options: Any) -> None:
        self.history = History(self.stream, self.folder, ["number"], **{"fold_segments": FOLD, **options})
        self.history.open()

    def put(self, task: int = 0, records: int = 3) -> None:
        numbers = [*range(self.count, self.count + records)]
        self.count += records
        self.clock.put(self.input, [Number(one) for one in numbers], task)
        self.written[task].append((self.clock.s, numbers))

    def job(self) -> list[int]:
        """All that is kept, read by a job, which passes it."""
        self.history.reach()
        numbers = self.numbers()
        self.passed = {**self.history.reached}
        return numbers

    def numbers(self) -> list[int]:
        pieces = pieces_between(self.stream, self.folder, self.history.first, self.history.reached)
        return [one for piece in pieces for one in read_segment(piece.path).column("number").to_pylist()]

    def forget(self, bytes_max: int = 2**40) -> int:
        return self.history.forget(self.passed, (self.clock.s - RETENTION_S) * 10**9, bytes_max)

    def hand_over_removes(self) -> None:
        """As it does with what all readers have passed."""
        for task, number in self.input.done().items():
            segments = Segments(self.input.folder / str(task))
            segments.remove([one for one in segments.numbers() if one < number])

    def wanted(self) -> set[int]:
        """What may not be gone: it is young, or no job has had it."""
        found: set[int] = set()
        for task, segments in self.written.items():
            for number, (at, numbers) in enumerate(segments):
                if at >= self.clock.s - RETENTION_S or number >= self.passed.get(str(task), 0):
                    found.update(numbers)
        return found

    def folds(self, task: int = 0) -> list[Path]:
        return sorted((self.folder / str(task)).glob("fold-*"))

    def segments(self, task: int = 0) -> list[int]:
        return Segments(self.input.folder / str(task)).numbers()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_a_record_goes_only_once_a_job_has_had_it_and_it_is_older_than_the_retention(kept: Kept) -> None:
    kept.put()
    kept.clock.s += 2 * RETENTION_S
    kept.history.reach()
    kept.forget()
    assert kept.numbers() == [0, 1, 2], "no job has had it"
    assert kept.job() == [0, 1, 2]
    kept.put(task=1)
    kept.history.reach()
    kept.forget()
    assert kept.numbers() == [3, 4, 5]
    kept.job()
    kept.forget()
    assert kept.numbers() == [3, 4, 5], "it is young"
    assert kept.input.done() == {0: 1, 1: 0}


def test_what_is_folded_is_let_go_by_the_hand_over_and_read_in_its_order(kept: Kept) -> None:
    for _ in range(2 * FOLD + 1):
        kept.put()
    kept.history.reach()
    kept.history.fold()
    kept.hand_over_removes()
    assert [one.name for one in kept.folds()] == [
        "fold-000000000000-000000000004.arrow",
        "fold-000000000004-000000000008.arrow",
    ]
    assert kept.segments() == [8]
    assert kept.numbers() == [*range(27)]
    kept.open()
    assert kept.numbers() == [*range(27)]


def test_a_fold_is_as_old_as_the_newest_segment_in_it(kept: Kept) -> None:
    for _ in range(FOLD):
        kept.put()
        kept.clock.s += RETENTION_S // 2
    kept.history.reach()
    kept.history.fold()
    kept.job()
    kept.clock.s += RETENTION_S // 2
    kept.forget()
    assert len(kept.numbers()) == 3 * FOLD
    kept.clock.s += 1
    kept.forget()
    assert kept.numbers() == []
    assert kept.folds() == []


def test_a_fold_is_bounded_in_bytes_and_a_segment_that_is_larger_is_one_alone(kept: Kept) -> None:
    kept.open(fold_bytes=1)
    for _ in range(FOLD):
        kept.put()
    kept.history.reach()
    kept.history.fold()
    assert [one.name for one in kept.folds()] == ["fold-000000000000-000000000001.arrow"]
    assert kept.numbers() == [*range(3 * FOLD)]


def test_above_its_bound_the_oldest_that_a_job_has_had_goes_sooner_and_what_none_has_had_stays(kept: Kept) -> None:
    for task in (0, 1, 0, 1):
        kept.put(task)
        kept.clock.s += 1
    kept.history.reach()
    size = max(piece.bytes for piece in kept.history._all("0"))
    assert kept.forget(bytes_max=2 * size) == 0, "no job has had anything"
    kept.job()
    assert kept.forget(bytes_max=2 * size) > size
    assert kept.numbers() == [6, 7, 8, 9, 10, 11]
    kept.put()
    kept.history.reach()
    kept.forget(bytes_max=1)
    assert kept.numbers() == [12, 13, 14]


def test_nothing_goes_that_comes_after_something_that_stays() -> None:
    def piece(first: int, written: int) -> Piece:
        return Piece(first, first + 1, 10, written, Path("x"))

    pieces = {"0": [piece(0, 5), piece(1, 1), piece(2, 9)], "1": [piece(0, 1), piece(1, 2)]}
    assert outlived(pieces, {"0": 3, "1": 2}, 5, 1000) == ({"1": 2}, 0)
    assert outlived(pieces, {"0": 3, "1": 1}, 6, 1000) == ({"0": 2, "1": 1}, 0)
    assert outlived(pieces, {"0": 3}, 0, 25) == ({"0": 3}, 30)
    assert outlived({}, {}, 0, 0) == ({}, 0)


def test_what_is_missing_or_damaged_is_named(kept: Kept) -> None:
    for _ in range(3 * FOLD):
        kept.put()
    kept.history.reach()
    kept.history.fold()
    kept.hand_over_removes()
    _, second, third = kept.folds()
    aside = second.rename(second.with_name("aside"))
    with pytest.raises(ConfigurationError, match=r"fold-000000000008-000000000012\.arrow does not begin at 4"):
        kept.open()
    with pytest.raises(ConfigurationError, match=r"seg-000000000004\.arrow is missing"):
        pieces_between(kept.stream, kept.folder, {}, {"0": 12})
    aside.rename(second)
    kept.open()
    content = bytearray(third.read_bytes())
    content[len(content) // 2] ^= 1
    third.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"fold-000000000008-.* does not match its checksum"):
        kept.numbers()


def test_a_fold_that_goes_while_spark_reads_it_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")
    from bridge.driver.job_source import HistoryReader
    from bridge.driver.source import SegmentPartition

    options = {"folder": str(tmp_path), "input": "records", "begin": "{}", "ends": "{}"}
    gone = tmp_path / "fold-000000000000-000000000004.arrow"
    with pytest.raises(ConfigurationError, match=r"fold-000000000000-000000000004\.arrow is missing"):
        next(HistoryReader(options, ["number"]).read(SegmentPartition([str(gone)])))


def test_a_history_that_was_deleted_or_a_segment_after_it_is_told_and_not_waited_for(kept: Kept) -> None:
    for _ in range(FOLD + 3):
        kept.put()
    kept.history.reach()
    kept.history.fold()
    (kept.input.folder / "0" / "seg-000000000005.arrow").unlink()
    with pytest.raises(ConfigurationError, match=r"seg-000000000005\.arrow is missing, but later ones exist"):
        kept.open()
    shutil.rmtree(kept.folder)
    with pytest.raises(ConfigurationError, match="history/0 lacks segments below 4, which the hand-over has removed"):
        kept.open()


async def test_the_hand_over_removes_what_is_folded_alone_and_with_other_tasks_the_history_goes_on(
    tmp_path: Path,
) -> None:
    decided, folder = Decided(), tmp_path / "history"

    def kept() -> list[int]:
        history = History(StreamInput(input_folder(tmp_path)), folder, ["number"], fold_segments=FOLD)
        history.open()
        history.fold()
        pieces = pieces_between(history.stream, folder, history.first, history.reached)
        return sorted(one for piece in pieces for one in read_segment(piece.path).column("number").to_pylist())

    async with opened(tmp_path, decided=decided) as bolt:
        for number in range(1, FOLD + 2):
            await feed(bolt, [tuple_of(number)])
        assert kept() == [*range(1, FOLD + 2)]
        decide(decided, note(FOLD + 1))
        await becomes(lambda: len(segments_of(tmp_path)) == 1)
    await handed_over(tmp_path, range(FOLD + 2, 20), 2)
    assert kept() == [*range(1, 20)]


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 100))])
def test_each_record_is_kept_once_until_it_may_go_whatever_dies_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """C7: random segments, folds, jobs, removals and restarts, with deaths at every write."""
    print(f"seed {seed}")
    random_ = random.Random(seed)
    kept = Kept(tmp_path)
    places, forgotten = module.place, set[int]()

    def dying(path: Path, content: Any, **named: Any) -> None:
        path.parent.mkdir(exist_ok=True, parents=True)
        if random_.random() < 0.15:
            (path.parent / f".tmp-{path.name}").write_bytes(content[: len(content) // 2])
            raise Killed
        places(path, content, **named)
        if random_.random() < 0.15:
            raise Killed

    for _ in range(120):
        with monkeypatch.context() as patched:
            patched.setattr(module, "place", dying)
            patched.setattr(os, "utime", os.utime if random_.random() < 0.9 else dies)
            try:
                act(kept, random_)
            except Killed:
                pass
            else:
                continue
        kept.clock.s += 1
        kept.open()
        kept.history.reach()
        numbers = kept.numbers()
        assert len({*numbers}) == len(numbers), "a record is kept twice"
        assert kept.wanted() <= {*numbers}, "a record is gone too early"
        assert not forgotten & {*numbers}, "a record has come back"
        forgotten = {*range(kept.count)} - {*numbers}
    assert kept.count > 100


def dies(*given: Any, **named: Any) -> None:
    raise Killed


def act(kept: Kept, random_: random.Random) -> None:
    """One thing that happens, here or in the hand-over."""
    match random_.randrange(8):
        case 0 | 1 | 2:
            for _ in range(random_.randrange(1, 6)):
                kept.clock.s += random_.randrange(60)
                kept.put(random_.randrange(2), random_.randrange(1, 5))
        case 3:
            kept.history.reach()
            kept.history.fold()
        case 4:
            kept.job()
        case 5:
            kept.forget()
        case 6:
            kept.hand_over_removes()
        case 7:
            kept.clock.s += random_.randrange(RETENTION_S)
            raise Killed
