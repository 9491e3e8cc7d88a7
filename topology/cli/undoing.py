"""For commands that make files before anything runs: a signal ends them by an exception, so that they undo what they
have begun. Otherwise it would end the process on the spot (see `kedge.py`). Knows signals, and no files.
"""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM raise KeyboardInterrupt in here; a run that begins in here handles them itself. Afterwards
    they are handled as before. For the main thread."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
