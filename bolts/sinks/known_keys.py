"""The keys of a file's lines: the newest in memory, the others in an index on the disk, none of them forgotten.

Knows SQLite and files; must not know lines, tuples or the loop. Every call blocks; one thread makes them.

The index holds nothing that the lines do not hold, so it is never synced, and no other process uses it. Its file loses
its name as soon as it is open, and the system frees it when the process ends. The next process that opens the lines
reads their keys again. The index is made only if there are more keys than the memory holds.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from bolts.sinks.contract import SinkStoreBroken, StoreAway
from bolts.sinks.keys import KEY_BYTES, PAIR_BYTES

IN_MEMORY: Final = 1 << 17  # keys held in memory, about 150 bytes each: 20 MB
MOVED: Final = 1 << 13  # keys moved into the index at once; meanwhile SQLite holds at most one page of 4 KiB for each
CACHE_KIB: Final = 16 << 10  # KiB of the index's pages that this process caches
MARKS: Final = 1 << 27  # bits, 16 MB: with ten million keys in the index, one new key in thirteen is looked up in vain

_FIRST: Final = bytes(KEY_BYTES - PAIR_BYTES)
_LAST: Final = b"\xff" * (KEY_BYTES - PAIR_BYTES)
_PASSING: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM})


class KnownKeys:
    """All keys that were added since `clear`.

    Memory: `in_memory` keys (20 MB), and the keys added since `make_room`. With an index, also its cache and the marks,
    16 MB each, and up to 32 MB while keys are moved. Disk: about 40 bytes per key in the index.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._max = in_memory
        self._contents: dict[bytes, int] = {}  # pair → the hash of its content, newest last
        self._divergent: set[bytes] = set()  # whole keys of pairs that have further contents
        self._index: sqlite3.Connection | None = None
        self._marks = bytearray()  # one bit per hash of a pair, set if the index has it; most keys are not in the index

    def __len__(self) -> int:
        """Return how many keys are in memory."""
        return len(self._contents) + len(self._divergent)

    def holds(self, key: bytes) -> bool:
        """Return True if this key was added. Raises StoreAway and SinkStoreBroken, for the index."""
        known = self._contents.get(key[:PAIR_BYTES])
        if known is not None and known == int.from_bytes(key[PAIR_BYTES:], "big"):
            return True
        if self._divergent and key in self._divergent:
            return True
        if self._index is None:
            return False
        place = hash(key[:PAIR_BYTES]) % MARKS
        return bool(self._marks[place >> 3] >> (place & 7) & 1) and self._looked_up(self._index, key)

    def add(self, key: bytes) -> bool:
        """Add a key. Return True if its pair was known already with another content.

        Only contents in memory are compared, so call `holds` for the key first: it loads the pair's contents from the
        index.
        """
        content = int.from_bytes(key[PAIR_BYTES:], "big")
        if self._contents.setdefault(key[:PAIR_BYTES], content) == content:
            return False
        self._divergent.add(key)
        return True

    def make_room(self, folder: Path) -> None:
        """Move the oldest keys into the index while memory holds too many.

        The index is made in this folder or, if no file may be made there, in the system's folder for temporary files.
        Raises StoreAway, and memory then still holds all keys; also raises SinkStoreBroken.
        """
        while len(self) > self._max:
            with _errors(folder):
                if self._index is None:
                    self._index = _made_in(folder)
                    self._marks = bytearray(MARKS >> 3)
                pairs = list(islice(self._contents, MOVED))
                moved = [pair + self._contents[pair].to_bytes(KEY_BYTES - PAIR_BYTES, "big") for pair in pairs]
                moved += islice(self._divergent, MOVED)
                with self._index:  # one transaction
                    self._index.executemany("INSERT OR IGNORE INTO keys VALUES (?)", [(key,) for key in sorted(moved)])
            for key in moved:
                place = hash(key[:PAIR_BYTES]) % MARKS
                self._marks[place >> 3] |= 1 << (place & 7)
            for pair in pairs:
                del self._contents[pair]
            self._divergent.difference_update(moved)

    def clear(self) -> None:
        """Forget all keys, and free the index. Does not raise."""
        self._contents.clear()
        self._divergent.clear()
        self._marks = bytearray()
        index, self._index = self._index, None
        if index is not None:
            index.close()

    def _looked_up(self, index: sqlite3.Connection, key: bytes) -> bool:
        """Return True if the index has the key. Loads all contents of its pair into memory, so `add` knows them."""
        pair = key[:PAIR_BYTES]
        with _errors(None):
            rows = index.execute("SELECT key FROM keys WHERE key BETWEEN ? AND ?", (pair + _FIRST, pair + _LAST))
            found = [row[0] for row in rows]
        for known_key in found:
            self.add(known_key)
        return key in found


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
            index.execute("CREATE TABLE keys (key BLOB PRIMARY KEY) WITHOUT ROWID")
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
