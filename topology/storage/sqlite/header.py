"""Header of a worker's store, in one row with a checksum: the file's identity, its owner, and its number of commits.

Each commit rewrites the row, so every commit in the log contains it, even commits that SQLite ignores. If such a commit
says that a later commit than the last readable one was durable, the file is damaged (F22). Must not know what else is
in the file.
"""

from typing import Final

import msgspec
from xxhash import xxh3_128_digest

from topology.storage.sqlite.database import Damaged, Database
from topology.storage.sqlite.wal import commits_passed_over

DIGEST_BYTES: Final = 16  # of all rows of the checked tables


# The life that a store is open for (D6): worker and incarnation. The incarnation is the whole count, not modulo 4,096
# as in roots: a store may be unused for any number of starts of other workers.
Owner = tuple[int, int]


class Own(msgspec.Struct, array_like=True):
    """The header. A changed header is passed on as a copy. The fields from `durable` on came with format 2, and those
    from `checkpoint` on with format 3."""

    id: bytes
    number: int  # of the worker that it was made for; the first part of its letters' names
    commits: int = 0
    next_row: int = 1
    next_letter: int = 1
    lives: int = 0  # lives that began since one has ended in order
    digest: bytes = bytes(DIGEST_BYTES)  # of all rows of the checked tables
    durable: int = 0  # commits that had survived a power failure when this was written
    states: int = 0  # XOR of the checksums of all rows of state
    former: int = 1  # a number that format 2 has here
    owner: Owner | None = None  # the last owner that opened it for a life
    checkpoint: int = 0  # the last decided checkpoint
    has_log: bool = False  # a log beside the file has what was done since
    takes_part: bool = False  # a run that has begun decides no checkpoint without this store


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Own).decode
_BEFORE_ID: Final = 3  # bytes of a row's body: the length of the list, and of the id


def create_own(database: Database, own: Own) -> None:
    """Create the header's table, within a transaction."""
    database.run("CREATE TABLE own (one INTEGER PRIMARY KEY, body BLOB NOT NULL, sum BLOB NOT NULL) STRICT")
    body = _encode(own)
    database.run("INSERT INTO own (one, body, sum) VALUES (1, ?, ?)", (body, xxh3_128_digest(body)))


def read_own(database: Database) -> tuple[Own, bytes]:
    """Return the header and its checksum, by which `write_own` recognizes it. Raises Damaged, StoreBroken,
    ValueError."""
    rows = database.rows("SELECT body, sum FROM own")
    if len(rows) != 1 or xxh3_128_digest(rows[0][0]) != rows[0][1]:
        raise Damaged("its header row is not what was written")
    return _decode(rows[0][0]), rows[0][1]


def write_own(database: Database, before: bytes, after: Own) -> bytes | None:
    """Write the header, within a transaction. Return its checksum; None if the stored row does not have the checksum
    `before` any more; then nothing was written (D6)."""
    body = _encode(after)
    sum = xxh3_128_digest(body)
    changed = database.changed("UPDATE own SET body = ?, sum = ? WHERE one = 1 AND sum = ?", (body, sum, before))
    return sum if changed == 1 else None


def lost_commits(log: bytes, own: Own, format: int) -> int:
    """Return the number of durable commits that are behind the readable part of a log; 0 if it is sound.

    SQLite reads a log as far as its checksums are valid, and silently ignores the rest. That is right for unsynced
    data, but for synced data it is damage (F22).
    """
    if format == 1 and (passed := commits_passed_over(log)) > 1:
        return passed
    return max(0, durable_by(log, own.id) - own.commits)


def too_late(owner: Owner | None, kept: Owner | None) -> bool:
    """Return True if the stored owner came after this owner, whichever worker it belongs to."""
    return owner is not None and kept is not None and owner[1] < kept[1]


def durable_by(log: bytes, id: bytes) -> int:
    """Return the highest number of durable commits that the commits in a log report. Counts all commits with a valid
    checksum, readable or not.

    SQLite's record before the body, which has the checksum behind it: … NULL, the type of a blob of that length, the
    type of one of 16 bytes.
    """
    most, at = 0, log.find(id)
    while at >= 0:
        start = at - _BEFORE_ID
        if start >= 3 and log[start - 1] == 12 + 2 * DIGEST_BYTES:
            high, low = log[start - 3], log[start - 2]
            end = start + ((low if high < 0x80 else (high & 0x7F) << 7 | low) - 12) // 2
            if xxh3_128_digest(log[start:end]) == log[end : end + DIGEST_BYTES]:
                most = max(most, _decode(log[start:end]).durable)
        at = log.find(id, at + 1)
    return most
