"""The figures of a run on several processes: the last report of each worker, and those of processes that have died.

Pure. The work between a worker's last snapshot and its death is in no figure; that is one second at most. Must not know
processes or sockets.
"""

from dataclasses import replace

from topology.plan import Plan
from topology.runtime.telemetry.metrics import BoltCounts, Snapshot, SpoutCounts, merged
from topology.runtime.telemetry.stall import BoltFacts, RunFacts, SpoutFacts


class WorkerMetrics:
    """Snapshots by worker. At every moment, emitted = acked + dead + pending over all that is reported."""

    def __init__(self, plan: Plan) -> None:
        self._tracked = plan.config.guarantee == "at-least-once"
        kinds = {component.name: component.kind for component in plan.components.values()}
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
        self._started_at: dict[int, float] = {}  # when each process began to count, in seconds of the run
        self._before: dict[int, Snapshot] = {}  # of earlier processes of the same worker
        # The sum of both, until one of them changes. It is needed several times per second.
        self._made: dict[int, Snapshot] = {}
        self.deaths: dict[int, int] = {}  # worker → how often it has died
        self._letters: dict[int, int] = {}  # dead letters in each worker's store at its first report
        self._lost: dict[int, int] = {}  # unfinished messages of dead workers that no replacement has begun to re-read

    def take(self, worker: int, snapshot: Snapshot, now_s: float) -> None:
        """Take a worker's newest snapshot, which came when the run was `now_s` old.

        It is stored with the age of the run at which it was taken, by the worker's own clock. So two snapshots give a
        rate.
        """
        if (snapshot.spouts.keys(), snapshot.bolts.keys()) != (self._nothing.spouts.keys(), self._nothing.bolts.keys()):
            return  # the worker has another topology, and is about to be rejected
        started_at = self._started_at.setdefault(worker, max(0.0, now_s - snapshot.seconds))
        self._now[worker] = replace(snapshot, seconds=started_at + snapshot.seconds)
        self._letters.setdefault(worker, snapshot.letters)
        self._made.pop(worker, None)

    def died(self, worker: int) -> None:
        """Handle the death of a worker's process. Messages that it emitted and did not see finished count as `aborted`,
        until a replacement reads its sources again."""
        last = self._now.pop(worker, None)
        self._made.pop(worker, None)
        self.deaths[worker] = self.deaths.get(worker, 0) + 1
        self._started_at.pop(worker, None)
        if last is not None:
            self._lost[worker] = self._lost.get(worker, 0) + self._unfinished(last)
            before = self._before.get(worker)
            self._before[worker] = merged([before, self._retired(last)] if before else [self._retired(last)])

    def resumed(self, worker: int) -> None:
        """Handle a replacement that re-reads the sources, so that nothing is lost."""
        self._lost.pop(worker, None)

    def cut_off(self, worker: int) -> None:
        """Handle a process that died while the run ended, without a last message. Its figures stay as they were."""
        if worker in self._now:
            self._lost[worker] = self._lost.get(worker, 0) + self._unfinished(self._now[worker])

    @property
    def lost(self) -> int:
        """Return the number of unfinished messages of dead workers that no worker re-reads."""
        return sum(self._lost.values())

    @property
    def new_letters(self) -> int:
        """Return the number of stored dead letters that were not there when the workers began. Includes those whose
        count died with a process."""
        return sum(max(0, snapshot.letters - self._letters[worker]) for worker, snapshot in self._now.items())

    def by_worker(self) -> dict[int, Snapshot]:
        """Return the figures of each worker, over all its processes, as of its newest snapshot."""
        return {worker: self._of(worker) for worker in self._workers}

    def all(self) -> Snapshot | None:
        """Return the figures of the run, or None before any worker has reported."""
        return self.whole() if self._now or self._before else None

    def whole(self) -> Snapshot:
        """Return the figures of the run; all are zero before any worker has reported."""
        return replace(merged([self._of(worker) for worker in self._workers]), workers=len(self._workers))

    def facts(self, worker: int) -> RunFacts:
        """Return where a worker's messages were at its last report, for a worker that does not answer or need not be
        asked."""
        last = self._now.get(worker, self._nothing)
        spouts = [
            SpoutFacts(name, counts.pending) for name, counts in last.spouts.items() if (name, worker) in self._here
        ]
        bolts = [BoltFacts(name, counts.queued, counts.held) for name, counts in last.bolts.items()]
        return RunFacts(0.0, spouts, bolts)

    def _of(self, worker: int) -> Snapshot:
        made = self._made.get(worker)
        if made is None:
            parts = [snapshots[worker] for snapshots in (self._before, self._now) if worker in snapshots]
            made = self._made[worker] = replace(merged([self._nothing, *parts]), workers=1)
        return made

    def _unfinished(self, last: Snapshot) -> int:
        if self._tracked:
            return last.total("pending")
        return sum(counts.queued + counts.held for counts in last.bolts.values())

    def _retired(self, last: Snapshot) -> Snapshot:
        """Return what remains of a process that has died: it has nothing in flight."""
        spouts = last.spouts
        if self._tracked:
            spouts = {
                name: replace(counts, emitted=counts.acked + counts.dead, pending=0) for name, counts in spouts.items()
            }
        now = dict.fromkeys(("queued", "held", "keys", "remembered", "remembered_bytes"), 0)
        bolts = {name: replace(counts, **now) for name, counts in last.bolts.items()}
        return replace(last, spouts=spouts, bolts=bolts, limit="", letters=0, held_by={})
