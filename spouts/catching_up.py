"""Lines that are left in rotated files: what an earlier run, or this one while it was held up, has not read of them.

Decides which of the files beside a log are taken up, and where. Must not know how lines are read, nor when to look.
"""

import logging
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from acker.identity import MessageId
from spouts.known_files import KnownFile, KnownFiles, digest
from spouts.opening import no_position
from spouts.rotated_files import opened, rotated
from spouts.tailed_file import windows
from topology.components import Positions

log = logging.getLogger("kedge.spouts")


@dataclass(frozen=True)
class Unread:
    """A file to be read from `offset` on. Whoever is given it owns the descriptor."""

    descriptor: int
    known: KnownFile
    offset: int
    whole: bool = False  # nobody writes to it any more: a copy, or unpacked


def offset_in(known: KnownFile, positions: Positions) -> int:
    """Where to resume in a known file; 0 where nothing of this generation was emitted."""
    position: MessageId | None = positions.of(known.partition, known.epoch)
    if position is None:
        return 0
    if type(position) is not int or position < 0:
        raise no_position(position, "a position in a file is a byte offset")
    return position


def left_behind(
    path: str, files: KnownFiles, positions: Positions, current: int, known: KnownFile | None
) -> Iterator[Unread]:
    """Of the rotated files beside `path`, oldest first: those that an earlier run has not read to their ends, or that
    there is a position in, and, where the file that `path` names is not a known one, those that came and went while no
    run was under way.

    `current` is that file's descriptor. One that was truncated in place has left its lines in a copy, if anywhere.
    """
    status = os.fstat(current)
    missing = {one.generation_of: one for one in files.unread if known is None or not one.is_same(known)}
    truncated = [one for one in missing.values() if known is None and one.is_at(status)]
    seen_one = False
    for beside in rotated(path):
        if beside.key == (status.st_dev, status.st_ino) or (descriptor := opened(beside)) is None:
            continue
        file = files.recognise(descriptor) or next((one for one in truncated if _begins_as(descriptor, one)), None)
        if file is not None:
            seen_one = True
            missing.pop(file.generation_of, None)
        if file is not None and (not file.ended or _perhaps_unfinished(file, positions)):
            yield Unread(descriptor, file, offset_in(file, positions), beside.packed or file in truncated)
        elif file is None and seen_one and known is None and os.fstat(descriptor).st_size:
            log.info("%s was rotated while it was not read; it is read from its start", beside.path)
            yield Unread(descriptor, files.new(descriptor), 0, beside.packed)
        else:
            os.close(descriptor)
    for one in missing.values():
        log.warning(
            "a file that was read up to byte %d is not beside %s any more; what came after that, if anything, is lost",
            one.offset,
            path,
        )
        files.keep(replace(one, ended=True))


def _perhaps_unfinished(known: KnownFile, positions: Positions) -> bool:
    """A file that was read to its end may have lines that are not done (E3): there is a position in it. Where all are,
    that is its last line, which is passed over."""
    return positions.of(known.partition, known.epoch) is not None


def passed_by(path: str, files: KnownFiles, before: int, open_keys: Collection[tuple[int, int]]) -> Iterator[Unread]:
    """Files that `path` has named for a while, since `before` (a descriptor) was the newest, and that nobody has seen:
    two rotations between two looks."""
    since = os.fstat(before).st_mtime_ns
    for beside in rotated(path):
        if beside.packed or beside.key in open_keys or beside.changed_ns < since:
            continue
        if (descriptor := opened(beside)) is None:
            continue
        if files.recognise(descriptor) is None and os.fstat(descriptor).st_size:
            yield Unread(descriptor, files.new(descriptor), 0)
        else:
            os.close(descriptor)


def copy_of(path: str, seen: tuple[bytes, bytes], offset: int) -> int | None:
    """A descriptor of the copy that was made of the file at `path` before it was truncated, where there is one and it
    has more than the `offset` bytes that were read."""
    for beside in reversed(rotated(path)):
        if (descriptor := opened(beside)) is None:
            continue
        if offset and os.fstat(descriptor).st_size > offset and windows(descriptor, offset) == seen:
            return descriptor
        os.close(descriptor)
    return None


def _begins_as(descriptor: int, known: KnownFile) -> bool:
    return known.offset > 0 and digest(windows(descriptor, known.offset)) == known.digest
