"""For commands that make files before anything runs: a signal ends them by an exception, so that they undo what they
have begun. Otherwise it would end the process on the spot (see `kedge.py`). Knows signals, and no files.
"""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGTERM)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM raise KeyboardInterrupt in here; a run that begins in here handles them itself. SIGHUP, of a
    terminal that was closed, is taken for SIGTERM unless it is ignored. Afterwards they are handled as before. For the
    main thread."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, _terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
