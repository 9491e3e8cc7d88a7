"""Whether a query's driver is still there, for who runs its query in another process: a file that the driver renews.

Over Spark Connect the server would go on with the queries of a driver that was killed, for good. Clocks of two machines
are not compared: who looks goes by its own, and by whether the file has changed.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from bridge.files.query import place

RENEWED_S: Final = 5.0
OVER_S: Final = 60.0  # without a change for so long: its driver is gone
NAME: Final = "lease"  # in the query's folder


class DriverGone(Exception):
    """The driver of a query has not renewed its lease."""


class Lease:
    """That of one query in one life of its driver. `hold` in the driver, `check` where the query runs."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = folder / NAME
        self._clock = clock
        self._seen = b""
        self._changed_at = clock()

    def hold(self) -> None:
        """Renews it from now on, as long as this process lives, in a thread of its own."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self._renew, daemon=True, name=f"lease {self._path.parent.name}").start()

    def check(self) -> None:
        """Raises DriverGone where the file is gone, or has not changed for OVER_S since it was first looked at."""
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
            with suppress(OSError):  # a full disk: it is tried again, and others say so
                place(self._path, repr(self._clock()).encode(), durable=False)
            pause.wait(RENEWED_S)
