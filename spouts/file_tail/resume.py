"""Lines that are left in rotated files: what an earlier run, or this one while it was held up, has not read of them.

Decides which of the files beside a log are taken up, and where. Must not know how lines are read, nor when to look.
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
    """A file to be read from `offset` on. Whoever is given it owns the descriptor."""

    descriptor: int
    known: FileGeneration
    offset: int
    whole: bool = False  # nobody writes to it any more: a copy, or unpacked


def offset_in(known: FileGeneration, positions: Positions) -> int:
    """Where to resume in a known file; 0 where nothing of this generation was emitted."""
    position: MessageId | None = positions.of(known.partition_name, known.epoch)
    if position is None:
        return 0
    if type(position) is not int or position < 0:
        raise no_position(position, "a position in a file is a byte offset")
    return position


def current_of(path: str, files: KnownFiles, descriptor: int) -> FileGeneration | None:
    """Which known file it is that `path` names now; None where it is a new one."""
    return files.recognise(descriptor, _held(rotated(path), files))


def left_behind(
    path: str, files: KnownFiles, positions: Positions, current: int, known: FileGeneration | None
) -> Iterator[Unread]:
    """Of the rotated files beside `path`, oldest first: those that an earlier run has not read to their ends, or that
    there is a position in, and, where the file that `path` names is not a known one, those that came and went while no
    run was under way.

    `current` is that file's descriptor. One that was truncated in place has left its lines in a copy, if anywhere.
    """
    status = os.fstat(current)
    taken = set() if known is None else {known.generation_of}
    unread = [one for one in files.all if one.generation_of not in taken and not one.ended]
    truncated = [
        one
        for one in files.all
        if one.offset > 0 and one.is_at(status) and (not one.ended or _perhaps_unfinished(one, positions))
    ]
    besides = [one for one in rotated(path) if one.key != (status.st_dev, status.st_ino)]
    held = _held(besides, files)
    read: list[int] = []  # descriptors of what was taken up; whoever was given them has them open
    for beside in besides:
        came_and_went = known is None and len(taken) > 0
        if beside.packed and not came_and_went and not _may_be_known(beside, files):
            continue
        if (descriptor := opened(beside)) is None:
            continue
        but = {*taken, *(one for one, key in held.items() if key != beside.key)}
        copied = [one for one in truncated if one.generation_of not in but and one.begins(descriptor)]
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
    for one in unread:
        if one.generation_of not in taken:
            log.warning(
                "a file that was read up to byte %d is not beside %s any more; what came after that, if anything, is "
                "lost",
                one.offset,
                path,
            )
            files.keep(replace(one, ended=True))


def _held(besides: Iterable[RotatedFile], files: KnownFiles) -> dict[Generation, tuple[int, int]]:
    """Files may begin alike, and then their inodes tell which is which: the rotated files, by device and inode, that
    begin as a known one and have its inode. No other file is that one."""
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
    """Whether a file has something in it, and is no copy of one that is read already, nor the other way round: as long
    as the compressed one is being written, both are there."""
    size = os.fstat(descriptor).st_size
    ends = ((other, min(size, os.fstat(other).st_size)) for other in read)
    return size > 0 and not any(end and windows(descriptor, end) == windows(other, end) for other, end in ends)


def _may_be_known(beside: RotatedFile, files: KnownFiles) -> bool:
    """Told by its first bytes, as it takes long to unpack the rest; also where they can't be read, which is warned of
    then."""
    head = head_of(beside)
    return head is None or files.may_be_known(head)


def _perhaps_unfinished(known: FileGeneration, positions: Positions) -> bool:
    """A file that was read to its end may have lines that are not done (E3): there is a position in it. Where all are,
    that is its last line, which is passed over."""
    return positions.of(known.partition_name, known.epoch) is not None


def passed_by(
    path: str, files: KnownFiles, open_keys: Collection[tuple[int, int]], open_ones: Mapping[int, Generation]
) -> Iterator[Unread]:
    """Files that `path` has named for a while, since the newest of those that are open was it, and that nobody has
    seen: two rotations between two looks. `open_ones`: by descriptor, the newest last."""
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
    """A descriptor of the copy that was made of the file at `path` before it was truncated, where there is one and it
    has more than the `offset` bytes that were read."""
    for beside in reversed(rotated(path)):
        if not offset or (head_of(beside) or b"")[: len(seen[0])] != seen[0] or (descriptor := opened(beside)) is None:
            continue  # told by its first bytes, as `poll` must not unpack what is something else
        if os.fstat(descriptor).st_size > offset and windows(descriptor, offset) == seen:
            return descriptor
        os.close(descriptor)
    return None
