"""Figures of a run, computed from snapshots of its counters: rates and latencies of the last seconds per component and
worker, the counts so far, and the bottleneck.

Pure: takes snapshots, returns values. Must not know how they are shown.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from topology.cli.output.numbers import counted
from topology.graph import Graph
from topology.plan import plan
from topology.runtime.telemetry.bottleneck import STILL, Tasks, limit_of
from topology.runtime.telemetry.histogram import Histogram
from topology.runtime.telemetry.metrics import (
    BoltCounts,
    CheckpointFigures,
    Snapshot,
    SpoutCounts,
    added,
    input_s,
    together,
)

SPAN_S: Final = 4.0  # seconds that rates and latencies cover, approximately
STALE_S: Final = 2.5  # seconds without a report, after which a worker's rate is unknown; workers report once per second
SHORTEST_S: Final = 0.2  # least seconds that a rate covers
FIRST_S: Final = 0.5  # seconds until the bottleneck is judged for the first time
OVERDUE_S: Final = 10.0  # seconds that a checkpoint may be older than checkpoint_s
LOOKS_MAX: Final = 64  # snapshots kept per worker


@dataclass(frozen=True)
class RateShape:
    """The part of a topology that the figures need: each component's kind, in the order of the flow with the spouts
    first. `tasks`: worker → component → number of its tasks there."""

    topology: str
    kinds: Mapping[str, str]
    tasks: Tasks
    drain_timeout_s: float = 25.0
    checkpoint_s: float = 0.2

    @classmethod
    def of(cls, topology: Graph, workers: int) -> "RateShape":
        """Return the shape of a topology on this number of workers."""
        planned = plan(topology, workers)
        tasks: dict[int, dict[str, int]] = {}
        for (component, _), worker in planned.placement.items():
            here = tasks.setdefault(worker, {})
            here[component] = here.get(component, 0) + 1
        kinds = {each.name: each.kind for each in planned.components.values()}
        order = sorted(kinds, key=lambda name: kinds[name] != "spout")
        config = topology.config
        ordered = {name: kinds[name] for name in order}
        return cls(topology.name, ordered, tasks, config.drain_timeout_s, config.checkpoint_s)

    def starting(self) -> Snapshot:
        """Return the snapshot before any worker has reported."""
        spouts = {name: SpoutCounts() for name, kind in self.kinds.items() if kind == "spout"}
        bolts = {name: BoltCounts() for name, kind in self.kinds.items() if kind == "bolt"}
        return Snapshot(self.topology, 0.0, len(self.tasks), spouts, bolts, limit="starting")

    def count(self, component: str) -> int:
        """Return the number of tasks of a component."""
        return sum(here.get(component, 0) for here in self.tasks.values())


@dataclass(frozen=True)
class Now:
    """A run at one moment: the whole run, each worker, and the process id of each worker process. `away`: workers that
    are being replaced. `deaths`: worker → its deaths so far. `draining`: True if the run is to end. `patient`: True if
    draining has no time limit."""

    whole: Snapshot
    workers: Mapping[int, Snapshot]
    processes: Mapping[int, int] = field(default_factory=dict)
    away: frozenset[int] = frozenset()
    deaths: Mapping[int, int] = field(default_factory=dict)
    draining: bool = False
    patient: bool = False


@dataclass(frozen=True)
class ComponentRates:
    """The figures of one component.

    `in_hand` and the latencies of a spout are its pending messages and those of whole trees. `latency_s` of a bolt is
    the mean of one input (`input_s`). `busy` is the larger of two shares: of its loop's time, in the worker where that
    is most, and of its places for inputs that wait. `grown`: the counters that have grown in the last seconds.
    """

    name: str
    kind: str
    tasks: int
    rate: float | None
    busy: float | None
    queued: int
    in_hand: int
    latency_s: float | None
    p99_s: float | None
    failed: int
    replayed: int
    dead: int
    grown: frozenset[str] = frozenset()
    away: bool = False  # True if a worker with tasks of it is being replaced


@dataclass(frozen=True)
class WorkerRates:
    """The figures of one worker process. `pid`: None without a process. `rate`: emitted records plus executed
    inputs."""

    number: int
    pid: int | None
    away: bool
    rate: float | None
    busy: float | None
    queued: int
    deaths: int


@dataclass(frozen=True)
class RunRates:
    """All figures shown of a run. `stalled`: True if `limit` says why nothing is acked, or which worker is away.

    `checkpoint` is None as in `Snapshot`; `overdue`: True if it is older than it should be. `remembered`: inputs that
    bolts remember, and about how many bytes that takes.
    """

    topology: str
    seconds: float
    rate: float  # records per second emitted by all spouts
    counts: Mapping[str, int]  # of all spouts: acked, failed, replayed, dead, pending
    latency: Histogram  # of all spouts' trees
    components: tuple[ComponentRates, ...] = ()
    workers: tuple[WorkerRates, ...] = ()
    limit: str = ""
    stalled: bool = False
    draining: str = ""
    deaths: int = 0
    checkpoint: CheckpointFigures | None = None
    overdue: bool = False
    remembered: tuple[int, int] = (0, 0)


class RateWindow:
    """The snapshots of one worker in the last seconds. The same snapshot may come several times."""

    def __init__(self) -> None:
        self._looks: deque[Snapshot] = deque(maxlen=LOOKS_MAX)

    def look(self, snapshot: Snapshot) -> None:
        """Add the snapshot, if it is newer."""
        looks = self._looks
        if looks and snapshot.seconds <= looks[-1].seconds:
            return
        looks.append(snapshot)
        while len(looks) > 2 and snapshot.seconds - looks[1].seconds >= SPAN_S:
            looks.popleft()

    @property
    def newest(self) -> Snapshot:
        return self._looks[-1]

    @property
    def oldest(self) -> Snapshot | None:
        """The oldest snapshot; None if there is only one, whose counts are all since the start."""
        return self._looks[0] if len(self._looks) > 1 else None

    @property
    def span_s(self) -> float:
        return self.newest.seconds - (self.oldest.seconds if self.oldest is not None else 0.0)


class Rates:
    """Makes `RunRates` from each `Now`. `limit_every_s`: seconds between two judgements of the bottleneck."""

    def __init__(self, shape: RateShape, limit_every_s: float) -> None:
        self._shape = shape
        self._limit_every_s = limit_every_s
        self._windows: dict[int, RateWindow] = {}
        self._before: Mapping[int, Snapshot] = {}
        self._limit_at = 0.0
        self._limit = ""
        self._drain_at: float | None = None

    def of(self, now: Now) -> RunRates:
        """Return the figures at this moment."""
        for worker, snapshot in now.workers.items():
            self._windows.setdefault(worker, RateWindow()).look(snapshot)
        moving = {
            worker: window
            for worker, window in self._windows.items()
            if window.span_s >= SHORTEST_S and now.whole.seconds - window.newest.seconds < STALE_S
        }
        whole = now.whole
        limit = whole.limit or self._limit_of(whole.seconds, now.workers)
        components = tuple(self._component(name, now, moving) for name in self._shape.kinds)
        trees = together(_since(window, name) for window in moving.values() for name in window.newest.spouts)
        return RunRates(
            self._shape.topology,
            whole.seconds,
            sum(component.rate or 0.0 for component in components if component.kind == "spout"),
            totals(whole),
            trees,
            components,
            tuple(self._worker(worker, now, moving.get(worker)) for worker in now.workers) if self._many(now) else (),
            limit,
            bool(whole.limit),
            self._draining(now),
            sum(now.deaths.values()),
            whole.checkpoint,
            whole.checkpoint is not None and whole.checkpoint.age_s > self._shape.checkpoint_s + OVERDUE_S,
            whole.remembered,
        )

    def _many(self, now: Now) -> bool:
        return bool(now.processes or now.away)

    def _component(self, name: str, now: Now, moving: Mapping[int, RateWindow]) -> ComponentRates:
        tasks = self._shape.count(name)
        away = any(self._shape.tasks.get(worker, {}).get(name) for worker in now.away)
        if name in now.whole.spouts:
            return self._spout(name, tasks, away, now, moving)
        spans = [(_bolt(window.oldest, name), window.newest.bolts[name], window.span_s) for window in moving.values()]
        grown = [_less(after, before) for before, after, _ in spans]
        sum_ = added(BoltCounts, grown) if grown else BoltCounts()
        task_s = sum(self._shape.tasks.get(worker, {}).get(name, 0) * looks.span_s for worker, looks in moving.items())
        loop = max((less.busy_s / span for less, (_, _, span) in zip(grown, spans, strict=True)), default=0.0)
        taken = sum_.taken_s / task_s if task_s else 0.0
        bolt = now.whole.bolts[name]
        return ComponentRates(
            name,
            "bolt",
            tasks,
            sum(less.executed / span for less, (_, _, span) in zip(grown, spans, strict=True)) if grown else None,
            min(1.0, max(loop, taken)) if grown else None,
            bolt.queued,
            bolt.held,
            input_s(sum_),
            None,
            bolt.failed,
            0,
            0,
            frozenset(["failed"] if sum_.failed > 0 else []),
            away,
        )

    def _spout(self, name: str, tasks: int, away: bool, now: Now, moving: Mapping[int, RateWindow]) -> ComponentRates:
        spans = [(_spout(window.oldest, name), window.newest.spouts[name], window.span_s) for window in moving.values()]
        trees = together(_since(window, name) for window in moving.values())
        spout = now.whole.spouts[name]
        grown = ("failed", "replayed", "dead")
        return ComponentRates(
            name,
            "spout",
            tasks,
            sum(max(0, after.emitted - before.emitted) / span for before, after, span in spans) if spans else None,
            None,
            0,
            spout.pending,
            trees.percentile(50),
            trees.percentile(99),
            spout.failed,
            spout.replayed,
            spout.dead,
            frozenset(
                count
                for count in grown
                if any(getattr(after, count) > getattr(before, count) for before, after, _ in spans)
            ),
            away,
        )

    def _worker(self, worker: int, now: Now, window: RateWindow | None) -> WorkerRates:
        rate = busy = None
        if window is not None and worker not in now.away:
            before, after, span = window.oldest, window.newest, window.span_s
            rate = max(0, _handled(after) - (_handled(before) if before else 0)) / span
            busy = min(1.0, max(0.0, _busy_s(after) - (_busy_s(before) if before else 0.0)) / span)
        queued = sum(bolt.queued for bolt in now.workers[worker].bolts.values())
        pid, deaths = now.processes.get(worker), now.deaths.get(worker, 0)
        return WorkerRates(worker, pid, worker in now.away or pid is None, rate, busy, queued, deaths)

    def _limit_of(self, seconds: float, workers: Mapping[int, Snapshot]) -> str:
        if self._limit.startswith(STILL) and _all_handled(workers) > _all_handled(self._before):
            self._limit, self._limit_at = "", 0.0  # the old sentence would contradict the rate
        every_s = self._limit_every_s if self._limit else FIRST_S
        if seconds - self._limit_at >= every_s and workers:
            self._limit = limit_of(self._before, workers, self._shape.tasks) or self._limit
            self._limit_at, self._before = seconds, workers
        return self._limit

    def _draining(self, now: Now) -> str:
        """Return "12 messages left, at most 25 s" while the run is draining; without the time if that has no limit."""
        if not now.draining:
            return ""
        if self._drain_at is None:
            self._drain_at = now.whole.seconds
        left_s = max(0.0, self._shape.drain_timeout_s - (now.whole.seconds - self._drain_at))
        pending, bolts = now.whole.total("pending"), now.whole.bolts.values()
        inputs = sum(bolt.queued + bolt.held for bolt in bolts)  # the only known number if no tree is tracked
        left = counted(inputs, "input") if inputs and not pending else counted(pending, "message")
        return f"draining: {left} left, {'no time limit' if now.patient else f'at most {left_s:.0f} s'}"


def totals(snapshot: Snapshot) -> dict[str, int]:
    """Return the sums of all spouts' counters."""
    return {name: snapshot.total(name) for name in ("acked", "failed", "replayed", "dead", "pending")}


def busy(workers: Mapping[int, Snapshot], shape: RateShape) -> dict[str, float]:
    """Return each bolt's share over the whole run; see `ComponentRates.busy`."""
    shares: dict[str, float] = {}
    moving = [(worker, figures) for worker, figures in workers.items() if figures.seconds >= SHORTEST_S]
    for name in dict.fromkeys(name for _, figures in moving for name in figures.bolts):
        task_s = sum(shape.tasks.get(worker, {}).get(name, 0) * figures.seconds for worker, figures in moving)
        taken = sum(figures.bolts[name].taken_s for _, figures in moving) / task_s if task_s else 0.0
        shares[name] = min(1.0, max(taken, *(figures.bolts[name].busy_s / figures.seconds for _, figures in moving)))
    return shares


def _handled(snapshot: Snapshot) -> int:
    """Return the number of records emitted by spouts and inputs executed by bolts."""
    return snapshot.total("emitted") + sum(bolt.executed for bolt in snapshot.bolts.values())


def _all_handled(workers: Mapping[int, Snapshot]) -> int:
    return sum(map(_handled, workers.values()))


def _busy_s(snapshot: Snapshot) -> float:
    return sum(bolt.busy_s for bolt in snapshot.bolts.values())


def _spout(snapshot: Snapshot | None, name: str) -> SpoutCounts:
    return snapshot.spouts[name] if snapshot is not None else SpoutCounts()


def _bolt(snapshot: Snapshot | None, name: str) -> BoltCounts:
    return snapshot.bolts[name] if snapshot is not None else BoltCounts()


def _less(after: BoltCounts, before: BoltCounts) -> BoltCounts:
    """Return the difference of two snapshots of a bolt, never below 0."""
    return BoltCounts(
        executed=max(0, after.executed - before.executed),
        failed=max(0, after.failed - before.failed),
        busy_s=max(0.0, after.busy_s - before.busy_s),
        waited=max(0, after.waited - before.waited),
        waited_s=max(0.0, after.waited_s - before.waited_s),
        taken_s=max(0.0, after.taken_s - before.taken_s),
    )


def _since(window: RateWindow, spout: str) -> Histogram:
    """Return the latencies of the last seconds."""
    after = window.newest.latencies.get(spout)
    if after is None:
        return Histogram()
    before = window.oldest.latencies.get(spout) if window.oldest is not None else None
    return after.since(before) if before is not None else after
