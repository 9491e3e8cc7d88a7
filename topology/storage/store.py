"""What is promised of a worker's store, whatever it is made of. The one of a real run is `sqlite`'s."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from topology.storage.values import Changes, Letter, Loaded, LoadedStates


class StoreFull(Exception):
    """Nothing of this commit was kept, and nothing before it was lost: no space, a quota, a disk that is read-only now.
    The same changes may be committed again later. The text is the reason, for people."""


class StoreBroken(Exception):
    """What is on the disk is not known any more: an fsync failed, or a page is damaged. Nothing may be acked on it, and
    nothing be tried again: the process ends, and the next one reads what is there (F18, D10). `damaged`: the file in
    which something was read that is not what was written."""

    def __init__(self, text: str, damaged: Path | None = None) -> None:
        super().__init__(text)
        self.damaged = damaged


class Store(Protocol):
    """One worker's. All methods block; all but `sync` are called one after the other, from one thread at a time."""

    @property
    def loaded(self) -> Loaded:
        """What it held when it was opened."""
        ...

    @property
    def path(self) -> Path:
        """Where it is."""
        ...

    @property
    def commits(self) -> int:
        """How many commits the file has seen, over all runs, that a loss of power leaves: what the manifest is compared
        with (D12)."""
        ...

    @property
    def is_short(self) -> bool:
        """Whether a commit that is not `lasting` is now no more than a write: nothing is synced with it."""
        ...

    @property
    def is_long(self) -> bool:
        """Whether it should be `shorten`ed soon."""
        ...

    def commit(self, changes: Changes) -> None:
        """All of it or nothing, durable when it returns: it survives a loss of power, unless `changes.lasting` is
        False. Raises StoreFull, StoreBroken; StoreBroken too where another owner has the store by now (D6)."""

    def sync(self) -> None:
        """All commits that have returned when this is called survive a loss of power when it returns. May be called
        from another thread than the others, beside them; of a store that was opened for a life. Raises StoreBroken."""

    def shorten(self) -> None:
        """Tidies up after many commits that were not `lasting`: it blocks longer than those. Raises StoreBroken."""

    def states(self) -> LoadedStates:
        """All state, and what is remembered with it, as the last commit left it; every row is checked as it is read.
        Raises StoreBroken for damage."""
        ...

    def letters(self, names: Sequence[str] | None = None, after: str = "", limit: int = 1_000) -> list[Letter]:
        """Dead letters, oldest first: those of these names, or up to `limit` after the one named.

        Raises StoreBroken.
        """
        ...

    def listed(self, after: str = "", limit: int = 1_000) -> list[Letter]:
        """As `letters`, without records and tracebacks; perhaps fewer than `limit` where they are long, though at least
        one where there is one. Raises StoreBroken."""
        ...

    def names(self) -> list[str]:
        """Of all letters, oldest first."""
        ...

    def ended_in_order(self) -> None:
        """Says, durably, that the worker has closed: `loaded.deaths` is 0 next time. Raises StoreFull, StoreBroken."""

    def close(self) -> None:
        """Gives the file back. Does not raise. May be called twice."""
