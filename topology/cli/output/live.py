"""The live view of a run: its table at the bottom of a terminal, drawn in place several times a second.

Puts `rates`, `table` and `screen` together; styles are Rich's. What is logged and printed meanwhile goes above it, so
that deaths, replays and dead messages stay to be read when it is gone. Imported for a terminal only.
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

LIVE_S: Final = 0.25  # between two looks,
LARGE: Final = 500  # and longer where there are more figures than so many: of each component in each worker,
LARGE_S: Final = 2.0  # but not longer than this: a look must not cost more than some percent of a core
LIMIT_S: Final = 4.0  # that the limit is judged by
ROWS_LEFT: Final = 4  # one of so many is left to what is logged
GONE_S: Final = 3600.0  # between two looks of nobody


class LiveView:
    """A context manager; `show` each `every_s`. Leaves nothing on the screen but what was written above."""

    def __init__(self, shape: RateShape) -> None:
        self.every_s = min(LARGE_S, LIVE_S * max(1.0, len(shape.kinds) * len(shape.tasks) / LARGE))
        self._rates = Rates(shape, LIMIT_S)
        self._screen = Screen(sys.stderr)
        self._coloured = terminal.colours()
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> "LiveView":
        self._closing.enter_context(written_above(self._screen))
        self._closing.callback(self._clear)
        self._closing.enter_context(out_of_the_way(self._screen))
        return self

    def __exit__(self, *raised: Any) -> None:
        self._closing.close()

    def _clear(self) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone, and nobody watches
            self._screen.clear()

    def show(self, now: Now) -> None:
        """Draws the run as it is. Never raises for a terminal that is gone."""
        figures = self._rates.of(now)
        columns, rows = self._screen.size()
        lines = table.lines(figures, columns, max(1, rows - max(1, rows // ROWS_LEFT)))
        plain = ["".join(text for text, _ in line).rstrip() for line in lines]
        frame = ["".join(self._styled(*piece) for piece in line) for line in lines] if self._coloured else plain
        try:
            self._screen.draw(frame, plain)
        except BlockingIOError:
            return  # it takes nothing at this moment
        except OSError:
            self.every_s = GONE_S

    def last(self, snapshot: Snapshot) -> None:
        """Nothing: the summary that follows has it all."""

    def _styled(self, text: str, style: str) -> str:
        return _style(style).render(text, color_system=ColorSystem.STANDARD) if style else text


@cache
def _style(name: str) -> Style:
    return Style.parse(name)


@contextlib.contextmanager
def out_of_the_way(screen: Screen) -> Iterator[None]:
    """While the process is stopped by Ctrl-Z the terminal is the shell's: nothing of ours on it, and a cursor."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGTSTP"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # RuntimeError: amid a write that the terminal holds up, and that no other may cut into.
        with contextlib.suppress(OSError, RuntimeError):
            screen.clear()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)  # returns once we go on
        signal.signal(signal.SIGTSTP, stop)

    before = signal.getsignal(signal.SIGTSTP)
    if before is not signal.SIG_DFL:  # a shell without job control has us ignore it
        yield
        return
    signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)
