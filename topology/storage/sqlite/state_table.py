"""The table of all keys' state: lean, because there may be millions of rows. A row is found by its key alone: the
component's number, the slot, and the key. Nothing of it is kept in memory here.

Each row's body begins with a checksum (`encoding.state`). The XOR of all checksums shows that no row is missing, old or
from another file (F22). Must not know what a value means, nor which component has which number.
"""

import contextlib
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import apsw
from xxhash import xxh3_64_digest

from topology.storage.encoding.state import SUM_BYTES, is_intact, seed_of
from topology.storage.sqlite.database import Damaged, Database
from topology.storage.values import StateRow

ROWS_AT_ONCE: Final = 10_000  # rows in one statement; more are written by several
ROW_BYTES_MAX: Final = 512 * 1024 * 1024  # SQLite's own limit is a little under 1 GB
PAGE_ROWS: Final = 10_000  # rows that are read at once
PAGE_BYTES: Final = 8 * 1024 * 1024  # bytes that are read at once, except for a single larger row
_PREFIX_BYTES: Final = 4  # of a row's key: component 2, slot 2, big-endian, so that a slot's rows are one range

# One statement for a whole group. apsw releases the GIL and takes it again with each step of a statement. Next to a
# busy loop, each taking lasts up to the switch interval: 500 rows of 60 bytes took 242 ms with executemany, and 12 ms
# this way, BEGIN and COMMIT included (interval 5 ms; with 0.5 ms 42 and 2.8). Two other ways pass all rows at once.
# json_each with unhex needs twice the CPU time (2.3 and 1.1 ms), and VALUES with 1,000 parameters needs another
# statement for each number of rows.
_LENGTH: Final = "CAST(substr(value, 1, 10) AS INTEGER)"
_PUT: Final = (
    f"INSERT OR REPLACE INTO state (key, body) SELECT substr(value, 11, {_LENGTH}), substr(value, 11 + {_LENGTH}) "
    "FROM carray(?)"
)
_REMOVE: Final = "DELETE FROM state WHERE key IN (SELECT value FROM carray(?))"


def create(database: Database) -> None:
    """Create the table, within a transaction."""
    database.run("CREATE TABLE state (key BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT, WITHOUT ROWID")


def write(database: Database, component: int, rows: Sequence[StateRow]) -> None:
    """Write rows within a transaction; the last of a key's rows counts. Raises ValueError for one that is too long."""
    first = component.to_bytes(2, "big")
    last = {first + row.slot.to_bytes(2, "big") + row.key: row.body for row in rows}
    changed = iter(last.items())
    while group := list(islice(changed, ROWS_AT_ONCE)):
        if (longest := max([len(key) + len(body) for key, body in group])) > ROW_BYTES_MAX:
            raise ValueError(f"{longest:,} bytes are too many for a row of state; at most {ROW_BYTES_MAX:,}")
        if kept := tuple([b"%010d%b%b" % (len(key), key, body) for key, body in group if body]):
            database.run(_PUT, (apsw.carray(kept),))
        if gone := tuple([key for key, body in group if not body]):
            database.run(_REMOVE, (apsw.carray(gone),))


def clear(database: Database) -> None:
    """Delete all rows, within a transaction."""
    database.run("DELETE FROM state")


def read(database: Database, names: Mapping[int, str]) -> tuple[dict[str, list[StateRow]], int]:
    """Return all rows by component, and the XOR of their checksums. Raises Damaged, StoreBroken. `names`: number →
    component.

    For a million rows in one pass, the work of `is_intact` and `sum_of` is inlined, and the garbage collector is
    disabled, because it would visit all rows again and again. That takes 1.2 to 2 s in place of 2.9.
    """
    found: dict[str, list[StateRow]] = {}
    sums, prefix, slot, seed = 0, b"", 0, 0
    rows: list[StateRow] = []
    number_of, row = int.from_bytes, tuple.__new__
    with _no_garbage():
        for whole, body in database.each("SELECT key, body FROM state"):
            if whole[:_PREFIX_BYTES] != prefix:
                prefix = whole[:_PREFIX_BYTES]
                name = names.get(number_of(prefix[:2], "big"))
                if name is None or len(prefix) != _PREFIX_BYTES:
                    raise Damaged("a row of state is of no component")
                slot = number_of(prefix[2:], "big")
                seed, rows = seed_of(name, slot), found.setdefault(name, [])
            key, sum = whole[_PREFIX_BYTES:], body[:SUM_BYTES]
            if sum != xxh3_64_digest(len(key).to_bytes(4, "little") + key + body[SUM_BYTES:], seed):
                raise Damaged(f"a row of state of {names[number_of(prefix[:2], 'big')]!r} is not what was written")
            sums ^= number_of(sum, "little")
            rows.append(row(StateRow, (slot, key, body)))
    return found, sums


def digest(database: Database) -> int:
    """Return the XOR of the checksums that all rows begin with. Raises StoreBroken."""
    found = 0
    for (start,) in database.each(f"SELECT substr(body, 1, {SUM_BYTES}) FROM state"):
        found ^= int.from_bytes(start, "little")
    return found


def page(database: Database, component: int, name: str, slots: range, after: StateRow | None) -> list[StateRow]:
    """Return the first rows of a component in these slots, or those after `after`, in their order; a bounded number,
    empty if there are no more. Raises Damaged, StoreBroken."""
    first = _place(component, slots.start) if after is None else _place(component, after.slot) + after.key + b"\0"
    found: list[StateRow] = []
    size, slot, seed = 0, -1, 0
    for whole, body in database.each(
        "SELECT key, body FROM state WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
        (first, _place(component, slots.stop), PAGE_ROWS),
    ):
        one = StateRow(int.from_bytes(whole[2:_PREFIX_BYTES], "big"), whole[_PREFIX_BYTES:], body)
        if one.slot != slot:
            slot, seed = one.slot, seed_of(name, one.slot)
        if not is_intact(seed, one.key, body):
            raise Damaged(f"a row of state of {name!r} is not what was written")
        found.append(one)
        size += len(whole) + len(body)
        if size >= PAGE_BYTES:
            break
    return found


def row(database: Database, component: int, name: str, slot: int, key: bytes) -> StateRow | None:
    """Return the row of one key; None if there is none. Raises Damaged, StoreBroken."""
    found = database.rows("SELECT body FROM state WHERE key = ?", (_place(component, slot) + key,))
    if not found:
        return None
    if not is_intact(seed_of(name, slot), key, found[0][0]):
        raise Damaged(f"a row of state of {name!r} is not what was written")
    return StateRow(slot, key, found[0][0])


def of_keys(database: Database, component: int, name: str, places: Sequence[tuple[int, bytes]]) -> list[StateRow]:
    """Return the rows of these keys, each (slot, key), that the table has. Raises Damaged, StoreBroken."""
    found: list[StateRow] = []
    for first in range(0, len(places), ROWS_AT_ONCE):
        wanted = tuple([_place(component, slot) + key for slot, key in places[first : first + ROWS_AT_ONCE]])
        for whole, body in database.rows(
            "SELECT key, body FROM state WHERE key IN (SELECT value FROM carray(?))", (apsw.carray(wanted),)
        ):
            one = StateRow(int.from_bytes(whole[2:_PREFIX_BYTES], "big"), whole[_PREFIX_BYTES:], body)
            if not is_intact(seed_of(name, one.slot), one.key, body):
                raise Damaged(f"a row of state of {name!r} is not what was written")
            found.append(one)
    return found


def there(database: Database, component: int, rows: Iterable[StateRow]) -> set[tuple[int, bytes]]:
    """Return (slot, key) of each given row that the table has. Raises StoreBroken."""
    wanted = tuple([_place(component, wanted_row.slot) + wanted_row.key for wanted_row in rows])
    if not wanted:
        return set()
    found = database.rows("SELECT key FROM state WHERE key IN (SELECT value FROM carray(?))", (apsw.carray(wanted),))
    return {(int.from_bytes(key[2:_PREFIX_BYTES], "big"), key[_PREFIX_BYTES:]) for (key,) in found}


def _place(component: int, slot: int) -> bytes:
    """Return the prefix of a slot's keys."""
    return component.to_bytes(2, "big") + slot.to_bytes(2, "big")


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Disable garbage collection: objects that are read here have no cycles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
