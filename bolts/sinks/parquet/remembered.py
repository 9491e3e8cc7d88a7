"""The keys of the rows that were stored lately: of the last `remembers_s` at least, and of twice that at most.

Knows keys; must not know files of rows. Every call blocks; one thread makes them. See `KnownKeys` for memory and disk.
"""

from collections.abc import Sequence
from pathlib import Path

from bolts.sinks.keys import PAIR_BYTES
from bolts.sinks.known_keys import KnownKeys


class RememberedKeys:
    """Two generations of keys: after `remembers_s` the younger one becomes the older, which is forgotten. None: keys
    are remembered for ever."""

    def __init__(self, remembers_s: float | None) -> None:
        self._remembers_s = remembers_s
        self._young, self._old = KnownKeys(), KnownKeys()
        self._since: float | None = None

    def unknown(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return those of the keys that were not added. Raises SinkStoreBroken."""
        return self._young.unknown(self._old.unknown(keys))

    def add(self, keys: Sequence[bytes]) -> list[bytes]:
        """Add keys; return those whose row was known already with another content."""
        divergent = self._young.add_all(keys)
        if not self._old.has_none({key[:PAIR_BYTES]: b"" for key in keys}):
            known = {*divergent}
            divergent += [key for key in keys if key not in known and not self._old.has_none({key[:PAIR_BYTES]: b""})]
        return divergent

    def make_room(self, folder: Path, now: float) -> None:
        """Forget what is old at this time, in seconds, and move keys from memory to the disk if there are too many.

        Raises StoreAway and SinkStoreBroken.
        """
        if self._since is None:
            self._since = now
        elif self._remembers_s is not None and now - self._since >= self._remembers_s:
            self._old.clear()
            self._old, self._young, self._since = self._young, self._old, now
        self._young.make_room(folder)
        self._old.make_room(folder)

    def clear(self) -> None:
        """Forget all. Does not raise."""
        self._young.clear()
        self._old.clear()
        self._since = None
