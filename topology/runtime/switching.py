"""Python's switch interval while a store is written beside an event loop: shorter, for the whole process, from the
first thread that writes until the last is done. Must not know stores or loops.
"""

import sys
import threading
from collections.abc import Callable
from typing import Final, TypeVar

SWITCH_S: Final = 0.0005  # each SQL statement takes the GIL back from the loop: at 5 ms a commit of 3 ms takes 12

T = TypeVar("T")


class _Switching:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0

    def during(self, function: Callable[[], T]) -> T:
        """Calls it, and threads are switched sooner until it returns or raises. The last one gives back the interval
        that there was. For a call and not for a task: of a task that is cancelled, or left behind when its loop closes
        or its worker dies, nobody knows when it ends."""
        with self._lock:
            if not self._users:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_S, self._before))
            self._users += 1
        try:
            return function()
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setswitchinterval(self._before)


SWITCHING: Final = _Switching()  # the process has one interval
