"""The keys of a file's lines: the newest in memory, the others in an index on the disk, none of them forgotten.

Knows SQLite and files; must not know lines, tuples or the loop. Every call blocks; one thread makes them.

The index holds nothing that the lines do not hold, so it is never synced, and no other process uses it. Its file loses
its name as soon as it is open, and the system frees it when the process ends. The next process that opens the lines
reads their keys again. The index is made only if there are more keys than the memory holds.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import iter_unpack
from typing import Final

from bolts.sinks.contract import SinkStoreBroken, StoreAway
from bolts.sinks.keys import KEY_BYTES, PAIR_BYTES

IN_MEMORY: Final = 1 << 19  # keys held in memory, about 50 bytes each: 25 MB
TABLES: Final = 16  # tables in memory; a full one is moved into the index as a whole
SLOTS_FIRST: Final = 64  # slots of a new table
MOVED: Final = 1 << 13  # keys moved in one transaction; SQLite then holds at most one page of 4 KiB for each
CACHE_KIB: Final = 16 << 10  # KiB of the index's pages that this process caches
MARKS: Final = 1 << 27  # bits, 16 MB: with ten million keys in the index, one new key in thirteen is looked up in vain

_EMPTY: Final = bytes(KEY_BYTES)  # no key: an identity is never 0
_HASH_BITS: Final = 60  # of the hash of a pair
_TABLE_SHIFT: Final = _HASH_BITS - 4  # the first bits choose the table
_PASSING: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM})


class _Table:
    """A hash table of whole keys in one block of bytes. A key lies at the slot of its pair's hash, or in the next free
    slot; so all keys of a pair follow each other, perhaps with others between them."""

    def __init__(self) -> None:
        self.count = 0
        self.block = bytearray(SLOTS_FIRST * KEY_BYTES)

    def holds(self, place: int, key: bytes) -> bool:
        block = self.block
        at = place * KEY_BYTES % len(block)
        while (found := block[at : at + KEY_BYTES]) != _EMPTY:
            if found == key:
                return True
            at = (at + KEY_BYTES) % len(block)
        return False

    def add(self, place: int, key: bytes) -> bool:
        """Add a key, unless it is there. Return True if another key of its pair is there."""
        block, pair, divergent = self.block, key[:PAIR_BYTES], False
        at = place * KEY_BYTES % len(block)
        while (found := block[at : at + KEY_BYTES]) != _EMPTY:
            if found == key:
                return False
            divergent = divergent or found[:PAIR_BYTES] == pair
            at = (at + KEY_BYTES) % len(block)
        block[at : at + KEY_BYTES] = key
        self.count += 1
        if self.count * KEY_BYTES * 3 > len(block) * 2:  # two thirds are full
            self._grow()
        return divergent

    def keys(self) -> list[bytes]:
        found = [key for (key,) in iter_unpack(f"{KEY_BYTES}s", self.block)]
        return [key for key in found if key != _EMPTY]

    def _grow(self) -> None:
        keys = self.keys()
        self.block, self.count = bytearray(len(self.block) * 2), 0
        for key in keys:
            self.add(_place(key), key)


class KnownKeys:
    """All keys that were added since `clear`.

    Memory: `in_memory` keys (25 MB), and the keys added since `make_room`. With an index, also its cache and the marks,
    16 MB each, and up to 32 MB while keys are moved. Disk: about 50 bytes per key in the index.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._full = in_memory // TABLES  # keys that one table may have
        self._tables = [_Table() for _ in range(TABLES)]
        self._index: sqlite3.Connection | None = None
        self._marks = bytearray()  # one bit per hash of a pair, set if the index has it; most keys are not in the index

    def __len__(self) -> int:
        """Return how many keys are in memory."""
        return sum(table.count for table in self._tables)

    def unknown(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return those of the keys that were not added. Raises StoreAway and SinkStoreBroken, for the index."""
        tables, index, marks = self._tables, self._index, self._marks
        found = []
        for key in keys:
            place = _place(key)
            if tables[place >> _TABLE_SHIFT].holds(place, key):
                continue
            mark = place % MARKS
            if index is not None and marks[mark >> 3] >> (mark & 7) & 1 and self._looked_up(index, place, key):
                continue
            found.append(key)
        return found

    def add_all(self, keys: Iterable[bytes]) -> list[bytes]:
        """Add keys. Return those whose pair was known already with another content.

        Only contents in memory are compared, so call `unknown` for the keys first: it loads their pairs' contents from
        the index.
        """
        tables = self._tables
        divergent = []
        for key in keys:
            place = _place(key)
            if tables[place >> _TABLE_SHIFT].add(place, key):
                divergent.append(key)
        return divergent

    def make_room(self, folder: Path) -> None:
        """Move the keys of full tables into the index.

        The index is made in this folder or, if no file may be made there, in the system's folder for temporary files.
        Raises StoreAway, and memory then still holds all keys; also raises SinkStoreBroken.
        """
        for number, table in enumerate(self._tables):
            if table.count <= self._full:
                continue
            with _errors(folder):
                if self._index is None:
                    self._index = _made_in(folder)
                    self._marks = bytearray(MARKS >> 3)
                # in the index's order: the keys of one table are neighbours there, and share its pages
                rows = sorted((_place(key), key) for key in table.keys())
                for part in range(0, len(rows), MOVED):
                    with self._index:  # one transaction
                        self._index.executemany(
                            "INSERT OR IGNORE INTO keys VALUES (?, ?)", rows[part : part + MOVED]
                        )
            for place, _ in rows:
                mark = place % MARKS
                self._marks[mark >> 3] |= 1 << (mark & 7)
            self._tables[number] = _Table()

    def clear(self) -> None:
        """Forget all keys, and free the index. Does not raise."""
        self._tables = [_Table() for _ in range(TABLES)]
        self._marks = bytearray()
        index, self._index = self._index, None
        if index is not None:
            index.close()

    def _looked_up(self, index: sqlite3.Connection, place: int, key: bytes) -> bool:
        """Return True if the index has the key. Loads all contents of its pair into memory, so `add_all` knows them."""
        with _errors(None):
            found = [row[0] for row in index.execute("SELECT key FROM keys WHERE place = ?", (place,))]
        self.add_all(known_key for known_key in found if known_key[:PAIR_BYTES] == key[:PAIR_BYTES])
        return key in found


def _place(key: bytes) -> int:
    """Return the place of the key's pair in the tables and in the index, in this process."""
    return hash(key[:PAIR_BYTES]) & (1 << _HASH_BITS) - 1


def _made_in(folder: Path) -> sqlite3.Connection:
    """Return an empty index in a file without a name. Raises OSError and sqlite3.Error."""
    try:
        private = tempfile.mkdtemp(prefix=".kedge-keys-", dir=folder)  # only this user may read or write there
    except PermissionError:
        private = tempfile.mkdtemp(prefix="kedge-keys-")
    try:
        index = sqlite3.connect(Path(private) / "keys", check_same_thread=False)
        try:
            # The journal undoes a move that had no room. It is in memory, because the folder of the file is gone by
            # then.
            for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = MEMORY", "synchronous = OFF"):
                index.execute(f"PRAGMA {pragma}").fetchall()
            index.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            index.execute("CREATE TABLE keys (place INTEGER, key BLOB, PRIMARY KEY (place, key)) WITHOUT ROWID")
        except BaseException:
            index.close()
            raise
    finally:
        shutil.rmtree(private, ignore_errors=True)
    return index


@contextmanager
def _errors(folder: Path | None) -> Iterator[None]:
    where = "the index of the lines' keys" + (f", in {folder}," if folder is not None else "")
    try:
        yield
    except OSError as error:
        raise StoreAway(f"{where} can't be made: {error.strerror}") from error
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING:
            raise StoreAway(f"{where} can't be used: {error}") from error
        raise SinkStoreBroken(f"{where} can't be relied on: {error}") from error
