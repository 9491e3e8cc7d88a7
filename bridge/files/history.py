"""The history of one input of a batch job: all records of its stream, for as long as the retention allows.

    history/<input>/first                           JSON: task → the number below which nothing is kept
    history/<input>/<task>/fold-<12>-<12>.arrow     the records of the segments from a number up to another one

If records come one by one, the hand-over's segments are small, and they stay until readers have passed them. The driver
therefore folds some hundreds of segments into one file of the history, and only then marks them as passed. A fold has
the form of a segment, holds only the record's columns, and is as old as its newest segment. Together, the folds and the
segments after them hold each record once, whenever the process dies: a fold is written as a whole, and the next one
begins where it ends.

Knows folders, Arrow and times of files; must not know Spark, records, or when a job runs.
"""

import heapq
import json
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from bridge.files.input import StreamInput
from bridge.files.query import place
from bridge.files.segments import DIGITS, damaged, read_segment, sealed

FOLD_SEGMENTS: Final = 500  # segments of one task that become one file
FOLD_BYTES: Final = 64 * 2**20  # maximum size of a fold's segments; a single segment may be larger
_FOLD: Final = re.compile(rf"fold-([0-9]{{{DIGITS}}})-([0-9]{{{DIGITS}}})\.arrow")


@dataclass(frozen=True)
class Keeping:
    """The times at which a job runs, and how much it keeps. `every_s`: 0 to run once, when a bounded run ends."""

    every_s: int
    retention_s: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of a task's history, a fold or a segment. It holds the numbers from `first` up to `until`."""

    first: int
    until: int
    bytes: int
    written_ns: int
    path: Path


class History:
    """The history of one input. Only one process may fold and forget; any process may use `pieces_between`. Raises
    OSError if the disk does, and ConfigurationError for a file that is damaged or missing."""

    def __init__(
        self,
        stream: StreamInput,
        folder: Path,
        columns: Sequence[str],
        *,
        fold_segments: int = FOLD_SEGMENTS,
        fold_bytes: int = FOLD_BYTES,
    ) -> None:
        self.stream = stream
        self.folder = folder
        self.columns = list(columns)
        self.fold_segments, self.fold_bytes = fold_segments, fold_bytes
        self.reached: dict[str, int] = {}  # task → the number of its next segment
        self._folds: dict[str, deque[Piece]] = {}
        self._segments: dict[str, deque[Piece]] = {}  # task → its segments that are in no fold

    @property
    def first(self) -> dict[str, int]:
        """Return the number per task below which nothing is kept."""
        return {task: next((piece.first for piece in self._all(task)), number) for task, number in self.reached.items()}

    def open(self) -> None:
        """Resume from the files, wherever an earlier process stopped."""
        first = first_of(self.folder)
        self.reached, self._folds, self._segments = {}, {}, {}
        for task in {*first, *_tasks(self.folder)}:
            folds = deque[Piece]()
            for piece in folds_of(self.folder / task, temporary=True):
                if piece.until <= first.get(task, 0):
                    piece.path.unlink()
                else:
                    folds.append(piece)
            self._take(task, first.get(task, 0), folds)
        self._check_segments()
        self.reach()
        self._say_passed()

    def _take(self, task: str, first: int, folds: deque[Piece]) -> None:
        at = first
        for piece in folds:
            if piece.first != at:
                raise damaged(piece.path, f"does not begin at {at:,}: a file of the history is missing")
            at = piece.until
        self._folds[task], self._segments[task], self.reached[task] = folds, deque(), at

    def _check_segments(self) -> None:
        """Raises ConfigurationError if something is missing between the folds and the newest segment. A reader that
        only looks for the next number would wait forever."""
        for task in self.stream.tasks():
            segments, at = self.stream.of(task), self.reached.get(task, 0)
            if at < (gone := max(segments.done(), segments.kept().read)):
                raise damaged(self.folder / task, f"lacks segments below {gone:,}, which the hand-over has removed")
            later = {number for number in segments.numbers() if number >= at}
            unseen = sorted({*range(at, max(later, default=at))} - later)  # the folder may be written meanwhile
            if missing := [number for number in unseen if not segments.has(number)]:
                raise damaged(segments.path(missing[0]), "is missing, but later ones exist")

    def reach(self) -> None:
        """Look for new segments. Looks at one file per task if there are none."""
        for task in self.stream.tasks():
            segments, number = self.stream.of(task), self.reached.get(task, 0)
            held = self._segments.setdefault(task, deque())
            self._folds.setdefault(task, deque())
            while (piece := _piece(segments.path(number), number, number + 1)) is not None:
                held.append(piece)
                number += 1
            self.reached[task] = number

    def has_ended(self) -> bool:
        """Return True if every task has said that nothing comes after the segments that are reached."""
        return self.stream.ended(self.reached)

    def is_beyond(self, ends: Mapping[str, int]) -> bool:
        """Return True if there is a segment at or above these numbers."""
        return any(number > ends.get(task, 0) for task, number in self.reached.items())

    def written_after(self, ends: Mapping[str, int]) -> int | None:
        """Return when the first file at or above these numbers was written, or None if there is none."""
        found = []
        for task in self.reached if self.is_beyond(ends) else ():
            found += [piece.written_ns for piece in self._all(task) if piece.until > ends.get(task, 0)][:1]
        return min(found, default=None)

    def fold(self) -> None:
        """Fold segments into files where there are enough of them."""
        for task, segments in self._segments.items():
            while len(segments) >= self.fold_segments:
                self._fold(task, segments)

    def forget(self, passed: Mapping[str, int], before_ns: int, bytes_max: int) -> int:
        """Remove files that all readers have passed, which are those below `passed`, if they were written before
        `before_ns` or exceed `bytes_max`. The oldest go first. Return how many bytes were removed only because of
        `bytes_max`."""
        pieces = {task: [*self._all(task)] for task in self.reached}
        kept, squeezed = outlived(pieces, passed, before_ns, bytes_max)
        if kept:
            place(self.folder / "first", json.dumps({**self.first, **kept}).encode())
            for task, number in kept.items():
                for held in (self._folds[task], self._segments[task]):
                    while held and held[0].until <= number:
                        piece = held.popleft()
                        if held is self._folds[task]:
                            piece.path.unlink(missing_ok=True)
            self._say_passed()
        return squeezed

    def samples(self) -> Iterator[Path]:
        """Yield files that show the columns of all files: the hand-over allows no other columns after the first unread
        segment."""
        for task in self.reached:
            yield from (piece.path for piece in self._folds[task])
            yield from (piece.path for piece in [*self._segments[task]][:1])

    def _all(self, task: str) -> Iterator[Piece]:
        yield from self._folds[task]
        yield from self._segments[task]

    def _fold(self, task: str, segments: deque[Piece]) -> None:
        taken, filled = 0, 0
        for piece in segments:
            filled += piece.bytes
            if taken and (taken == self.fold_segments or filled > self.fold_bytes):
                break
            taken += 1
        some = [segments[part] for part in range(taken)]
        table = pa.Table.from_batches([read_segment(part.path).select(self.columns) for part in some])
        path = self.folder / task / f"fold-{some[0].first:0{DIGITS}}-{some[-1].until:0{DIGITS}}.arrow"
        place(path, sealed(table.combine_chunks().to_batches()[0]))
        newest = max(part.written_ns for part in some)
        os.utime(path, ns=(newest, newest))  # if the process dies before this, the file is kept a while longer
        fold = _piece(path, some[0].first, some[-1].until)
        assert fold is not None
        for _ in some:
            segments.popleft()
        self._folds[task].append(fold)
        self._say_passed()

    def _say_passed(self) -> None:
        """Tell the hand-over which segments are not read again, because they are in folds or forgotten."""
        ends = {task: number - len(self._segments[task]) for task, number in self.reached.items()}
        self.stream.say_done({task: number for task, number in ends.items() if self.stream.of(task).done() < number})


def first_of(folder: Path) -> dict[str, int]:
    """Return the number per task below which nothing is kept. A task that has forgotten nothing is not in it."""
    try:
        found: dict[str, int] = json.loads((folder / "first").read_bytes())
    except FileNotFoundError:
        return {}
    return found


def folds_of(folder: Path, *, temporary: bool = False) -> list[Piece]:
    """Return the folds of one task, in order. `temporary`: also remove unfinished files."""
    found = []
    for name in _names(folder):
        if match := _FOLD.fullmatch(name):
            piece = _piece(folder / name, int(match[1]), int(match[2]))
            found += [piece] if piece is not None else []
        elif temporary and name.startswith(".tmp-"):
            (folder / name).unlink(missing_ok=True)
    return sorted(found, key=lambda one: one.first)


def pieces_between(stream: StreamInput, folder: Path, begin: Mapping[str, int], ends: Mapping[str, int]) -> list[Piece]:
    """Return the files that hold the records from `begin` up to `ends`, in the order of tasks and numbers. Any process
    may call it. Raises ConfigurationError if a file is missing."""
    found: list[Piece] = []
    for task, end in sorted(ends.items(), key=lambda one: int(one[0])):
        at = begin.get(task, 0)
        for fold in folds_of(folder / task):
            if fold.first == at and fold.until <= end:
                found.append(fold)
                at = fold.until
        for number in range(at, end):
            path = stream.of(task).path(number)
            if (piece := _piece(path, number, number + 1)) is None:
                raise damaged(path, "is missing, but later ones exist")
            found.append(piece)
    return found


def outlived(
    pieces: Mapping[str, Sequence[Piece]], passed: Mapping[str, int], before_ns: int, bytes_max: int
) -> tuple[dict[str, int], int]:
    """Return the new first number of each task that can remove something, and how many bytes go although they are young
    enough. Removes the oldest first, nothing that is not passed, and nothing after a file that stays."""
    kept: dict[str, int] = {}
    total, squeezed = sum(file.bytes for part in pieces.values() for file in part), 0
    oldest = [(part[0].written_ns, task, 0) for task, part in pieces.items() if part]
    heapq.heapify(oldest)
    while oldest:
        written, task, at = heapq.heappop(oldest)
        piece = pieces[task][at]
        if piece.until > passed.get(task, 0) or (written >= before_ns and total <= bytes_max):
            continue  # this file stays, and so do all after it
        squeezed += piece.bytes if written >= before_ns else 0
        total -= piece.bytes
        kept[task] = piece.until
        if at + 1 < len(pieces[task]):
            heapq.heappush(oldest, (pieces[task][at + 1].written_ns, task, at + 1))
    return kept, squeezed


def _piece(path: Path, first: int, until: int) -> Piece | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return Piece(first, until, found.st_size, found.st_mtime_ns, path)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _tasks(folder: Path) -> list[str]:
    return [name for name in _names(folder) if name.isdecimal()]
