"""Keys in files without a name: runs, which are written once and then only searched.

Knows files and keys; must not know lines, tuples or the loop. Every call blocks; one thread makes them.

A run has buckets by the hash of the keys' pairs, one after the other. Python's hash is seeded in each process, so
outsiders cannot fill one bucket. The position of each bucket is in memory, so one read finds all keys of a pair: 32 KB
of positions per run, 256 KB per run that was merged once, 1 MB per run that was merged more often. As soon as there are
MERGED runs of one size, they become one run with more buckets. So there are few runs to search, a bucket has few keys,
and a key is copied a few times at most. Marks in memory say which pairs may be in a run at all. With a hundred million
keys, three of five new keys are looked up in vain. (Rejected: an index of SQLite's. Its keys are sorted, so each new
key changes a page of its own: 5 µs per key.)

A file loses its name as soon as it is open, and the system frees it when the process ends. So it is never synced.
"""

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Final

from bolts.sinks.contract import SinkStoreBroken, StoreAway
from bolts.sinks.keys import KEY_BYTES, PAIR_BYTES, split_keys
from bolts.sinks.pair_marks import PairMarks

BITS: Final = 12  # of a hash that choose the bucket of a run that was not merged
MORE_BITS: Final = 3  # for each time that it was merged,
BITS_MAX: Final = 17  # up to so many
HASH_BITS: Final = 60  # of a hash that are used
MERGED: Final = 8  # runs of one size that become one
DIVIDED: Final = 64  # buckets that are merged at a time

INDEX: Final = "the index of the lines' keys"


def buckets_of(pairs: Iterable[bytes], bits: int) -> list[int]:
    """Return the bucket of each pair in a run with 2 ** bits buckets. With more bits, a bucket is divided."""
    used, shift = (1 << bits) - 1, HASH_BITS - bits
    return [number >> shift & used for number in map(hash, pairs)]


def pairs_of(keys: Iterable[bytes]) -> list[bytes]:
    return [key[:PAIR_BYTES] for key in keys]


class KeyRun:
    """One file of keys, without order within a bucket. It has 2 ** bits buckets."""

    def __init__(self, file: IO[bytes], bits: int, buckets: Iterable[bytes]) -> None:
        """Write the buckets. Raises OSError; the file is then closed."""
        self._file, self.bits = file, bits
        self._starts = array("Q", [0])
        try:
            for bucket in buckets:
                file.write(bucket)
                self._starts.append(self._starts[-1] + len(bucket))
            file.flush()
        except BaseException:
            self.close()
            raise

    def buckets(self, first: int, count: int = 1) -> bytes:
        """Return the keys of these buckets. Raises SinkStoreBroken: what cannot be read has no other copy."""
        start, end = self._starts[first], self._starts[first + count]
        try:
            self._file.seek(start)
            found = self._file.read(end - start)
        except OSError as error:
            raise SinkStoreBroken(f"{INDEX} can't be read: {error.strerror}") from error
        if len(found) != end - start:
            raise SinkStoreBroken(f"{INDEX} is shorter than it was written")
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
        self._marks = PairMarks()  # of the pairs in runs

    def __len__(self) -> int:
        """Return the number of runs."""
        return sum(map(len, self._sizes))

    def add(self, pairs: Sequence[bytes], keys: Sequence[bytes], folder: Path) -> None:
        """Write these keys, which begin with these pairs, to a run. It is in this folder or, if no file may be made
        there, in the system's folder for temporary files."""
        with _errors(folder):
            self._sizes[0].append(KeyRun(_made_in(folder), BITS, _in_buckets(keys, pairs, BITS, 0, 1 << BITS)))
        self._marks.add(pairs)

    def merge(self, folder: Path) -> None:
        """Put runs of one size together where there are enough. That copies them: with 34 million keys 0.8 GB, once."""
        for size, runs in enumerate(self._sizes):
            if len(runs) < MERGED:
                continue
            with _errors(folder):
                merged = merged_run(runs, _made_in(folder))
            if size + 1 == len(self._sizes):
                self._sizes.append([])
            self._sizes[size + 1].append(merged)
            self._sizes[size] = []
            for run in runs:
                run.close()

    def of_pairs(self, pairs: Sequence[bytes]) -> dict[bytes, set[bytes]]:
        """Return the keys of these pairs, by pair; a pair without keys is not in it. Raises SinkStoreBroken."""
        return {pair: keys for pair in self._marks.among(pairs) if (keys := self._of_pair(pair))}

    def _of_pair(self, pair: bytes) -> set[bytes]:
        found: set[bytes] = set()
        for run in chain(*self._sizes):
            bucket = run.buckets(*buckets_of([pair], run.bits))
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
        self._marks = PairMarks()


def merged_run(runs: Sequence[KeyRun], file: IO[bytes]) -> KeyRun:
    """Write the keys of runs of one size to this file, with more buckets. Raises OSError, SinkStoreBroken."""
    before = runs[0].bits
    after = min(before + MORE_BITS, BITS_MAX)
    parts = 1 << after - before  # of each bucket

    def divided() -> Iterator[bytes]:
        together = 1 if parts == 1 else min(DIVIDED, 1 << before)
        for number in range(0, 1 << before, together):
            joined = b"".join([run.buckets(number, together) for run in runs])
            if parts == 1:
                yield joined
                continue
            keys = [*split_keys(joined)]
            yield from _in_buckets(keys, pairs_of(keys), after, number * parts, together * parts)

    return KeyRun(file, after, divided())


def _in_buckets(keys: Sequence[bytes], pairs: Sequence[bytes], bits: int, first: int, count: int) -> Iterator[bytes]:
    """Yield the buckets from `first` on, which have all of these keys."""
    buckets: list[list[bytes]] = [[] for _ in range(count)]
    for number, key in zip(buckets_of(pairs, bits), keys, strict=True):
        buckets[number - first].append(key)
    return map(b"".join, buckets)


def _made_in(folder: Path) -> IO[bytes]:
    """Return an empty file without a name, which only this process can open. Raises OSError."""
    try:
        return tempfile.TemporaryFile(prefix=".kedge-keys-", dir=folder)
    except PermissionError:
        return tempfile.TemporaryFile(prefix="kedge-keys-")


@contextmanager
def _errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreAway(f"{INDEX}, in {folder}, can't be used: {error.strerror}") from error
