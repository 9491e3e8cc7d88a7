"""Find the bottleneck: one sentence that names what limits a run, from two snapshots of its counters.

Pure: snapshots in, a sentence out. If nothing at all is acked, `stall` says more. Must not know workers beyond their
snapshots, nor who shows the sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from topology.runtime.queue_limits import QUEUE_HIGH
from topology.runtime.telemetry.metrics import Snapshot

SHORTEST_S: Final = 0.5  # seconds between two snapshots; a shorter time says nothing
BUSY: Final = 0.8  # share of a loop's time: above it the bolt is the bottleneck, even if spouts do not pause
FULL: Final = 0.5  # share of the queue length at which spouts pause
PAUSES: Final = 0.1  # share of a spout's time: above it something holds the spout back
# share of busy time or queue that may explain a pause; also the share of pause that always has a reason
HELD_UP: Final = 0.3

STILL: Final = ("nothing to do", "nothing moves")  # beginnings of sentences that are wrong once anything moves

Tasks = Mapping[int, Mapping[str, int]]  # worker → component → number of its tasks there


@dataclass(frozen=True)
class Load:
    """The load of a bolt between two snapshots, in the worker where it is highest. Shares are from 0 to 1.

    `busy` is the share of that worker's loop, not of each task: tasks that share a loop cannot be busy at the same
    time. `taken` is the share of the bolt's places for waiting inputs, if it has such places; 1 means all of them all
    the time.
    """

    name: str
    busy: float = 0.0
    taken: float = 0.0
    full: float = 0.0
    held: int = 0
    executed: int = 0  # in all workers

    @property
    def worst(self) -> float:
        return max(self.busy, self.taken, self.full)

    def __str__(self) -> str:
        at_work = f"busy {_percent(self.busy)} of the time"
        if self.taken > self.busy:
            at_work = f"its places for inputs that wait are taken {_percent(self.taken)} of the time"
        return f"{at_work}, its queue is {_percent(self.full)} full"


class Queues:
    """The mean of many looks at what waits in bolts. At the end of a run all queues are empty, so the last look says
    nothing."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._looks = 0
        self._full: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def look(self, workers: Mapping[int, Snapshot]) -> None:
        """Add one look. Call it at even intervals."""
        self._looks += 1
        for name in dict.fromkeys(name for snapshot in workers.values() for name in snapshot.bolts):
            self._full[name] = self._full.get(name, 0.0) + _full(name, workers, self._tasks)
            self._held[name] = self._held.get(name, 0) + _held(name, workers)

    def mean(self) -> dict[str, tuple[float, int]]:
        """Return, by bolt, how full its fullest queue was and how many inputs it held."""
        return {name: (full / self._looks, self._held[name] // self._looks) for name, full in self._full.items()}


def limit_of(
    before: Mapping[int, Snapshot],
    after: Mapping[int, Snapshot],
    tasks: Tasks,
    queues: Mapping[str, tuple[float, int]] | None = None,
) -> str:
    """Return the sentence for two snapshots of all workers. It is empty if the time between them says nothing.

    `before` may be empty: then the sentence is about the whole run so far. A worker without a newer snapshot is left
    out. `queues` is what waited meanwhile, as `Queues.mean` returns it; without it, what waits in `after` counts.
    """
    spans = {
        worker: (before.get(worker), snapshot, span)
        for worker, snapshot in after.items()
        if (span := snapshot.seconds - _seconds(before.get(worker))) >= SHORTEST_S
    }
    if not spans:
        return ""
    loads = sorted(_loads(spans, tasks, queues), key=lambda load: (load.worst, load.busy), reverse=True)
    pauses = _pauses(spans, tasks)
    top = loads[0] if loads else Load("")
    paused = max(pauses.values(), default=0.0)
    if top.full >= FULL and not top.executed:
        nothing = f"it has done nothing, with its queue {_percent(top.full)} full"
        return f"{top.name!r} is the limit: {nothing}{_after(pauses)}"
    if max(top.busy, top.taken) >= BUSY or top.full >= FULL or (paused >= PAUSES and top.worst >= HELD_UP):
        return f"{top.name!r} is the limit: {top}{_after(pauses)}"
    if crowded := _crowded(spans, loads):
        return crowded + _after(pauses)
    if paused >= HELD_UP:
        return _held_back(spans, pauses) or _waiting(loads, pauses)
    return _source(spans, tasks, pauses, loads)


Spans = Mapping[int, tuple[Snapshot | None, Snapshot, float]]  # worker → two snapshots and the seconds between them


def _seconds(snapshot: Snapshot | None) -> float:
    return snapshot.seconds if snapshot is not None else 0.0


def _loads(spans: Spans, tasks: Tasks, queues: Mapping[str, tuple[float, int]] | None) -> list[Load]:
    """Return the load of each bolt."""
    workers = {worker: after for worker, (_, after, _) in spans.items()}
    loads = []
    for name in dict.fromkeys(name for snapshot in workers.values() for name in snapshot.bolts):
        busy, taken, executed = 0.0, 0.0, 0
        for worker, (before, after, span) in spans.items():
            now = after.bolts[name]
            then = before.bolts.get(name) if before is not None else None
            places_s = span * tasks.get(worker, {}).get(name, 0)
            taken = max(taken, _share(now.taken_s - (then.taken_s if then else 0.0), places_s))
            busy = max(busy, _share(now.busy_s - (then.busy_s if then else 0.0), span))
            executed += now.executed - (then.executed if then else 0)
        full, held = _full(name, workers, tasks), _held(name, workers)
        if queues is not None:
            full, held = queues.get(name, (0.0, 0))
        loads.append(Load(name, busy, taken, full, held, executed))
    return loads


def _full(name: str, workers: Mapping[int, Snapshot], tasks: Tasks) -> float:
    """Return how full a bolt's queues are in the worker where they are fullest."""
    return max(
        _share(snapshot.bolts[name].queued, QUEUE_HIGH * tasks.get(worker, {}).get(name, 0))
        for worker, snapshot in workers.items()
    )


def _held(name: str, workers: Mapping[int, Snapshot]) -> int:
    return sum(snapshot.bolts[name].held for snapshot in workers.values())


def _pauses(spans: Spans, tasks: Tasks) -> dict[str, float]:
    """Return, by spout, the share of its tasks' time in which it was held back."""
    paused: dict[str, list[float]] = {}
    for worker, (before, after, span) in spans.items():
        for name, now in after.spouts.items():
            then = before.spouts.get(name) if before is not None else None
            here = tasks.get(worker, {}).get(name, 0)
            sums = paused.setdefault(name, [0.0, 0.0])
            sums[0] += now.paused_s - (then.paused_s if then else 0.0)
            sums[1] += span * here
    return {name: _share(part, whole) for name, (part, whole) in paused.items()}


def _source(spans: Spans, tasks: Tasks, pauses: Mapping[str, float], loads: Sequence[Load]) -> str:
    """Return the sentence for a run in which nothing holds the spouts back: they are the limit, if they have emitted
    anything.

    It is empty if a worker with spouts has no newer figures and no other spout has emitted anything.
    """
    unheard = {name for worker, here in tasks.items() if worker not in spans for name in here}
    if not unheard.isdisjoint(pauses) and not _grown(spans, "emitted"):
        return ""
    names = _names(list(pauses))
    pending = sum(after.total("pending") for _, after, _ in spans.values())
    if pending and not _grown(spans, "acked") and not any(load.executed for load in loads):
        return f"{STILL[1]}: {pending:,} {'message is' if pending == 1 else 'messages are'} pending"
    if not _grown(spans, "emitted"):
        return f"{STILL[0]}: no message from {names}" if not any(load.executed for load in loads) else ""
    several = len(pauses) > 1
    fullest = max((load.full for load in loads), default=0.0)
    waits = f"no queue is more than {_percent(fullest)} full" if fullest >= 0.005 else "nothing waits"
    pause = f"{'they pause' if several else 'it pauses'} {_percent(max(pauses.values(), default=0.0))} of the time"
    return f"the source{'s' * several} {names} {'are' if several else 'is'} the limit: {waits}, {pause}"


def _grown(spans: Spans, name: str) -> int:
    """Return by how much a counter of spouts has grown."""
    return sum(after.total(name) - (before.total(name) if before else 0) for before, after, _ in spans.values())


def _crowded(spans: Spans, loads: Sequence[Load]) -> str:
    """Return a sentence if the bolts of a worker fill its loop together, although none does so alone."""
    sums = {
        worker: sum(now.busy_s - (before.bolts[name].busy_s if before else 0.0) for name, now in after.bolts.items())
        / span
        for worker, (before, after, span) in spans.items()
    }
    worker = max(sums, key=lambda number: sums[number])
    if sums[worker] < BUSY:
        return ""
    busiest = max(loads, key=lambda load: load.busy)
    which = f"worker {worker}" if len(spans) > 1 else "the event loop"
    most = f"{busiest.name!r} with {_percent(busiest.busy)} the most"
    return f"{which} is the limit: its bolts are busy {_percent(min(sums[worker], 1.0))} of the time, {most}"


def _held_back(spans: Spans, pauses: Mapping[str, float]) -> str:
    """Return a sentence if a spout waits for something with a known reason, above all for unwritable state."""
    for _, after, _ in spans.values():
        for name, why in after.held_by.items():
            return f"{name!r} pauses {_percent(pauses[name])} of the time: {why}"
    return ""


def _waiting(loads: Sequence[Load], pauses: Mapping[str, float]) -> str:
    """Return the sentence for pausing spouts without a busy bolt or a full queue: messages wait for something else."""
    holder = max(loads, key=lambda load: load.held, default=Load(""))
    if holder.held:
        return f"{holder.name!r} is the limit: it waits, with {holder.held:,} inputs in hand{_after(pauses)}"
    name = max(pauses, key=lambda spout: pauses[spout])
    why = "at max_pending, or for a worker or a disk that was away; no bolt is busy, no queue is full"
    return f"acks are the limit: {name!r} pauses {_percent(pauses[name])} of the time, {why}"


def _after(pauses: Mapping[str, float]) -> str:
    """Return the end of a sentence: which spout pauses most, and for which share of the time."""
    name = max(pauses, key=lambda spout: pauses[spout], default="")
    return f"; {name!r} pauses {_percent(pauses[name])} of the time" if name else ""


def _names(names: Sequence[str]) -> str:
    """Return the names as text for a sentence, three at most."""
    shown = [repr(name) for name in names[:3]] + ([f"{len(names) - 3} more"] if len(names) > 3 else [])
    return " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
