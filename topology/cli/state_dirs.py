"""Where state directories are unless somebody says where: one for each topology, in a folder of the current one.

Knows folders and names; must not know commands, nor what is in a state directory.
"""

import re
from pathlib import Path
from typing import Final

HOME: Final = Path(".kedge")  # in the current folder
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # as topologies are called, so that none leads out of HOME (S6)


def state_dirs() -> list[Path]:
    """Those of the current folder, by name."""
    try:
        return sorted(path for path in HOME.iterdir() if NAME.fullmatch(path.name) and path.is_dir())
    except OSError:
        return []


def called(directory: Path) -> str:
    """What a run is called in sentences: its topology, where the state directory has that name, else the directory."""
    return directory.name if directory.parent == HOME else str(directory)
