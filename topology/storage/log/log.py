"""`WorkerLog`: appends records in groups, makes them durable, and is cut at each decided checkpoint.

Two files are used by turns. A turn begins at the mark of a checkpoint, if no file is needed any more but the current
one. Files grow only while no checkpoint is decided. Must not know what a record means, nor when to sync.
"""

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from topology.codes.runtime import STATE_DURABILITY_UNKNOWN
from topology.filesystem.files import AWAY, Lock
from topology.storage.log.layout import (
    GROUPS_AT,
    FileHeader,
    GroupKind,
    PackedGroup,
    packed_group,
    packed_owner,
    records_of,
)
from topology.storage.log.reading import LogPlace, first_place, sound_groups
from topology.storage.log.recovery import LogFile, RecoveredLog
from topology.storage.store import StoreBroken, StoreFull

BLOCK_BYTES: Final = 4_096  # the room that is taken where there is none for a whole step


@dataclass(frozen=True)
class LogSizes:
    """Sizes in bytes. `step`: the room that is taken at once, and that a new file has. `keep`: a file with more room is
    shortened to a step when it becomes free; one with less keeps it, as writes into old room are cheaper."""

    step: int = 4 << 20
    keep: int = 64 << 20


class WorkerLog:
    """The log of one worker; `opening.open_log` makes it. All methods block. All except `sync` must be called in
    sequence, from one thread at a time.

    A position is the number of a place in the log: it grows by one with each record and each mark, over all processes.
    After StoreBroken all methods but `close` raise StoreBroken: the process ends, and the next one reads what is there.
    """

    def __init__(
        self,
        lock: Lock,
        both: tuple[LogFile, LogFile],
        content: RecoveredLog,
        *,
        owner: tuple[int, int],
        decided: int,
        sizes: LogSizes,
    ) -> None:
        header = both[content.current].header
        assert header is not None, "the current file has one"
        self._lock: Lock | None = lock
        self._both = both
        self._owner = owner
        self._sizes = sizes
        self._sequence = max(file.header.sequence for file in both if file.header is not None)
        self._current = content.current
        self._seed = header.seed
        self._at = content.end
        self._rooms = [file.file.size() for file in both]  # bytes that a write needs not take
        self._is_other_free = content.start is None or content.start[0] == content.current
        self._progress = content.end.number, content.current, header.first  # replaced as a whole: `sync` reads it
        self._synced = content.end.number
        self._said = 0  # how far the log was durable, by its last group
        self._decided = self._marked = decided
        self._tried = decided  # the last checkpoint whose mark was to be written; a file's header may have it
        self._broken = ""
        self._syncing = threading.Lock()
        self._redo: list[tuple[LogFile, FileHeader, LogPlace]] | None = self._parts_to_redo(content)
        self._redo_until = content.end.number

    @property
    def position(self) -> int:
        """The position behind the last record or mark."""
        return self._at.number

    @property
    def synced(self) -> int:
        """The position before which all is durable: it survives a loss of power."""
        return self._synced

    @property
    def decided(self) -> int:
        """The last decided checkpoint: that of the last `cut`, or of the opening."""
        return self._decided

    @property
    def size(self) -> int:
        """The bytes that both files take on the disk."""
        return sum(self._rooms)

    def redo(self) -> Iterator[bytes]:
        """Yield the records that were there when the log was opened, behind the mark of the decided checkpoint, in
        order. Holds one group in memory. May be called until the first `cut`, also after `append` and `mark`.

        Raises ValueError after a cut; StoreBroken if the disk returns something else than when the log was opened.
        """
        parts = self._redo
        number = parts[0][2].number if parts else self._redo_until
        for part, header, place in parts or ():
            try:
                for group, body, behind in sound_groups(part.file, header, place):
                    if group.number >= self._redo_until:
                        break
                    number = behind.number
                    if group.kind == GroupKind.RECORDS:
                        yield from records_of(group, body)
                    if self._redo is not parts:
                        break
            except OSError as error:
                raise self._break(part, error) from error
        if self._redo is None:
            raise ValueError("the records to be redone are gone with the first cut")
        if parts and number < self._redo_until:
            raise self._break(parts[-1][0], f"record {number:,} can't be read any more")

    def append(self, records: Sequence[bytes]) -> int:
        """Write records as one group: a later opening finds all of them or none. Return the position behind them.

        They survive the end of the process, and a loss of power after the next `sync`. An empty group writes nothing.
        Raises ValueError, before anything is written, for a record of more than RECORD_BYTES_MAX bytes or for more than
        GROUP_BYTES_MAX bytes in all. Raises StoreFull if there is no room: nothing of the group is in the log then, and
        it may be appended again. Raises StoreBroken.
        """
        if records:
            self._write(GroupKind.RECORDS, records)
        return self._at.number

    def mark(self, checkpoint: int) -> int:
        """Write that this checkpoint was gathered here, behind all that was appended. Return the position behind it.

        Turns to the other file if that is free: after a cut at a mark in the current file, once that file was synced.
        Numbers of checkpoints grow from mark to mark; a later process may use those again that were not decided. Raises
        ValueError for a lower number, StoreFull (then the same mark, or a later one, may be made), StoreBroken.
        """
        self._check()
        if checkpoint <= self._marked or checkpoint < self._tried:
            raise ValueError(f"checkpoint {checkpoint} can't be marked: {self._tried} was marked before")
        self._tried = checkpoint
        if self._may_turn():
            self._turn(checkpoint)
        else:
            self._write(GroupKind.MARK, (), checkpoint)
        self._marked = checkpoint
        return self._at.number

    def cut(self, checkpoint: int) -> None:
        """Take note that the checkpoint of the last mark is decided, durably and elsewhere: nothing before its mark is
        needed any more. The file that ends before the mark becomes free. Does nothing for an earlier checkpoint than
        the last cut's. Raises ValueError for one that was not marked last, StoreBroken."""
        self._check()
        if checkpoint <= self._decided:
            return
        if checkpoint != self._marked:
            raise ValueError(f"checkpoint {checkpoint} can't be decided: {self._marked} was marked last")
        self._decided, self._redo, self._is_other_free = checkpoint, None, True
        if self._may_turn():
            self._shorten(1 - self._current)

    def sync(self) -> None:
        """Make all records and marks that were written before this call durable, when it returns. May be called from
        another thread, concurrently with all other methods and with itself. Raises StoreBroken: nothing is known of
        what was not durable before, and nothing can be tried again (F18)."""
        with self._syncing:
            self._check()
            position, current, first = self._progress
            if position <= self._synced:
                return
            # the older file first: the newer one is read only as far as the older one leads up to it
            for index in (1 - current, current) if first > self._synced else (current,):
                try:
                    self._both[index].file.sync()
                except OSError as error:
                    raise self._break(self._both[index], error) from error
            self._synced = position

    def begin(self) -> None:
        """Write, durably, who has the log now; marks of checkpoints that were not decided are void from here on. To be
        called once, before anything is appended. Raises StoreFull, StoreBroken."""
        if not self._redo:
            self._write(GroupKind.MARK, (), self._decided)
        self._write(GroupKind.OPENED, [packed_owner(*self._owner)], self._decided)
        self.sync()

    def close(self) -> None:
        """Close the files and give back the lock; nothing is synced. Does not raise. May be called twice."""
        with self._syncing:
            if self._lock is None:
                return
            if not self._broken and self._synced > self._said:  # else an opening could take damage for a torn tail
                with contextlib.suppress(StoreFull, StoreBroken):
                    self._write(GroupKind.CLOSED, ())
            self._broken = self._broken or f"{self._both[0].path} is closed"
            for log_file in self._both:
                log_file.file.close()
            self._lock.release()
            self._lock = None

    def _parts_to_redo(self, content: RecoveredLog) -> list[tuple[LogFile, FileHeader, LogPlace]]:
        """The files that have something to be redone, and where it begins in each."""
        if content.start is None:
            return []
        parts = []
        for index in dict.fromkeys((content.start[0], content.current)):
            file = self._both[index]
            assert file.header is not None, "a turn has begun in it"
            place = content.start[1] if index == content.start[0] else first_place(file.header)
            parts.append((file, file.header, place))
        return parts

    # -- writing

    def _write(self, kind: GroupKind, records: Sequence[bytes], value: int = 0) -> None:
        """Write a group behind the last one."""
        self._check()
        synced = self._synced
        at = self._at
        group = packed_group(
            kind, records, self._seed, number=at.number, synced=synced, previous=at.previous, value=value
        )
        self._put(self._current, at.offset, group)
        self._progress = group.next_number, self._current, self._progress[2]  # first: another thread may sync
        self._at = LogPlace(at.offset + group.length, group.next_number, group.sum)
        self._said = synced

    def _may_turn(self) -> bool:
        """Return whether the other file may be written over. The current one must be durable: if a loss of power left
        only the other one, its content would be what a later opening reads."""
        return self._is_other_free and self._synced > self._progress[2]

    def _turn(self, checkpoint: int) -> None:
        """Begin a turn in the other file, with this mark. Its header is written last: until then the file has one of
        an earlier turn, and is free."""
        self._check()
        other, at, synced = 1 - self._current, self._at, self._synced
        self._shorten(other)
        self._sequence += 1
        header = FileHeader(*self._owner, self._sequence, at.number, checkpoint, at.previous, synced)
        seed = header.seed
        group = packed_group(
            GroupKind.MARK, (), seed, number=at.number, synced=synced, previous=at.previous, value=checkpoint
        )
        self._put(other, GROUPS_AT, group)
        self._write_at(other, 0, (header.packed(),))
        self._current, self._seed, self._is_other_free = other, seed, False
        self._progress = group.next_number, other, at.number
        self._at = LogPlace(GROUPS_AT + group.length, group.next_number, group.sum)
        self._said = synced

    def _put(self, index: int, offset: int, group: PackedGroup) -> None:
        if (end := offset + group.length) > self._rooms[index]:
            self._take_room(index, end)
        self._write_at(index, offset, group.parts)

    def _write_at(self, index: int, offset: int, parts: Sequence[bytes]) -> None:
        try:
            self._both[index].file.write(offset, parts)
        except OSError as error:
            raise self._meaning(index, error) from error

    def _take_room(self, index: int, end: int) -> None:
        """Take the room for a file of `end` bytes: in whole steps, or as little as is needed if there is no more."""
        for step in (self._sizes.step, BLOCK_BYTES):
            size = -(-end // step) * step
            try:
                self._both[index].file.allocate(size)
            except OSError as error:
                told = self._meaning(index, error)
                if step == BLOCK_BYTES or isinstance(told, StoreBroken):
                    raise told from error
            else:
                self._rooms[index] = size
                return

    def _shorten(self, index: int) -> None:
        """Give back the room of a free file, if it has much."""
        if self._rooms[index] > self._sizes.keep:
            try:
                self._both[index].file.truncate(self._sizes.step)
            except OSError as error:
                told = self._meaning(index, error)
                if isinstance(told, StoreBroken):
                    raise told from error
            else:
                self._rooms[index] = self._sizes.step

    # -- errors

    def _check(self) -> None:
        if self._broken:
            raise StoreBroken(self._broken)

    def _meaning(self, index: int, error: OSError) -> StoreFull | StoreBroken:
        if error.errno in AWAY:
            return StoreFull(f"{self._both[index].path} can't be written: {os.strerror(error.errno or 0)}")
        return self._break(self._both[index], error)

    def _break(self, one: LogFile, error: OSError | str) -> StoreBroken:
        """From now on nothing can be done with the log."""
        self._broken = f"the content of {one.path} on the disk is unknown: {error} ({STATE_DURABILITY_UNKNOWN})"
        return StoreBroken(self._broken)
