"""The live view of a run: a table at the bottom of a terminal, drawn in place several times per second.

Combines `rates`, `table` and `screen`; styles are Rich's. Log entries and printed lines go above the table, so that
deaths, replays and dead messages stay readable after the view is gone. Imported for a terminal only.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import Any, Final

from rich.color import ColorSystem
from rich.style import Style

from topology.cli.output import table, terminal
from topology.cli.output.rates import Now, Rates, RateShape
from topology.cli.output.screen import Screen, written_above
from topology.runtime.telemetry.metrics import Snapshot

LIVE_S: Final = 0.25  # seconds between two frames of a small run
LARGE: Final = 500  # figures (components × workers) of a small run; the seconds grow in proportion for more figures
LARGE_S: Final = 2.0  # seconds between two frames at most; a frame must not cost more than a few percent of a core
LIMIT_S: Final = 4.0  # seconds between two judgements of the bottleneck
ROWS_LEFT: Final = 4  # one of this many rows is left for log entries
GONE_S: Final = 3600.0  # seconds between two frames after the terminal is gone


class LiveView:
    """A context manager for the view; call `show` each `every_s`. Leaves only the lines written above the table."""

    def __init__(self, shape: RateShape) -> None:
        self.every_s = min(LARGE_S, LIVE_S * max(1.0, len(shape.kinds) * len(shape.tasks) / LARGE))
        self._rates = Rates(shape, LIMIT_S)
        self._screen = Screen(sys.stderr)
        self._coloured = terminal.colours()
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> "LiveView":
        self._closing.enter_context(drawn(self._screen))
        return self

    def __exit__(self, *raised: Any) -> None:
        self._closing.close()

    def show(self, now: Now) -> None:
        """Draw the run as it is now. Never raises if the terminal is gone."""
        figures = self._rates.of(now)
        columns, rows = self._screen.size()
        lines = table.lines(figures, columns, max(1, rows - max(1, rows // ROWS_LEFT)))
        plain = ["".join(text for text, _ in line).rstrip() for line in lines]
        frame = ["".join(self._styled(*piece) for piece in line) for line in lines] if self._coloured else plain
        try:
            self._screen.draw(frame, plain)
        except BlockingIOError:
            return  # the terminal takes no data at this moment
        except OSError:
            self.every_s = GONE_S

    def last(self, snapshot: Snapshot) -> None:
        """Do nothing: the summary that follows has all figures."""

    def _styled(self, text: str, style: str) -> str:
        return _style(style).render(text, color_system=ColorSystem.STANDARD) if style else text


@cache
def _style(name: str) -> Style:
    return Style.parse(name)


@contextlib.contextmanager
def drawn(screen: Screen) -> Iterator[None]:
    """Keep other output above the view, give way to Ctrl-Z, and clear the view at the end."""
    with written_above(screen):
        try:
            with out_of_the_way(screen):
                yield
        finally:
            with contextlib.suppress(OSError):  # the terminal is gone, and there is no reader
                screen.clear()


@contextlib.contextmanager
def out_of_the_way(screen: Screen) -> Iterator[None]:
    """Clear the view and show the cursor while the process is stopped by Ctrl-Z: the terminal is then the shell's."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGTSTP"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # RuntimeError: the signal came during a blocked write to the terminal, which no other write may interrupt.
        with contextlib.suppress(OSError, RuntimeError):
            screen.clear()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)  # returns when the process is continued
        signal.signal(signal.SIGTSTP, stop)

    before = signal.getsignal(signal.SIGTSTP)
    if before is not signal.SIG_DFL:  # a shell without job control sets the signal to be ignored
        yield
        return
    signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)
