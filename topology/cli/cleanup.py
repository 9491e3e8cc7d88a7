"""Signal handling for commands that make files before anything runs.

A signal raises an exception in them, so that they remove the files they have made. Otherwise the signal would end the
process at once (see `kedge.py`). Knows signals, and no files.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGTERM)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt in this block on SIGINT and SIGTERM; a run that begins inside handles them itself.
    SIGHUP, sent when a terminal is closed, counts as SIGTERM unless it is ignored. Restores the handlers afterwards.
    For the main thread only."""
    before = {number: signal.signal(number, _interrupt) for number in ENDING}
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, _terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Delay interrupting signals until the end of this block. So the cleanup knows every file made inside, and a
    cleanup inside runs to its end. For short blocks."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [*ENDING, signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_at_once(undo: Callable[[], None]) -> None:
    """Make a signal call `undo`, print a line and end the process, until the end of `interruptible` or until a run
    handles signals itself. An exception could occur at any point instead, for example while an event loop is made."""

    def end(number: int, frame: FrameType | None) -> None:
        from topology.cli.errors import print_error

        with held():
            undo()
            os._exit(print_error(KeyboardInterrupt(), debug=False))

    for number in ENDING:
        signal.signal(number, end)
