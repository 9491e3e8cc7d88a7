"""The command line of a worker process. Apart from `process`, so that a supervisor need not import what workers run."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).resolve().parents[3]  # the directory with our packages

_BOOTSTRAP: Final = (
    "import sys; sys.path.append(sys.argv[2]); import kedge; "
    "from topology.runtime.process.main import main; main(int(sys.argv[1]))"
)


def command(fd: int) -> list[str]:
    """Return the command that starts a worker, which uses the inherited descriptor `fd`, its end of a socket pair.

    It contains nothing secret, because every user can read it (S15). Its last item is the supervisor's process id, for
    `supervisor_of`. HOME is the last entry of the import path, and matters only if Kedge is not installed. -P keeps the
    current folder off that path until `Begin` brings the topology's own path (S21). `kedge` is imported before that, so
    nothing on the topology's path replaces a package of ours.
    """
    return [sys.executable, "-P", "-c", _BOOTSTRAP, str(fd), str(HOME), str(os.getpid())]


def supervisor_of(arguments: Sequence[str]) -> int | None:
    """Return the id of the process that started a worker with this command line, or None if it is not a worker's."""
    if len(arguments) < 4 or arguments[-4] != _BOOTSTRAP or not arguments[-1].isdecimal():
        return None
    return int(arguments[-1])
