"""The keys of a file's lines: the newest in memory, the others in runs on the disk, none of them forgotten.

Knows keys and their runs; must not know lines, tuples or the loop. Every call blocks; one thread makes them.

The runs hold nothing that the lines do not hold. The next process that opens the lines reads their keys again. There
are runs only if there are more keys than the memory holds.
"""

from collections.abc import Iterable
from itertools import chain
from operator import add
from pathlib import Path
from typing import Final

from bolts.sinks.key_runs import MARKS, KeyRuns
from bolts.sinks.keys import PAIR_BYTES

IN_MEMORY: Final = 1 << 16  # keys held in memory, about 150 bytes each: 10 MB; then they become a run


class KnownKeys:
    """All keys that were added since `clear`.

    Memory: `in_memory` keys (10 MB), and the keys added since `make_room`. With runs, also the marks (16 MB) and 32 KB
    per run. Disk: 24 bytes per key, and twice that while runs are merged.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._max = in_memory
        self._contents: dict[bytes, bytes] = {}  # pair → the hash of its content
        self._divergent: set[bytes] = set()  # whole keys of pairs that have further contents
        self._runs = KeyRuns()
        self._older: set[bytes] = set()  # pairs that `unknown` found in runs, with another content, since `make_room`

    def __len__(self) -> int:
        """Return how many keys are in memory."""
        return len(self._contents) + len(self._divergent)

    def unknown(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return those of the keys that were not added. Raises StoreAway and SinkStoreBroken, for the runs."""
        contents, marks = self._contents, self._runs.marks
        found = []
        for key in keys:
            pair = key[:PAIR_BYTES]
            known = contents.get(pair)
            if known is not None and (known == key[PAIR_BYTES:] or key in self._divergent):
                continue
            if marks:
                place = hash(pair)
                if marks[place % MARKS >> 3] >> (place & 7) & 1 and self._in_runs(pair, key):
                    continue
            found.append(key)
        return found

    def add_all(self, keys: Iterable[bytes]) -> list[bytes]:
        """Add keys. Return those whose pair was known already with another content.

        Call `unknown` for the keys first, or pairs in runs are not compared.
        """
        contents, older = self._contents, self._older
        divergent = []
        for key in keys:
            pair, content = key[:PAIR_BYTES], key[PAIR_BYTES:]
            if contents.setdefault(pair, content) != content:
                self._divergent.add(key)
                divergent.append(key)
            elif older and pair in older:
                divergent.append(key)
        return divergent

    def make_room(self, folder: Path) -> None:
        """Move all keys in memory into a run, if there are too many. The run is made in this folder if possible.

        Raises StoreAway, and nothing is forgotten then; also raises SinkStoreBroken.
        """
        self._older.clear()
        if len(self) > self._max:
            moved = chain(map(add, self._contents, self._contents.values()), self._divergent)
            self._runs.add(moved, folder)
            self._contents.clear()
            self._divergent.clear()
        self._runs.merge(folder)

    def clear(self) -> None:
        """Forget all keys, and free the runs. Does not raise."""
        self._contents.clear()
        self._divergent.clear()
        self._older.clear()
        self._runs.close()

    def _in_runs(self, pair: bytes, key: bytes) -> bool:
        """Return True if a run has the key."""
        found = self._runs.of_pair(pair)
        if key in found:
            return True
        if found:
            self._older.add(pair)
        return False
