"""What the death of a worker process brings for the others, and for people: who parts from it, when trees fail (A14),
and the lines that tell of it.

The others are told that it is gone (Gone, Parted), and once all have closed their links to it, everybody fails what is
in flight (Fail, Failing). Must not know how a process comes, nor whether a dead one is replaced.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from topology.codes.runtime import WORKER_DIED
from topology.graph import Declared
from topology.plan import Plan
from topology.runtime.control.messages import Fail, Failing, Gone, Parted, Recovered
from topology.runtime.supervisor.worker_handle import PRESENT, WorkerHandle

Told = Callable[[str], None]


class Loss:
    """Fed with what survivors say; tells two lines: of the death, and of the return. `owner` is the dead worker's.

    Who waits for an answer that may not come calls `tell_death` or `tell_return` after a while.
    """

    def __init__(
        self, worker: int, pid: int, why: str, at: float, asked: Iterable[int], consequences: Sequence[str], told: Told
    ) -> None:
        self._worker = worker
        self._text = f"worker {worker} (pid {pid}) {why}"
        self._at = at
        self._asked = set(asked)  # owners that have to say what has failed
        self._alone = not self._asked
        self._consequences = list(consequences)
        self._told = told
        self._trees = 0
        self._unfinished: set[int] = set()  # survivors that have failed messages which are not done yet
        self._first_s, self._last_s = math.inf, 0.0  # when the first and the last of them were done, after the death
        self._back = ""
        self._death_told = self._return_told = False
        if not self._asked:
            self.tell_death()

    def failing(self, owner: int, trees: int) -> None:
        """A survivor has failed so many trees."""
        if owner in self._asked:
            self._asked.discard(owner)
            self._trees += trees
            if trees:
                self._unfinished.add(owner)
            if not self._asked:
                self.tell_death()

    def left(self, owner: int) -> None:
        """A survivor has not survived."""
        self.failing(owner, 0)
        self._finished(owner)

    def recovered(self, owner: int, now: float, left: int) -> None:
        """Of the messages that a survivor has failed the first is done, or the last."""
        self._first_s = min(now - self._at, self._first_s)
        self._last_s = max(now - self._at, self._last_s)
        if not left:
            self._finished(owner)

    def _finished(self, owner: int) -> None:
        self._unfinished.discard(owner)
        if self._back and not self._unfinished:
            self.tell_return()

    def back(self, pid: int, now: float) -> None:
        """Its replacement runs."""
        self.tell_death()
        self._back = f"worker {self._worker} is back as pid {pid} after {now - self._at:.2f} s"
        if not self._unfinished:
            self.tell_return()

    def tell_death(self) -> None:
        """The first line, once."""
        if not self._death_told:
            self._death_told = True
            flight = {
                0: "no other worker had messages in flight",
                1: "1 message in flight has failed and is replayed",
            }.get(self._trees, f"{self._trees:,} messages in flight have failed and are replayed")
            parts = [self._text, *([] if self._alone else [flight]), *self._consequences]
            self._told(f"{'; '.join(parts)} ({WORKER_DIED})")

    def tell_return(self) -> None:
        """The second line, once, where there is a return to tell of."""
        if self._back and not self._return_told:
            self._return_told = True
            acked = ""
            if self._last_s:
                first, last = f"{self._first_s * 1000:,.0f}", f"{self._last_s * 1000:,.0f}"
                rest = f", the last after {last} ms" if not self._unfinished else ", others are not yet"
                acked = f"; the first replayed message was done {first} ms after the death{rest}"
            self._told(self._back + acked)


class Parting:
    """Of one death: which survivors may send to the dead worker still, and when trees fail. A replay must not come to
    one who would send to the dead link: what is there is dropped as the link closes, and no other home knows (A14).

    So `fail` is called once all have closed their links, or have taken too long: with 0, for everybody. What one has
    sent there who closes it only then is lost, so it is called once more: with that one's owner, for all but that one.
    """

    def __init__(self, asked: Iterable[int], fail: Callable[[int], None]) -> None:
        self._asked = set(asked)  # owners that have not closed their links yet, and live
        self._fail = fail
        self._failed = False

    @property
    def over(self) -> bool:
        """Whether trees have failed by it, for everybody that lives."""
        return self._failed and not self._asked

    def parted(self, owner: int) -> None:
        """This one sends nothing there any more."""
        if owner in self._asked and self._failed:
            self._asked.discard(owner)
            self._fail(owner)
        else:
            self.left(owner)

    def left(self, owner: int) -> None:
        """This one is dead too; for what it has sent there, trees fail by its own death."""
        if owner in self._asked:
            self._asked.discard(owner)
            if not self._asked:
                self.overdue()

    def overdue(self) -> None:
        """Trees fail without those that are asked still. Nothing happens where they have failed."""
        if not self._failed:
            self._failed = True
            self._fail(0)


def consequences(plan: Plan, worker: int, *, draining: bool, keeps: bool = False) -> list[str]:
    """What else the death of this worker means: for messages that nobody follows, for state, and for sources, of which
    the run `keeps` positions and state or not."""
    here = [plan.components[name] for (name, _), at in plan.placement.items() if at == worker]
    spouts = " and ".join(dict.fromkeys(repr(one.name) for one in here if one.kind == "spout"))
    found = []
    if plan.config.guarantee == "at-most-once":
        found.append("what it had under way is lost, at-most-once")
    recoveries = {_recovered(one) for one in here if one.shape == "state"}
    if "none" in recoveries or ("checkpoint" in recoveries and not keeps):
        found.append("counts in its memory begin anew")
    elif "checkpoint" in recoveries:
        found.append("its state is kept, and goes on")
    elsewhere = [plan.components[name] for (name, _), at in plan.placement.items() if at != worker]
    counted_again = any(one.shape == "state" for one in elsewhere) and not draining and not keeps
    if spouts:
        verb = "are" if " and " in spouts else "is"
        since = f"{'their' if ' and ' in spouts else 'its'} last kept position" if keeps else "the start of the run"
        what = "not read again, as the run ends" if draining else f"read again from {since}"
        found.append(f"{spouts} {verb} {what}{', and counted again by other workers' * counted_again}")
    return found


def _recovered(bolt: Declared) -> str:
    """How state comes back: a bolt whose inputs are held for it has nothing to lose, unless it has timers as well."""
    recovery: str = bolt.prototype.recovery
    return "none" if recovery == "replay" and hasattr(bolt.prototype, "on_timer") else recovery


PART_S: Final = 1.0  # how long survivors may take to close their links to a dead worker, until trees fail without,
TELL_DEATH_S: Final = PART_S + 0.5  # and to say what has failed, until the death is told without
TELL_RETURN_S: Final = 2.0  # and until the return is told without a replay that was acked
LOSSES_MAX: Final = 100  # deaths that survivors' words are still taken for


class Deaths:
    """`handles`: of each worker the process that is there, or was last. `later` is given what to call after so many
    seconds, and `now` says what time it is, in seconds."""

    def __init__(
        self,
        plan: Plan,
        handles: Mapping[int, WorkerHandle],
        *,
        later: Callable[[float, Callable[[], None]], None],
        now: Callable[[], float],
        told: Told,
    ) -> None:
        self._plan = plan
        self._hands = handles
        self._later = later
        self._now = now
        self._told = told
        self._losses: dict[int, Loss] = {}  # owner → its death
        self._partings: dict[int, Parting] = {}  # owner → who may send to it still
        self._absences: dict[int, Loss] = {}  # worker → the death that it is away for, the first of several
        self._killed: dict[int, bool] = {}  # worker → whether it was, or has ended by itself, where it has died

    @property
    def settled(self) -> bool:
        """Whether trees have failed by all of them, for everybody that lives."""
        return all(one.over for one in self._partings.values())

    def killed(self, worker: int) -> bool:
        """Whether its last process was killed, as far as is known."""
        return self._killed.get(worker, True)

    def died(self, handle: WorkerHandle, *, started: bool, draining: bool) -> None:
        """This one is reaped, and was not told to end. `started`: whether all had been started once."""
        self._killed[handle.worker] = handle.killed
        for earlier in self._losses.values():
            earlier.left(handle.owner)
        for parting in self._partings.values():
            parting.left(handle.owner)
        others = [one for one in self._hands.values() if one.state in PRESENT and handle.owner in one.joined]
        for one in others:
            one.joined.discard(handle.owner)
            one.say(Gone(handle.owner))
        if others:
            order = Fail(handle.owner, f"worker {handle.worker} {handle.why}", handle.killed, handle.ran)
            parting = Parting([one.owner for one in others], partial(self._fail_trees, order))
            self._partings[handle.owner] = parting
            self._later(PART_S, parting.overdue)
        asked = [one.owner for one in others] if self._plan.config.guarantee == "at-least-once" else []
        after = consequences(self._plan, handle.worker, draining=draining, keeps=handle.keeps) if started else []
        loss = Loss(handle.worker, handle.pid, handle.why, self._now(), asked, after, self._told)
        self._losses[handle.owner] = loss
        self._absences.setdefault(handle.worker, loss)
        while len(self._losses) > LOSSES_MAX:
            oldest = next(iter(self._losses))
            del self._losses[oldest]
            self._partings.pop(oldest, None)
        self._later(TELL_DEATH_S, loss.tell_death)

    def _fail_trees(self, order: Fail, besides: int) -> None:
        """All fail what is open, those too that have never met the dead: one between them may have."""
        for one in self._hands.values():
            if one.state in PRESENT and one.owner != besides:
                one.say(order)

    def heard(self, handle: WorkerHandle, word: Parted | Failing | Recovered) -> None:
        """What a survivor says of a death."""
        match word:
            case Parted(owner):
                if owner in self._partings:
                    self._partings[owner].parted(handle.owner)
            case Failing(owner, trees):
                if owner in self._losses:
                    self._losses[owner].failing(handle.owner, trees)
            case Recovered(owner, left):
                if owner in self._losses:
                    self._losses[owner].recovered(handle.owner, self._now(), left)

    def back(self, handle: WorkerHandle) -> None:
        """The tasks of this one are started: perhaps it was away."""
        loss = self._absences.pop(handle.worker, None)
        if loss is not None:
            loss.back(handle.pid, self._now())
            self._later(TELL_RETURN_S, loss.tell_return)

    def tell_all(self) -> None:
        """Nobody answers any more: what is known is told."""
        for loss in self._losses.values():
            loss.tell_death()
            loss.tell_return()
