"""Who is the limit: one sentence that names what a run can't go faster than, from two looks at its counters.

Pure: snapshots in, a sentence out. Where nothing is acked at all, `watch` has more to say. Must not know workers beyond
their snapshots, nor who shows the sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from topology.runtime.queue_limits import QUEUE_HIGH
from topology.runtime.telemetry.metrics import Snapshot

SHORTEST_S: Final = 0.5  # between two looks; less tells nothing
BUSY: Final = 0.8  # of a loop's time: it is the limit, whether spouts pause or not
FULL: Final = 0.5  # of the queue length at which spouts pause
PAUSES: Final = 0.1  # of a spout's time: something holds it back,
HELD_UP: Final = 0.3  # and who is as busy or as full as this may be why; so long a pause has a reason, whoever is busy

STILL: Final = ("nothing to do", "nothing moves")  # how sentences begin that are wrong once anything moves

Tasks = Mapping[int, Mapping[str, int]]  # worker → component → how many of its tasks are there


@dataclass(frozen=True)
class Load:
    """A bolt between two looks, in the worker where it has most to do. Shares from 0 to 1.

    `busy` is of that worker's loop and not of each task: tasks that share a loop can't be busy at the same time.
    `taken` is of its places for inputs that wait, for bolts that have those: all of them all the time is 1.
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
    """Many looks at what waits in bolts, as one: of a whole run the last look tells nothing, as all is empty then."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._looks = 0
        self._full: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def look(self, workers: Mapping[int, Snapshot]) -> None:
        """One look more; they should come at even intervals."""
        self._looks += 1
        for name in dict.fromkeys(name for snapshot in workers.values() for name in snapshot.bolts):
            self._full[name] = self._full.get(name, 0.0) + _full(name, workers, self._tasks)
            self._held[name] = self._held.get(name, 0) + _held(name, workers)

    def mean(self) -> dict[str, tuple[float, int]]:
        """Bolt → how full its fullest queue was, and how many inputs it held."""
        return {name: (full / self._looks, self._held[name] // self._looks) for name, full in self._full.items()}


def limit_of(
    before: Mapping[int, Snapshot],
    after: Mapping[int, Snapshot],
    tasks: Tasks,
    queues: Mapping[str, tuple[float, int]] | None = None,
) -> str:
    """The sentence, of two looks at all workers; empty where the time between them tells nothing.

    `before` may be empty: then it is about the whole run so far. A worker without a newer snapshot is left out.
    `queues`: what waited meanwhile, as `Queues.mean` gives it; else what waits `after`.
    """
    spans = {
        worker: (before.get(worker), snapshot, span)
        for worker, snapshot in after.items()
        if (span := snapshot.seconds - _seconds(before.get(worker))) >= SHORTEST_S
    }
    if not spans:
        return ""
    loads = sorted(_loads(spans, tasks, queues), key=lambda one: (one.worst, one.busy), reverse=True)
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


Spans = Mapping[int, tuple[Snapshot | None, Snapshot, float]]  # worker → two looks and the seconds between them


def _seconds(snapshot: Snapshot | None) -> float:
    return snapshot.seconds if snapshot is not None else 0.0


def _loads(spans: Spans, tasks: Tasks, queues: Mapping[str, tuple[float, int]] | None) -> list[Load]:
    """Each bolt's."""
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
    """How full a bolt's queues are in the worker where they are fullest."""
    return max(
        _share(one.bolts[name].queued, QUEUE_HIGH * tasks.get(worker, {}).get(name, 0))
        for worker, one in workers.items()
    )


def _held(name: str, workers: Mapping[int, Snapshot]) -> int:
    return sum(one.bolts[name].held for one in workers.values())


def _pauses(spans: Spans, tasks: Tasks) -> dict[str, float]:
    """Spout → the share of its tasks' time in which it was held back."""
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
    """Nothing holds the spouts back: they are the limit, if they have given anything. Nothing is said of what a worker
    has given that has told no newer figures."""
    unheard = {name for worker, here in tasks.items() if worker not in spans for name in here}
    if not unheard.isdisjoint(pauses) and not _grown(spans, "emitted"):
        return ""
    names = _names(list(pauses))
    pending = sum(after.total("pending") for _, after, _ in spans.values())
    if pending and not _grown(spans, "acked") and not any(one.executed for one in loads):
        return f"{STILL[1]}: {pending:,} {'message is' if pending == 1 else 'messages are'} pending"
    if not _grown(spans, "emitted"):
        return f"{STILL[0]}: no message from {names}" if not any(one.executed for one in loads) else ""
    several = len(pauses) > 1
    fullest = max((one.full for one in loads), default=0.0)
    waits = f"no queue is more than {_percent(fullest)} full" if fullest >= 0.005 else "nothing waits"
    pause = f"{'they pause' if several else 'it pauses'} {_percent(max(pauses.values(), default=0.0))} of the time"
    return f"the source{'s' * several} {names} {'are' if several else 'is'} the limit: {waits}, {pause}"


def _grown(spans: Spans, name: str) -> int:
    """By how much a counter of spouts has grown."""
    return sum(after.total(name) - (before.total(name) if before else 0) for before, after, _ in spans.values())


def _crowded(spans: Spans, loads: Sequence[Load]) -> str:
    """A worker whose bolts fill its loop together, though none does so alone."""
    sums = {
        worker: sum(now.busy_s - (before.bolts[name].busy_s if before else 0.0) for name, now in after.bolts.items())
        / span
        for worker, (before, after, span) in spans.items()
    }
    worker = max(sums, key=lambda one: sums[one])
    if sums[worker] < BUSY:
        return ""
    busiest = max(loads, key=lambda one: one.busy)
    which = f"worker {worker}" if len(spans) > 1 else "the event loop"
    most = f"{busiest.name!r} with {_percent(busiest.busy)} the most"
    return f"{which} is the limit: its bolts are busy {_percent(min(sums[worker], 1.0))} of the time, {most}"


def _held_back(spans: Spans, pauses: Mapping[str, float]) -> str:
    """A spout that waits for something which says of itself what it is: a state that can't be written, above all."""
    for _, after, _ in spans.values():
        for name, why in after.held_by.items():
            return f"{name!r} pauses {_percent(pauses[name])} of the time: {why}"
    return ""


def _waiting(loads: Sequence[Load], pauses: Mapping[str, float]) -> str:
    """Spouts pause, and nobody is busy or has a queue: messages wait somewhere for something else."""
    holder = max(loads, key=lambda one: one.held, default=Load(""))
    if holder.held:
        return f"{holder.name!r} is the limit: it waits, with {holder.held:,} inputs in hand{_after(pauses)}"
    name = max(pauses, key=lambda one: pauses[one])
    why = "at max_pending, or for a worker or a disk that was away; no bolt is busy, no queue is full"
    return f"acks are the limit: {name!r} pauses {_percent(pauses[name])} of the time, {why}"


def _after(pauses: Mapping[str, float]) -> str:
    """The end of a sentence: who pauses most, and for how long."""
    name = max(pauses, key=lambda one: pauses[one], default="")
    return f"; {name!r} pauses {_percent(pauses[name])} of the time" if name else ""


def _names(names: Sequence[str]) -> str:
    """As they are written in a sentence: three at most."""
    shown = [repr(name) for name in names[:3]] + ([f"{len(names) - 3} more"] if len(names) > 3 else [])
    return " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
