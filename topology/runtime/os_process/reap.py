"""Wait for the end of a child process, and name how it ended.

Knows the operating system's calls. Must not know what the process was for, nor what its end means.
"""

import contextlib
import os
import select
import signal
import sys
from typing import Final

UNKNOWN: Final = 255  # the exit status if the system could not report one


def until_dead(pid: int) -> None:
    """Wait until this child is dead, and leave it to be reaped."""
    if sys.platform == "darwin":  # has no waitid in Python 3.11
        exits = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        with contextlib.closing(select.kqueue()) as queue, contextlib.suppress(ProcessLookupError):
            queue.control([exits], 1)
    else:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def how_it_ended(status: int) -> str:
    """Return an exit status in words. It is counted as `subprocess` counts it: negative for signals."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
