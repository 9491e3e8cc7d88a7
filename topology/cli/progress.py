"""How a run is going, on stderr: a live panel where there is a terminal, else plain lines now and then.

Knows snapshots and how to show them. Rich is imported for a terminal only; its markup is off, since names are data.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from topology.cli import terminal
from topology.cli.summary import latencies
from topology.runtime.limiting import Tasks, limit_of
from topology.runtime.metrics import Snapshot
from topology.text import printable

LIVE_S: Final = 0.25  # between two refreshes on a terminal
FIRST_S: Final = 1.0  # until the first plain line
PLAIN_S: Final = 5.0  # between two further ones
LIMIT_S: Final = 4.0  # that the limit is judged by, on a terminal
QUIET_S: Final = 2.0  # a worker whose counters have not changed for so long does nothing


@dataclass(frozen=True)
class Now:
    """A run at one moment: all of it, each worker, and the process of each that has one of its own."""

    whole: Snapshot
    workers: Mapping[int, Snapshot]
    processes: Mapping[int, int] = field(default_factory=dict)


class Display(Protocol):
    """Use it as a context manager; `show` is called each `every_s`, `last` once, after the run."""

    every_s: float

    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: Any) -> None: ...
    def show(self, now: Now) -> None: ...
    def last(self, snapshot: Snapshot) -> None: ...


def display(tasks: Tasks) -> Display:
    """The one that fits stderr."""
    return Live(tasks) if terminal.live(sys.stderr) else Lines(tasks)


class Rate:
    """How much of something there is a second, between two snapshots: of what the spouts emit, unless told otherwise.
    Where no newer snapshot has come, as before."""

    def __init__(self, count: Callable[[Snapshot], float] = lambda snapshot: snapshot.total("emitted")) -> None:
        self._count = count
        self._counted, self._seconds, self._rate = 0.0, 0.0, 0.0

    def of(self, snapshot: Snapshot) -> float:
        counted, seconds = self._count(snapshot), snapshot.seconds
        if seconds > self._seconds:
            self._rate = max(0.0, counted - self._counted) / (seconds - self._seconds)
            self._counted, self._seconds = counted, seconds
        return self._rate


class Newest:
    """Workers' snapshots, each as it was when it brought news: processes send theirs once a second, and rates between
    two looks at the same one would be 0."""

    def __init__(self) -> None:
        self._known: dict[int, Snapshot] = {}

    def of(self, workers: Mapping[int, Snapshot]) -> Mapping[int, Snapshot]:
        for worker, snapshot in workers.items():
            known = self._known.get(worker)
            if (
                known is None
                or (known.spouts, known.bolts) != (snapshot.spouts, snapshot.bolts)
                or snapshot.seconds - known.seconds >= QUIET_S
            ):
                self._known[worker] = snapshot
        return dict(self._known)


class Figures:
    """What is shown of a run, in lines. Remembers what it was like when it was shown last."""

    def __init__(self, tasks: Tasks, limit_every_s: float) -> None:
        self._tasks = tasks
        self._newest = Newest()
        self._limit_every_s = limit_every_s
        self._emitted: dict[int, Rate] = {}
        self._handled: dict[int, Rate] = {}
        self._busy: dict[int, Rate] = {}
        self._before: Mapping[int, Snapshot] = {}
        self._limit_at = 0.0
        self._limit = ""

    def lines(self, now: Now) -> Iterator[str]:
        """The run's figures; each worker's, where they are processes; who is the limit, where that can be told."""
        workers = self._newest.of(now.workers)
        rates = [self._emitted.setdefault(one, Rate()).of(snapshot) for one, snapshot in workers.items()]
        yield counts(now.whole, sum(rates))
        for worker, snapshot in workers.items() if now.processes else ():
            yield self._of_worker(worker, snapshot, now.processes.get(worker))
        if limit := now.whole.limit or self._limit_of(now.whole.seconds, workers):
            yield f"  {printable(limit)}"

    def _of_worker(self, worker: int, snapshot: Snapshot, pid: int | None) -> str:
        handled = self._handled.setdefault(worker, Rate(_handled)).of(snapshot)
        busy = self._busy.setdefault(worker, Rate(_busy)).of(snapshot)
        queued = sum(one.queued for one in snapshot.bolts.values())
        process = f"pid {pid}" if pid is not None else "is being replaced"
        return (
            f"  worker {worker}  {process}  {handled:,.0f} handled/s  bolts busy {busy * 100:.0f} %  queued {queued:,}"
        )

    def _limit_of(self, seconds: float, workers: Mapping[int, Snapshot]) -> str:
        if seconds - self._limit_at >= self._limit_every_s:
            self._limit = limit_of(self._before, workers, self._tasks)
            self._limit_at, self._before = seconds, workers
        return self._limit


def _handled(snapshot: Snapshot) -> float:
    """Records that spouts have emitted and bolts have executed."""
    return snapshot.total("emitted") + sum(one.executed for one in snapshot.bolts.values())


def _busy(snapshot: Snapshot) -> float:
    return sum(one.busy_s for one in snapshot.bolts.values())


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
    """A plain line, and a few below it, after one second, then every five; one at the end."""

    every_s = FIRST_S

    def __init__(self, tasks: Tasks) -> None:
        self._figures = Figures(tasks, FIRST_S / 2)
        self._due_s = FIRST_S

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *raised: Any) -> None:
        return None

    def show(self, now: Now) -> None:
        if now.whole.seconds >= self._due_s - 0.1:
            self._due_s = now.whole.seconds + PLAIN_S
            terminal.say("\n".join(self._figures.lines(now)))

    def last(self, snapshot: Snapshot) -> None:
        terminal.say(counts(snapshot, Rate().of(snapshot)))


class Live:
    """A few lines at the bottom of the terminal, drawn anew; what is written to it meanwhile goes above them."""

    every_s = LIVE_S

    def __init__(self, tasks: Tasks) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._figures = Figures(tasks, LIMIT_S)
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

    def show(self, now: Now) -> None:
        from rich.text import Text

        *figures, last = self._figures.lines(now)
        stalled = bool(now.whole.limit)
        text = Text("\n".join([*figures, *([] if stalled else [last])]), no_wrap=True, overflow="ellipsis")
        if stalled:
            text.append("\n" + last, style="yellow")
        try:
            self._live.update(text, refresh=True)
        except OSError:
            self.every_s = 3600.0

    def last(self, snapshot: Snapshot) -> None:
        terminal.say(counts(snapshot, Rate().of(snapshot)))
