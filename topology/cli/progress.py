"""How a run is going, on stderr: a live panel where there is a terminal, else a plain line now and then.

Knows snapshots and how to show them. Rich is imported for a terminal only; its markup is off, since names are data.
"""

import sys
from typing import Any, Final, Protocol, Self

from topology.cli import terminal
from topology.cli.summary import latencies
from topology.runtime.metrics import Snapshot
from topology.text import printable

LIVE_S: Final = 0.25  # between two refreshes on a terminal
FIRST_S: Final = 1.0  # until the first plain line
PLAIN_S: Final = 5.0  # between two further ones


class Display(Protocol):
    """Use it as a context manager; `show` is called each `every_s`, `last` once, after the run."""

    every_s: float

    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: Any) -> None: ...
    def show(self, snapshot: Snapshot) -> None: ...
    def last(self, snapshot: Snapshot) -> None: ...


def display() -> Display:
    """The one that fits stderr."""
    return Live() if terminal.live(sys.stderr) else Lines()


class Rate:
    """Records a second between two snapshots: what the spouts emitted."""

    def __init__(self) -> None:
        self._emitted, self._seconds = 0, 0.0

    def of(self, snapshot: Snapshot) -> float:
        emitted, seconds = snapshot.total("emitted"), snapshot.seconds
        rate = (emitted - self._emitted) / (seconds - self._seconds) if seconds > self._seconds else 0.0
        self._emitted, self._seconds = emitted, seconds
        return rate


def counts(snapshot: Snapshot, rate: float) -> str:
    """One line of figures."""
    dead = snapshot.total("dead")
    figures = [
        f"{_clock(snapshot.seconds)}",
        f"{rate:,.0f} records/s",
        *(f"{name} {snapshot.total(name):,}" for name in ("acked", "failed", "pending")),
        *([f"dead {dead:,}"] if dead else []),
        f"latency {latencies(snapshot)}",
    ]
    return "  ".join(figures)


def _clock(seconds: float) -> str:
    whole = round(seconds)  # a look that is due after a second may come a little early
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


class Lines:
    """A plain line after one second, then every five, and at the end."""

    every_s = FIRST_S

    def __init__(self) -> None:
        self._rate = Rate()
        self._due_s = FIRST_S

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *raised: Any) -> None:
        return None

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.seconds >= self._due_s - 0.1:
            self._due_s = snapshot.seconds + PLAIN_S
            limit = f"  ({printable(snapshot.limit)})" if snapshot.limit else ""
            terminal.say(counts(snapshot, self._rate.of(snapshot)) + limit)

    def last(self, snapshot: Snapshot) -> None:
        whole = Rate().of(snapshot)
        terminal.say(counts(snapshot, whole))


class Live:
    """One or two lines at the bottom of the terminal, drawn anew; what is written to it meanwhile goes above them."""

    every_s = LIVE_S

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._rate = Rate()
        console = Console(file=sys.stderr, force_terminal=True, markup=False, highlight=False, emoji=False)
        shared = terminal.live(sys.stdout)
        self._live = RichLive(console=console, auto_refresh=False, transient=True, redirect_stdout=shared)

    def __enter__(self) -> "Live":
        self._live.start()
        return self

    def __exit__(self, *raised: Any) -> None:
        try:
            self._live.stop()
        except OSError:
            terminal.say("")  # the terminal is gone, and nobody watches

    def show(self, snapshot: Snapshot) -> None:
        from rich.text import Text

        figures = Text(counts(snapshot, self._rate.of(snapshot)), no_wrap=True, overflow="ellipsis")
        if snapshot.limit:
            figures.append("\n" + printable(snapshot.limit), style="yellow")
        try:
            self._live.update(figures, refresh=True)
        except OSError:
            self.every_s = 3600.0

    def last(self, snapshot: Snapshot) -> None:
        terminal.say(counts(snapshot, Rate().of(snapshot)))
