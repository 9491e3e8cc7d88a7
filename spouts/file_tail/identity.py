"""Identities of files: the partition and the generation of a file's content, kept in the task's notes.

The path is no identity (B12), and neither is the inode, which the next file gets as soon as this one is deleted. The
identity is the content that has been read: its first 1,024 bytes, the last 1,024 before an offset, and that offset.
This file must not know how lines are read, nor what a path names.
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

KNOWN_MAX: Final = 32  # files kept in the notes, the last noted one last; about 140 bytes each

Generation: TypeAlias = tuple[str, int]  # a partition and its generation


@dataclass(frozen=True)
class FileGeneration:
    """One generation of a partition, and the data that recognizes its file's content."""

    partition: str
    generation: int
    device: int
    inode: int
    offset: int  # bytes of the file that had been read when it was noted
    digest: str  # of the two windows before `offset`
    ended: bool = True  # read to its end, done or not; True in notes of earlier releases, which did not resume
    head: str = ""  # digest of the first of these windows; empty in notes of earlier releases

    @property
    def generation_of(self) -> Generation:
        """The partition and the generation: the identity of the file, however far it was read."""
        return self.partition, self.generation

    @property
    def key(self) -> tuple[int, int]:
        """The device and inode at which it was last seen."""
        return self.device, self.inode

    def is_at(self, status: os.stat_result) -> bool:
        """Return True if this file had this device and inode."""
        return self.key == (status.st_dev, status.st_ino)

    @property
    def partition_name(self) -> str:
        """The runtime's name for it. Each generation is a partition of its own, because only the newest epoch of a
        partition is resumed, and lines of several generations may be in flight at once (E3). Earlier releases had one
        partition for all generations, and their notes keep that name."""
        return f"{self.partition}.{self.generation}" if self.head and self.generation else self.partition

    @property
    def epoch(self) -> str:
        return str(self.generation)

    def begins(self, descriptor: int) -> bool:
        """Return True if the file with this descriptor begins with all the bytes that had been read of this one."""
        return digest(windows(descriptor, self.offset)) == self.digest


def digest(seen: tuple[bytes, bytes]) -> str:
    """Return the digest of the two windows before an offset."""
    return xxh3_128_hexdigest(seen[0] + seen[1])


def head_digest(head: bytes) -> str:
    """Return the digest of the first window; never empty."""
    return xxh3_64_hexdigest(head)


class KnownFiles:
    """The files that this task, or the same task of an earlier run, has read. Methods block for a read of the disk,
    `keep` for the notes' fsync. Raises StartError if the notes are invalid or cannot be written."""

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
        """All known files, the last noted one last."""
        return [*self._known.values()]

    def recognise(self, descriptor: int, but: Collection[Generation] = ()) -> FileGeneration | None:
        """Return the known file whose content this file begins with; None if there is none. Prefers the longest, then
        the one with the same inode. Ignores the generations in `but`, and those of which nothing was read: nothing of
        them was emitted, and any content begins as they do.

        Content shorter than 1,024 bytes proves little, so for that the inode must be the same too. A file that ends
        before the noted offset has shorter windows, and so another digest.
        """
        status = os.fstat(descriptor)

        def is_this(known: FileGeneration) -> bool:
            if known.generation_of in but or not known.offset:
                return False
            proven = known.is_at(status) or known.offset >= WINDOW_BYTES
            return proven and known.begins(descriptor)

        found = filter(is_this, reversed(self._known.values()))
        return max(found, key=lambda known: (known.offset, known.is_at(status)), default=None)

    def may_be_known(self, head: bytes) -> bool:
        """Return True if a file that begins with `head` may be a known one; `head` has 1,024 bytes, or is the whole
        file."""
        return any(not known.head or head_digest(head[: known.offset]) == known.head for known in self._known.values())

    def new(self, descriptor: int, before: str | None = None) -> FileGeneration:
        """Name content that is read from its first byte. `keep` stores the name, before the content's first line is
        emitted.

        The partition is the hash of the file's first 1,024 bytes. A shorter file keeps `before`, its partition before
        it was truncated. Otherwise it gets a random one, which it keeps when it grows. The generation is one that the
        partition has not had.
        """
        status = os.fstat(descriptor)
        head = os.pread(descriptor, WINDOW_BYTES, 0)
        if len(head) == WINDOW_BYTES:
            partition = xxh3_128_hexdigest(head)
        else:
            # The inode and its last change too: the task's random numbers may be those of the run before.
            seed = [self._random.getrandbits(64), status.st_dev, status.st_ino, status.st_ctime_ns]
            partition = before or xxh3_128_hexdigest(json.dumps(seed).encode())
        generation = max(
            (known.generation + 1 for known in self._known.values() if known.partition == partition), default=0
        )
        nothing = 0, digest((b"", b"")), False, head_digest(b"")
        named = FileGeneration(partition, generation, status.st_dev, status.st_ino, *nothing)
        self._known[partition, generation] = named
        return named

    def keep(self, known: FileGeneration) -> None:
        """Note a file as the latest; the oldest beyond 32 are forgotten."""
        self._known.pop((known.partition, known.generation), None)
        self._known[known.partition, known.generation] = known
        for name in list(self._known)[:-KNOWN_MAX]:
            del self._known[name]
        self._notes.set(
            self._name, json.dumps([astuple(noted) for noted in self._known.values()], separators=(",", ":"))
        )
