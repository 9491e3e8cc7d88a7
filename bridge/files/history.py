"""What is kept of one input of a batch job: all records of its stream, for as long as the retention says so.

    history/<input>/first                           JSON: task → what is below this number is kept no more
    history/<input>/<task>/fold-<12>-<12>.arrow     the records of the segments from a number up to another one

The hand-over's segments are small where records come one by one, and stay until readers have passed them. So they are
folded, some hundreds into one file of the history's own, and only then passed. A fold has the form of a segment, with
the record's columns alone, and is as old as the newest segment in it. Together, folds and the segments after them are
each record once, whenever the process dies: a fold is made whole, and the next one begins where it ends.

Knows folders, Arrow and times of files; neither Spark nor records, nor when a job runs.
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

FOLD_SEGMENTS: Final = 500  # of one task: so many become one file
FOLD_BYTES: Final = 64 * 2**20  # of segments in one fold, at most, but for one that is larger alone
_FOLD: Final = re.compile(rf"fold-([0-9]{{{DIGITS}}})-([0-9]{{{DIGITS}}})\.arrow")


@dataclass(frozen=True)
class Keeping:
    """When a job runs, and what it keeps. `every_s`: 0 for once, where a bounded run ends."""

    every_s: int
    retention_s: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of a task's history, a fold or a segment, with what is from `first` up to `until`."""

    first: int
    until: int
    bytes: int
    written_ns: int
    path: Path


class History:
    """Of one input. One process folds and forgets; `pieces` is for all. Raises OSError where the disk does, and
    ConfigurationError for a file that is damaged or missing."""

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
        self._segments: dict[str, deque[Piece]] = {}  # that are in no fold

    @property
    def first(self) -> dict[str, int]:
        """What is below is kept no more, task by task."""
        return {task: next((one.first for one in self._all(task)), number) for task, number in self.reached.items()}

    def open(self) -> None:
        """Goes on where the process before has died, whenever that was."""
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
                raise damaged(piece.path, f"is not what comes at {at:,}: a file of the history is missing")
            at = piece.until
        self._folds[task], self._segments[task], self.reached[task] = folds, deque(), at

    def _check_segments(self) -> None:
        """Raises ConfigurationError where something is missing between the folds and the newest segment: who looks for
        the next number alone would wait for ever."""
        for task in self.stream.tasks():
            segments, at = self.stream.of(task), self.reached.get(task, 0)
            if at < (gone := max(segments.done(), segments.kept().read)):
                raise damaged(self.folder / task, f"lacks what is below {gone:,}, which the hand-over has let go")
            later = {number for number in segments.numbers() if number >= at}
            unseen = sorted({*range(at, max(later, default=at))} - later)  # of a folder that is being written, perhaps
            if missing := [number for number in unseen if not segments.has(number)]:
                raise damaged(segments.path(missing[0]), "is missing, and later ones were there")

    def reach(self) -> None:
        """Looks for new segments; one look at a file a task where there are none."""
        for task in self.stream.tasks():
            segments, number = self.stream.of(task), self.reached.get(task, 0)
            held = self._segments.setdefault(task, deque())
            self._folds.setdefault(task, deque())
            while (piece := _piece(segments.path(number), number, number + 1)) is not None:
                held.append(piece)
                number += 1
            self.reached[task] = number

    def has_ended(self) -> bool:
        """Whether every task has said that nothing comes after what is reached."""
        return self.stream.ended(self.reached)

    def is_beyond(self, ends: Mapping[str, int]) -> bool:
        """Whether there is anything that is not below these numbers."""
        return any(number > ends.get(task, 0) for task, number in self.reached.items())

    def written_after(self, ends: Mapping[str, int]) -> int | None:
        """When the first was written of what is not below these numbers; None where there is nothing."""
        found = []
        for task in self.reached if self.is_beyond(ends) else ():
            found += [one.written_ns for one in self._all(task) if one.until > ends.get(task, 0)][:1]
        return min(found, default=None)

    def fold(self) -> None:
        """Makes files of what are segments, where there are enough of them."""
        for task, segments in self._segments.items():
            while len(segments) >= self.fold_segments:
                self._fold(task, segments)

    def forget(self, passed: Mapping[str, int], before_ns: int, bytes_max: int) -> int:
        """Removes what all readers have had, below `passed`, that was written before that time, or that is more than so
        many bytes, the oldest first. Returns how many bytes went for being too many alone."""
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
        """Files whose columns are those of all: the hand-over lets no others be after the first of what is not read."""
        for task in self.reached:
            yield from (one.path for one in self._folds[task])
            yield from (one.path for one in [*self._segments[task]][:1])

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
        some = [segments[one] for one in range(taken)]
        table = pa.Table.from_batches([read_segment(one.path).select(self.columns) for one in some])
        path = self.folder / task / f"fold-{some[0].first:0{DIGITS}}-{some[-1].until:0{DIGITS}}.arrow"
        place(path, sealed(table.combine_chunks().to_batches()[0]))
        newest = max(one.written_ns for one in some)
        os.utime(path, ns=(newest, newest))  # where we die before that, it is kept a while longer
        fold = _piece(path, some[0].first, some[-1].until)
        assert fold is not None
        for _ in some:
            segments.popleft()
        self._folds[task].append(fold)
        self._say_passed()

    def _say_passed(self) -> None:
        """What is in folds, or kept no more, is not read as segments again."""
        ends = {task: number - len(self._segments[task]) for task, number in self.reached.items()}
        self.stream.say_done({task: number for task, number in ends.items() if self.stream.of(task).done() < number})


def first_of(folder: Path) -> dict[str, int]:
    """What is below is kept no more; of tasks that have not forgotten anything, nothing is said."""
    try:
        found: dict[str, int] = json.loads((folder / "first").read_bytes())
    except FileNotFoundError:
        return {}
    return found


def folds_of(folder: Path, *, temporary: bool = False) -> list[Piece]:
    """The folds of one task, in order. `temporary`: removes what was not finished, too."""
    found = []
    for name in _names(folder):
        if match := _FOLD.fullmatch(name):
            piece = _piece(folder / name, int(match[1]), int(match[2]))
            found += [piece] if piece is not None else []
        elif temporary and name.startswith(".tmp-"):
            (folder / name).unlink(missing_ok=True)
    return sorted(found, key=lambda one: one.first)


def pieces_between(stream: StreamInput, folder: Path, begin: Mapping[str, int], ends: Mapping[str, int]) -> list[Piece]:
    """The files with what is from `begin` up to `ends`, in the order of tasks and numbers; for any process. Raises
    ConfigurationError where one is missing."""
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
                raise damaged(path, "is missing, and later ones were there")
            found.append(piece)
    return found


def outlived(
    pieces: Mapping[str, Sequence[Piece]], passed: Mapping[str, int], before_ns: int, bytes_max: int
) -> tuple[dict[str, int], int]:
    """From which number on tasks keep what they have, for those that keep less than there is; and how many bytes go
    although they are young enough. The oldest first, and nothing that is not passed, or after something that stays."""
    kept: dict[str, int] = {}
    total, squeezed = sum(one.bytes for part in pieces.values() for one in part), 0
    oldest = [(part[0].written_ns, task, 0) for task, part in pieces.items() if part]
    heapq.heapify(oldest)
    while oldest:
        written, task, at = heapq.heappop(oldest)
        piece = pieces[task][at]
        if piece.until > passed.get(task, 0) or (written >= before_ns and total <= bytes_max):
            continue  # and so does all that comes after it
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
