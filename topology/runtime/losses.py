"""One death of a worker: what came of it, in sentences for people, and when the others fail what is open. Must not know
processes or sockets."""

import math
from collections.abc import Callable, Iterable, Sequence

from topology.codes.running import K530
from topology.graph import Declared
from topology.plan import Plan

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
            self._told(f"{'; '.join(parts)} ({K530})")

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
