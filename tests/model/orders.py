"""What the model of what survives is made of: values, and the wrong orders that it must find out. No behaviour."""

import enum
from dataclasses import dataclass, field
from typing import Final

LENGTH: Final = 3  # messages that the source has in one epoch

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
    ACKED_BEFORE_STORED = "C11: a sink acks before what it stores is durable"


@dataclass(frozen=True)
class Tup:
    message: Message
    number: Number
    attempt: int
    content: tuple[int, ...] = ()  # what the journalled bolt has drawn, and the count that the state bolt has made


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

    def has(self, message: Message) -> bool:
        """Whether this message is finished for good."""
        return (message < self.position or message in self.done) and message not in self.letters


@dataclass
class Disk:
    """What outlives its process. `owner` may write; the rest is what a commit has left."""

    owner: int = 0
    kept: Kept = Kept()
    mark: Mark = Mark()
    line: Message = (0, 0)  # the home's: nothing at or above it was ever emitted


@dataclass
class Flight:
    """A message that is not finished: its newest attempt."""

    number: Number
    attempt: int = 0
    out: bool = True  # False: in back-off
    by_hand: bool = False
