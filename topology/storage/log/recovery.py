"""Finds, in the two files of a log, where it ends, and where the records after a decided checkpoint begin.

The newer file is read first. The older one is read only if the checkpoint's mark stands before the newer one: else it
may be free, and half overwritten. Three things may be lost with what was not synced, and are no damage:

- The end of the newer file, or of the older one; then the newer one, which goes on behind it, is given up.
- The mark of the decided checkpoint, if it need not be durable. Then the checkpoint has all that is there, and nothing
  is left to redo.
- The header of the newer file, so that the older one is the newest.

A file whose turn failed half way, for lack of room, goes on at a number that the other one has passed: it is given up.
Must not know who wrote the records, and changes nothing.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topology.filesystem.files import WritableFile
from topology.storage.log.errors import can_not_open, is_damaged
from topology.storage.log.layout import (
    FORMAT,
    GROUPS_AT,
    FileHeader,
    GroupHeader,
    GroupKind,
    file_header_of,
    format_of,
    incarnation_of,
    records_of,
)
from topology.storage.log.reading import LogPlace, durable_by, first_place, sound_groups

POINT_BYTES: Final = 1 << 20  # between two places that are remembered of a file
NEWER: Final = "install the newer version of Kedge again"


@dataclass
class LogFile:
    """One of the two files, open. `header` is None if no turn has begun in it."""

    path: Path
    file: WritableFile
    header: FileHeader | None


@dataclass
class RecoveredLog:
    """The content of a log. `current`, and the file in `start`, are indices of the two files."""

    current: int
    end: LogPlace  # in the current file
    start: tuple[int, LogPlace] | None  # where redo begins; None: the mark is not there, and nothing is to be redone
    stale: bool  # the other file's header must be erased before anything is written
    incarnation: int  # the last owner
    unsure: list[tuple[int, int, int]]  # (file, from, to), offsets: what may not be on the disk, though it can be read


class LogScan:
    """The sound part of one file, as one reads it from its start for a decided checkpoint. `joint` is where the file
    after it begins. Raises OSError."""

    def __init__(self, one: LogFile, decided: int, joint: LogPlace | None = None) -> None:
        header = one.header
        assert header is not None, "a turn has begun in it"
        self.one = one
        self.header = header
        self.end = first_place(header)
        self.start: LogPlace | None = None  # behind the mark of the checkpoint
        self.decided_before: int | None = None  # what was decided when the log was last opened here
        self.later = 0  # a later mark, before which there is none of the checkpoint
        self.durable = header.synced  # how far the log was durable, by what can be read
        self.incarnation = header.incarnation
        self.passed = False  # the end of the file that it leads up to, `joint`, and more
        self._points = [(header.first, 0)]  # numbers, and the offsets before which all groups have lower ones
        for group, body, place in sound_groups(one.file, header, self.end):
            self.passed |= joint is not None and (group.number, group.previous) == (joint.number, joint.previous)
            self._take(group, body, place, decided)
            self.end = place
            self.durable = max(self.durable, group.synced)
            if place.offset >= self._points[-1][1] + POINT_BYTES:
                self._points.append((place.number, place.offset))

    def _take(self, group: GroupHeader, body: bytes, place: LogPlace, decided: int) -> None:
        if group.kind == GroupKind.MARK:
            if group.value == decided:
                self.start, self.later = place, 0
            elif group.value > decided and self.start is None:
                self.later = self.later or group.value
        elif group.kind == GroupKind.OPENED:
            self.decided_before = group.value
            self.incarnation = max(self.incarnation, incarnation_of(records_of(group, body)[0]))
            self.later = 0  # a later process has marked these checkpoints again, or none of them was decided
            if group.value < decided:
                self.start = None

    def may_be_before(self, decided: int) -> bool:
        """Return whether the mark of this checkpoint may stand in the file before this one."""
        if self.start is not None:
            return False
        return decided <= self.decided_before if self.decided_before is not None else decided < self.header.mark

    def unsure_from(self, durable: int) -> int:
        """Return an offset before which all is durable, if the log is durable before this number; 0 if the file's
        header may not be."""
        return max(offset for number, offset in self._points if number <= durable or offset == 0)

    def check_end(self, durable: int) -> None:
        """Raise StartError if something that was durable stands behind the sound part."""
        durable = max(durable, durable_by(self.one.file, self.header, self.end.offset))
        if durable > self.end.number:
            is_damaged(
                self.one.path,
                f"record {self.end.number:,}, at byte {self.end.offset:,}, can't be read; the log was on the disk up "
                f"to record {durable:,}",
            )


def header_of(path: Path, file: WritableFile, worker: int) -> FileHeader | None:
    """Return the header of a file; None if it is empty. Raises StartError for a file that is no log of this worker, or
    whose header is damaged; OSError."""
    content = file.read(0, GROUPS_AT)
    if not content.strip(b"\0"):
        return None
    header = file_header_of(content)
    if header is None:
        if (format := format_of(content)) > FORMAT:
            can_not_open(path, f"it has format {format}; this Kedge reads formats up to {FORMAT}", NEWER)
        is_damaged(path, "its header is not that of a log, at byte 0")
    if header.worker != worker:
        advice = "put back the file that belongs here, from a copy of the state directory"
        can_not_open(path, f"it belongs to worker {header.worker}, and not to worker {worker}", advice)
    return header


def recovered(both: tuple[LogFile, LogFile], decided: int, *, is_marked: bool = False) -> RecoveredLog:
    """Return the content of a log; at least one of the files has a header. `is_marked`: the mark of the decided
    checkpoint was durable before it was decided, so a log without it is an older copy. Blocks; reads the files once,
    with one group in memory. Raises StartError for damage; OSError."""
    found = _recovered(both, decided)
    if is_marked and found.start is None:
        _lacks(both[found.current].path, decided)
    return found


def _recovered(both: tuple[LogFile, LogFile], decided: int) -> RecoveredLog:
    turns = sorted((one.header.sequence, index) for index, one in enumerate(both) if one.header is not None)
    newest = turns[-1][1]
    scan = LogScan(both[newest], decided)
    if not scan.may_be_before(decided):
        scan.check_end(0)
        _check_marks(scan, decided)
        start = None if scan.start is None else (newest, scan.start)
        unsure = _unsure({newest: scan}, scan.durable)
        return RecoveredLog(newest, scan.end, start, False, scan.incarnation, unsure)
    if len(turns) == 1:
        _lacks(both[newest].path, decided)
    before = LogScan(both[1 - newest], decided, first_place(scan.header))
    return _of_both(before, scan, newest, decided)


def _of_both(before: LogScan, scan: LogScan, newest: int, decided: int) -> RecoveredLog:
    """The content of a log whose older file is needed."""
    older, joint = 1 - newest, first_place(scan.header)
    follows = (before.end.number, before.end.previous) == (joint.number, joint.previous)
    if follows or before.passed:
        before.check_end(0)
    else:
        before.check_end(max(scan.durable, durable_by(scan.one.file, scan.header, scan.end.offset)))
    if before.end.number >= joint.number and not follows and not before.passed:
        is_damaged(scan.one.path, f"its records do not follow on those of {before.one.path.name}")
    if before.start is None and before.may_be_before(decided):
        _lacks(before.one.path, decided)
    start = None if before.start is None else (older, before.start)
    incarnation = max(before.incarnation, scan.incarnation)
    if follows:
        scan.check_end(0)
        if start is None:
            _lacks(scan.one.path, decided)
        scans = {older: before, newest: scan}
        unsure = _unsure(scans, max(before.durable, scan.durable))
        return RecoveredLog(newest, scan.end, start, False, incarnation, unsure)
    _check_marks(before, decided)
    unsure = _unsure({older: before}, before.durable)
    return RecoveredLog(older, before.end, start, True, incarnation, unsure)


def _check_marks(scan: LogScan, decided: int) -> None:
    if scan.start is None and scan.later:
        is_damaged(scan.one.path, f"it has a mark of checkpoint {scan.later}, and none of {decided} before it")


def _lacks(path: Path, decided: int) -> None:
    can_not_open(
        path,
        f"the records after checkpoint {decided}, which is the last decided one, are not in it",
        f"restore all of {path.parent} from one copy",
    )


def _unsure(scans: dict[int, LogScan], durable: int) -> list[tuple[int, int, int]]:
    parts = [(index, scan.unsure_from(durable), scan.end.offset) for index, scan in scans.items()]
    return [(index, start, end) for index, start, end in parts if end > start]
