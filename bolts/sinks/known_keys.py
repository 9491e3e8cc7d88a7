"""The keys of a file's lines: the newest in memory, the others in runs on the disk, none of them forgotten.

Knows keys and their runs; must not know lines, tuples or the loop. Every call blocks; one thread makes them.

The runs hold nothing that the lines do not hold. The next process that opens the lines reads their keys again. There
are runs only if there are more keys than the memory holds.
"""

from collections.abc import Mapping, Sequence
from operator import add
from pathlib import Path
from typing import Final

from bolts.sinks.key_runs import KeyRuns, pairs_of
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

    def has_none(self, pairs: Mapping[bytes, bytes]) -> bool:
        """Return True if no key with one of these pairs was added. Takes a fifth of the time of `unknown`. Raises
        SinkStoreBroken, for the runs."""
        return self._contents.keys().isdisjoint(pairs) and not self._runs.of_pairs([*pairs])

    def add_new(self, pairs: Mapping[bytes, bytes]) -> None:
        """Add keys, by their pairs: the rest of each. `has_none` has returned True."""
        self._contents.update(pairs)

    def unknown(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return those of the keys that were not added. Raises SinkStoreBroken, for the runs."""
        contents, in_runs = self._contents, self._runs.of_pairs(pairs_of(keys))
        found = []
        for key in keys:
            pair = key[:PAIR_BYTES]
            known = contents.get(pair)
            if known is not None and (known == key[PAIR_BYTES:] or key in self._divergent):
                continue
            if in_runs and pair in in_runs:
                if key in in_runs[pair]:
                    continue
                self._older.add(pair)
            found.append(key)
        return found

    def add_all(self, keys: Sequence[bytes]) -> list[bytes]:
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
            pairs = [*self._contents, *pairs_of(self._divergent)]
            self._runs.add(pairs, [*map(add, self._contents, self._contents.values()), *self._divergent], folder)
            self._contents.clear()
            self._divergent.clear()
        self._runs.merge(folder)

    def clear(self) -> None:
        """Forget all keys, and free the runs. Does not raise."""
        self._contents.clear()
        self._divergent.clear()
        self._older.clear()
        self._runs.close()
