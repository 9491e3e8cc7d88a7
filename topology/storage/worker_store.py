"""Opens a worker's store: the file of the last decided checkpoint, and the log of what was done since.

In a run, what the log has is only redone in memory, over the file, and written with the next checkpoint. After a loss
of power all workers may have to go back to the decided checkpoint, because their logs are torn at different places. So
no file may be ahead of it by what only its own log had. Between two runs `fold` puts the log into the file, for good.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

from topology.codes.startup import STATE_FILE_OUTDATED
from topology.errors import StartError
from topology.filesystem.files import Files
from topology.storage.log import errors as log_errors
from topology.storage.log.log import WorkerLog
from topology.storage.log.opening import FIX_IT, log_paths, open_log
from topology.storage.redo import Redone
from topology.storage.sqlite.errors import can_not_open, start_error
from topology.storage.sqlite.header import Owner
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes, Letter, Loaded, LoadedStates

BETWEEN_RUNS: Final = (1 << 64) - 1  # incarnation that opens a log to fold it: after every life's
MARKS_MAX: Final = 1_000  # of checkpoints that this store had no part in, before the log is cut


class WorkerStore:
    """A `Store` over a worker's file and its log, if it has one; `open_store` makes it.

    `append`, `sync` and `mark` concern only the log, and all others only the file: so a thread may append and mark
    while another one is in `prepare`, `decided` or `conclude`.
    """

    def __init__(self, store: SqliteStore, log: WorkerLog | None, redone: Redone | None) -> None:
        self._store = store
        self._log = log
        self._redone = redone  # until it is in the file: with the next decided checkpoint
        self._loaded = store.loaded
        if redone is not None:
            self._loaded = dataclasses.replace(self._loaded, marks=tuple(redone.marks_over(self._loaded.marks)))
        self._decided = store.checkpoint  # the log is cut there with the next mark, by the thread that appends
        self._marked = 0
        self._appended = self._before_mark = self._cut = 0  # bytes since the opening
        self._marks = 0  # since the log was cut

    @property
    def loaded(self) -> Loaded:
        return self._loaded

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def commits(self) -> int:
        return self._store.commits

    # -- checkpoints

    def prepare(self, checkpoint: int, changes: Changes) -> None:
        """As in `Store`. Raises ValueError for a checkpoint that was not marked, if there is a log. One that is not the
        last to be marked was given up meanwhile, by another thread than this: it leaves no trace."""
        changes = self._whole(checkpoint, changes)
        self._store.prepare(checkpoint, changes)

    def decided(self, checkpoint: int) -> None:
        self._store.decided(checkpoint)
        self._is_decided(checkpoint)

    def conclude(self, checkpoint: int, changes: Changes) -> None:
        """As in `Store`. Raises ValueError for a checkpoint that was not marked, if there is a log."""
        changes = self._whole(checkpoint, changes)
        self._store.conclude(checkpoint, changes)
        self._is_decided(checkpoint)

    def _whole(self, checkpoint: int, changes: Changes) -> Changes:
        if self._log is not None:
            if self._marked < checkpoint:
                raise ValueError(f"checkpoint {checkpoint} is not marked in the log, and {self._marked} is")
            self._log.sync()  # so a log without the mark is an older copy; and one that was never synced can't turn
        return changes if self._redone is None else self._redone.under(changes)

    def _is_decided(self, checkpoint: int) -> None:
        self._redone = None
        self._cut, self._marks = self._before_mark, 0
        self._decided = checkpoint

    # -- the log

    def append(self, records: Sequence[bytes]) -> int:
        if self._log is None:
            return 0
        position = self._log.append(records)
        self._appended += sum(map(len, records))
        return position

    def sync(self) -> int:
        if self._log is None:
            return 0
        self._log.sync()
        return self._log.synced

    def mark(self, checkpoint: int) -> None:
        if self._log is not None:
            self._log.cut(self._decided)
            self._log.mark(checkpoint)
            self._marked, self._before_mark = checkpoint, self._appended
            self._marks += 1

    @property
    def log_bytes(self) -> int:
        return self._appended - self._cut

    @property
    def is_owing(self) -> bool:
        return self._store.is_owing or self._redone is not None or self._marks > MARKS_MAX

    # -- what is in it

    def states(self) -> LoadedStates:
        found = self._store.states()
        return found if self._redone is None else self._redone.over(found)

    def letters(self, names: Sequence[str] | None = None, after: str = "", limit: int = 1_000) -> list[Letter]:
        return self._store.letters(names, after, limit)

    def listed(self, after: str = "", limit: int = 1_000) -> list[Letter]:
        return self._store.listed(after, limit)

    def names(self) -> list[str]:
        return self._store.names()

    def copy_to(self, path: Path) -> int:
        return self._store.copy_to(path)

    def ended_in_order(self) -> None:
        self._store.ended_in_order()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        self._store.close()


def open_store(
    files: Files, path: Path, *, owner: Owner, decided: int, logged: bool, checked: bool = True
) -> WorkerStore:
    """Open the store of a worker's life, which begins here, durably. Blocks.

    owner    Worker and incarnation. An earlier owner than the last one is refused (D6).
    decided  The last decided checkpoint of the run.
    logged   True: the run keeps a log, whose durability is "disk" or "process".
    checked  See `SqliteStore`.

    Raises StartError, in one sentence, if the file or its log is damaged, of a newer format, an older copy or unusable.
    """
    store = SqliteStore(files, path, checked=checked)
    log: WorkerLog | None = None
    redone: Redone | None = None
    try:
        with start_errors(path):
            store.check_owner(owner)
            if store.checkpoint < decided != store.prepared:
                refuse_older(store, decided)
            store.resolve(max(decided, store.checkpoint))
            if store.has_log and not logged:
                fold(files, store)
            elif store.has_log:
                log = open_log(files, log_path(path), owner=owner, decided=store.checkpoint, is_marked=True)
                redone = redone_of(log, store)
            elif logged:
                remove_log(files, path)  # nothing was ever appended to it, or all of it is in the file
                log = open_log(files, log_path(path), owner=owner, decided=store.checkpoint, create=True)
            store.begin_life(owner, has_log=logged)
            return WorkerStore(store, log, redone)
    except BaseException:
        if log is not None:
            log.close()
        store.close()
        raise


def is_behind(store: SqliteStore, decided: int) -> bool:
    """Return True if a store had the content of the decided checkpoint, and has it no more: it is an older copy."""
    return (store.takes_part or store.prepared > 0) and store.checkpoint < decided != store.prepared


def refuse_older(store: SqliteStore, decided: int) -> NoReturn:
    """Raise the error for a store that lacks the decided checkpoint."""
    text = f"the state file {store.path} has checkpoint {store.checkpoint}, and {decided} is decided"
    raise StartError(text, code=STATE_FILE_OUTDATED)


def fold(files: Files, store: SqliteStore) -> None:
    """Put what a store's log has into its file, durably, and remove the log. No life of the store may be under way, and
    the store has what is decided. May be interrupted, and called again. Raises StartError, StoreFull, StoreBroken,
    OSError."""
    if store.has_log:
        path = log_path(store.path)
        log = open_log(files, path, owner=(store.number, BETWEEN_RUNS), decided=store.checkpoint, is_marked=True)
        try:
            redone = redone_of(log, store)
            changes = redone.changes if redone is not None else Changes()
            store.replace(changes, entries=changes.entries if redone is not None else None, ends_log=True)
        finally:
            log.close()
    remove_log(files, store.path)


def settle_log(files: Files, store: SqliteStore) -> None:
    """Make what a store's log has durable, as `fold` will find it. Raises StartError."""
    if store.has_log:
        owner = store.number, BETWEEN_RUNS
        open_log(files, log_path(store.path), owner=owner, decided=store.checkpoint, is_marked=True).close()


def redone_of(log: WorkerLog, store: SqliteStore) -> Redone | None:
    """Return what a log that was just opened has, over its store; None if it has nothing. Raises StartError,
    StoreBroken."""
    try:
        redone = Redone(store, log.redo())
    except ValueError as error:
        log_errors.is_damaged(log_paths(log_path(store.path))[0], str(error))
    return redone if redone.count else None


def log_path(path: Path) -> Path:
    """Return the path of the log that belongs to a store's file."""
    return path.with_suffix(".log")


def remove_log(files: Files, path: Path) -> None:
    """Remove the files of the log beside a store's file, if they are there. Raises OSError."""
    for name in log_paths(log_path(path)):
        if files.look(name) is not None:
            files.remove(name)


@contextlib.contextmanager
def start_errors(path: Path) -> Iterator[None]:
    """Raise each error of a store, and of the system, as StartError."""
    try:
        yield
    except StoreBroken as error:
        raise start_error(path, error) from error
    except StoreFull as error:
        can_not_open(path, str(error))
    except OSError as error:
        log_errors.can_not_open(log_path(path), error.strerror or str(error), FIX_IT)
