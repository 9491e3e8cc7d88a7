"""Savepoints of a state directory: decided checkpoints that are kept under a name, each in a folder of `checkpoints/`.

A folder has a copy of each store, and last of all its own `state.json`: without that it is no savepoint, only what an
interrupted command has left, and the next one of this name removes it. It has no logs, and no files of components. The
manifest says that logs may be torn, so stores that are opened begin at the checkpoint. Nothing writes to a
complete folder. Must not know how a run copies its stores, nor how a run begins from one.

Docs: how-to/time-travel.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

from topology.codes.savepoints import (
    SAVEPOINT_DAMAGED,
    SAVEPOINT_EXISTS,
    SAVEPOINT_FAILED,
    SAVEPOINT_NAME,
    SAVEPOINT_NOT_FOUND,
)
from topology.errors import ConfigurationError, StartError, did_you_mean
from topology.filesystem.files import Files, make_directories, replace
from topology.storage.directory.manifest import (
    BYTES_MAX,
    FORMAT,
    Manifest,
    NewerFormat,
    manifest_of,
    packed_manifest,
)
from topology.text import printable

HOME: Final = "checkpoints"  # in the state directory
STATE: Final = "state.json"
RUN: Final = "auto-"  # the beginning of the names that a run gives, for `keep_checkpoints`
BEFORE: Final = "before-"  # of what a directory had, before a run began from a savepoint
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # no name leads out of the folder (S6)
LISTED_MAX: Final = 20  # names that a sentence lists
_DELETE: Final = "kedge state checkpoint --delete"
FILES_MAX: Final = 100_000  # entries of a folder that are looked at


@dataclass(frozen=True)
class Savepoint:
    """One complete savepoint. `at`: seconds since 1970, when its checkpoint was decided. `size`: bytes of all files."""

    name: str
    path: Path
    manifest: Manifest
    size: int

    @property
    def at(self) -> float:
        return self.manifest.saved_at

    @property
    def when(self) -> str:
        """`at`, for people."""
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%SZ}"

    @property
    def is_clean(self) -> bool:
        """True if nothing was in flight."""
        return self.manifest.clean


def free_name(files: Files, directory: Path, now: datetime, prefix: str = "") -> str:
    """Return the name of a new savepoint that is given none: its time, with a number for a second one in that second.
    Raises OSError."""
    name = f"{prefix}{now:%Y%m%d-%H%M%S}"
    more = (f"{name}-{number}" for number in count(2))
    return next(name for name in chain([name], more) if files.look(folder_of(directory, name) / STATE) is None)


def checked_name(name: str, *, own: bool = False) -> str:
    """Return the name. Raises ConfigurationError for an invalid one. `own`: Kedge gives it."""
    if not NAME.fullmatch(name):
        rule = "by 1 to 64 of A-Z a-z 0-9 _ and -, of which the first is a letter or a digit"
        text = f"a checkpoint is named {rule}, and not {printable(name)!r:.80}"
        raise ConfigurationError(text, code=SAVEPOINT_NAME)
    if not own and name.startswith((RUN, BEFORE)):
        text = f"names that begin with {RUN} and {BEFORE} are Kedge's own: {printable(name)!r:.80}"
        raise ConfigurationError(text, code=SAVEPOINT_NAME, next="give a name that begins otherwise")
    return name


def folder_of(directory: Path, name: str) -> Path:
    """Return the folder of a savepoint of this name."""
    return directory / HOME / name


@contextlib.contextmanager
def made(files: Files, directory: Path, name: str) -> Iterator[Path]:
    """Yield the folder of a new savepoint, as `begun` returns it. Remove it if it is not complete at the end. Raises
    StartError, also for an OSError."""
    folder = begun(files, directory, name)
    try:
        yield folder
    except OSError as error:
        raise failed(name, f"{folder} can't be written: {error.strerror or error}") from error
    finally:
        given_up(files, folder)


def begun(files: Files, directory: Path, name: str) -> Path:
    """Return the new folder of a savepoint, for the copies of stores. `complete` makes it one, and `given_up` removes
    it. No other process may make one in this directory meanwhile: what interrupted ones have left is removed. Raises
    StartError."""
    folder = folder_of(directory, name)
    try:
        if files.look(folder / STATE) is not None:
            text = f"there is a checkpoint {name!r} already, in {printable(str(folder))}"
            at = printable(str(directory))
            advice = f"give another name; or delete that one first: {_DELETE} {name} --state-dir {at}"
            raise StartError(text, code=SAVEPOINT_EXISTS, next=advice)
        make_directories(files, directory / HOME)
        _check_plain(files, name, directory / HOME)
        for each in (folder_of(directory, other) for other in _names(files, directory)):
            if _is_left(files, each):
                _remove(files, each)
        if (there := files.look(folder)) is not None and there.kind == "directory" and files.names(folder):
            raise failed(name, f"{folder} has files that are no checkpoint's: move them, or give another name")
        make_directories(files, folder)
        _check_plain(files, name, folder)
    except OSError as error:
        raise failed(name, f"{folder} can't be written: {error.strerror or error}") from error
    return folder


def _is_left(files: Files, folder: Path) -> bool:
    """Return True for what an interrupted process has left of a savepoint, and not for a folder of the user's own."""
    status = files.look(folder)
    if status is None or status.kind != "directory" or files.look(folder / STATE) is not None:
        return False
    return all(name.startswith(("worker-", f".{STATE}")) for name in files.names(folder))


def _check_plain(files: Files, name: str, path: Path) -> None:
    """Raise StartError for a link, and for a directory of another user (S5)."""
    status = files.look(path)
    if status is None or status.kind != "directory" or not status.ours:
        raise failed(name, f"{path} is no directory of this user, or a link")


def given_up(files: Files, folder: Path) -> None:
    """Remove a folder that is no savepoint. Without a manifest it is none, so what can't be removed now is removed by
    the next one of this name. Does not raise."""
    with contextlib.suppress(OSError):
        if files.look(folder / STATE) is None:
            _remove(files, folder)


def complete(files: Files, folder: Path, manifest: Manifest) -> None:
    """Make a folder whose copies are durable a savepoint, durably. Raises OSError."""
    files.sync_directory(folder)  # the names of the copies
    replace(files, folder / STATE, packed_manifest(manifest))


def found(files: Files, path: Path) -> Savepoint:
    """Return the savepoint in a folder. Raises StartError."""
    try:
        if files.look(path / STATE) is None:
            raise _without(files, path)
        if path.parent.name == HOME:
            _check_plain(files, path.name, path)
        manifest = manifest_of(files.read(path / STATE, BYTES_MAX))
        size = sum(status.size for name in files.names(path) if (status := files.look(path / name)) is not None)
    except NewerFormat as error:
        text = f"{path / STATE} has format {error}; this Kedge reads formats up to {FORMAT}"
        raise is_damaged(text, "run the version of Kedge that wrote it") from None
    except ValueError:
        raise is_damaged(f"{path / STATE} is damaged") from None
    except OSError as error:
        text = f"the checkpoint in {printable(str(path))} can't be read: {error.strerror or error}"
        raise is_damaged(text) from error
    if not manifest.saved_at:
        text = f"{printable(str(path))} is a state directory, and no checkpoint that was kept"
        raise StartError(text, code=SAVEPOINT_NOT_FOUND)
    return Savepoint(path.name, path, manifest, size)


def is_damaged(text: str, advice: str = "") -> StartError:
    """Return the error for a savepoint whose files are not those that were written."""
    return StartError(text, code=SAVEPOINT_DAMAGED, next=advice)


def listed(files: Files, directory: Path) -> list[Savepoint]:
    """Return all complete savepoints of a directory, the oldest first. A damaged one is left out. Raises
    OSError."""
    there = []
    for name in _names(files, directory):
        folder = folder_of(directory, name)
        with contextlib.suppress(StartError):
            if files.look(folder / STATE) is not None:
                there.append(found(files, folder))
    return sorted(there, key=lambda kept: (kept.at, kept.name))


def damaged(files: Files, directory: Path) -> list[str]:
    """Return the names of the unreadable savepoints of a directory, by name. Raises OSError."""
    there = {name for name in _names(files, directory) if files.look(folder_of(directory, name) / STATE) is not None}
    return sorted(there - {savepoint.name for savepoint in listed(files, directory)})


def delete(files: Files, directory: Path, name: str) -> str:
    """Delete a savepoint, also a damaged one. Return a sentence if files of it are left, which the next one of this
    name removes; else nothing. Raises StartError, also for a link, and for one that is being put in place in the
    directory; ConfigurationError."""
    path = folder_of(directory, checked_name(name, own=True))
    try:
        if files.look(path) is None or files.look(path / STATE) is None:
            raise _without(files, path)
        _check_plain(files, name, path)
        if _is_replacing(files, directory) == str(path.absolute()):
            text = f"the checkpoint {name!r} is being put in place in {directory}: run with --from {name} first"
            raise StartError(text, code=SAVEPOINT_FAILED)
        files.remove(path / STATE)  # from now on it is none
        files.sync_directory(path)
    except OSError as error:
        text = f"the checkpoint {name!r} can't be deleted: {path}: {error.strerror or error}"
        raise StartError(text, code=SAVEPOINT_FAILED) from error
    try:
        _remove(files, path)
    except OSError as error:
        return f"its folder {path} could not be removed: {error.strerror or error}"
    return ""


def _is_replacing(files: Files, directory: Path) -> str:
    """Return the path of the savepoint that is being put in place in a directory; empty for none."""
    with contextlib.suppress(OSError, ValueError, NewerFormat):
        return manifest_of(files.read(directory / STATE, BYTES_MAX)).replacing
    return ""


def _names(files: Files, directory: Path) -> list[str]:
    home = files.look(directory / HOME)
    if home is None or home.kind != "directory":
        return []
    there = (name for name in files.names(directory / HOME)[:FILES_MAX] if NAME.fullmatch(name))
    return [name for name in there if (found := files.look(folder_of(directory, name))) and found.kind == "directory"]


def _without(files: Files, path: Path) -> StartError:
    text = f"there is no checkpoint {printable(path.name)!r:.80} in {printable(str(path.parent))}"
    if path.parent.name != HOME:
        text = f"{printable(str(path))} is no kept checkpoint: {STATE} is missing"
        return StartError(text, code=SAVEPOINT_NOT_FOUND, next="pass the path of one: DIR/checkpoints/NAME")
    names = [kept.name for kept in listed(files, path.parent.parent)]
    hint = did_you_mean(path.name, names)
    there = f" (kept: {', '.join(names[-LISTED_MAX:])})" if names else ""
    lists = f"list them: kedge state checkpoint --list --state-dir {printable(str(path.parent.parent))}"
    return StartError(f"{text}{hint}{there}", code=SAVEPOINT_NOT_FOUND, next=lists)


def _remove(files: Files, folder: Path) -> None:
    """Remove a folder that has no manifest, if it is there."""
    status = files.look(folder)
    if status is None or status.kind != "directory":
        return
    for name in files.names(folder):
        files.remove(folder / name)
    files.remove_directory(folder)
    files.sync_directory(folder.parent)


def failed(name: str, why: str) -> StartError:
    """Return the error for a savepoint that could not be made, or removed."""
    return StartError(f"the checkpoint {name!r} could not be kept: {why}", code=SAVEPOINT_FAILED)
