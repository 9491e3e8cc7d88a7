"""The default state directories: one per topology, in `.kedge` in the current folder.

Knows folders and names; must not know commands, nor the content of a state directory.
"""

import re
from pathlib import Path
from typing import Final

HOME: Final = Path(".kedge")  # in the current folder
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # names of topologies, so that no name leads out of HOME (S6)


def state_dirs() -> list[Path]:
    """Return the state directories of the current folder, by name. One in which a run was only refused has none. Raises
    PermissionError if this user may not look."""
    try:
        return sorted(path for path in HOME.iterdir() if NAME.fullmatch(path.name) and path.is_dir() and _has_any(path))
    except PermissionError:
        raise
    except OSError:
        return []


def visible_state_dirs() -> list[Path]:
    """Return what `state_dirs` returns; none if this user may not look."""
    try:
        return state_dirs()
    except PermissionError:
        return []


def _has_any(directory: Path) -> bool:
    try:
        return [path.name for path in directory.iterdir()] != ["lock"]
    except OSError:
        return True  # the command that uses it says why it can't be read


def called(directory: Path) -> str:
    """Return the name of a run for messages: its topology's if the state directory is in HOME, else the directory."""
    return directory.name if directory.parent == HOME else str(directory)
