"""The figures of a run on several processes: what each worker said last, and what those had said that are gone.

Pure. What a worker did between its last snapshot and its death, a second at most, is in no figure. Must not know
processes or sockets.
"""

from dataclasses import replace

from topology.plan import Plan
from topology.runtime.telemetry.metrics import BoltCounts, Snapshot, SpoutCounts, merged
from topology.runtime.telemetry.stall import BoltFacts, RunFacts, SpoutFacts


class WorkerMetrics:
    """Snapshots by worker. At every moment emitted = acked + dead + pending, over all that is told."""

    def __init__(self, plan: Plan) -> None:
        self._tracked = plan.config.guarantee == "at-least-once"
        kinds = {one.name: one.kind for one in plan.components.values()}
        self._nothing = Snapshot(
            plan.topology,
            0.0,
            1,
            {name: SpoutCounts() for name, kind in kinds.items() if kind == "spout"},
            {name: BoltCounts() for name, kind in kinds.items() if kind == "bolt"},
        )
        self._workers = plan.workers
        self._here = {(name, worker) for (name, _), worker in plan.placement.items()}
        self._now: dict[int, Snapshot] = {}  # of the processes that live
        self._begun: dict[int, float] = {}  # when they have begun to count, in seconds of the run
        self._before: dict[int, Snapshot] = {}  # of those before them
        self._made: dict[
            int, Snapshot
        ] = {}  # of both together, while neither is newer: asked for several times a second
        self.deaths: dict[int, int] = {}  # of each worker that has died, how often
        self._letters: dict[int, int] = {}  # dead letters that each worker's store had at its first word
        self._lost: dict[int, int] = {}  # what dead ones had not done, and nobody has begun to do again

    def take(self, worker: int, snapshot: Snapshot, now_s: float) -> None:
        """The worker's newest snapshot, which has come when the run was `now_s` old. It is told with the seconds of the
        run at which it was taken, by the worker's own clock, so that two of them give a rate."""
        if (snapshot.spouts.keys(), snapshot.bolts.keys()) != (self._nothing.spouts.keys(), self._nothing.bolts.keys()):
            return  # of a worker that has made another topology, and is about to be refused
        begun = self._begun.setdefault(worker, max(0.0, now_s - snapshot.seconds))
        self._now[worker] = replace(snapshot, seconds=begun + snapshot.seconds)
        self._letters.setdefault(worker, snapshot.letters)
        self._made.pop(worker, None)

    def died(self, worker: int) -> None:
        """Its process is gone. What it had emitted and not seen done is nobody's any more: `aborted`, so far."""
        last = self._now.pop(worker, None)
        self._made.pop(worker, None)
        self.deaths[worker] = self.deaths.get(worker, 0) + 1
        self._begun.pop(worker, None)
        if last is not None:
            self._lost[worker] = self._lost.get(worker, 0) + self._unfinished(last)
            before = self._before.get(worker)
            self._before[worker] = merged([before, self._retired(last)] if before else [self._retired(last)])

    def resumed(self, worker: int) -> None:
        """Its replacement reads the sources again, so that nothing is lost."""
        self._lost.pop(worker, None)

    def cut_off(self, worker: int) -> None:
        """Its process is gone as the run ended, without a last word. Its figures stay as they were."""
        if worker in self._now:
            self._lost[worker] = self._lost.get(worker, 0) + self._unfinished(self._now[worker])

    @property
    def lost(self) -> int:
        """Messages that dead workers had not done, and that nobody reads again."""
        return sum(self._lost.values())

    @property
    def new_letters(self) -> int:
        """Dead letters that are kept and were not when the workers came; also those whose count died with a process."""
        return sum(max(0, one.letters - self._letters[worker]) for worker, one in self._now.items())

    def by_worker(self) -> dict[int, Snapshot]:
        """The figures of each worker, all its processes together, at the seconds of its newest snapshot."""
        return {worker: self._of(worker) for worker in self._workers}

    def all(self) -> Snapshot | None:
        """The figures of the run; None where nobody has said anything yet."""
        return self.whole() if self._now or self._before else None

    def whole(self) -> Snapshot:
        """The figures of the run, noughts where nobody has said anything."""
        return replace(merged([self._of(worker) for worker in self._workers]), workers=len(self._workers))

    def facts(self, worker: int) -> RunFacts:
        """Where a worker's messages were when it said so last: for one that does not answer, or need not be asked."""
        last = self._now.get(worker, self._nothing)
        spouts = [SpoutFacts(name, one.pending) for name, one in last.spouts.items() if (name, worker) in self._here]
        bolts = [BoltFacts(name, one.queued, one.held) for name, one in last.bolts.items()]
        return RunFacts(0.0, spouts, bolts)

    def _of(self, worker: int) -> Snapshot:
        made = self._made.get(worker)
        if made is None:
            parts = [one[worker] for one in (self._before, self._now) if worker in one]
            made = self._made[worker] = replace(merged([self._nothing, *parts]), workers=1)
        return made

    def _unfinished(self, last: Snapshot) -> int:
        if self._tracked:
            return last.total("pending")
        return sum(one.queued + one.held for one in last.bolts.values())

    def _retired(self, last: Snapshot) -> Snapshot:
        """What stays of a process that has died: it has nothing under way any more."""
        spouts = last.spouts
        if self._tracked:
            spouts = {name: replace(one, emitted=one.acked + one.dead, pending=0) for name, one in spouts.items()}
        now = dict.fromkeys(("queued", "held", "keys", "remembered", "remembered_bytes"), 0)
        bolts = {name: replace(one, **now) for name, one in last.bolts.items()}
        return replace(last, spouts=spouts, bolts=bolts, limit="", letters=0, held_by={})
