"""Tables of rows that prove that they are what was written: each has a checksum, and the sums of all rows together make
a digest, so that a changed row is found when it is read, and a lost, an old or a foreign one when all are (F22).

Rows are known by a key, and found by the number that they were given when they came: keys are kept in memory, and no
index can go wrong. Must not know what the bytes mean.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import apsw
from xxhash import xxh3_128

from topology.storage.sqlite.database import Damaged, Database

SUM_BYTES: Final = 16
ROW_BYTES_MAX: Final = 512 * 1024 * 1024  # of a row's content; SQLite's own limit is a little under 1 GB


class RowPlace(NamedTuple):
    """Where a row is, and its checksum."""

    number: int
    sum: int


@dataclass
class RowTable:
    """What is known of one table: `rows` by key, in the order in which they came."""

    name: str
    rows: dict[bytes, RowPlace] = field(default_factory=dict)


def create(database: Database, name: str) -> None:
    """Within a transaction. What may be long comes last, so that the rest is read without it."""
    database.run(
        f"CREATE TABLE {name} (number INTEGER PRIMARY KEY, key BLOB NOT NULL, sum BLOB NOT NULL, body BLOB NOT NULL) "
        "STRICT"
    )


def loaded(database: Database, table: RowTable) -> Iterator[tuple[bytes, bytes]]:
    """Key and content of each row as it is read, in the order in which they came; `table` knows them afterwards.
    Raises Damaged, StoreBroken."""
    for number, key, body, found in database.each(f"SELECT number, key, body, sum FROM {table.name} ORDER BY number"):
        row = RowPlace(number, _checked(table.name, number, key, body, found))
        if key in table.rows:
            raise Damaged(f"{table.name} has a row twice")
        table.rows[key] = row
        yield key, body


def known(database: Database, table: RowTable) -> Iterator[int]:
    """As `loaded`, without the contents, which are checked once they are read: yields how long each one is."""
    for number, key, found, size in database.each(
        f"SELECT number, key, sum, length(body) FROM {table.name} ORDER BY number"
    ):
        if key in table.rows:
            raise Damaged(f"{table.name} has a row twice")
        table.rows[key] = RowPlace(number, int.from_bytes(found, "little"))
        yield size


def read(database: Database, table: RowTable, key: bytes) -> bytes:
    """The content of one row that is there. Raises Damaged, StoreBroken."""
    row = table.rows[key]
    found = database.rows(f"SELECT key, body, sum FROM {table.name} WHERE number = ?", (row.number,))
    if len(found) != 1 or found[0][0] != key or _checked(table.name, row.number, *found[0]) != row.sum:
        raise Damaged(f"a row of {table.name} is not the one that was written")
    return bytes(found[0][1])


def digest(found: Iterable[RowTable]) -> int:
    """Of all rows of these tables."""
    whole = 0
    for table in found:
        for row in table.rows.values():
            whole ^= row.sum
    return whole


class Writing:
    """The changes of one transaction; what `tables` know changes when it is `done`. `digest` is that of all rows of all
    tables, and `next_number` a row's that comes."""

    def __init__(self, database: Database, digest: int, next_number: int) -> None:
        self._database = database
        self.digest = digest
        self.next_number = next_number
        self._changed: dict[tuple[str, bytes], tuple[RowTable, bytes, RowPlace | None]] = {}

    def put(self, table: RowTable, key: bytes, body: bytes) -> None:
        """The row of this key has this content now. Raises ValueError where it is too long to be stored."""
        if len(body) > ROW_BYTES_MAX:
            raise ValueError(f"{len(body):,} bytes are too many for a row of {table.name}; at most {ROW_BYTES_MAX:,}")
        before = self._row(table, key)
        number = before.number if before is not None else self.next_number
        value = _sum(table.name, number, key, body)
        values = (key, body, value.to_bytes(SUM_BYTES, "little"), number)
        if before is None:
            self.next_number += 1
            self._database.run(f"INSERT INTO {table.name} (key, body, sum, number) VALUES (?, ?, ?, ?)", values)
        else:
            self._database.run(f"UPDATE {table.name} SET key = ?, body = ?, sum = ? WHERE number = ?", values)
            self.digest ^= before.sum
        self.digest ^= value
        self._changed[table.name, key] = (table, key, RowPlace(number, value))

    def remove(self, table: RowTable, key: bytes) -> None:
        """There is no such row any more; nothing, where there was none."""
        before = self._row(table, key)
        if before is not None:
            self._database.run(f"DELETE FROM {table.name} WHERE number = ?", (before.number,))
            self.digest ^= before.sum
            self._changed[table.name, key] = (table, key, None)

    def remove_all(self, table: RowTable, keys: Iterable[bytes]) -> None:
        """The same for many, in one statement."""
        there = {key: row for key in keys if (row := self._row(table, key)) is not None}
        if there:
            numbers = array("q", [row.number for row in there.values()])
            self._database.run(f"DELETE FROM {table.name} WHERE number IN carray(?)", (apsw.carray(numbers),))
        for key, row in there.items():
            self.digest ^= row.sum
            self._changed[table.name, key] = (table, key, None)

    def done(self) -> None:
        """The transaction is durable."""
        for table, key, row in self._changed.values():
            if row is None:
                table.rows.pop(key, None)
            else:
                table.rows[key] = row

    def _row(self, table: RowTable, key: bytes) -> RowPlace | None:
        changed = self._changed.get((table.name, key))
        return changed[2] if changed is not None else table.rows.get(key)


def _checked(name: str, number: int, key: bytes, body: bytes, found: bytes) -> int:
    value = _sum(name, number, key, body)
    if found != value.to_bytes(SUM_BYTES, "little"):
        raise Damaged(f"a row of {name} is not what was written")
    return value


def _sum(name: str, number: int, key: bytes, body: bytes) -> int:
    """Of a row's content, its number and table: no row passes for another."""
    hasher = xxh3_128(f"{name} {number} {len(key)} ".encode())
    hasher.update(key)
    hasher.update(body)
    return hasher.intdigest()
