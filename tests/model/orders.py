"""What the model of what survives is made of: values, and the wrong orders that it must find out. No behaviour."""

import enum
from dataclasses import dataclass, field
from typing import Final

from acker.progress import Progress

LENGTH: Final = 3  # messages that the source has in one epoch
AHEAD: Final = 1  # messages that a home may emit beyond its last durable mark (D4)

Message = tuple[int, int]  # epoch and id: also its identity, of all that it causes
Number = tuple[int, int]  # the home's incarnation, and the message's number there (A7)


class Wrong(enum.Enum):
    """One order of durability that is wrong, and the rule against it."""

    LETTER_AFTER_MARK = "E2: the mark passes a dead message before its letter is durable"
    MARK_PASSES_BACKOFF = "E3: the mark passes messages that wait for their replay"
    HEAD_OFF_BY_ONE = "E3: the mark is behind the oldest unfinished message, not before it"
    DONE_ACROSS_EPOCHS = "C2: what is done of one epoch is passed over in the next"
    REPORTED_BEFORE_FSYNC = "E11: a mark counts as durable before it is"
    FORGOTTEN_ON_MEMORY_MARK = "D4: identities are forgotten on the mark in memory"
    FORGOTTEN_OF_THE_DEAD = "E1: identities of dead letters are forgotten"
    FORGOTTEN_OF_EARLIER = "E1: what an earlier incarnation has filed for a dead letter is forgotten"
    FLOOR_NOT_KEPT = "D5: what is forgotten is durable, and the floor that it was forgotten by is not"
    STALE_ROOTS_TAKEN = "D5: tuples of finished messages are taken"
    NUMBERS_REUSED = "A7: a new home begins at number 0 of the same incarnation"
    OUTPUTS_BEFORE_COMMIT = "D1: outputs leave before the commit that contains them"
    LOOKUP_COMMITTED_ONLY = "D3: only what was committed is known"
    ZOMBIE_NOT_FENCED = "D6: a superseded owner can commit"
    NOT_ROLLED_BACK = "D9: a failed input has changed the state"
    NOT_HELD_AT_THE_LINE = "D4: messages are emitted further ahead of the mark than it says"
    OVER_AT_THE_NEWEST = "D4: earlier lives are over when the mark passes the newest message that they have noted"
    LINE_FALLS_BACK = "D4: a life that resumes notes as newest where it is, though the one before was further"
    OUTPUTS_LEAVE_ANYWAY = "D10: outputs leave although the commit with them has failed"
    ACKED_BEFORE_STORED = "C11: a sink acks before what it stores is durable"
    FORGOTTEN_ON_ANY_FLOOR = "D15: an input of two messages is forgotten when one of them is done"
    REFUSED_ON_ALL_FLOORS = "D15: an input of two messages is refused only when both are done"
    TIMER_REMOVED_BEFORE = "B10: a timer is removed before what it does is committed with that"
    TIMER_REMOVED_AFTER = "B10: what a timer does is committed, and the timer removed later"
    OUTPUT_FORGOTTEN_WHEN_SENT = "B10: what a timer has put out is forgotten when it was sent"
    OVER_BEFORE_REMOVAL = "D17: the sub-root of a timer is over when its tree is, and the removal of that not durable"
    CAUGHT_UP_WHEN_SENT = "D17: a life has caught up when it has sent again what timers had put out"
    KNOWN_STAYS_BEHIND = "D7: the known inputs of a slot do not move with it"
    TIMERS_STAY_BEHIND = "D7: the timers of a slot do not move with it"
    LEFT_OVERS_STAY = "D7: what has moved is still where it was when work begins again"
    OVER_WHEN_COMPLETE = "D17: the sub-root of many inputs is over when its tree is, though they may come again"
    OVER_AT_THE_NEXT_LIFE = "D17: what is filed under sub-roots is forgotten when their ledger's next life is known"
    OVER_ALTHOUGH_DEAD = "E1: what is filed under sub-roots of an earlier life is forgotten though an input is dead"
    SUBROOT_FOR_THE_STALE = "D5: a sub-root is begun for inputs that are stale, and makes them new"
    SUBROOTS_ARE_CAUSES = "D17: a home has settled a new life only when its sub-roots of many inputs are over, too"
    SUBROOT_BEFORE_HEARING = (
        "D5: a sub-root is begun by a life that has not heard of all homes: it can't tell what is stale"
    )
    OVER_BY_OWN_KNOWLEDGE = "D17: forgotten before all who begin sub-roots know enough to refuse what is stale"
    STALE_SUBROOTS_TAKEN = "D5: what has a sub-root is taken though all that it was begun for is stale"


@dataclass(frozen=True)
class Tup:
    message: Message
    number: Number
    attempt: int
    content: tuple[int, ...] = ()  # what the journalled bolt has drawn, and the count that the state bolt has made


Root = tuple[int, int]  # a message as `acker.floors` names it, and the attempt


@dataclass(frozen=True)
class Input:
    """A tuple of the model that has sub-trees: who it is for states, and the trees that wait for it."""

    identity: tuple[str, int]
    origin: int
    roots: tuple[Root, ...]

    @property
    def messages(self) -> tuple[int, ...]:
        return tuple(message for message, _ in self.roots)


@dataclass(frozen=True)
class Remembered:
    """What a bolt of that model has on its disk. Timers are the identities of what they will put out; what has `fired`
    has put out its tuple, which is not done."""

    effects: tuple[tuple[str, int], ...] = ()
    known: dict[tuple[str, int], Input] = field(default_factory=dict)
    timers: frozenset[tuple[str, int]] = frozenset()
    fired: frozenset[tuple[str, int]] = frozenset()
    floors: tuple[Progress, ...] = ()


@dataclass(frozen=True)
class Floor:
    """What a home announces of its messages: those that are finished for good. Dead letters may come back."""

    over: int = 0  # all incarnations below this one,
    done: frozenset[Number] = frozenset()  # and these

    def covers(self, number: Number) -> bool:
        return number[0] < self.over or number in self.done


@dataclass(frozen=True)
class Kept:
    """What a bolt or a sink has on its disk: values, replaced as a whole."""

    effects: tuple[Message, ...] = ()  # of the state bolt, in their order
    known: dict[Message, tuple[Number, tuple[int, ...]]] = field(default_factory=dict)  # and what each has put out
    floor: Floor = Floor()


@dataclass(frozen=True)
class Mark:
    """What the home has on its disk, replaced as a whole."""

    position: Message = (0, 0)
    done: frozenset[Message] = frozenset()  # at and above the position
    letters: dict[Message, int] = field(default_factory=dict)  # the oldest incarnation that may have emitted each
    newest: Message = (0, 0)  # where emission was, of this life or of an earlier one, whichever was further

    def has(self, message: Message) -> bool:
        """Whether this message is finished for good."""
        return (message < self.position or message in self.done) and message not in self.letters


@dataclass
class Disk:
    """What outlives its process. `owner` may write; the rest is what a commit has left."""

    owner: int = 0
    kept: Kept = Kept()
    remembered: Remembered = Remembered()
    mark: Mark = Mark()
    emitted: set[Message] = field(default_factory=set)  # by the home; only who checks may look


@dataclass
class Flight:
    """A message that is not finished: its newest attempt."""

    number: Number
    attempt: int = 0
    out: bool = True  # False: in back-off
    by_hand: bool = False
