"""Ctrl-C in a comparison: it ends what may be ended in the middle, and keeps nobody from noting or showing figures."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Within `taken`, a SIGINT, SIGTERM or SIGHUP is noted as `came`. The first one raises KeyboardInterrupt, once: at
    that moment within `raising`, else at the next one's begin, or at the next `check`. In another thread than the main
    one, where there are none, it changes nothing."""

    def __init__(self) -> None:
        self.came = False
        self._told = False
        self._raising = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Takes the signals; gives them back as they were. May be within another one."""
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
    def raising(self) -> Iterator[None]:
        """For what may end at any point. Who catches what it raises does so around it."""
        self._raising = True
        try:
            self.check()
            yield
        finally:
            self._raising = False

    def check(self) -> None:
        """Raises KeyboardInterrupt where a signal came that has raised nothing yet."""
        if self.came and not self._told:
            self._told = True
            raise KeyboardInterrupt

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        if self._raising:
            self.check()
