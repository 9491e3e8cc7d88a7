"""Lines that are left in rotated files: those that an earlier run, or this run while it was delayed, has not read.

Decides which of the files next to a log are read, and from which offset. Must not know how lines are read, nor when to
look.
"""

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from acker.identity import MessageId
from spouts.checks import no_position
from spouts.file_tail.identity import FileGeneration, Generation, KnownFiles
from spouts.file_tail.open_file import windows
from spouts.file_tail.rotations import RotatedFile, head_of, opened, rotated
from topology.components import Positions

log = logging.getLogger("kedge.spouts")


@dataclass(frozen=True)
class Unread:
    """A file to be read from `offset` on. The receiver owns the descriptor."""

    descriptor: int
    known: FileGeneration
    offset: int
    whole: bool = False  # no process writes to it any more: a copy, or unpacked


def offset_in(known: FileGeneration, positions: Positions) -> int:
    """Return the offset to resume at in a known file; 0 if nothing of this generation was emitted."""
    position: MessageId | None = positions.of(known.partition_name, known.epoch)
    if position is None:
        return 0
    if type(position) is not int or position < 0:
        raise no_position(position, "a position in a file is a byte offset")
    return position


def current_of(path: str, files: KnownFiles, descriptor: int) -> FileGeneration | None:
    """Return the known file that `path` names now; None if it is a new one."""
    return files.recognise(descriptor, _held(rotated(path), files))


def left_behind(
    path: str, files: KnownFiles, positions: Positions, current: int, known: FileGeneration | None
) -> Iterator[Unread]:
    """Yield the rotated files next to `path` that have lines to read, oldest first.

    These are files that an earlier run has not read to their ends, or that have a position in them. If the file that
    `path` names is not a known one, they also include files that came and went while no run was active.

    `current` is the descriptor of the file at `path`. If that file was truncated in place, its lines are in a copy, if
    anywhere.
    """
    status = os.fstat(current)
    taken = set() if known is None else {known.generation_of}
    unread = [
        known_file
        for known_file in files.all
        if known_file.generation_of not in taken and not known_file.ended and known_file.offset
    ]
    truncated = [
        known_file
        for known_file in files.all
        if known_file.offset > 0
        and known_file.is_at(status)
        and (not known_file.ended or _perhaps_unfinished(known_file, positions))
    ]
    besides = [candidate for candidate in rotated(path) if candidate.key != (status.st_dev, status.st_ino)]
    held = _held(besides, files)
    read: list[int] = []  # descriptors of files that were yielded; their receiver keeps them open
    for beside in besides:
        came_and_went = known is None and len(taken) > 0
        if beside.packed and not came_and_went and not _may_be_known(beside, files):
            continue
        if (descriptor := opened(beside)) is None:
            continue
        but = {*taken, *(generation for generation, key in held.items() if key != beside.key)}
        copied = [
            known_file
            for known_file in truncated
            if known_file.generation_of not in but and known_file.begins(descriptor)
        ]
        file = files.recognise(descriptor, but) or next(iter(copied), None)
        if file is not None:
            taken.add(file.generation_of)
        if file is not None and (not file.ended or _perhaps_unfinished(file, positions)):
            read.append(descriptor)
            if not beside.packed:
                file = replace(file, device=beside.key[0], inode=beside.key[1])
            yield Unread(descriptor, file, offset_in(file, positions), beside.packed or file in copied)
        elif file is None and came_and_went and _is_new(descriptor, read):
            log.info("%s was rotated while it was not read; it is read from its start", beside.path)
            read.append(descriptor)
            yield Unread(descriptor, files.new(descriptor), 0, beside.packed)
        else:
            os.close(descriptor)
    for missed in unread:
        if missed.generation_of not in taken:
            log.warning(
                "a file that was read up to byte %d is no longer next to %s; any lines after that byte are lost",
                missed.offset,
                path,
            )
            files.keep(replace(missed, ended=True))


def _held(besides: Iterable[RotatedFile], files: KnownFiles) -> dict[Generation, tuple[int, int]]:
    """Return the rotated files, by device and inode, that begin as a known file and have its inode. No other file is
    that one.

    Files may begin alike; then their inodes distinguish them.
    """
    inodes = {known.key for known in files.all}
    held = {}
    for beside in besides:
        if beside.key in inodes and not beside.packed and (descriptor := opened(beside)) is not None:
            file = files.recognise(descriptor)
            os.close(descriptor)
            if file is not None and file.key == beside.key:
                held[file.generation_of] = beside.key
    return held


def _is_new(descriptor: int, read: Iterable[int]) -> bool:
    """Return True if a file has content, and neither it nor a file that is read already is a copy of the other. While a
    compressed copy is being written, both are there."""
    size = os.fstat(descriptor).st_size
    ends = ((other, min(size, os.fstat(other).st_size)) for other in read)
    return size > 0 and not any(end and windows(descriptor, end) == windows(other, end) for other, end in ends)


def _may_be_known(beside: RotatedFile, files: KnownFiles) -> bool:
    """Return True if a rotated file may be a known one, by its first bytes, because unpacking the rest takes long. Also
    True if they cannot be read; a warning for that comes later."""
    head = head_of(beside)
    return head is None or files.may_be_known(head)


def _perhaps_unfinished(known: FileGeneration, positions: Positions) -> bool:
    """Return True if a file that was read to its end may have unfinished lines (E3): there is a position in it. If all
    lines are done, the position is its last line, which is skipped."""
    return positions.of(known.partition_name, known.epoch) is not None


def passed_by(
    path: str, files: KnownFiles, open_keys: Collection[tuple[int, int]], open_ones: Mapping[int, Generation]
) -> Iterator[Unread]:
    """Yield files that `path` has named for a while since the newest open file, and that were never seen: two rotations
    between two looks. `open_ones`: by descriptor, the newest last."""
    *_, before = open_ones
    since = os.fstat(before).st_mtime_ns
    for beside in rotated(path):
        if beside.packed or beside.key in open_keys or beside.changed_ns < since:
            continue
        if (descriptor := opened(beside)) is None:
            continue
        if files.recognise(descriptor, open_ones.values()) is None and _is_new(descriptor, open_ones):
            yield Unread(descriptor, files.new(descriptor), 0)
        else:
            os.close(descriptor)


def copy_of(path: str, seen: tuple[bytes, bytes], offset: int) -> int | None:
    """Return a descriptor of the copy that was made of the file at `path` before it was truncated. None if there is no
    copy with more than the `offset` bytes that were read."""
    for beside in reversed(rotated(path)):
        if not offset or (head_of(beside) or b"")[: len(seen[0])] != seen[0] or (descriptor := opened(beside)) is None:
            continue  # judged by its first bytes, because `poll` must not unpack an unrelated file
        if os.fstat(descriptor).st_size > offset and windows(descriptor, offset) == seen:
            return descriptor
        os.close(descriptor)
    return None
