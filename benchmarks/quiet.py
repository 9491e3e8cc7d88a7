"""Waits until the machine is idle: earlier work stays in its load average for minutes.

Must not know what is measured.
"""

import os
import time
from collections.abc import Callable
from typing import Final

BUSY: Final = 0.5  # load average from which on the machine is not quiet
WAIT_S: Final = 180.0  # seconds to wait at most: a load of 8 falls below BUSY in that time
LOOK_S: Final = 5.0  # seconds between two checks; the kernel updates the load as often


def load_now() -> float | None:
    """Return the load average of the last minute; None if the system has none."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def is_quiet(load: float | None) -> bool:
    """Return True if this load is that of a quiet machine. A system without a load average counts as quiet."""
    return load is None or load < BUSY


def quiet(
    limit_s: float,
    tell: Callable[[str], None],
    load: Callable[[], float | None] = load_now,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float | None:
    """Block until the machine is quiet, for at most `limit_s`; return the last load seen.

    Reports once what it waits for, and once if the wait was in vain.
    """
    until = clock() + limit_s
    waits = False
    while (found := load()) is not None and not is_quiet(found):
        left = until - clock()
        if left <= 0:
            tell(f"the machine is not quiet, its load is {found:.2f}: the figures will say so")
            break
        if not waits:
            waits = True
            tell(f"waiting until the machine's load, {found:.2f}, is below {BUSY:g}: for {limit_s:g} s at most")
        sleep(min(LOOK_S, left))
    return found
