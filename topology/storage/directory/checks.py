"""Check that the files of a state directory are those that its manifest knows: none missing, none older, none foreign
(F23, D12). Must not know what a run will do with them."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from topology.codes.code import NEW_DIRECTORY
from topology.codes.startup import (
    FOREIGN_STATE_FILE,
    STATE_FILE_MISSING,
    STATE_FILE_OUTDATED,
    STATE_LOSS_ACCEPTED,
    UNKNOWN_STATE_FILE,
)
from topology.errors import StartError
from topology.filesystem.files import Files
from topology.storage.directory.manifest import Manifest, StoreEntry
from topology.storage.sqlite.errors import start_error
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull

KEPT: Final = "kept"  # the folder of files that components keep themselves
COMPANIONS: Final = "companions"  # a folder in it, as `runtime.companions` names it
_NAME: Final = re.compile(r"worker-(0|[1-9][0-9]{0,4})\.db")
_CONTENT: Final = re.compile(r"worker-[0-9]{1,5}\.(db|db-wal|db-journal|log.*)|decided")


@dataclass
class CheckResult:
    """The result of the check: the entries that the manifest should have now, and each loss in a sentence."""

    files: dict[str, StoreEntry] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    gone: int = 0  # files that no longer exist


def store_name(worker: int) -> str:
    """Return the file name of a worker's store."""
    return f"worker-{worker}.db"


def worker_of(name: str) -> int | None:
    """Return the worker whose file this is; None for a file that is no store."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def is_content(name: str) -> bool:
    """Return True for a store, a log, or the decision file: what a savepoint takes the place of."""
    return _CONTENT.fullmatch(name) is not None


def refuse_unknown(files: Files, path: Path, manifest: Manifest | None) -> None:
    """Raise StartError if there is a store that the manifest does not name. Without a manifest, raise it for any store,
    and for the folder of components' files, because the positions that belong to that folder are lost."""
    names = files.names(path)
    there = [name for name in names if worker_of(name) is not None]
    unknown = [name for name in there if manifest is None or name not in manifest.files]
    if manifest is None and KEPT in names:
        unknown.append(KEPT)
    if not unknown:
        return
    if manifest is None:
        text = f"{path} has {unknown[0]}, and no state.json, which says what it belongs to"
        advice = f"restore all of {path} from one copy; or {NEW_DIRECTORY.format(path='it')}"
        raise StartError(text, code=UNKNOWN_STATE_FILE, next=advice)
    text = f"{path / unknown[0]} is not one of the files that state.json knows"
    lost = f"give up the positions, the state and the dead letters in {unknown[0]}"
    raise StartError(
        text, code=UNKNOWN_STATE_FILE, next=f"restore all of {path} from one copy; or {lost}: move it away"
    )


def checked_files(
    files: Files, path: Path, manifest: Manifest, *, accept_loss: bool, checked: bool = False, over: bool = False
) -> CheckResult:
    """Compare each file with its entry, and check its whole content, unless it was `checked` before in this start.

    `over`: the run has ended, and the directory is to record how far the files are. Raises StartError for the first
    file with a fault, except if it is missing or behind and `accept_loss` is set; also if a file is damaged or cannot
    be read.
    """
    refuse_unknown(files, path, manifest)
    found = CheckResult()
    for name, known in manifest.files.items():
        file = path / name
        if known.commits == 0:  # it was being made
            found.files[name] = known
            continue
        if files.look(file) is None:
            if not accept_loss:
                raise StartError(f"the state file {file} is missing", code=STATE_FILE_MISSING)
            what = f"{name} is missing, so the positions, dead letters and state in it are lost"
            found.lost.append(f"--accept-loss: {what} ({STATE_LOSS_ACCEPTED})")
            found.gone += 1
            continue
        store = SqliteStore(files, file, checked=checked)
        try:
            commits, id = store.commits, store.id.hex()
            known_now = commits if over and settled(store) else min(commits, known.commits)
        finally:
            store.close()
        if id != known.id:
            raise StartError(f"the state file {file} belongs to another state directory", code=FOREIGN_STATE_FILE)
        if commits < known.commits:
            if not accept_loss:
                text = f"the state file {file} has seen {commits:,} commits, and {known.commits:,} are known of"
                raise StartError(text, code=STATE_FILE_OUTDATED)
            what = f"{name} is an older copy, of commit {commits:,}, so everything after that commit is lost"
            found.lost.append(f"--accept-loss: {what} ({STATE_LOSS_ACCEPTED})")
        found.files[name] = StoreEntry(id, known_now)
    return found


def settled(store: SqliteStore) -> bool:
    """Make all commits durable. Return True if they are, so that the directory may record them, and refuse a file that
    has fewer: a killed process may have left some unsynced. Without space they stay unsynced. Raises StartError."""
    try:
        store.settle()
        return True
    except StoreFull:
        return False
    except StoreBroken as error:
        raise start_error(store.path, error) from error
