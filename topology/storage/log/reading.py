"""Reads a log's file: its sound groups one after the other, and what any later group says of how far it was durable.

Must not know which file is the newer one, nor which checkpoint is decided.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from topology.filesystem.files import WritableFile
from topology.storage.log.layout import (
    ALIGNED,
    GROUP_BYTES_MAX,
    GROUP_HEADER_BYTES,
    GROUP_MAGIC,
    GROUPS_AT,
    FileHeader,
    GroupHeader,
    group_header_of,
    is_body_of,
)

CHUNK_BYTES: Final = 256 << 10  # that are read at once, a multiple of ALIGNED; a longer group is read as a whole


class LogPlace(NamedTuple):
    """A place between two groups of a file."""

    offset: int  # bytes, from the file's start
    number: int  # of the next group
    previous: int  # checksum of the group before


def first_place(header: FileHeader) -> LogPlace:
    """Return the place of a file's first group."""
    return LogPlace(GROUPS_AT, header.first, header.previous)


class _Chunks:
    """The bytes of a file, for a reader that goes from its start to its end."""

    def __init__(self, file: WritableFile) -> None:
        self._file = file
        self._chunk = b""
        self._at = 0

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes there; fewer if the file ends."""
        start = offset - self._at
        if start < 0 or start + length > len(self._chunk):
            self._chunk, self._at, start = self._file.read(offset, max(length, CHUNK_BYTES)), offset, 0
        return self._chunk[start : start + length]


def sound_groups(
    file: WritableFile, header: FileHeader, place: LogPlace
) -> Iterator[tuple[GroupHeader, bytes, LogPlace]]:
    """Yield each group from `place` on with its body and the place behind it, up to the first that is not sound, or
    does not follow on the one before. Blocks; holds one group at a time. Raises OSError."""
    chunks, seed = _Chunks(file), header.seed
    while True:
        group = group_header_of(chunks.read(place.offset, GROUP_HEADER_BYTES), seed)
        if group is None or (group.number, group.previous) != (place.number, place.previous):
            return
        length = group.length - GROUP_HEADER_BYTES
        if not 0 <= length <= GROUP_BYTES_MAX + ALIGNED:
            return
        body = chunks.read(place.offset + GROUP_HEADER_BYTES, length)
        if not is_body_of(group, body, seed):
            return
        place = LogPlace(place.offset + group.length, group.next_number, group.sum)
        yield group, body, place


def durable_by(file: WritableFile, header: FileHeader, offset: int) -> int:
    """Return how far the log was durable at least, by the headers of all groups from this offset on, whether what is
    before them can be read or not; 0 if there is none. Blocks. Raises OSError.

    Groups begin at multiples of 8 bytes. A header with its checksum right is enough, whatever became of its records.
    """
    most, seed = 0, header.seed
    while chunk := file.read(offset, CHUNK_BYTES):
        at = chunk.find(GROUP_MAGIC)
        while at >= 0:
            if (offset + at) % ALIGNED == 0:
                raw = chunk[at : at + GROUP_HEADER_BYTES]
                if len(raw) < GROUP_HEADER_BYTES:
                    raw = file.read(offset + at, GROUP_HEADER_BYTES)
                if (group := group_header_of(raw, seed)) is not None:
                    most = max(most, group.synced)
            at = chunk.find(GROUP_MAGIC, at + 1)
        offset += len(chunk)
    return most
