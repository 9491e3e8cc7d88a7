"""The files that are begun and not kept as done: how much of each is emitted and settled.

Knows the loop only by an event. Must not know how a file is read, nor what becomes of one that is done.
"""

import asyncio
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from spouts.directory.listing import FoundFile

EPOCHS_MAX: Final = 64  # partitions that `partitions()` names: the last ones begun, so that late acks find theirs
BEGUN_MAX: Final = 100_000  # files that are begun and not kept as done; the next one waits
OVER_MAX: Final = 500  # files that are done and not kept as done; the runtime remembers the last 1,000 of these
# ids of one file that are emitted and not settled, 9 bytes each; with more, this run does not know when it is done
UNSETTLED_MAX: Final = 4_000_000
TRIMMED: Final = 4_096  # settled ids at the beginning of the list that are not worth a copy of the rest


class UnsettledIds:
    """The ids of one file that are emitted and not settled. They are added in their order. An id may be settled twice:
    a dead message can be replayed by hand."""

    def __init__(self) -> None:
        self._ids = array("Q")
        self._settled = bytearray()  # for each id
        self._left = 0
        self._is_known = True

    @property
    def are_none(self) -> bool:
        """True if all ids are settled, as far as that is known."""
        return self._is_known and not self._left

    def add(self, ids: Iterable[int]) -> None:
        """Add ids that are higher than all before."""
        if self._is_known:
            before = len(self._ids)
            self._ids.extend(ids)
            self._left += len(self._ids) - before
            self._settled.extend(bytes(len(self._ids) - before))
            if self._left > UNSETTLED_MAX:
                self._is_known = False
                self._ids, self._settled = array("Q"), bytearray()

    def settle(self, ids: Iterable[object]) -> None:
        """Take note that these ids are settled; those that are unknown are ignored."""
        known, settled = self._ids, self._settled
        for message in ids:
            if isinstance(message, int) and (at := bisect_left(known, message)) < len(known) and known[at] == message:
                self._left -= not settled[at]
                settled[at] = 1
        first = settled.find(0) if self._left else len(settled)
        if first > TRIMMED and first > len(known) // 2:
            del known[:first], settled[:first]


@dataclass(slots=True)
class FileProgress:
    """One file. `offset`: where reading goes on after an error. `is_read`: all of it is emitted."""

    found: FoundFile
    partition: str
    offset: int = 0
    unsettled: UnsettledIds = field(default_factory=UnsettledIds)
    is_read: bool = False
    is_over: bool = False


class FilesUnderWay:
    """All begun files, by partition. `over` has those that are done, in the order of their ends. `to_keep` is set when
    one is done, and `room` when one is kept as done."""

    def __init__(self) -> None:
        self.over: deque[FileProgress] = deque()
        self.to_keep, self.room = asyncio.Event(), asyncio.Event()
        self.partitions: Mapping[str, str] = {}
        self._begun: dict[str, FileProgress] = {}

    @property
    def has_room(self) -> bool:
        """True if another file may be begun."""
        return len(self._begun) < BEGUN_MAX and len(self.over) < OVER_MAX

    @property
    def why_full(self) -> str:
        """Return the reason why no other file is begun, if that may last."""
        if len(self._begun) < BEGUN_MAX:
            return ""
        return f"{BEGUN_MAX:,} files are read and not done"

    def get(self, partition: str) -> FileProgress | None:
        """Return the progress of a file that was begun before."""
        return self._begun.get(partition)

    def read_marks(self) -> set[int]:
        """Return the marks of the files that are not to be read again."""
        return {progress.found.mark for progress in self._begun.values() if progress.is_read}

    def begin(self, found: FoundFile, partition: str) -> FileProgress:
        """Return the progress of a file that is read from now on."""
        progress = self._begun.get(partition)
        if progress is None:
            progress = self._begun[partition] = FileProgress(found, partition)
        others = [name for name in self.partitions if name != partition]
        self.partitions = dict.fromkeys([*others[1 - EPOCHS_MAX :], partition], "")
        return progress

    def settled(self, partition: str, ids: Iterable[object]) -> None:
        """Take note that a checkpoint has these messages of a file."""
        if (progress := self._begun.get(partition)) is not None:
            progress.unsettled.settle(ids)
            self._look(progress)

    def read(self, progress: FileProgress) -> None:
        """Take note that all of a file is emitted."""
        progress.is_read = True
        self._look(progress)

    def kept(self, done: Collection[FileProgress]) -> None:
        """Forget files that are kept as done: the first ones of `over`."""
        for progress in done:
            self.over.popleft()
            del self._begun[progress.partition]
        self.room.set()

    def _look(self, progress: FileProgress) -> None:
        if progress.is_read and not progress.is_over and progress.unsettled.are_none:
            progress.is_over = True
            self.over.append(progress)
            self.to_keep.set()
