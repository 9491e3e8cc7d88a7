"""Progress of a run on stderr: a live view on a terminal, otherwise a plain line from time to time.

Knows figures and their format. Modules for a terminal are imported for a terminal only.
"""

import re
import sys
from dataclasses import replace
from typing import Any, Final, Protocol, Self

from topology.cli.output import terminal
from topology.cli.output.numbers import clock, percent
from topology.cli.output.rates import Now, Rates, RateShape, RunRates, WorkerRates, totals
from topology.cli.output.summary import latencies
from topology.runtime.telemetry.metrics import Snapshot
from topology.text import printable

LOOK_S: Final = 1.0  # seconds between two checks without a terminal; the first line comes with the first check
EVERY_S: Final = ((60.0, 5.0), (600.0, 30.0), (float("inf"), 60.0))  # (age of the run, seconds between two lines until)
SOON_S: Final = 5.0  # least seconds between two lines about a changed bottleneck; later half of the usual time
NUMBERS: Final = re.compile(r"[\d.,]+")


class Display(Protocol):
    """A context manager that shows a run. The caller calls `show` each `every_s`, and `last` once, after the run."""

    every_s: float

    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: Any) -> None: ...
    def show(self, now: Now) -> None: ...
    def last(self, snapshot: Snapshot) -> None: ...


def display(shape: RateShape) -> Display:
    """Return the display that fits stderr."""
    if terminal.live(sys.stderr):
        from topology.cli.output.live import LiveView

        return LiveView(shape)
    return ProgressLines(shape)


class ProgressLines:
    """Prints one plain line after a second, and further lines ever more rarely, so that a day's run fills no disk.

    Prints the process of a worker once, and the bottleneck when it changes. Prints important changes at once: a worker
    is away, the first failure, the run is draining.
    """

    every_s = LOOK_S

    def __init__(self, shape: RateShape) -> None:
        self._rates = Rates(shape, SOON_S)
        self._due_s = LOOK_S
        self._reported_s = 0.0
        self._limit = ""  # the sentence printed last, without its numbers
        self._alarms: tuple[object, ...] = ((), False, False)
        self._pids: dict[int, int | None] = {}  # worker → the process id that was printed last

    def __enter__(self) -> "ProgressLines":
        return self

    def __exit__(self, *raised: Any) -> None:
        return None

    def show(self, now: Now) -> None:
        """Print a line on the run, if one is due or if the run has changed."""
        figures = self._rates.of(now)
        seconds = figures.seconds + 0.1  # a check may come a little early
        limit = NUMBERS.sub("#", figures.limit)
        failing = bool(figures.counts["failed"] or figures.counts["dead"])
        alarms = (tuple(sorted(now.away)), failing, bool(figures.draining))
        changed = limit != self._limit and seconds - self._reported_s >= max(SOON_S, _every_s(seconds) / 2)
        if seconds < LOOK_S or not (seconds >= self._due_s or changed or alarms != self._alarms):
            return
        self._reported_s = figures.seconds
        if seconds >= self._due_s:
            self._due_s = figures.seconds + _every_s(seconds)
        terminal.say(line(figures), **counts(figures))
        for worker in figures.workers:
            if self._pids.get(worker.number) != worker.pid:
                self._pids[worker.number] = worker.pid
                terminal.say(of_worker(worker), worker=worker.number, pid=worker.pid)
        if figures.draining and not self._alarms[-1]:
            terminal.say(f"  {figures.draining}")
        if figures.limit and (limit != self._limit or alarms[0] != self._alarms[0]):
            terminal.say(f"  {printable(figures.limit)}", level="warning" if figures.stalled else "info")
        self._limit, self._alarms = limit, alarms

    def last(self, snapshot: Snapshot) -> None:
        """Print the figures of the whole run."""
        figures = whole(snapshot)
        terminal.say(line(figures), **counts(figures))


def _every_s(seconds: float) -> float:
    """Return the seconds between two lines, for a run of this age."""
    return next(every for until, every in EVERY_S if seconds < until)


def line(figures: RunRates) -> str:
    """Return a run in one line: rate and latencies of the last seconds, counts of the whole run."""
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
    """Return a worker process in one line."""
    process = f"pid {one.pid}" if one.pid is not None else "is being replaced"
    busy = f"bolts busy {percent(one.busy)}"
    return f"  worker {one.number}  {process}  {one.rate or 0.0:,.0f} handled/s  {busy}  queued {one.queued:,}"


def counts(figures: RunRates) -> dict[str, Any]:
    """Return the same figures for programs."""
    last = figures.checkpoint
    since = {"checkpoint_age_s": round(last.age_s, 3)} if last is not None else {}
    return {"seconds": round(figures.seconds, 3), "records_per_s": round(figures.rate, 1), **figures.counts, **since}


def whole(snapshot: Snapshot) -> RunRates:
    """Return the figures of a run since its start."""
    rate = snapshot.total("emitted") / snapshot.seconds if snapshot.seconds > 0 else 0.0
    checkpoint, remembered = snapshot.checkpoint, snapshot.remembered
    figures = RunRates(snapshot.topology, snapshot.seconds, rate, totals(snapshot), snapshot.latency)
    return replace(figures, checkpoint=checkpoint, remembered=remembered)
