"""A lease that shows whether a query's driver is alive, for a process that runs the query elsewhere. The driver renews
a file.

Over Spark Connect, the server would otherwise keep the queries of a killed driver running. The clocks of two machines
are not compared: the checking side uses its own clock, and looks whether the file has changed.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from bridge.files.query import place

RENEWED_S: Final = 5.0  # seconds between two renewals
OVER_S: Final = 60.0  # seconds without a change after which the driver counts as gone
NAME: Final = "lease"  # file name in the query's folder


class DriverGone(Exception):
    """The driver of a query has not renewed its lease."""


class Lease:
    """The lease of one query in one life of its driver. The driver calls `hold`, the process that runs the query calls
    `check`."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = folder / NAME
        self._clock = clock
        self._seen = b""
        self._changed_at = clock()

    def hold(self) -> None:
        """Renew the lease from now on, in a thread, for as long as this process lives."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self._renew, daemon=True, name=f"lease {self._path.parent.name}").start()

    def check(self) -> None:
        """Raises DriverGone if the file is missing or has not changed for OVER_S. The first call starts that time."""
        now = self._clock()
        try:
            seen = self._path.read_bytes()
        except FileNotFoundError:
            seen = b""
        if seen != self._seen:
            self._seen, self._changed_at = seen, now
        elif now - self._changed_at > OVER_S:
            raise DriverGone(f"the driver has not renewed {self._path} for {OVER_S:.0f} s, so this query ends")

    def _renew(self) -> None:
        pause = threading.Event()
        while True:
            with suppress(OSError):  # for example a full disk: the next turn tries again, and other writers report it
                place(self._path, repr(self._clock()).encode(), durable=False)
            pause.wait(RENEWED_S)
