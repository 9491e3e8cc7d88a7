"""Which file is which: the partition and the generation of a file's content, kept in the task's notes.

The path is no identity (B12), and neither is the inode, which the next file gets as soon as this one is deleted. What
has been read is: its first 1,024 bytes, the last 1,024 before an offset, and that offset. This file must not know how
lines are read, nor what a path names.
"""

import json
import os
from collections.abc import Collection
from dataclasses import astuple, dataclass
from random import Random
from typing import Final, TypeAlias

from xxhash import xxh3_64_hexdigest, xxh3_128_hexdigest

from spouts.file_tail.open_file import WINDOW_BYTES, windows
from topology.codes.startup import DAMAGED_FILE_LIST
from topology.components import Notes
from topology.errors import StartError

KNOWN_MAX: Final = 32  # files kept in the notes, the latest noted last; about 140 bytes each

Generation: TypeAlias = tuple[str, int]  # a partition and its generation


@dataclass(frozen=True)
class FileGeneration:
    """One generation of a partition, and how its file's content is recognised."""

    partition: str
    generation: int
    device: int
    inode: int
    offset: int  # so much of it had been read when it was noted
    digest: str  # of the two windows before `offset`
    ended: bool = True  # read to its end, done or not; True in notes of earlier releases, which did not resume
    head: str = ""  # of the first of these windows; empty in notes of earlier releases

    @property
    def generation_of(self) -> Generation:
        """The partition and the generation: which file this is, however far it was read."""
        return self.partition, self.generation

    @property
    def key(self) -> tuple[int, int]:
        """The device and inode that it was last seen at."""
        return self.device, self.inode

    def is_at(self, status: os.stat_result) -> bool:
        """Whether this was the file with that device and inode, at least."""
        return self.key == (status.st_dev, status.st_ino)

    @property
    def partition_name(self) -> str:
        """What the runtime knows it by. Each generation is a partition of its own: of one partition only the newest
        epoch is resumed, and lines of several generations may be under way at once (E3). Earlier releases had one for
        all, and what they have noted keeps its name."""
        return f"{self.partition}.{self.generation}" if self.head and self.generation else self.partition

    @property
    def epoch(self) -> str:
        return str(self.generation)

    def begins(self, descriptor: int) -> bool:
        """Whether the file with this descriptor begins as this one, with all that had been read of it."""
        return digest(windows(descriptor, self.offset)) == self.digest


def digest(seen: tuple[bytes, bytes]) -> str:
    """Of the two windows before an offset."""
    return xxh3_128_hexdigest(seen[0] + seen[1])


def head_digest(head: bytes) -> str:
    """Of the first of them; never empty."""
    return xxh3_64_hexdigest(head)


class KnownFiles:
    """The files that this task, or the same task of an earlier run, has read. Methods block for a read of the disk,
    `keep` for the notes' fsync. Raises StartError where the notes can't be understood or written."""

    def __init__(self, notes: Notes, component: str, random: Random) -> None:
        self._notes = notes
        self._name = f"files of {component}"
        self._random = random
        self._known: dict[tuple[str, int], FileGeneration] = {}
        try:
            for entry in json.loads(notes.get(self._name) or "[]"):
                known = FileGeneration(*entry)
                self._known[known.partition, known.generation] = known
        except (ValueError, TypeError) as error:
            raise StartError(f"the note {self._name!r} is damaged: {error}", code=DAMAGED_FILE_LIST) from error

    @property
    def all(self) -> list[FileGeneration]:
        """The latest noted last."""
        return [*self._known.values()]

    def recognise(self, descriptor: int, but: Collection[Generation] = ()) -> FileGeneration | None:
        """The known file whose content this file begins with, the longest, and of several the one with its inode; None
        where there is none, but those of the generations in `but`.

        Content shorter than 1,024 bytes proves little, so there the inode must be the same too. A file that ends before
        the noted offset has shorter windows, and so another digest.
        """
        status = os.fstat(descriptor)

        def is_this(known: FileGeneration) -> bool:
            if known.generation_of in but:
                return False
            proven = known.is_at(status) or known.offset >= WINDOW_BYTES
            return proven and known.begins(descriptor)

        found = filter(is_this, reversed(self._known.values()))
        return max(found, key=lambda known: (known.offset, known.is_at(status)), default=None)

    def may_be_known(self, head: bytes) -> bool:
        """Whether a file that begins so may be a known one; `head` has 1,024 bytes, or is all of it."""
        return any(not one.head or head_digest(head[: one.offset]) == one.head for one in self._known.values())

    def new(self, descriptor: int, before: str | None = None) -> FileGeneration:
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
        nothing = 0, digest((b"", b"")), False, head_digest(b"")
        named = FileGeneration(partition, generation, status.st_dev, status.st_ino, *nothing)
        self._known[partition, generation] = named
        return named

    def keep(self, known: FileGeneration) -> None:
        """Notes a file, as the latest; the oldest beyond 32 are forgotten."""
        self._known.pop((known.partition, known.generation), None)
        self._known[known.partition, known.generation] = known
        for name in list(self._known)[:-KNOWN_MAX]:
            del self._known[name]
        self._notes.set(self._name, json.dumps([astuple(one) for one in self._known.values()], separators=(",", ":")))
