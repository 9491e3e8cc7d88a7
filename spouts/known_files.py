"""Which file is which: the partition and the generation of a file's content, kept in the task's notes.

The path is no identity (B12), and neither is the inode, which the next file gets as soon as this one is deleted. What
has been read is: its first 1,024 bytes, the last 1,024 before an offset, and that offset. This file must not know how
lines are read, nor what a path names.
"""

import json
import os
from dataclasses import astuple, dataclass
from operator import attrgetter
from random import Random
from typing import Final

from xxhash import xxh3_128_hexdigest

from spouts.tailed_file import WINDOW_BYTES, windows
from topology.codes.starting import K416
from topology.components import Notes
from topology.errors import StartError

KNOWN_MAX: Final = 32  # files kept in the notes, the latest noted last; about 120 bytes each


@dataclass(frozen=True)
class KnownFile:
    """One generation of a partition, and how its file's content is recognised."""

    partition: str
    generation: int
    device: int
    inode: int
    offset: int  # so much of it had been read when it was noted
    digest: str  # of the two windows before `offset`
    ended: bool = True  # read to its end, done or not; True in notes of earlier releases, which did not resume

    @property
    def generation_of(self) -> tuple[str, int]:
        """The partition and the generation: which file this is, however far it was read."""
        return self.partition, self.generation

    def is_same(self, other: "KnownFile") -> bool:
        return self.generation_of == other.generation_of

    def is_at(self, status: os.stat_result) -> bool:
        """Whether this was the file with that device and inode, at least."""
        return (self.device, self.inode) == (status.st_dev, status.st_ino)

    @property
    def epoch(self) -> str:
        return str(self.generation)


def digest(seen: tuple[bytes, bytes]) -> str:
    """Of the two windows before an offset."""
    return xxh3_128_hexdigest(seen[0] + seen[1])


class KnownFiles:
    """The files that this task, or the same task of an earlier run, has read. Methods block for a read of the disk,
    `keep` for the notes' fsync. Raises StartError where the notes can't be understood or written."""

    def __init__(self, notes: Notes, component: str, random: Random) -> None:
        self._notes = notes
        self._name = f"files of {component}"
        self._random = random
        self._known: dict[tuple[str, int], KnownFile] = {}
        try:
            for entry in json.loads(notes.get(self._name) or "[]"):
                known = KnownFile(*entry)
                self._known[known.partition, known.generation] = known
        except (ValueError, TypeError) as error:
            raise StartError(f"the note {self._name!r} is damaged: {error}", code=K416) from error

    @property
    def unread(self) -> list[KnownFile]:
        """Those that were not read to their ends, the latest noted last."""
        return [one for one in self._known.values() if not one.ended]

    def recognise(self, descriptor: int) -> KnownFile | None:
        """The known file whose content this file begins with, the longest; None where there is none.

        Content shorter than 1,024 bytes proves little, so there the inode must be the same too. A file that ends before
        the noted offset has shorter windows, and so another digest.
        """
        status = os.fstat(descriptor)

        def is_this(known: KnownFile) -> bool:
            proven = known.is_at(status) or known.offset >= WINDOW_BYTES
            return proven and digest(windows(descriptor, known.offset)) == known.digest

        return max(filter(is_this, reversed(self._known.values())), key=attrgetter("offset"), default=None)

    def new(self, descriptor: int, before: str | None = None) -> KnownFile:
        """Names content that is read from its first byte. The name is noted by `keep`, before its first line leaves.

        The partition is the hash of the file's first 1,024 bytes. A shorter file goes on under `before`, its partition
        before it was truncated, or else gets a random one, that it keeps when it grows. The generation is one that the
        partition has not had.
        """
        status = os.fstat(descriptor)
        head = os.pread(descriptor, WINDOW_BYTES, 0)
        if len(head) == WINDOW_BYTES:
            partition = xxh3_128_hexdigest(head)
        else:
            # The inode and its last change besides: the task's random numbers may be those of the run before.
            seed = [self._random.getrandbits(64), status.st_dev, status.st_ino, status.st_ctime_ns]
            partition = before or xxh3_128_hexdigest(json.dumps(seed).encode())
        generation = max((one.generation + 1 for one in self._known.values() if one.partition == partition), default=0)
        named = KnownFile(partition, generation, status.st_dev, status.st_ino, 0, digest((b"", b"")), False)
        self._known[partition, generation] = named
        return named

    def keep(self, known: KnownFile) -> None:
        """Notes a file, as the latest; the oldest beyond 32 are forgotten."""
        self._known.pop((known.partition, known.generation), None)
        self._known[known.partition, known.generation] = known
        for name in list(self._known)[:-KNOWN_MAX]:
            del self._known[name]
        self._notes.set(self._name, json.dumps([astuple(one) for one in self._known.values()], separators=(",", ":")))
