"""The bytes of a log's files: a header, and groups of records behind it. Pure.

A file begins with two copies of its header, in a sector each, so one flipped bit or torn sector leaves one of them. The
checksum of the header is the seed of all checksums in the file. So groups of an earlier turn, which stand in the same
preallocated room, are never sound: their header was another one. SQLite's write-ahead log does the same with its salts.

A group has a header of 64 bytes, then the lengths of its records, the records, and zeros up to a multiple of 8. Three
things in the header make a torn tail differ from damage:

- `number` is the place of the group in the log, over all files. It goes up by one with each record, mark or note.
- `previous` is the checksum of the group before. A group that was left behind by an earlier process, after a group that
  was lost, does not follow on what a later process has written in its place.
- `synced` is how far the log was durable when the group was written, as ARIES' master record is for its log. An
  unreadable group below the `synced` of any sound one is damage; above all of them it is a torn tail.

One checksum covers a group as a whole: its records are written, and read back, together or not at all.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

MAGIC: Final = b"KEDGELOG"
FORMAT: Final = 1
SECTOR: Final = 512  # bytes that a disk writes as a whole or not at all
HEADERS: Final = 2  # copies, one per sector
GROUPS_AT: Final = SECTOR * HEADERS  # offset of the first group of a file
ALIGNED: Final = 8  # bytes
RECORD_BYTES_MAX: Final = 8 << 20
GROUP_BYTES_MAX: Final = 32 << 20  # of all records of one group, and 4 for each of them

_file_header: Final = Struct("<8sIIQQQQQQ")
_group_header: Final = Struct("<4sIIIQQQQQ")
_sum: Final = Struct("<Q")
GROUP_MAGIC: Final = b"KGrp"
GROUP_HEADER_BYTES: Final = _group_header.size + _sum.size
FILE_HEADER_BYTES: Final = _file_header.size + _sum.size
_OWNER: Final = Struct("<QQ")


class GroupKind(IntEnum):
    """The kinds of groups."""

    RECORDS = 1
    MARK = 2  # `value`: the checkpoint that was gathered here
    OPENED = 3  # `value`: the decided checkpoint; its record is the owner. Marks of later checkpoints are void
    CLOSED = 4  # only says how far the log is durable


class FileHeader(NamedTuple):
    """The header of a file, for one turn."""

    worker: int
    incarnation: int  # of the writer
    sequence: int  # of the turn: the file with the higher one is the newer
    first: int  # the number of its first group
    mark: int  # the checkpoint whose mark is its first group
    previous: int  # checksum of the last group of the file before
    synced: int  # how far the log was durable then

    @property
    def seed(self) -> int:
        """The header's checksum."""
        return xxh3_64_intdigest(_file_header.pack(MAGIC, FORMAT, *self))

    def packed(self) -> bytes:
        """Return the first GROUPS_AT bytes of the file."""
        header = _file_header.pack(MAGIC, FORMAT, *self) + _sum.pack(self.seed)
        return header.ljust(SECTOR, b"\0") * HEADERS


class GroupHeader(NamedTuple):
    """The header of a group. `length` is the number of bytes from the header to the next group."""

    kind: int
    records: int  # how many
    length: int
    number: int
    synced: int
    previous: int
    body_sum: int
    value: int  # a checkpoint, by kind
    sum: int  # of this header

    @property
    def next_number(self) -> int:
        return self.number + (self.records if self.kind == GroupKind.RECORDS else 1)


class PackedGroup(NamedTuple):
    """A group to be written: its parts, their total length in bytes, and the checksum that the next group names."""

    parts: tuple[bytes, bytes, bytes]
    length: int
    sum: int
    next_number: int


def file_header_of(content: bytes) -> FileHeader | None:
    """Return the header in a file's first GROUPS_AT bytes: the newer one of its sound copies; None if none is sound."""
    found = []
    for start in range(0, SECTOR * HEADERS, SECTOR):
        raw = content[start : start + FILE_HEADER_BYTES]
        if len(raw) == FILE_HEADER_BYTES:
            magic, format, *fields = _file_header.unpack_from(raw)
            header = FileHeader(*fields)
            if (magic, format) == (MAGIC, FORMAT) and _sum.unpack_from(raw, _file_header.size)[0] == header.seed:
                found.append(header)
    return max(found, key=lambda header: header.sequence, default=None)


def format_of(content: bytes) -> int:
    """Return the format that all copies of a header name; 0 if they differ, or are no headers of a log."""
    formats = {
        int.from_bytes(content[start + len(MAGIC) :][:4], "little")
        if content[start : start + len(MAGIC)] == MAGIC
        else 0
        for start in range(0, SECTOR * HEADERS, SECTOR)
    }
    return formats.pop() if len(formats) == 1 else 0


def packed_group(
    kind: GroupKind, records: Sequence[bytes], seed: int, *, number: int, synced: int, previous: int, value: int = 0
) -> PackedGroup:
    """Return the bytes of a group. Raises ValueError for a record, or a group, that is too large."""
    count = len(records)
    lengths = [*map(len, records)]
    size = 4 * count + sum(lengths)
    if lengths and (longest := max(lengths)) > RECORD_BYTES_MAX:
        raise ValueError(f"a record of {longest:,} bytes is too long for the log, which takes {RECORD_BYTES_MAX:,}")
    if size > GROUP_BYTES_MAX:
        raise ValueError(f"{count:,} records of {size:,} bytes are too much for one group: {GROUP_BYTES_MAX:,} bytes")
    table = Struct(f"<{count}I").pack(*lengths)
    body = b"".join((table, *records, bytes(-size % ALIGNED)))
    fields = kind, count, GROUP_HEADER_BYTES + len(body), number, synced, previous, xxh3_64_intdigest(body, seed), value
    header = _group_header.pack(GROUP_MAGIC, *fields)
    sum_ = xxh3_64_intdigest(header, seed)
    return PackedGroup(
        (header, _sum.pack(sum_), body), fields[2], sum_, number + (count if kind == GroupKind.RECORDS else 1)
    )


def group_header_of(content: bytes, seed: int) -> GroupHeader | None:
    """Return the header in these GROUP_HEADER_BYTES; None if it is not sound."""
    if len(content) < GROUP_HEADER_BYTES or content[:4] != GROUP_MAGIC:
        return None
    (found,) = _sum.unpack_from(content, _group_header.size)
    if found != xxh3_64_intdigest(content[: _group_header.size], seed):
        return None
    return GroupHeader._make((*_group_header.unpack_from(content)[1:], found))


def is_body_of(header: GroupHeader, body: bytes, seed: int) -> bool:
    """Return whether these bytes are what was written behind the header."""
    return xxh3_64_intdigest(body, seed) == header.body_sum


def records_of(header: GroupHeader, body: bytes) -> list[bytes]:
    """Return the records of a sound group."""
    records, start = [], 4 * header.records
    for (length,) in Struct("<I").iter_unpack(body[:start]):
        records.append(body[start : start + length])
        start += length
    return records


def packed_owner(worker: int, incarnation: int) -> bytes:
    """Return the record of an OPENED group."""
    return _OWNER.pack(worker, incarnation)


def incarnation_of(record: bytes) -> int:
    """Return the incarnation in the record of an OPENED group."""
    return int(_OWNER.unpack(record)[1])
