"""How a run is going, on stderr: a live view where there is a terminal, else a plain line now and then.

Knows figures and how to say them. What a terminal needs is imported for a terminal only.
"""

import re
import sys
from typing import Any, Final, Protocol, Self

from topology.cli.output import terminal
from topology.cli.output.numbers import clock, percent
from topology.cli.output.rates import Now, Rates, RateShape, RunRates, WorkerRates, totals
from topology.cli.output.summary import latencies
from topology.runtime.telemetry.metrics import Snapshot
from topology.text import printable

LOOK_S: Final = 1.0  # between two looks where there is no terminal; the first line comes with the first of them
EVERY_S: Final = ((60.0, 5.0), (600.0, 30.0), (float("inf"), 60.0))  # until so long: seconds between two further lines
SOON_S: Final = 5.0  # between two lines that tell of a change: twice a day's minutes at most, whatever goes up and down
NUMBERS: Final = re.compile(r"[\d.,]+")


class Display(Protocol):
    """Use it as a context manager; `show` is called each `every_s`, `last` once, after the run."""

    every_s: float

    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: Any) -> None: ...
    def show(self, now: Now) -> None: ...
    def last(self, snapshot: Snapshot) -> None: ...


def display(shape: RateShape) -> Display:
    """The one that fits stderr."""
    if terminal.live(sys.stderr):
        from topology.cli.output.live import LiveView

        return LiveView(shape)
    return ProgressLines(shape)


class ProgressLines:
    """One plain line after a second, and then ever more rarely: a day's run fills no disk. Which process a worker has
    is said once, and what limits the run when that changes. A change that matters is told at once: a worker is away,
    the first failure, the end has begun.
    """

    every_s = LOOK_S

    def __init__(self, shape: RateShape) -> None:
        self._rates = Rates(shape, SOON_S)
        self._due_s = LOOK_S
        self._told_s = 0.0
        self._limit = ""  # what was said last about it, without its numbers
        self._grave: tuple[object, ...] = ((), False, False)
        self._pids: dict[int, int | None] = {}  # of the workers that were told of

    def __enter__(self) -> "ProgressLines":
        return self

    def __exit__(self, *raised: Any) -> None:
        return None

    def show(self, now: Now) -> None:
        """Tells of the run, if it is time to, or if it has changed."""
        figures = self._rates.of(now)
        seconds = figures.seconds + 0.1  # a look may come a little early
        limit = NUMBERS.sub("#", figures.limit)
        failing = bool(figures.counts["failed"] or figures.counts["dead"])
        grave = (tuple(sorted(now.away)), failing, bool(figures.draining))
        changed = limit != self._limit and seconds - self._told_s >= max(SOON_S, _every_s(seconds) / 2)
        if seconds < LOOK_S or not (seconds >= self._due_s or changed or grave != self._grave):
            return
        self._told_s = figures.seconds
        if seconds >= self._due_s:
            self._due_s = figures.seconds + _every_s(seconds)
        terminal.say(line(figures), **counts(figures))
        for one in figures.workers:
            if self._pids.get(one.number) != one.pid:
                self._pids[one.number] = one.pid
                terminal.say(of_worker(one), worker=one.number, pid=one.pid)
        if figures.draining and not self._grave[-1]:
            terminal.say(f"  {figures.draining}")
        if figures.limit and (limit != self._limit or grave[0] != self._grave[0]):
            terminal.say(f"  {printable(figures.limit)}", level="warning" if figures.stalled else "info")
        self._limit, self._grave = limit, grave

    def last(self, snapshot: Snapshot) -> None:
        """The figures of the whole run."""
        figures = whole(snapshot)
        terminal.say(line(figures), **counts(figures))


def _every_s(seconds: float) -> float:
    """Between two lines, when the run has gone on for so long."""
    return next(every for until, every in EVERY_S if seconds < until)


def line(figures: RunRates) -> str:
    """A run in one line: rate and latencies are those of the last seconds, counts those of the whole run."""
    named = figures.counts
    parts = [
        clock(figures.seconds),
        f"{figures.rate:,.0f} records/s",
        *(f"{name} {named[name]:,}" for name in ("acked", "failed", "pending")),
        *(f"{name} {named[name]:,}" for name in ("replayed", "dead") if named[name]),
        f"latency {latencies(figures.latency)}",
    ]
    return "  ".join(parts)


def of_worker(one: WorkerRates) -> str:
    """A worker process in one line."""
    process = f"pid {one.pid}" if one.pid is not None else "is being replaced"
    busy = f"bolts busy {percent(one.busy)}"
    return f"  worker {one.number}  {process}  {one.rate or 0.0:,.0f} handled/s  {busy}  queued {one.queued:,}"


def counts(figures: RunRates) -> dict[str, Any]:
    """The same, for machines."""
    return {"seconds": round(figures.seconds, 3), "records_per_s": round(figures.rate, 1), **figures.counts}


def whole(snapshot: Snapshot) -> RunRates:
    """The figures of a run from its beginning on."""
    rate = snapshot.total("emitted") / snapshot.seconds if snapshot.seconds > 0 else 0.0
    return RunRates(snapshot.topology, snapshot.seconds, rate, totals(snapshot), snapshot.latency)
