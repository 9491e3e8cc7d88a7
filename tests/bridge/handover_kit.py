"""What the tests of the hand-over share: items, tuples, segments written and read, and the subject of the conformance
suite, which other processes make too."""

import copy
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from acker.frontier import Decided, Frontier, Note
from acker.roots import owner, pack
from bolts.sinks.contract import SinkStore, StoreAway, Written
from bridge.files.segments import Segments, read_segment
from bridge.handover.bolt import HandOver
from topology.components import Task
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.groupings import slot_of_identity, task_of_slot
from topology.storage.directory.state_dir import MemoryNotes
from topology.testing.sinks import SinkSubject
from topology.testing.sinks.driver import RecordedAnswers, SinkItem, feed, sink_task, within

SOURCE = Source("items", "SinkItem")
WORD = 2**64


def batch_of(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": list(numbers)})


def message(number: int, life: int = 1, home: int = 0) -> int:
    """A message of a home, as its tuples' roots name it."""
    return owner(home, life) << 32 | number


def tuple_of(
    number: int, at: int | None = None, *, life: int = 1, record: Any = None, others: Sequence[int] = ()
) -> Any:
    """The tuple of message `number`, which its home counts as its `at`-th: the same identity whatever life gives it."""
    record = record if record is not None else SinkItem(number, 1, f"item {number}", number / 8)
    origin, identity = (number * 2 + 1) % WORD, (number * 0x9E3779B97F4A7C15 + 1) % WORD
    root = pack(owner(0, life), at if at is not None else number, 0)
    return Tuple(record, origin, identity, root, tuple(pack(owner(0, life), one, 0) for one in others), SOURCE)


def note(newest: int, *unfinished: int, life: int = 1, home: int = 0, dropped: Iterable[int] = ()) -> Note:
    """Of a home where all up to `newest` is done, but for these."""
    unfinished_ones = frozenset(message(one, life, home) for one in unfinished)
    return Note((owner(home, life),), message(newest, life, home), unfinished_ones, frozenset(dropped))


def decide(decided: Decided, *notes: Note) -> None:
    """Have the worker gather the next checkpoint, and take in that it is decided. The notes are those of homes 0, 1,
    …"""
    decided.gathered += 1
    decided.frontier = Frontier(decided.gathered, dict(enumerate(notes)))


def task_of(folder: Path, index: int = 0, tasks: int = 1, decided: Decided | None = None) -> Task:
    """A task on the running loop, of a run with this folder, and its notes."""
    made = sink_task(tasks, index, "q-items")
    return replace(made, frontier=decided or Decided(), folder_of=lambda: folder, notes=notes_of(folder))


_notes: dict[Path, MemoryNotes] = {}


def notes_of(folder: Path) -> MemoryNotes:
    """Those of all runs on this folder, in this process."""
    return _notes.setdefault(folder, MemoryNotes())


WITHIN_S = 10.0


def sink(**options: Any) -> HandOver:
    return HandOver(SinkItem, "q", "items", **{"batch": 10, "within_ms": 2.0, **options})


@asynccontextmanager
async def opened(
    folder: Path, index: int = 0, tasks: int = 1, decided: Decided | None = None, **options: Any
) -> AsyncIterator[Any]:
    made: Any = copy.deepcopy(sink(**options))
    try:
        await made.open(task_of(folder, index, tasks, decided))
        yield made
    finally:
        await made.close()


async def becomes(condition: Callable[[], bool]) -> None:
    assert await within(WITHIN_S, condition)


def dealt(numbers: Iterable[int], tasks: int) -> dict[int, list[Any]]:
    """Tuples as they are dealt by identity."""
    found: dict[int, list[Any]] = {task: [] for task in range(tasks)}
    for number in numbers:
        tup = tuple_of(number)
        found[task_of_slot(slot_of_identity(tup.identity), tasks)].append(tup)
    return found


async def handed_over(folder: Path, numbers: Iterable[int], tasks: int = 1) -> RecordedAnswers:
    """By a run of so many tasks, each on its own."""
    told = RecordedAnswers()
    for task, tuples in dealt(numbers, tasks).items():
        async with opened(folder, task, tasks) as bolt:
            await feed(bolt, tuples, told)
    return told


def input_folder(folder: Path) -> Path:
    return folder / "spark" / "q" / "stream" / "items"


def task_folders(folder: Path) -> list[Path]:
    there = input_folder(folder)
    return sorted(one for one in there.iterdir() if one.name.isdecimal()) if there.is_dir() else []


def segments_of(folder: Path) -> list[Path]:
    return [path for task in task_folders(folder) for path in sorted(task.glob("seg-*.arrow"))]


def stored(folder: Path) -> list[dict[str, Any]]:
    """All rows of all tasks, segment by segment."""
    return [row for path in segments_of(folder) for row in read_segment(path).to_pylist()]


def numbers_stored(folder: Path) -> list[int]:
    return [row["number"] for row in stored(folder)]


def say_done(folder: Path, number: int, task: int = 0) -> None:
    """As readers do."""
    (input_folder(folder) / str(task) / "done").write_text(str(number))


def own(folder: Path, task: int = 0) -> Segments:
    return Segments(input_folder(folder) / str(task))


class Loses:
    """Whether answers of stores are lost now; shared by all copies."""

    now = False

    def __deepcopy__(self, memo: Any) -> "Loses":
        return self


class LosingHandOver(HandOver):
    """One whose store's answer is lost once, after the segment is durable (C10). In a folder of its own, as the suite's
    tasks have none."""

    loses: Loses
    folder: Path

    async def open(self, task: Task) -> None:
        await super().open(replace(task, notes=notes_of(self.folder)))

    def _folder(self) -> Path:
        return input_folder(self.folder)

    def _make_store(self) -> SinkStore:
        store, loses = super()._make_store(), self.loses
        write = store.write

        def losing(tuples: Sequence[Tuple[Any]]) -> Written:
            written = write(tuples)
            if loses.now:
                loses.now = False
                raise StoreAway("the answer was lost")
            return written

        store.write = losing  # type: ignore[method-assign]
        return store


class HandOverSubject(SinkSubject):
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.loses = Loses()

    def make(self) -> HandOver:
        made = LosingHandOver(SinkItem, "q", "items", batch=50, within_ms=2.0)
        made.loses, made.folder = self.loses, self.folder
        return made

    def rows(self) -> list[tuple[int, int]]:
        return [(row["number"], row["revision"]) for row in stored(self.folder)]

    def bad(self) -> Sequence[SinkItem]:
        return [one for one in super().bad() if one.value == one.value]  # Spark knows NaN

    @contextmanager
    def away(self) -> Iterator[None]:
        there = input_folder(self.folder)
        aside = there.rename(there.with_name("aside"))
        yield
        aside.rename(there)

    @contextmanager
    def lost_answer(self) -> Iterator[None]:
        self.loses.now = True
        yield
        assert not self.loses.now, "an answer was lost"

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "handover_kit:HandOverSubject", [os.fspath(self.folder)]
