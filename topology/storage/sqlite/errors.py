"""Reasons for which a store's file is not opened, each in one sentence with advice. Must not know what is in the
files."""

from pathlib import Path
from typing import Final, NoReturn

import apsw

from topology.codes.code import LOSS
from topology.codes.startup import STATE_FILE_DAMAGED, STATE_FILE_UNTRUSTED, STATE_FILE_UNUSABLE
from topology.errors import StartError
from topology.filesystem.files import Files
from topology.filesystem.lock_holders import named
from topology.storage.sqlite.database import Damaged
from topology.storage.store import StoreBroken

IN_USE: Final = (
    "run again in a few seconds: workers of a run that was just killed end within 3 s. If the file is still in use, "
    "end that process: kill PID, or kill -9 PID if it is stopped; if that does not end it, its cgroup may be frozen: "
    "thaw it"
)


def start_error(path: Path, error: StoreBroken) -> StartError:
    """Return the error of a start, for a store at `path` or in that directory that has raised `error`, for example in
    `states()`."""
    path, cause = error.damaged or path, error.__cause__
    if cause is None or isinstance(cause, Damaged | ValueError | apsw.CorruptError | apsw.NotADBError):
        return _damaged(path, str(cause or error))
    return _unusable(path, str(error))


def is_damaged(path: Path, what: str) -> NoReturn:
    raise _damaged(path, what)


def can_not_open(path: Path, why: str, advice: str = "") -> NoReturn:
    raise _unusable(path, why, advice)


def in_use(path: Path) -> NoReturn:
    """Raise the error for a file that another process has open; it names the process if the system reveals it."""
    raise _unusable(path, f"another process has it open{named(path)}", IN_USE)


def check_plain(files: Files, path: Path) -> None:
    """Check (S5) that each file is a plain file of this user with one name, and not a link."""
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            found = files.look(file)
        except OSError as error:
            can_not_open(file, error.strerror or str(error))
        if found is None and file is not path:
            continue
        if found is None:
            can_not_open(path, "there is no such file")
        if found.kind != "file" or not found.ours or found.links != 1:
            what = "belongs to another user" if not found.ours else "is a link, or no plain file"
            raise StartError(f"the state file {file} {what}", code=STATE_FILE_UNTRUSTED)


def _damaged(path: Path, what: str) -> StartError:
    return StartError(
        f"the state file {path} is damaged: {what}",
        code=STATE_FILE_DAMAGED,
        next=f"restore all of {path.parent} from one copy; or {LOSS.format(path=path.name)}",
    )


def _unusable(path: Path, why: str, advice: str = "") -> StartError:
    return StartError(f"the state file {path} can't be used: {why}", code=STATE_FILE_UNUSABLE, next=advice)
