"""Ctrl-C in a comparison: the first one ends it early, further ones do not keep it from ending its processes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Within `taken`, the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt, or `check` after it where it comes
    within `held`; others do nothing. In another thread than the main one, where there are none, it changes nothing."""

    def __init__(self) -> None:
        self.came = False
        self._told = False
        self._held = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Takes the signals; gives them back as they were."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {number: signal.signal(number, self._signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is raised in here by a signal; the next `check` does it."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def check(self) -> None:
        """Raises KeyboardInterrupt where a signal came that has raised nothing yet."""
        if self.came and not self._told and not self._held:
            self._told = True
            raise KeyboardInterrupt

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        self.check()
