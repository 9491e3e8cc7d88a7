"""The keys of a file's lines: the newest in memory, the others in an index on the disk, none of them forgotten.

Knows SQLite and files; must not know lines, tuples or the loop. Every call blocks; one thread makes them.

The index says nothing that the lines don't say, so it is never synced and never believed by another process: it is made
of a file that has no name any more as soon as it is open, the system frees it when the process ends, and whoever opens
the lines next reads their keys again. The index is made only if there are more keys than the memory holds.
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

IN_MEMORY: Final = 1 << 17  # keys, of about 150 bytes each: 20 MB
MOVED: Final = 1 << 13  # keys that go into the index at once; SQLite holds a page of 4 KiB at most for each meanwhile
CACHE_KIB: Final = 16 << 10  # of the index's pages, in this process
MARKS: Final = 1 << 27  # bits, 16 MB: a new key is looked up in vain once in thirteen if the index has ten million

_FIRST: Final = bytes(KEY_BYTES - PAIR_BYTES)
_LAST: Final = b"\xff" * (KEY_BYTES - PAIR_BYTES)
_PASSING: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM})


class KnownKeys:
    """All keys that were added since `clear`.

    Memory: `in_memory` keys (20 MB), and those added since `make_room`; with an index, its cache and the marks, 16 MB
    each, and up to 32 MB while keys are moved. Disk: about 40 bytes a key in the index.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._max = in_memory
        self._contents: dict[bytes, int] = {}  # pair → the content's hash, the newest last
        self._divergent: set[bytes] = set()  # whole keys, where a pair has further contents
        self._index: sqlite3.Connection | None = None
        self._marks = bytearray()  # a bit by the hash of a pair, set if the index has it: most keys are not in there

    def __len__(self) -> int:
        """How many keys are in memory."""
        return len(self._contents) + len(self._divergent)

    def holds(self, key: bytes) -> bool:
        """Whether this key was added. Raises StoreAway and StoreBroken, for the index."""
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
        """Whether its pair was known already, with another content, as far as `holds` was asked for the key before."""
        content = int.from_bytes(key[PAIR_BYTES:], "big")
        if self._contents.setdefault(key[:PAIR_BYTES], content) == content:
            return False
        self._divergent.add(key)
        return True

    def make_room(self, folder: Path) -> None:
        """Moves the oldest keys into the index, where memory holds too many. The index is made in this folder, or, if
        nothing may be made there, in the system's for temporary files. Raises StoreAway, and has moved none then that
        memory does not hold still; and StoreBroken."""
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
        """Forgets all keys, and gives the index's room back. Does not raise."""
        self._contents.clear()
        self._divergent.clear()
        self._marks = bytearray()
        index, self._index = self._index, None
        if index is not None:
            index.close()

    def _looked_up(self, index: sqlite3.Connection, key: bytes) -> bool:
        """Whether the index has it. All contents of its pair come into memory again, so that `add` knows of them."""
        pair = key[:PAIR_BYTES]
        with _errors(None):
            rows = index.execute("SELECT key FROM keys WHERE key BETWEEN ? AND ?", (pair + _FIRST, pair + _LAST))
            found = [row[0] for row in rows]
        for one in found:
            self.add(one)
        return key in found


def _made_in(folder: Path) -> sqlite3.Connection:
    """An empty index in a file without a name. Raises OSError and sqlite3.Error."""
    try:
        private = tempfile.mkdtemp(prefix=".kedge-keys-", dir=folder)  # only this user may look or write there
    except PermissionError:
        private = tempfile.mkdtemp(prefix="kedge-keys-")
    try:
        index = sqlite3.connect(Path(private) / "keys", check_same_thread=False)
        try:
            # The journal undoes a move that had no room; it is in memory, as the file's folder is gone by then.
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
