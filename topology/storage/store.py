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
    """The store of one worker: what the last decided checkpoint has, and a log of what was done since.

    All methods block. `append` and `mark` concern only the log, and must be called in sequence, from one thread at a
    time. So must all others, which concern only the rest, so another thread may be in one of them at the same time.
    `sync` may be called at any time. The store of a run whose durability is by checkpoint has no log: `append`, `sync`
    and `mark` do nothing.
    """

    @property
    def loaded(self) -> Loaded:
        """The content when the store was opened."""
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

    # -- checkpoints

    def prepare(self, checkpoint: int, changes: Changes) -> None:
        """Keep what this worker has in a checkpoint, durably: after `decided`, now or by the next opening, it is the
        store's content; else it leaves no trace. It was marked. A checkpoint that was prepared before is decided, or
        given up. `changes` must not be changed until this one is. Raises StoreFull: then nothing is prepared. Raises
        StoreBroken."""

    def decided(self, checkpoint: int) -> None:
        """Take note that the prepared checkpoint is decided, durably and elsewhere: it is the store's content now.
        Nothing is synced; an opening would find the same. Raises StoreFull, after which it may be called again;
        StoreBroken."""

    def conclude(self, checkpoint: int, changes: Changes) -> None:
        """Do both at once, durably, in the only store of a run: its content is the decision. Raises StoreFull,
        StoreBroken."""

    # -- the log

    def append(self, records: Sequence[bytes]) -> int:
        """Write records to the log, as one group that an opening finds as a whole or not at all. Return the position
        behind them. They survive the process, and a loss of power after the next `sync`. Raises ValueError for a
        record that is too long, StoreFull, StoreBroken."""
        ...

    def sync(self) -> int:
        """Make all records durable that were appended before this call. Return the position behind them. May be called
        from another thread than the others, concurrently with them. Raises StoreBroken."""
        ...

    def mark(self, checkpoint: int) -> None:
        """Note in the log that this checkpoint is gathered now: what is appended later is not in it. Raises StoreFull,
        StoreBroken."""

    @property
    def log_bytes(self) -> int:
        """The bytes that were appended to the log since it was cut last."""
        ...

    @property
    def is_owing(self) -> bool:
        """True if the next checkpoint has to be kept here even if nothing has changed: the last decision is not durable
        here, a checkpoint is prepared, or the log has to be cut."""
        ...

    # -- what is in it

    def states(self) -> LoadedStates:
        """Return all state, and all inputs that are known, as they were when the store was opened; every row is checked
        when it is read. Raises StoreBroken for damage."""
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

    def copy_to(self, path: Path) -> int:
        """Copy the file to this path, durably: the content of the last decided checkpoint, and nothing of the log. The
        name is not durable yet. Return the number of commits in it. Raises StoreFull if it can't be copied, and then a
        part of the copy may be there; StoreBroken for the store itself."""
        ...

    def ended_in_order(self) -> None:
        """Record durably that the worker has closed in order: `loaded.deaths` is 0 next time. Raises StoreFull,
        StoreBroken."""

    def close(self) -> None:
        """Close the files. Does not raise. May be called twice."""
