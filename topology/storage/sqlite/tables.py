"""Tables of rows that are checked against damage. Each row has a checksum, and the sums of all rows together make a
digest. So a changed row is found when it is read, and a lost, old or foreign row when all rows are read (F22).

Rows are identified by a key, and found by the number that they got when they were added. Keys are kept in memory, and
there is no index that can go wrong. Must not know what the bytes mean.
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
    """The number of a row, and its checksum."""

    number: int
    sum: int


@dataclass
class RowTable:
    """The known rows of one table: `rows` by key, in the order in which they were added."""

    name: str
    rows: dict[bytes, RowPlace] = field(default_factory=dict)


def create(database: Database, name: str) -> None:
    """Create a table, within a transaction. The body, which may be long, is the last column, so that the others are
    read without it."""
    database.run(
        f"CREATE TABLE {name} (number INTEGER PRIMARY KEY, key BLOB NOT NULL, sum BLOB NOT NULL, body BLOB NOT NULL) "
        "STRICT"
    )


def loaded(database: Database, table: RowTable) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and content of each row, in the order in which they were added; `table` knows them afterwards. Raises
    Damaged, StoreBroken."""
    for number, key, body, found in database.each(f"SELECT number, key, body, sum FROM {table.name} ORDER BY number"):
        row = RowPlace(number, _checked(table.name, number, key, body, found))
        if key in table.rows:
            raise Damaged(f"{table.name} has a row twice")
        table.rows[key] = row
        yield key, body


def known(database: Database, table: RowTable) -> Iterator[int]:
    """Read rows as `loaded` does, without their contents, which are checked when they are read. Yields the length of
    each content."""
    for number, key, found, size in database.each(
        f"SELECT number, key, sum, length(body) FROM {table.name} ORDER BY number"
    ):
        if key in table.rows:
            raise Damaged(f"{table.name} has a row twice")
        table.rows[key] = RowPlace(number, int.from_bytes(found, "little"))
        yield size


def read(database: Database, table: RowTable, key: bytes) -> bytes:
    """Return the content of one existing row. Raises Damaged, StoreBroken."""
    row = table.rows[key]
    found = database.rows(f"SELECT key, body, sum FROM {table.name} WHERE number = ?", (row.number,))
    if len(found) != 1 or found[0][0] != key or _checked(table.name, row.number, *found[0]) != row.sum:
        raise Damaged(f"a row of {table.name} is not the one that was written")
    return bytes(found[0][1])


def digest(found: Iterable[RowTable]) -> int:
    """Return the digest of all rows of these tables."""
    whole = 0
    for table in found:
        for row in table.rows.values():
            whole ^= row.sum
    return whole


class Writing:
    """The changes of one transaction; the `RowTable`s change when it is `done`. `digest` is that of all rows of all
    tables, and `next_number` the number of the next new row."""

    def __init__(self, database: Database, digest: int, next_number: int) -> None:
        self._database = database
        self.digest = digest
        self.next_number = next_number
        self._changed: dict[tuple[str, bytes], tuple[RowTable, bytes, RowPlace | None]] = {}

    def put(self, table: RowTable, key: bytes, body: bytes) -> None:
        """Set the content of the row of this key. Raises ValueError if it is too long to be stored."""
        if len(body) > ROW_BYTES_MAX:
            raise ValueError(f"{len(body):,} bytes are too many for a row of {table.name}; at most {ROW_BYTES_MAX:,}")
        before = self._row(table, key)
        number = before.number if before is not None else self.next_number
        value = _sum(table.name, number, key, body)
        if before is not None and before.sum == value:
            return
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
        """Remove a row; does nothing if there is none."""
        before = self._row(table, key)
        if before is not None:
            self._database.run(f"DELETE FROM {table.name} WHERE number = ?", (before.number,))
            self.digest ^= before.sum
            self._changed[table.name, key] = (table, key, None)

    def remove_all(self, table: RowTable, keys: Iterable[bytes]) -> None:
        """Remove many rows, in one statement."""
        there = {key: row for key in keys if (row := self._row(table, key)) is not None}
        if there:
            numbers = array("q", [row.number for row in there.values()])
            self._database.run(f"DELETE FROM {table.name} WHERE number IN carray(?)", (apsw.carray(numbers),))
        for key, row in there.items():
            self.digest ^= row.sum
            self._changed[table.name, key] = (table, key, None)

    def done(self) -> None:
        """Apply the changes to the tables, once the transaction is durable."""
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
    """Return the checksum of a row's content, its number and table, so that no row is mistaken for another."""
    hasher = xxh3_128(f"{name} {number} {len(key)} ".encode())
    hasher.update(key)
    hasher.update(body)
    return hasher.intdigest()
