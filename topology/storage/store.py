"""The contract of a worker's store, independent of its implementation. A real run uses the store in `sqlite`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from topology.storage.values import Changes, Letter, Loaded, LoadedStates


class StoreFull(Exception):
    """A commit that failed as a whole, without a loss of earlier data: no space, a quota, or a disk that is read-only
    now. The same changes may be committed again later. The text is the reason, for people."""


class StoreBroken(Exception):
    """A store whose content on the disk is unknown: an fsync failed, or a page is damaged.

    No message may be acked on the basis of this store, and nothing may be tried again. The process ends, and the next
    one reads the actual content (F18, D10). `damaged`: the file whose content is not what was written.
    """

    def __init__(self, text: str, damaged: Path | None = None) -> None:
        super().__init__(text)
        self.damaged = damaged


class Store(Protocol):
    """The store of one worker. All methods block. All except `sync` must be called in sequence, from one thread at a
    time."""

    @property
    def loaded(self) -> Loaded:
        """The content of the store when it was opened."""
        ...

    @property
    def path(self) -> Path:
        """The path of the store."""
        ...

    @property
    def commits(self) -> int:
        """The number of commits in the file, over all runs, that survive a power failure. The manifest is compared with
        it (D12)."""
        ...

    @property
    def is_short(self) -> bool:
        """True if a commit that is not `lasting` is only a write now: nothing is synced with it."""
        ...

    @property
    def is_long(self) -> bool:
        """True if `shorten` should be called soon."""
        ...

    def commit(self, changes: Changes) -> None:
        """Commit all of the changes or none. They are durable on return: they survive a power failure, unless
        `changes.lasting` is False. Raises StoreFull, StoreBroken; StoreBroken too if another owner has taken the store
        (D6)."""

    def sync(self) -> None:
        """Make all commits that have returned before this call survive a power failure, when this call returns. May be
        called from another thread than the others, concurrently with them. Only for a store that was opened for a life.
        Raises StoreBroken."""

    def shorten(self) -> None:
        """Clean up after many commits that were not `lasting`; blocks longer than they do. Raises StoreBroken."""

    def states(self) -> LoadedStates:
        """Return all state, and what is remembered with it, as of the last commit; every row is checked when it is
        read. Raises StoreBroken for damage."""
        ...

    def letters(self, names: Sequence[str] | None = None, after: str = "", limit: int = 1_000) -> list[Letter]:
        """Return dead letters, oldest first: those of these names, or up to `limit` after the one named `after`.

        Raises StoreBroken.
        """
        ...

    def listed(self, after: str = "", limit: int = 1_000) -> list[Letter]:
        """Return letters as `letters` does, without records and tracebacks. Long letters may be fewer than `limit`, but
        at least one if there is one. Raises StoreBroken."""
        ...

    def names(self) -> list[str]:
        """Return the names of all letters, oldest first."""
        ...

    def ended_in_order(self) -> None:
        """Record durably that the worker has closed in order: `loaded.deaths` is 0 next time. Raises StoreFull,
        StoreBroken."""

    def close(self) -> None:
        """Close the file. Does not raise. May be called twice."""
