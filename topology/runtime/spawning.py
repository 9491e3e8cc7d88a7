"""The command line of a worker process. Apart from `process`, so that a supervisor need not import what workers run."""

import sys
from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).resolve().parents[2]  # where our packages are

_BOOTSTRAP: Final = (
    "import sys; sys.path.append(sys.argv[2]); from topology.runtime.process import main; main(int(sys.argv[1]))"
)


def command(fd: int) -> list[str]:
    """Starts a worker that is served through the inherited descriptor `fd`, its end of a socket pair.

    Nothing secret is in it, as everybody can read it (S15). HOME comes last on the import path, and only matters where
    Kedge is not installed; -P keeps the current folder off it until `Begin` says what the topology's own path is (S21).
    """
    return [sys.executable, "-P", "-c", _BOOTSTRAP, str(fd), str(HOME)]
