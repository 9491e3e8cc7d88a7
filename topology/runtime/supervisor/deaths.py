"""Consequences of the death of a worker process: a new generation of the run (A14), and what is logged.

Each death begins the next generation, by one order to all workers that are present (Generation, Failing). Each worker
fails what is in flight, and takes nothing any more that was sent before. So it does not matter who hears of the death
first: a replay leaves under the new generation, and waits for those that are not there yet. Must not know how a process
starts, nor whether a dead one is replaced.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from topology.codes.runtime import WORKER_DIED
from topology.graph import Declared
from topology.plan import Plan
from topology.runtime.control.messages import Failing, Generation, Recovered
from topology.runtime.supervisor.worker_handle import PRESENT, WorkerHandle

ReportLine = Callable[[str], None]


class Loss:
    """One death, as people read it: one line for the death and one for the return. Survivors' messages feed it.

    `owner` is the number of the dead worker's process. After a while without an answer, call `tell_death` or
    `tell_return`.
    """

    def __init__(
        self,
        worker: int,
        pid: int,
        why: str,
        at: float,
        asked: Iterable[int],
        consequences: Sequence[str],
        report: ReportLine,
    ) -> None:
        self._worker = worker
        self._text = f"worker {worker} (pid {pid}) {why}"
        self._at = at
        self._asked = set(asked)  # owners that have not yet reported what has failed
        self._alone = not self._asked
        self._consequences = list(consequences)
        self._report = report
        self._trees = 0
        self._unfinished: set[int] = set()  # survivors with failed messages that are not done yet
        # seconds from the death until the first and the last of them was done
        self._first_s, self._last_s = math.inf, 0.0
        self._back = ""
        self._death_reported = self._return_reported = False
        if not self._asked:
            self.tell_death()

    def failing(self, owner: int, trees: int) -> None:
        """Note how many trees a survivor has failed."""
        if owner in self._asked:
            self._asked.discard(owner)
            self._trees += trees
            if trees:
                self._unfinished.add(owner)
            if not self._asked:
                self.tell_death()

    def left(self, owner: int) -> None:
        """Note that a survivor has died too."""
        self.failing(owner, 0)
        self._finished(owner)

    def recovered(self, owner: int, now: float, left: int) -> None:
        """Note that a survivor has finished the first or the last of the messages that it failed."""
        self._first_s = min(now - self._at, self._first_s)
        self._last_s = max(now - self._at, self._last_s)
        if not left:
            self._finished(owner)

    def _finished(self, owner: int) -> None:
        self._unfinished.discard(owner)
        if self._back and not self._unfinished:
            self.tell_return()

    def back(self, pid: int, now: float) -> None:
        """Note that the replacement runs."""
        self.tell_death()
        self._back = f"worker {self._worker} is back as pid {pid} after {now - self._at:.2f} s"
        if not self._unfinished:
            self.tell_return()

    def tell_death(self) -> None:
        """Log the first line, once."""
        if not self._death_reported:
            self._death_reported = True
            flight = {
                0: "no other worker had messages in flight",
                1: "1 message in flight has failed and is replayed",
            }.get(self._trees, f"{self._trees:,} messages in flight have failed and are replayed")
            parts = [self._text, *([] if self._alone else [flight]), *self._consequences]
            self._report(f"{'; '.join(parts)} ({WORKER_DIED})")

    def tell_return(self) -> None:
        """Log the second line, once, if the worker has returned."""
        if self._back and not self._return_reported:
            self._return_reported = True
            acked = ""
            if self._last_s:
                first, last = f"{self._first_s * 1000:,.0f}", f"{self._last_s * 1000:,.0f}"
                rest = f", the last after {last} ms" if not self._unfinished else ", others are not done yet"
                acked = f"; the first replayed message was done {first} ms after the death{rest}"
            self._report(self._back + acked)


def consequences(plan: Plan, worker: int, *, draining: bool, keeps: bool = False) -> list[str]:
    """Return what else the death of this worker means: for untracked messages, for state and for sources. `keeps` is
    True if the run stores positions and state."""
    here = [plan.components[name] for (name, _), at in plan.placement.items() if at == worker]
    spouts = " and ".join(dict.fromkeys(repr(component.name) for component in here if component.kind == "spout"))
    found = []
    if plan.config.guarantee == "at-most-once":
        found.append("its messages in flight are lost (at-most-once)")
    recoveries = {_recovered(component) for component in here if component.shape == "state"}
    if "none" in recoveries or ("checkpoint" in recoveries and not keeps):
        found.append("counts in its memory start from zero")
    elif "checkpoint" in recoveries and plan.config.durability == "checkpoint":
        found.append("all workers go back to the last checkpoint")
    elif "checkpoint" in recoveries:
        found.append("its saved state is intact")
    elsewhere = [plan.components[name] for (name, _), at in plan.placement.items() if at != worker]
    counted_again = any(component.shape == "state" for component in elsewhere) and not draining and not keeps
    if spouts:
        verb = "are" if " and " in spouts else "is"
        since = f"{'their' if ' and ' in spouts else 'its'} last kept position" if keeps else "the start of the run"
        what = "not read again, as the run ends" if draining else f"read again from {since}"
        found.append(f"{spouts} {verb} {what}{', and counted again by other workers' * counted_again}")
    return found


def _recovered(bolt: Declared) -> str:
    """Return how a bolt's state is recovered. A bolt whose inputs are held for replay loses nothing, unless it has
    timers too."""
    recovery: str = bolt.prototype.recovery
    return "none" if recovery == "replay" and hasattr(bolt.prototype, "on_timer") else recovery


TELL_DEATH_S: Final = 1.5  # seconds that survivors may take to report what failed; then the death is logged anyway
TELL_RETURN_S: Final = 2.0  # how long to wait for a replay to be acked; then the return is logged anyway
LOSSES_MAX: Final = 100  # deaths for which reports of survivors are still taken


class Deaths:
    """All deaths of a run, and its generations. `handles` has, for each worker, its current or last process.

    `later` takes a delay in seconds and what to call then. `now` returns the time in seconds.
    """

    def __init__(
        self,
        plan: Plan,
        handles: Mapping[int, WorkerHandle],
        *,
        later: Callable[[float, Callable[[], None]], None],
        now: Callable[[], float],
        report: ReportLine,
    ) -> None:
        self.generation = 1
        self.over: dict[int, None] = {}  # owners of processes that are dead, in their order
        self._plan = plan
        self._handles = handles
        self._later = later
        self._now = now
        self._report = report
        self._losses: dict[int, Loss] = {}  # owner → its death
        self._absences: dict[int, Loss] = {}  # worker → the death that it is away for; the first of several
        self._killed: dict[int, bool] = {}  # worker → True if its last process was killed, False if it ended by itself
        self._unanswered: set[tuple[int, int]] = (
            set()
        )  # (owner of a survivor, of a dead one) that it has not failed for

    @property
    def settled(self) -> bool:
        """Return True if all live workers are in the present generation: the trees of all deaths have failed."""
        return not self._unanswered

    def begins(self, owner: int) -> None:
        """Handle a process that begins. Its owner may be that of a dead one, 4,096 lives ago (A20)."""
        self.over.pop(owner, None)

    def killed(self, worker: int) -> bool:
        """Return True if the worker's last process was killed, as far as is known."""
        return self._killed.get(worker, True)

    def died(self, handle: WorkerHandle, *, started: bool, draining: bool) -> None:
        """Handle a process that is reaped although it was not asked to end. `started` is True if all workers had
        started once. If others knew the process, a new generation begins, for all that are present: a worker without a
        link to the dead one may have sent to one that had."""
        self._killed[handle.worker] = handle.killed
        self.over[handle.owner] = None
        for earlier in self._losses.values():
            earlier.left(handle.owner)
        self._unanswered = {pair for pair in self._unanswered if pair[0] != handle.owner}
        survivors = [other for other in self._handles.values() if other.state in PRESENT] if handle.was_present else []
        if handle.was_present:
            self.generation += 1
        why = f"worker {handle.worker} {handle.why}"
        for survivor in survivors:
            survivor.joined.discard(handle.owner)
            self._unanswered.add((survivor.owner, handle.owner))
            survivor.say(Generation(self.generation, handle.owner, why, handle.killed, handle.ran))
        asked = [survivor.owner for survivor in survivors] if self._plan.config.guarantee == "at-least-once" else []
        after = consequences(self._plan, handle.worker, draining=draining, keeps=handle.keeps) if started else []
        loss = Loss(handle.worker, handle.pid, handle.why, self._now(), asked, after, self._report)
        self._losses[handle.owner] = loss
        self._absences.setdefault(handle.worker, loss)
        while len(self._losses) > LOSSES_MAX:
            del self._losses[next(iter(self._losses))]
        self._later(TELL_DEATH_S, loss.tell_death)

    def heard(self, handle: WorkerHandle, word: Failing | Recovered) -> None:
        """Handle a survivor's report about a death."""
        match word:
            case Failing(owner, trees):
                self._unanswered.discard((handle.owner, owner))
                if owner in self._losses:
                    self._losses[owner].failing(handle.owner, trees)
            case Recovered(owner, left):
                if owner in self._losses:
                    self._losses[owner].recovered(handle.owner, self._now(), left)

    def back(self, handle: WorkerHandle) -> None:
        """Handle the start of a worker's tasks. If the worker was away, its return is logged."""
        loss = self._absences.pop(handle.worker, None)
        if loss is not None:
            loss.back(handle.pid, self._now())
            self._later(TELL_RETURN_S, loss.tell_return)

    def tell_all(self) -> None:
        """Log what is known of all deaths. No worker answers any more."""
        for loss in self._losses.values():
            loss.tell_death()
            loss.tell_return()
