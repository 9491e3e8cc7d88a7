"""Keys in files without a name: runs, which are written once and then only searched.

Knows files and keys; must not know lines, tuples or the loop. Every call blocks; one thread makes them.

A run has BUCKETS buckets by the hash of the keys' pairs, one after the other. Python's hash is seeded in each process,
so outsiders cannot fill one bucket. The position of each bucket is in memory,
32 KB per run, so one read finds all keys of a pair. As soon as there are MERGED runs of one size, they become one run:
its buckets are theirs, put together. So there are few runs to search, and a key is copied a few times at most.
(Rejected: an index of SQLite's. Its keys are sorted, so each new key changes a page of its own: 5 µs per key.)

A file loses its name as soon as it is open, and the system frees it when the process ends. So it is never synced.
"""

import tempfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Final

from bolts.sinks.contract import SinkStoreBroken, StoreAway
from bolts.sinks.keys import KEY_BYTES, PAIR_BYTES

BUCKETS: Final = 1 << 12
MARKS: Final = 1 << 27  # bits, 16 MB: with ten million keys in runs, one new key in thirteen is looked up in vain
MERGED: Final = 8  # runs of one size that become one


class KeyRun:
    """One file of keys, without order within a bucket."""

    def __init__(self, file: IO[bytes], buckets: Iterable[bytes]) -> None:
        """Write the buckets. Raises OSError; the file is then closed."""
        self._file = file
        self._starts = array("Q", [0])
        try:
            for bucket in buckets:
                file.write(bucket)
                self._starts.append(self._starts[-1] + len(bucket))
            file.flush()
        except BaseException:
            self.close()
            raise

    def bucket(self, number: int) -> bytes:
        """Return the keys of one bucket. Raises OSError and SinkStoreBroken."""
        start, end = self._starts[number : number + 2]
        self._file.seek(start)
        found = self._file.read(end - start)
        if len(found) != end - start:
            raise SinkStoreBroken("the index of the lines' keys is shorter than it was written")
        return found

    def close(self) -> None:
        """Free the file. Does not raise."""
        try:
            self._file.close()
        except OSError:  # it could not write its last keys, and is not read again
            return


class KeyRuns:
    """All keys that were moved out of memory. Raises StoreAway for an error of the system, and changes nothing then."""

    def __init__(self) -> None:
        self._sizes: list[list[KeyRun]] = [[]]  # runs that were merged never, once, twice …
        self.marks = bytearray()  # one bit per hash of a pair, set if a run has it; most new keys have no mark

    def __len__(self) -> int:
        """Return the number of runs."""
        return sum(map(len, self._sizes))

    def add(self, keys: Iterable[bytes], folder: Path) -> None:
        """Write these keys to a run, in this folder or, if no file may be made there, in the system's folder for
        temporary files."""
        buckets = [bytearray() for _ in range(BUCKETS)]
        marks = self.marks = self.marks or bytearray(MARKS >> 3)
        for key in keys:
            place = hash(key[:PAIR_BYTES])
            buckets[place % BUCKETS] += key
            marks[place % MARKS >> 3] |= 1 << (place & 7)
        with _errors(folder):
            self._sizes[0].append(KeyRun(_made_in(folder), map(bytes, buckets)))

    def merge(self, folder: Path) -> None:
        """Put runs of one size together where there are enough."""
        for size, runs in enumerate(self._sizes):
            if len(runs) < MERGED:
                continue
            with _errors(folder):
                parts = (b"".join([run.bucket(number) for run in runs]) for number in range(BUCKETS))
                merged = KeyRun(_made_in(folder), parts)
            if size + 1 == len(self._sizes):
                self._sizes.append([])
            self._sizes[size + 1].append(merged)
            self._sizes[size] = []
            for run in runs:
                run.close()

    def of_pair(self, pair: bytes) -> set[bytes]:
        """Return all keys of this pair."""
        number = hash(pair) % BUCKETS
        found: set[bytes] = set()
        with _errors(None):
            for run in chain(*self._sizes):
                bucket = run.bucket(number)
                at = bucket.find(pair)
                while at >= 0:
                    if not at % KEY_BYTES:
                        found.add(bucket[at : at + KEY_BYTES])
                    at = bucket.find(pair, at + 1)
        return found

    def close(self) -> None:
        """Free all files. Does not raise."""
        for run in chain(*self._sizes):
            run.close()
        self._sizes = [[]]
        self.marks = bytearray()


def _made_in(folder: Path) -> IO[bytes]:
    """Return an empty file without a name, which only this process can open. Raises OSError."""
    try:
        return tempfile.TemporaryFile(prefix=".kedge-keys-", dir=folder)
    except PermissionError:
        return tempfile.TemporaryFile(prefix="kedge-keys-")


@contextmanager
def _errors(folder: Path | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = "the index of the lines' keys" + (f", in {folder}," if folder is not None else "")
        raise StoreAway(f"{where} can't be used: {error.strerror}") from error
