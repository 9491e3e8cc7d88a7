"""For commands that make files before anything runs: a signal ends them by an exception, so that they undo what they
have begun. Otherwise it would end the process on the spot (see `kedge.py`). Knows signals, and no files.
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
    """SIGINT and SIGTERM raise KeyboardInterrupt in here; a run that begins in here handles them itself. SIGHUP, of a
    terminal that was closed, is taken for SIGTERM unless it is ignored. Afterwards they are handled as before. For the
    main thread."""
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
    """Signals that interrupt wait until its end: what is made in here is known to who undoes it, and what is undone in
    here is undone to its end. For what is short."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [*ENDING, signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_at_once(undo: Callable[[], None]) -> None:
    """From here to the end of `interruptible` a signal calls `undo`, says so and ends the process, until a run handles
    signals itself: an exception could come up in the middle of anything, of an event loop that is just made say."""

    def end(number: int, frame: FrameType | None) -> None:
        from topology.cli.errors import told

        with held():
            undo()
            os._exit(told(KeyboardInterrupt(), debug=False))

    for number in ENDING:
        signal.signal(number, end)
