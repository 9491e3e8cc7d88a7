"""The state directory: what must be known to the next run. So far an incarnation counter, notes (sources' generations),
and the key that outsiders' ids are hashed with.

Every write is: a new file, fsynced, renamed over the old one, the directory fsynced. This file must not know what the
notes mean. One process at a time: the directory is locked, and the lock goes with the process.
"""

import contextlib
import fcntl
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any, Final

from acker.identity import KEY_BYTES
from topology.codes.starting import K410, K411, K412, K413, K414, K415
from topology.errors import StartError

FORMAT: Final = 1
NOTES_BYTES_MAX: Final = 64 * 1024
INCARNATION_MAX: Final = 1 << 53  # starts that a state directory can have counted; more is damage
_STATE = "state.json"


class MemoryNotes:
    """`topology.components.Notes` for a run that keeps nothing."""

    def __init__(self) -> None:
        self._notes: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        return self._notes.get(name)

    def set(self, name: str, text: str) -> None:
        self._notes[name] = text


class StateDir:
    """An opened, locked state directory. Satisfies `Notes`. Methods block for an fsync; `close` gives the lock back.

    Raises StartError, in one sentence, where the directory belongs to another topology or user, is in use, or can't be
    written. Created with mode 0700.
    """

    def __init__(self, path: Path, topology: str, *, fresh: bool = False) -> None:
        self.path = path
        self._lock = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            created = not path.exists()
            path.mkdir(mode=0o700, exist_ok=True)
            if created:
                _sync_directory(path.parent)
            self._check_owner()
            self._take_lock()
            self._state = self._load(topology)
            if fresh:
                self._state["notes"] = {}
                self._store()
        except OSError as error:
            self.close()
            raise StartError(
                f"the state directory {path} can't be used: {error.strerror or error}", code=K410
            ) from error
        except StartError:
            self.close()
            raise

    def next_incarnation(self) -> int:
        """Counts this start (or this spent number space), durably, before anything is sent under it (A7)."""
        self._state["incarnation"] += 1
        self._store()
        return int(self._state["incarnation"])

    @property
    def key(self) -> bytes:
        """The secret that ids chosen by outsiders are hashed with (S19)."""
        return bytes.fromhex(self._state["key"])

    @property
    def notes(self) -> dict[str, str]:
        """All notes, by name: a copy."""
        return dict(self._state["notes"])

    def get(self, name: str) -> str | None:
        text: str | None = self._state["notes"].get(name)
        return text

    def set(self, name: str, text: str) -> None:
        notes = {**self._state["notes"], name: text}
        if len(json.dumps(notes)) > NOTES_BYTES_MAX:
            text = f"the notes in {self.path / _STATE} would exceed {NOTES_BYTES_MAX} bytes with {name!r}"
            raise StartError(text, code=K415)
        self._state["notes"] = notes
        self._store()

    def close(self) -> None:
        """Gives the lock back; may be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _check_owner(self) -> None:
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise StartError(f"the state directory {self.path} is not a directory, or is a symbolic link", code=K411)
        if found.st_uid != os.geteuid():
            raise StartError(f"the state directory {self.path} belongs to another user (uid {found.st_uid})", code=K411)

    def _take_lock(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock = os.open(self.path / "lock", flags, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(f"the state directory {self.path} is in use by another run", code=K412) from None

    def _load(self, topology: str) -> dict[str, Any]:
        file = self.path / _STATE
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return {
                "format": FORMAT,
                "topology": topology,
                "incarnation": 0,
                "key": secrets.token_hex(KEY_BYTES),
                "notes": {},
            }
        try:
            state: dict[str, Any] = json.loads(content)
            known = {"format": int, "topology": str, "incarnation": int, "key": str, "notes": dict}
            if not all(isinstance(state[name], kind) for name, kind in known.items()):
                raise ValueError("a field has another type")
            if len(bytes.fromhex(state["key"])) != KEY_BYTES or not 0 <= state["incarnation"] < INCARNATION_MAX:
                raise ValueError("a field is out of its range")
            if not all(isinstance(note, str) for note in state["notes"].values()):
                raise ValueError("a note is no text")
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StartError(
                f"{file} is damaged", code=K413, next=f"restore it, or move {self.path} away and run again"
            ) from None
        if state["format"] != FORMAT:
            raise StartError(f"{file} has format {state['format']}; this Kedge reads format {FORMAT}", code=K413)
        if state["topology"] != topology:
            raise StartError(
                f"the state directory {self.path} belongs to topology {state['topology']!r}, not to {topology!r}",
                code=K413,
                next="give another one: --state-dir DIR",
            )
        return state

    def _store(self) -> None:
        beside = self.path / f".{_STATE}.new"
        try:
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w") as file:
                json.dump(self._state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path / _STATE)
            _sync_directory(self.path)
        except OSError as error:
            text = f"the state directory {self.path} can't be written: {error.strerror or error}"
            raise StartError(text, code=K414) from error


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
