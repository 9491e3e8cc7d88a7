"""The progress of a comparison: one bar per mode at the bottom of a terminal, drawn in place; otherwise one line per
turn.

Knows how to show it, and no measuring. Libraries for terminals are imported only for a terminal.
"""

import contextlib
import io
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from bridge.compare.job import PHASES, ComparisonJob, ComparisonProgress, ComparisonRow
from bridge.compare.report.table import cut, measured, milliseconds
from bridge.compare.results import ModeResult, percentiles
from topology.cli.output import terminal
from topology.cli.output.numbers import clock as as_clock
from topology.cli.output.numbers import counted
from topology.text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

START_S: Final = 6.0  # assumed seconds of a start, and of an end, until one is over
END_S: Final = 2.0
SHARE_MIN: Final = 0.03  # share of the whole from which on the remaining time is estimated
LEAST_S: Final = 0.1  # seconds between two frames
BAR_MIN, BAR_MAX = 6, 30  # cells
TITLE_MAX: Final = 40
SAID_MAX: Final = 200  # characters of a reason beside a bar
DONE, FAILED, WAITING = "green", "red", "dim"  # styles


class Shown(ComparisonProgress, Protocol):
    """A progress that is also a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: Any) -> None: ...


def display(job: ComparisonJob) -> Shown:
    """Return the progress that fits stderr."""
    return ComparisonView(job) if terminal.live(sys.stderr) else PlainProgress(job)


def found(result: ModeResult) -> str:
    """Return a row's results so far, in a few words."""
    if result.problem:
        return f"{'did not end' if measured(result) else 'did not run'}: {result.problem}"
    some = percentiles(result.latencies)
    if some is None:
        rate = result.throughput_per_s
        return "no results" if rate is None else f"{rate:,.0f} messages/s"
    return f"p50 {milliseconds(some['p50'])}  p99 {milliseconds(some['p99'])}  max {milliseconds(some['max'])}"


class PlainProgress:
    """One line when a turn begins, and one when it is over."""

    def __init__(self, job: ComparisonJob) -> None:
        self._rounds = job.rounds
        self._round = 0

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *raised: Any) -> None:
        return None

    def planned(self, rows: Sequence[ComparisonRow]) -> None:
        rounds = "one round" if self._rounds == 1 else f"{self._rounds} rounds"
        terminal.say(f"{counted(len(rows), 'row')} to measure, in {rounds}")

    def begun(self, row: ComparisonRow, round: int) -> None:
        self._round = round
        self._say(row, "begins")

    def phase(self, row: ComparisonRow, phase: str, done_s: float, of_s: float) -> None:
        return None

    def ended(self, row: ComparisonRow, result: ModeResult) -> None:
        self._say(row, found(result), level="warning" if result.problem else "info")

    def note(self, text: str) -> None:
        terminal.say(f"  {printable(text)}")

    def _say(self, row: ComparisonRow, text: str, level: str = "info") -> None:
        place = f"round {self._round} of {self._rounds}"
        terminal.say(f"{place}  {printable(row.title)}: {printable(text)}", level=level, mode=row.mode)


@dataclass
class Bar:
    """One row. `turns`: turns that are over; `share`: progress of the turn under way."""

    row: ComparisonRow
    turns: int = 0
    share: float = 0.0
    said: str = ""
    style: str = WAITING


class Bars:
    """The position and text of each row. Pure."""

    def __init__(self, job: ComparisonJob) -> None:
        self.rounds = job.rounds
        self.bars: dict[str, Bar] = {}
        self.current = ""
        lengths = (START_S, job.warm_up_s, job.seconds, END_S)
        self._lengths: dict[str, float] = dict(zip(PHASES, lengths, strict=True))
        self._known = PHASES[1:3] if job.rate is not None else ()  # phases whose length is known

    def planned(self, rows: Sequence[ComparisonRow]) -> None:
        self.bars = {row.title: Bar(row) for row in rows}

    def begun(self, row: ComparisonRow, round: int) -> None:
        self.current = row.title
        bar = self.bars.setdefault(row.title, Bar(row))
        bar.turns, bar.share, bar.style = round - 1, 0.0, ""

    def phase(self, row: ComparisonRow, phase: str, done_s: float, of_s: float) -> None:
        bar = self.bars.setdefault(row.title, Bar(row))
        names = [*self._lengths]
        before = sum(self._lengths[name] for name in names[: names.index(phase)]) if phase in names else 0.0
        length = self._lengths.get(phase, 0.0)
        bar.share = max(bar.share, (before + min(length, done_s)) / sum(self._lengths.values()))
        bar.style = ""
        bar.said = f"{phase} {done_s:.0f} s"
        if phase in self._known:
            late = done_s > length + 1  # all messages are through, and results are waited for
            bar.said = (
                f"{phase}, waits for results {done_s - length:.0f} s" if late else f"{bar.said[:-2]} of {length:g} s"
            )

    def ended(self, row: ComparisonRow, result: ModeResult) -> None:
        bar = self.bars.setdefault(row.title, Bar(row))
        bar.turns, bar.share = bar.turns + 1, 0.0
        bar.said = found(result)[:SAID_MAX]
        bar.style = FAILED if result.problem else DONE
        self.current = ""

    def share(self, bar: Bar) -> float:
        """Return a row's progress, from 0 to 1."""
        return min(1.0, (bar.turns + bar.share) / self.rounds)

    def whole(self) -> float:
        """Return the progress of all rows, from 0 to 1."""
        return sum(map(self.share, self.bars.values())) / len(self.bars) if self.bars else 0.0

    def title(self, elapsed_s: float) -> str:
        """Return the line above the bars."""
        bar = self.bars.get(self.current)
        words = [as_clock(elapsed_s)]
        if bar is not None:
            words.append(f"round {min(bar.turns + 1, self.rounds)} of {self.rounds}")
        whole = self.whole()
        if SHARE_MIN <= whole < 1:
            words.append(f"about {as_clock(elapsed_s / whole - elapsed_s)} left")
        return "  ".join([*words, "Ctrl-C ends it early"])

    def shown(self, rows: int) -> list[Bar]:
        """Return as many bars as there is room for, with the one whose turn it is among them."""
        bars = [*self.bars.values()]
        at = next((place for place, bar in enumerate(bars) if bar.row.title == self.current), 0)
        first = max(0, min(at - rows // 2, len(bars) - rows))
        return bars[first : first + max(rows, 1)]


class ComparisonView(Bars):
    """The progress on a terminal. Leaves only the lines written above it. `clock` gives seconds."""

    def __init__(self, job: ComparisonJob, clock: Callable[[], float] = time.monotonic) -> None:
        from topology.cli.output.screen import Screen

        super().__init__(job)
        self._clock = clock
        self._started_at = clock()
        self._drawn = -LEAST_S
        self._screen = Screen(sys.stderr)
        self._coloured = terminal.colours()
        self._closing = contextlib.ExitStack()
        self._gone = False

    def __enter__(self) -> "ComparisonView":
        from topology.cli.output.live import drawn

        self._closing.enter_context(drawn(self._screen))
        return self

    def __exit__(self, *raised: Any) -> None:
        self._closing.close()

    def planned(self, rows: Sequence[ComparisonRow]) -> None:
        super().planned(rows)
        self._draw()

    def begun(self, row: ComparisonRow, round: int) -> None:
        super().begun(row, round)
        self._draw()

    def phase(self, row: ComparisonRow, phase: str, done_s: float, of_s: float) -> None:
        super().phase(row, phase, done_s, of_s)
        if self._clock() - self._drawn >= LEAST_S:
            self._draw()

    def ended(self, row: ComparisonRow, result: ModeResult) -> None:
        super().ended(row, result)
        self._draw()

    def note(self, text: str) -> None:
        terminal.say(printable(text))

    def _draw(self) -> None:
        """Draw a frame. Never raises for a terminal that is gone."""
        if self._gone:
            return
        self._drawn = self._clock()
        columns, rows = self._screen.size()
        frame, plain = _lines(self, self._drawn - self._started_at, columns, rows, self._coloured)
        try:
            self._screen.draw(frame, plain)
        except BlockingIOError:
            return  # the terminal takes nothing at this moment
        except OSError:
            self._gone = True


def _lines(bars: Bars, elapsed_s: float, columns: int, rows: int, coloured: bool) -> tuple[list[str], list[str]]:
    """Return the frame that Rich makes: its lines with styles, and without."""
    from rich.console import Console

    width = max(1, columns - 1)
    console = Console(
        file=_Into(getattr(sys.stderr, "encoding", None)),
        width=width,
        force_terminal=True,
        color_system="standard" if coloured else None,
        highlight=False,
        markup=False,
    )
    frame, plain = [cut(bars.title(elapsed_s), width)], [cut(bars.title(elapsed_s), width)]
    made = console.render_lines(_grid(bars, width, max(1, rows - 2)), pad=False) if bars.bars else []
    for segments in made:
        plain.append("".join(segment.text for segment in segments if not segment.control))
        frame.append(
            "".join(_styled(console, segment.text, segment.style) for segment in segments if not segment.control)
        )
    return frame, plain


def _styled(console: "Console", text: str, style: Any) -> str:
    from rich.color import ColorSystem

    if style is None or console.color_system is None:
        return text
    return str(style.render(text, color_system=ColorSystem.STANDARD))


def _grid(bars: Bars, width: int, rows: int) -> "RenderableType":
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    shown = bars.shown(rows)
    titles = [printable(bar.row.title) for bar in shown]
    title = min(max(map(len, titles)), TITLE_MAX, max(1, width * 2 // 5))
    bar_width = max(BAR_MIN, min(BAR_MAX, width // 5))
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=title, no_wrap=True, overflow="ellipsis")
    grid.add_column(width=bar_width, no_wrap=True)
    grid.add_column(width=max(1, width - title - bar_width - 2), no_wrap=True, overflow="ellipsis")
    for name, bar in zip(titles, shown, strict=True):
        style = "bold" if bar.row.title == bars.current else ""
        grid.add_row(
            Text(name, style=style),
            ProgressBar(total=1.0, completed=bars.share(bar), width=bar_width),
            Text(printable(bar.said), style=bar.style),
        )
    return grid


class _Into(io.StringIO):
    """A stream for Rich that is never read; its encoding decides which characters bars are made of."""

    def __init__(self, encoding: str | None) -> None:
        super().__init__()
        self._of_stream = encoding or "utf-8"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._of_stream
