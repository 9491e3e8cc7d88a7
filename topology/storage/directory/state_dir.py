"""The state directory: the data that the next run needs. A lock, and a manifest (`state.json`) with an incarnation
counter, notes (sources' generations), the key for hashing outsiders' ids, and the files of the workers' stores.

Every write of the manifest is a new file, synced, renamed over the old one, and the directory synced. This file must
not know what the notes, the shape or the stores mean. One process at a time: the directory is locked, and the lock goes
with the process.
"""

import contextlib
import dataclasses
import errno
import json
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from acker.identity import KEY_BYTES
from topology.codes.code import NEW_DIRECTORY
from topology.codes.runtime import STATE_DIR_REMOVED
from topology.codes.savepoints import SAVEPOINT_AS_STATE_DIR, SAVEPOINT_WITHOUT_FILES
from topology.codes.startup import (
    COMPONENT_FILES_NOT_REMOVED,
    NEWER_STATE_DIR_FORMAT,
    STATE_DIR_DAMAGED,
    STATE_DIR_LOCKED,
    STATE_DIR_NOT_OWNED,
    STATE_DIR_NOT_WRITABLE,
    STATE_DIR_NOTES_OVERFLOW,
    STATE_DIR_UNUSABLE,
    STATE_DIR_WORLD_WRITABLE,
)
from topology.errors import NotesAway, StartError
from topology.filesystem.files import AWAY, DiskFiles, Files, Lock, make_directories, replace
from topology.filesystem.lock_holders import named
from topology.storage.directory import savepoints
from topology.storage.directory.checks import (
    COMPANIONS,
    KEPT,
    CheckResult,
    checked_files,
    is_content,
    refuse_unknown,
    store_name,
)
from topology.storage.directory.decision import decided_in
from topology.storage.directory.manifest import (
    BYTES_MAX,
    FORMAT,
    Manifest,
    NewerFormat,
    StoreEntry,
    manifest_of,
    packed_manifest,
)
from topology.storage.directory.staging import is_not_placed, not_placed, put_in_place
from topology.storage.sqlite.schema import ID_BYTES, create_store
from topology.storage.sqlite.store import SqliteStore

NOTES_BYTES_MAX: Final = 64 * 1024
LETTERS_A_LOSS: Final = 1_000_000_000  # a store in place of a lost one counts its letters from this much further on
_STATE = "state.json"
_UNKNOWN = "?"  # in place of a machine's start that the system does not tell: equal to none


class MemoryNotes:
    """`topology.components.Notes` for a run that keeps nothing."""

    def __init__(self) -> None:
        self._notes: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        return self._notes.get(name)

    def set(self, name: str, text: str) -> None:
        self._notes[name] = text


class StateDir:
    """An opened, locked state directory. Satisfies `Notes`. Methods block for an fsync; `close` releases the lock.

    Raises StartError, in one sentence, if the directory belongs to another topology or user, is in use, cannot be
    written, or lacks its state.json although stores or components' files are there. Created with mode 0700.

    Call in this order: open it, `check_files`, `assign.refile` (which makes the stores), `set_begun`, run, `set_clean`.
    `fresh` deletes notes and the shape at once. It deletes positions, state and the files of components when the files
    are checked. The counter, the key, the run's id and dead letters stay. `topology` None: that of the directory, which
    must exist. `secret` returns unguessable bytes.
    """

    def __init__(
        self,
        path: Path,
        topology: str | None,
        *,
        fresh: bool = False,
        files: Files | None = None,
        secret: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.path = path
        self.checked = False  # True once `check_files` has found all stores to be sound, since the lock was taken
        self._secret = secret
        self.files: Files = files if files is not None else DiskFiles()
        self._lock: Lock | None = None
        try:
            if topology is not None:
                make_directories(self.files, path)
            self._check_owner()
            if topology is None:
                self._refuse_none()
            self._refuse_savepoint()
            self._lock = self._locked()
            self._manifest = self._load(topology)
            if fresh:
                if self._manifest.replacing:
                    self._replace_all()
                self.forget()
            elif self._manifest.upgraded:
                self._store()
        except OSError as error:
            self.close()
            raise StartError(
                f"the state directory {path} can't be used: {error.strerror or error}", code=STATE_DIR_UNUSABLE
            ) from error
        except BaseException:
            self.close()
            raise

    # -- what is known

    @property
    def key(self) -> bytes:
        """The secret key for hashing ids that outsiders choose (S19)."""
        return bytes.fromhex(self._manifest.key)

    @property
    def topology(self) -> str:
        """The name of the topology that it belongs to."""
        return self._manifest.topology

    @property
    def run_id(self) -> str:
        """Part of all identities; empty until `--run-id` has started new ones."""
        return self._manifest.run_id

    @property
    def shape(self) -> str | None:
        """The shape of the last run's topology, as passed to `set_begun`; None before the first run, and after
        --fresh."""
        return self._manifest.shape

    @property
    def clean(self) -> bool:
        """True if nothing was in flight when the last run ended, and before the first run."""
        return self._manifest.clean

    @property
    def has_torn_logs(self) -> bool:
        """True if logs may be torn at different places: they were not synced, and the machine was started since."""
        return self._manifest.boot not in ("", self.files.boot)

    @property
    def has_unsynced_logs(self) -> bool:
        """True if what logs have may not be durable."""
        return bool(self._manifest.boot)

    @property
    def known_files(self) -> dict[str, int]:
        """The existing stores, by name: the recorded number of commits of each. A copy."""
        return {name: known.commits for name, known in self._manifest.files.items() if known.commits}

    @property
    def kept(self) -> Path | None:
        """The folder for files of components; it may not exist. None on a simulated disk, which the components' code
        would not find."""
        return None if self.files.vfs else self.path.absolute() / KEPT

    @property
    def notes(self) -> dict[str, str]:
        """All notes, by name: a copy."""
        return dict(self._manifest.notes)

    def get(self, name: str) -> str | None:
        return self._manifest.notes.get(name)

    def check_in_place(self) -> None:
        """Raise StartError if the directory was removed or replaced since it was locked. Another run may use the one
        that is there now, so nothing is written into it."""
        try:
            is_in_place = self._lock is None or self._lock.is_in_place()
        except OSError:
            return  # nothing is known of it; who writes will hear
        if not is_in_place:
            text = f"the state directory {self.path} was removed or replaced while a run uses it"
            raise StartError(text, code=STATE_DIR_REMOVED)

    # -- what changes, durably

    def next_incarnation(self) -> int:
        """Count this start (or this used-up number space), durably, before anything is sent under it (A7)."""
        self._manifest.incarnation += 1
        self._store()
        return self._manifest.incarnation

    def set(self, name: str, text: str) -> None:
        """Store a note as in `Notes`. Raises NotesAway, and StartError for too many notes and for a disk that fails."""
        notes = {**self._manifest.notes, name: text}
        if len(json.dumps(notes)) > NOTES_BYTES_MAX:
            text = f"the notes in {self.path / _STATE} would exceed {NOTES_BYTES_MAX} bytes with {name!r}"
            raise StartError(text, code=STATE_DIR_NOTES_OVERFLOW)
        before, self._manifest.notes = self._manifest.notes, notes
        try:
            self._store()
        except BaseException:
            self._manifest.notes = before
            raise

    def new_run_id(self, text: str | None = None) -> str:
        """Set the part of all identities from now on; a random one if no text is given. Return it."""
        self._manifest.run_id = text if text is not None else self._secret(8).hex()
        self._store()
        return self._manifest.run_id

    def forget(self) -> None:
        """Delete notes and the shape at once, and positions when the files are checked, as `fresh` does."""
        self._manifest.notes = {}
        self._manifest.shape, self._manifest.clean = None, True
        self._manifest.forgetting = bool(self._manifest.files)
        self._store()

    def set_begun(self, shape: str, *, logs_are_synced: bool = True) -> None:
        """Record that a topology of this shape is about to run, and that messages may be in flight from now on.

        Unless logs are synced, before their outputs leave, a loss of power may tear them at different places. So the
        present start of the machine is recorded with them.
        """
        self._manifest.shape, self._manifest.clean = shape, False
        self._manifest.boot = "" if logs_are_synced else self.files.boot or _UNKNOWN
        self._store()

    def set_logs_durable(self) -> None:
        """Record that all of each log is durable, or that there is none any more."""
        if self._manifest.boot:
            self._manifest.boot = ""
            self._store()

    def set_shape(self, shape: str) -> None:
        """Record that stored data belongs to a topology of this shape; everything else stays as it was."""
        self._manifest.shape = shape
        self._store()

    def set_clean(self, commits: Mapping[str, int] | None = None) -> None:
        """Record that the run has ended with nothing in flight, and that its workers are gone. `commits` of stores, by
        name, if they are known; otherwise they are read from the files."""
        if commits is None:
            self._manifest.files = self._compared(over=True).files
        else:
            for name, count in commits.items():
                self._manifest.files[name].commits = count
        self._manifest.clean = True
        self._store()

    def record(self, commits: Mapping[str, int]) -> None:
        """Record the numbers of commits of the stores, by name; a file that has fewer will be refused (D12)."""
        for name, count in commits.items():
            self._manifest.files[name].commits = count
        self._store()

    def check_files(self, *, accept_loss: bool = False) -> list[str]:
        """Compare the stores with their entries, check their whole content once per start, and complete a --fresh.
        Return each accepted loss as a sentence.

        Raises StartError if a store is missing, behind, foreign or damaged. Call it before anything else reads the
        stores; none may be open.
        """
        if self._manifest.replacing:
            self._replace_all()
        found = self._compared(accept_loss=accept_loss)
        if self._manifest.files != found.files:
            self._manifest.files = found.files
            self._manifest.lost += found.gone
            self._store()
        self.checked = True
        if self._manifest.forgetting:
            self._forget_stores()
            self._empty_kept()
            self._manifest.forgetting = False
            self._store()
        return found.lost

    def make_stores(self, workers: list[int]) -> None:
        """Make the missing stores of these workers. First the manifest records the plan, then the file is made, then
        the manifest records the file. If this is interrupted, the next call completes it (F56)."""
        known = self._manifest.files
        missing = {worker: store_name(worker) for worker in workers}
        missing = {worker: name for worker, name in missing.items() if name not in known or not known[name].commits}
        if not missing:
            return
        for name in missing.values():
            known[name] = StoreEntry(self._secret(ID_BYTES).hex(), 0)
        self._store()
        first = 1 + self._manifest.lost * LETTERS_A_LOSS
        for worker, name in missing.items():
            create_store(
                self.files, self.path / name, id=bytes.fromhex(known[name].id), number=worker, first_letter=first
            )
        self.record(dict.fromkeys(missing.values(), 1))

    # -- savepoints

    def saved(self, commits: Mapping[str, int], *, at: float, clean: bool) -> Manifest:
        """Return the manifest of a savepoint: it has the number of commits of each copy, by name. `at`: seconds since
        1970. `clean`: nothing is in flight in it."""
        entries = {name: StoreEntry(self._manifest.files[name].id, count) for name, count in commits.items()}
        return dataclasses.replace(
            self._manifest,
            notes=dict(self._manifest.notes),
            files=entries,
            clean=clean,
            boot=_UNKNOWN,  # there is no log of what was done since
            saved_at=at,
        )

    def refuse_components_files(self) -> None:
        """Raise StartError if components keep files of their own here, which no savepoint has."""
        kept = self.kept
        try:
            names = {entry.name for entry in kept.iterdir()} if kept is not None and kept.is_dir() else set()
        except OSError as error:
            raise StartError(
                f"{kept} can't be read: {error.strerror or error}", code=SAVEPOINT_WITHOUT_FILES
            ) from error
        if names - {COMPANIONS}:
            text = f"{kept} has files that components keep themselves, and a checkpoint has none of them"
            raise StartError(text, code=SAVEPOINT_WITHOUT_FILES)

    @property
    def is_replacing(self) -> bool:
        """True if a savepoint is being put in place of what is here, and that was interrupted."""
        return bool(self._manifest.replacing)

    def replace_all(self, savepoint: Path) -> None:
        """Have the content of a savepoint, in place of all there is, durably. The counter of starts goes on. If this is
        interrupted, the next `check_files` completes it. No store may be open. `staging.stage` comes before. Raises
        StartError."""
        self._manifest.replacing = str(savepoint.absolute())
        self._store()
        self._replace_all()

    def _replace_all(self) -> None:
        source = Path(self._manifest.replacing)
        try:
            kept = savepoints.found(self.files, source).manifest
        except StartError as error:
            text = f"{self.path} was being given what checkpoint {source.name} has, and was interrupted; now {error}"
            before = "begin from another one; what the directory had is one that begins with before-: --from before-…"
            raise is_not_placed(text, before) from error
        try:
            for name in self.files.names(self.path):
                if is_content(name):
                    self.files.remove(self.path / name)
            self.files.sync_directory(self.path)  # so that no log comes back beside a copy
            for name in kept.files:
                put_in_place(self.files, source, self.path, name)
            self.files.sync_directory(self.path)
        except OSError as error:
            raise not_placed(source, self.path, error) from error
        incarnation = max(self._manifest.incarnation, kept.incarnation)
        self._manifest = dataclasses.replace(kept, incarnation=incarnation, saved_at=0.0)
        self.checked = False
        self._store()

    def close(self) -> None:
        """Release the lock; may be called twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- within

    def _compared(self, *, accept_loss: bool = False, over: bool = False) -> CheckResult:
        files, path, known = self.files, self.path, self._manifest
        return checked_files(files, path, known, accept_loss=accept_loss, checked=self.checked, over=over)

    def _forget_stores(self) -> None:
        """Delete the stores' data, one transaction per file; repeated if a crash interrupts it."""
        for name, known in self._manifest.files.items():
            if known.commits == 0:
                continue
            store = SqliteStore(self.files, self.path / name, checked=True)
            try:
                # dead letters stay, also those of a decided checkpoint
                if store.prepared == decided_in(self.files, self.path, [store], accept_loss=True) != 0:
                    store.resolve(store.prepared)
                store.forget()
            finally:
                store.close()

    def _empty_kept(self) -> None:
        """Delete the files of components; repeated if a crash interrupts it. These files were not written through
        `Files`."""
        kept = self.kept
        try:
            if kept is not None and kept.exists():
                shutil.rmtree(kept)
        except OSError as error:
            text = f"the folder {kept} of files that components keep can't be emptied: {error.strerror or error}"
            raise StartError(text, code=COMPONENT_FILES_NOT_REMOVED) from error

    def _check_owner(self) -> None:
        found = self.files.look(self.path)
        if found is None or found.kind != "directory":
            raise StartError(
                f"the state directory {self.path} is not a directory, or is a symbolic link", code=STATE_DIR_NOT_OWNED
            )
        if not found.ours:
            raise StartError(
                f"the state directory {self.path} belongs to another user (uid {found.uid})", code=STATE_DIR_NOT_OWNED
            )
        if found.shared:
            raise StartError(f"any user may write to the state directory {self.path}", code=STATE_DIR_WORLD_WRITABLE)

    def _refuse_none(self) -> None:
        """Raise if this is no state directory, so that nothing is created in it."""
        if self.files.look(self.path / _STATE) is None:
            refuse_unknown(self.files, self.path, None)
            raise FileNotFoundError(errno.ENOENT, f"there is no {_STATE} in it")

    def _refuse_savepoint(self) -> None:
        """Raise StartError for a kept checkpoint, in which not even a lock is made."""
        file = self.path / _STATE
        with contextlib.suppress(NewerFormat, ValueError, OSError):  # `_load` says what is wrong with it
            if self.files.look(file) is not None and manifest_of(self.files.read(file, BYTES_MAX)).saved_at:
                text = f"{self.path} is a kept checkpoint, and no state directory"
                raise StartError(text, code=SAVEPOINT_AS_STATE_DIR)

    def _locked(self) -> Lock:
        try:
            return self.files.lock(self.path / "lock")
        except BlockingIOError:
            who = named(self.path / "lock")
            raise StartError(
                f"the state directory {self.path} is in use by another run{who}", code=STATE_DIR_LOCKED
            ) from None

    def _load(self, topology: str | None) -> Manifest:
        file = self.path / _STATE
        if topology is None:
            self._refuse_none()
        elif self.files.look(file) is None:
            refuse_unknown(self.files, self.path, None)
            return Manifest(topology, self._secret(KEY_BYTES).hex())
        try:
            manifest = manifest_of(self.files.read(file, BYTES_MAX))
        except NewerFormat as error:
            text = f"{file} has format {error}; this Kedge reads formats up to {FORMAT}"
            raise StartError(text, code=NEWER_STATE_DIR_FORMAT) from None
        except ValueError:
            raise StartError(
                f"{file} is damaged",
                code=STATE_DIR_DAMAGED,
                next=f"restore it from a copy; or {NEW_DIRECTORY.format(path=self.path)}",
            ) from None
        if topology is not None and manifest.topology != topology:
            raise StartError(
                f"the state directory {self.path} belongs to topology {manifest.topology!r}, not to {topology!r}",
                code=STATE_DIR_DAMAGED,
                next="give another one: --state-dir DIR",
            )
        return manifest

    def _store(self) -> None:
        self.check_in_place()
        try:
            replace(self.files, self.path / _STATE, packed_manifest(self._manifest))
        except OSError as error:
            text = f"the state directory {self.path} can't be written: {error.strerror or error}"
            raise (NotesAway if error.errno in AWAY else StartError)(text, code=STATE_DIR_NOT_WRITABLE) from error
