"""What the death of a worker process brings for the others, and for people: who parts from it, when trees fail (A14),
and the lines that tell of it.

The others are told that it is gone (Gone, Parted), and once all have closed their links to it, everybody fails what is
in flight (Fail, Failing). Must not know how a process comes, nor whether a dead one is replaced.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from topology.plan import Plan
from topology.runtime.control import Fail, Failing, Gone, Parted, Recovered
from topology.runtime.hands import PRESENT, Hand
from topology.runtime.losses import Loss, Parting, Told, consequences

PART_S: Final = 1.0  # how long survivors may take to close their links to a dead worker, until trees fail without,
TELL_DEATH_S: Final = PART_S + 0.5  # and to say what has failed, until the death is told without
TELL_RETURN_S: Final = 2.0  # and until the return is told without a replay that was acked
LOSSES_MAX: Final = 100  # deaths that survivors' words are still taken for


class Deaths:
    """`hands`: of each worker the process that is there, or was last. `later` is given what to call after so many
    seconds, and `now` says what time it is, in seconds."""

    def __init__(
        self,
        plan: Plan,
        hands: Mapping[int, Hand],
        *,
        later: Callable[[float, Callable[[], None]], None],
        now: Callable[[], float],
        told: Told,
    ) -> None:
        self._plan = plan
        self._hands = hands
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

    def died(self, hand: Hand, *, started: bool, draining: bool) -> None:
        """This one is reaped, and was not told to end. `started`: whether all had been started once."""
        self._killed[hand.worker] = hand.killed
        for earlier in self._losses.values():
            earlier.left(hand.owner)
        for parting in self._partings.values():
            parting.left(hand.owner)
        others = [one for one in self._hands.values() if one.state in PRESENT and hand.owner in one.joined]
        for one in others:
            one.joined.discard(hand.owner)
            one.say(Gone(hand.owner))
        if others:
            order = Fail(hand.owner, f"worker {hand.worker} {hand.why}", hand.killed, hand.ran)
            parting = Parting([one.owner for one in others], partial(self._fail_trees, order))
            self._partings[hand.owner] = parting
            self._later(PART_S, parting.overdue)
        asked = [one.owner for one in others] if self._plan.config.guarantee == "at-least-once" else []
        after = consequences(self._plan, hand.worker, draining=draining, keeps=hand.keeps) if started else []
        loss = Loss(hand.worker, hand.pid, hand.why, self._now(), asked, after, self._told)
        self._losses[hand.owner] = loss
        self._absences.setdefault(hand.worker, loss)
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

    def heard(self, hand: Hand, word: Parted | Failing | Recovered) -> None:
        """What a survivor says of a death."""
        match word:
            case Parted(owner):
                if owner in self._partings:
                    self._partings[owner].parted(hand.owner)
            case Failing(owner, trees):
                if owner in self._losses:
                    self._losses[owner].failing(hand.owner, trees)
            case Recovered(owner, left):
                if owner in self._losses:
                    self._losses[owner].recovered(hand.owner, self._now(), left)

    def back(self, hand: Hand) -> None:
        """The tasks of this one are started: perhaps it was away."""
        loss = self._absences.pop(hand.worker, None)
        if loss is not None:
            loss.back(hand.pid, self._now())
            self._later(TELL_RETURN_S, loss.tell_return)

    def tell_all(self) -> None:
        """Nobody answers any more: what is known is told."""
        for loss in self._losses.values():
            loss.tell_death()
            loss.tell_return()
