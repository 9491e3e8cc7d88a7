"""What a worker's store says of itself, in one row that has a checksum: which file it is, whose, and how far it is.

Each commit writes it anew, so it is in every commit of the log, also in those that SQLite passes over: a commit that
says of a later one than the last that can be read that it was durable, proves damage (F22). Must not know what else is
in the file.
"""

from typing import Final

import msgspec
from xxhash import xxh3_128_digest

from topology.storage.sqlite.database import Damaged, Database

DIGEST_BYTES: Final = 16  # of all rows of the checked tables


# Whose life a store is open for (D6): worker and incarnation. The latter is the whole count, and not modulo 4,096 as in
# roots: a store may be left alone for as many starts of others as there are.
Owner = tuple[int, int]


class Own(msgspec.Struct, array_like=True):
    """One is passed on changed as a copy. The fields from `durable` on came with format 2."""

    id: bytes
    number: int  # of the worker that it was made for: the first part of its letters' names
    commits: int = 0
    next_row: int = 1
    next_letter: int = 1
    lives: int = 0  # that began since one has ended in order
    digest: bytes = bytes(DIGEST_BYTES)  # of all rows of the checked tables
    durable: int = 0  # commits that had survived a loss of power when this was written
    states: int = 0  # XOR of the checksums of all rows of state
    next_journal: int = 1
    owner: Owner | None = None  # who has opened it for life last


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Own).decode
_BEFORE_ID: Final = 3  # bytes of a row's body: how long the list is, and the id


def create_own(database: Database, own: Own) -> None:
    """Within a transaction."""
    database.run("CREATE TABLE own (one INTEGER PRIMARY KEY, body BLOB NOT NULL, sum BLOB NOT NULL) STRICT")
    body = _encode(own)
    database.run("INSERT INTO own (one, body, sum) VALUES (1, ?, ?)", (body, xxh3_128_digest(body)))


def read_own(database: Database) -> tuple[Own, bytes]:
    """With its checksum, by which `write_own` knows it again. Raises Damaged, StoreBroken, ValueError."""
    rows = database.rows("SELECT body, sum FROM own")
    if len(rows) != 1 or xxh3_128_digest(rows[0][0]) != rows[0][1]:
        raise Damaged("what it says of itself is not what was written")
    return _decode(rows[0][0]), rows[0][1]


def write_own(database: Database, before: bytes, after: Own) -> bytes | None:
    """Within a transaction. Returns its checksum; None where the row is not the one with the checksum `before` any
    more, and nothing was written (D6)."""
    body = _encode(after)
    sum = xxh3_128_digest(body)
    changed = database.changed("UPDATE own SET body = ?, sum = ? WHERE one = 1 AND sum = ?", (body, sum, before))
    return sum if changed == 1 else None


def too_late(owner: Owner | None, kept: Owner | None) -> bool:
    """Whether the one that is kept came after this owner, whichever worker's it was."""
    return owner is not None and kept is not None and owner[1] < kept[1]


def durable_by(log: bytes, id: bytes) -> int:
    """How many commits were durable once, as the commits in a log say, readable or not: whatever has its checksum.

    SQLite's record before the body, which has the checksum behind it: … NULL, the type of a blob that is so long, the
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
