"""Reasons for which a log is not opened, each in one sentence with advice. Must not know the layout of a log."""

from pathlib import Path
from typing import Final, NoReturn

from topology.codes.code import LOG_LOSS
from topology.codes.startup import STATE_LOG_DAMAGED, STATE_LOG_UNUSABLE
from topology.errors import StartError
from topology.filesystem.lock_holders import named

IN_USE: Final = (
    "run again in a few seconds: workers of a run that was just killed end within 3 s. If the log is still in use, end "
    "that process: kill PID, or kill -9 PID if it is stopped"
)


def is_damaged(path: Path, what: str) -> NoReturn:
    raise StartError(
        f"the log {path} is damaged: {what}",
        code=STATE_LOG_DAMAGED,
        next=f"restore all of {path.parent} from one copy; or "
        + LOG_LOSS.format(paths=f"{path.stem}.0 and {path.stem}.1"),
    )


def can_not_open(path: Path, why: str, advice: str) -> NoReturn:
    raise StartError(f"the log {path} can't be used: {why}", code=STATE_LOG_UNUSABLE, next=advice)


def in_use(path: Path) -> NoReturn:
    """Raise the error for a log that another process has open; it names the process if the system reveals it."""
    can_not_open(path, f"another process has it open{named(path)}", IN_USE)
