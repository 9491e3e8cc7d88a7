"""Savepoints of a state directory that no run uses: keep one of what it has, and put one in place of what it has.

The caller has the directory open, and so locked. Must not know runs.
"""

from datetime import datetime
from pathlib import Path

from topology.codes.savepoints import SAVEPOINT_FAILED, SAVEPOINT_OF_ANOTHER
from topology.errors import StartError
from topology.filesystem.files import Files
from topology.storage.directory import savepoints
from topology.storage.directory.savepoints import Savepoint
from topology.storage.directory.staging import stage, unstage
from topology.storage.directory.state_dir import StateDir
from topology.storage.rescale.assign import opened_stores
from topology.storage.store import StoreBroken, StoreFull


def keep(state: StateDir, name: str, now: datetime, prefix: str = "") -> Savepoint:
    """Keep what the directory has: the last decided checkpoint, and what logs have of the time after. Without a name,
    `prefix` and the time are its name. All or nothing. Raises StartError."""
    state.check_files()
    state.refuse_components_files()
    if not state.known_files:
        raise StartError(f"nothing has run on {state.path} yet, so there is no checkpoint", code=SAVEPOINT_FAILED)
    name = name or savepoints.free_name(state.files, state.path, now, prefix)
    with opened_stores(state) as stores, savepoints.made(state.files, state.path, name) as folder:
        try:
            commits = {store.path.name: store.copy_to(folder / store.path.name) for store in stores.values()}
        except (StoreFull, StoreBroken) as error:
            raise savepoints.failed(name, str(error)) from error
        savepoints.complete(state.files, folder, state.saved(commits, at=now.timestamp(), clean=state.clean))
    return savepoints.found(state.files, folder)


def found(files: Files, source: Path, topology: str) -> Savepoint:
    """Return the savepoint of this topology that is in a folder. Raises StartError."""
    one = savepoints.found(files, source)
    if one.manifest.topology != topology:
        text = f"the checkpoint {source} is one of topology {one.manifest.topology!r}, and not of {topology!r}"
        raise StartError(text, code=SAVEPOINT_OF_ANOTHER)
    return one


def begin_from(state: StateDir, source: Path, topology: str, now: datetime) -> list[str]:
    """Have what a savepoint has, in place of what the directory has, which is kept as a savepoint of its own. Return a
    sentence for each of the two. Raises StartError, for a savepoint that is damaged before anything is changed. After
    another error the directory has what it had, or the next `check_files` completes this."""
    one = found(state.files, source, topology)
    state.refuse_components_files()
    stage(state.files, state.path, source)
    try:
        sentences = _kept_before(state, source, now)
        state.replace_all(source)
    finally:
        unstage(state.files, state.path)
    return [*sentences, f"--from: beginning from checkpoint {one.name}, of {one.when}"]


def _kept_before(state: StateDir, source: Path, now: datetime) -> list[str]:
    """Keep what the directory has, before a savepoint takes its place, and return a sentence if it has something."""
    if state.known_files and not state.is_replacing:
        try:
            before = keep(state, "", now, savepoints.BEFORE)
        except StartError as error:
            elsewhere = f"leave {state.path} as it is, and begin elsewhere: --state-dir NEW --from {source}"
            raise StartError(str(error), code=error.code, next=elsewhere) from error
        return [f"--from: what the state directory had is kept as checkpoint {before.name}"]
    return []
