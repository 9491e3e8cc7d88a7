"""The command line of a worker process. Apart from `process`, so that a supervisor need not import what workers run."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).resolve().parents[3]  # where our packages are

_BOOTSTRAP: Final = (
    "import sys; sys.path.append(sys.argv[2]); import kedge; "
    "from topology.runtime.process.main import main; main(int(sys.argv[1]))"
)


def command(fd: int) -> list[str]:
    """Starts a worker that is served through the inherited descriptor `fd`, its end of a socket pair.

    Nothing secret is in it, as everybody can read it (S15); last is whose worker it is, for `supervisor_of`. HOME comes
    last on the import path, and only matters where Kedge is not installed; -P keeps the current folder off it until
    `Begin` says what the topology's own path is (S21).
    With `kedge` imported before that, nothing on that path takes the place of a package of ours.
    """
    return [sys.executable, "-P", "-c", _BOOTSTRAP, str(fd), str(HOME), str(os.getpid())]


def supervisor_of(arguments: Sequence[str]) -> int | None:
    """The id of the process that has started a worker with this command line; None for what is no worker."""
    if len(arguments) < 4 or arguments[-4] != _BOOTSTRAP or not arguments[-1].isdecimal():
        return None
    return int(arguments[-1])
