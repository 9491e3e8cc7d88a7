"""The stores of a savepoint, copied into a state directory beside those whose place they will take, and found to be
whole before anything is changed.

Such a copy is `worker-0.db.new`. What an interrupted start has left of them is removed by the next one that stages
something. Must not know runs.
"""

from pathlib import Path
from typing import Final

from topology.codes.savepoints import SAVEPOINT_NOT_PLACED
from topology.errors import StartError
from topology.filesystem.files import Files
from topology.storage.directory import savepoints
from topology.storage.directory.manifest import StoreEntry
from topology.storage.sqlite.errors import start_error
from topology.storage.sqlite.schema import FORMAT
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull

NEW: Final = ".new"
_LOG: Final = f"{NEW}-wal"


def stage(files: Files, directory: Path, source: Path) -> None:
    """Copy all stores of the savepoint in the folder `source` into a state directory, durably, and read all of each.
    Raises StartError; then no copy is left."""
    kept = savepoints.found(files, source).manifest
    unstage(files, directory)
    try:
        for name, known in kept.files.items():
            _stage(files, directory, source, name, known)
        files.sync_directory(directory)
    except BaseException:
        unstage(files, directory)
        raise


def unstage(files: Files, directory: Path) -> None:
    """Remove all staged copies. Raises StartError."""
    try:
        for name in files.names(directory):
            if name.endswith((NEW, _LOG)) and name.startswith("worker-"):
                files.remove(directory / name)
    except OSError as error:
        raise is_not_placed(f"{directory} can't be written: {error.strerror or error}") from error


def put_in_place(files: Files, source: Path, directory: Path, name: str) -> None:
    """Make the staged copy of a store the store; copy it again if a start was interrupted that had done so. Raises
    OSError."""
    staged = directory / f"{name}{NEW}"
    if files.look(staged) is None:
        files.copy(source / name, directory / name)
    else:
        files.rename(staged, directory / name)


def _stage(files: Files, directory: Path, source: Path, name: str, known: StoreEntry) -> None:
    staged = directory / f"{name}{NEW}"
    if files.look(source / name) is None:
        raise _damaged(source, f"{name} is missing")
    try:
        files.copy(source / name, staged)
    except OSError as error:
        raise not_placed(source, directory, error) from error
    try:
        store = SqliteStore(files, staged)
    except StartError as error:
        raise _damaged(source, str(error).replace(str(staged), str(source / name))) from error
    try:
        if store.id.hex() != known.id or store.commits < known.commits:
            raise _damaged(source, f"{name} is another file than the one that was kept")
        store.states()
        store.entries()
        if store.loaded.deaths and store.format == FORMAT:
            store.ended_in_order()  # the life that went on while it was copied has not died
    except StoreFull as error:
        raise not_placed(source, directory, error) from error
    except StoreBroken as error:
        raise _damaged(source, str(start_error(staged, error)).replace(str(staged), str(source / name))) from error
    finally:
        store.close()
    if files.look(log := staged.with_name(f"{name}{_LOG}")) is not None:
        files.remove(log)


def not_placed(source: Path, directory: Path, error: OSError | StoreFull) -> StartError:
    """Return the error for a checkpoint whose copy into a state directory has failed."""
    why = error.strerror if isinstance(error, OSError) else None
    return is_not_placed(f"the checkpoint {source} can't be put into {directory}: {why or error}")


def is_not_placed(text: str, advice: str = "") -> StartError:
    """Return the error for a checkpoint that does not get into its place."""
    return StartError(text, code=SAVEPOINT_NOT_PLACED, next=advice)


def _damaged(source: Path, why: str) -> StartError:
    return savepoints.is_damaged(f"the checkpoint {source.name} is damaged, and nothing was changed: {why}")
