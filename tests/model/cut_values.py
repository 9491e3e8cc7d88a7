"""Values of the model of checkpoints, and the rules that it can break. No behaviour.

The protocol is one cut of the whole run: a frontier of done messages, a snapshot of each worker, one decision.
"""

import enum
from dataclasses import dataclass, field
from typing import Final

LENGTH: Final = 3  # messages per source
SOURCES: Final = ("a", "b")
PAIRS, FIRST, SECOND, SINK = "pairs", "first", "second", "sink"  # the stages of the chain

Origin = tuple[str, int]  # a message: source and id. Of a timer: ("timer", id); of a pair: ("pair", id)
Number = tuple[str, int, int]  # a message at its home: (home, life, count)
Name = tuple[object, ...]  # what a task or a sink recognises an input by
Content = tuple[object, ...]


class Mode(enum.Enum):
    """What an output waits for."""

    DISK = "its input's log record is synced"
    PROCESS = "its input's log record is written"
    CHECKPOINT = "nothing; after a death all workers go back to the decided checkpoint"


class Kind(enum.Enum):
    """What the chain has beside its two keyed tasks."""

    PLAIN = "nothing"
    TIMERS = "each message of source a sets a timer at the first task"
    PAIRS = "a bolt before the first task sends one tuple for two messages, under a sub-root"


class Rule(enum.Enum):
    """A rule that the model can break."""

    FRONTIER_BEFORE_SNAPSHOTS = "P1: all homes have noted their frontier before any worker gathers"
    COLOURS = "P1: a worker gathers before it takes a tuple whose sender has gathered"
    MARKS_OF_THE_FRONTIER = "P2: positions that are stored are those of the frontier, not of the commit"
    RESUMED_AT_DECIDED = "P3: a source resumes only at a decided frontier"
    KEPT_UNTIL_DECIDED = "P4: an entry stays until a decided frontier has its message"
    ALL_ITS_NUMBERS = "P4: a message that is done is refused under each number that its home has given it"
    REFUSED_AT_ONCE = "P4: a message is refused from the moment when its entries are forgotten"
    DECIDED_BY_ALL = "P5: a checkpoint is decided when all workers have committed"
    DECISION_IS_DURABLE = "P5: a decision is durable before anybody acts on it"
    UNDECIDED_IS_UNDONE = "P5: an undecided checkpoint leaves no trace after a restart"
    UNDO_OF_THE_DECIDED = "P5: undo leads to the decided checkpoint, not to one that was given up"
    ONE_AT_A_TIME = "P6: the answers to a checkpoint that was given up do not count for the next"
    KNOWN_CHANGES_NOTHING = "P7: a known input changes nothing"
    KNOWN_SENDS_AGAIN = "P7: a known input sends what it sent"
    LOGGED_BEFORE_SENT = "P8: a record is logged before its outputs leave"
    CUT_WHEN_DECIDED = "P8: the log is cut when the checkpoint is decided, not when it is committed"
    NO_OLD_TUPLES = "P9: no tuple of an older generation has an effect"
    ALL_GO_BACK = "P9: with durability by checkpoint all workers go back, not the dead one alone"
    LETTER_WITH_FRONTIER = "P10: a buried message is in the frontier of the checkpoint that has its letter"
    LETTERS_ARE_REMEMBERED = "P10: what is known of a dead letter stays until the letter is gone"
    SETTLED_WHEN_DECIDED = "P11: a source may forget a message when a decided frontier has it"
    FULL_IS_NOT_COMMITTED = "P14: a store that is full has committed nothing"
    NAMED_BY_COUNT = "outputs of a keyed task are named by their count, if a state may go back beyond what has left"
    FORGOTTEN_BY_NUMBER = "P4: an entry goes by the number of its last arrival, never by the name of its message"
    SINK_FORGETS_WHAT_IT_GATHERED = "P4: a sink forgets at a decision only what it took before it gathered"
    SINK_GOES_BACK = "P4: what a sink took since the decided checkpoint goes, if all go back, once it has come again"
    RENUMBERING_IS_LOGGED = "P4: if a known input comes under another number, that is logged too"
    DROPPED_ARE_NAMED = "P10: a letter that is dropped is named, since no number of it will be done"
    SUBROOT_AFTER_ITS_MESSAGES = "a sub-root is in a frontier when a decided frontier has all of its messages"
    TIMER_UNTIL_DECIDED = "what a timer has emitted is kept until a decided frontier has its tree"
    TIMER_UNDER_ALL_NUMBERS = "what a timer has emitted is in a frontier when no attempt at it can come again"
    TIMER_GOES_BACK_WITH_NUMBERS = "the same after going back: a bolt below may know an attempt of before"


@dataclass(frozen=True)
class Tup:
    """A tuple on its way. `cause` is for checks and for the by-name rule; a task goes by `number` and `name`."""

    name: Name
    cause: Origin
    number: Number
    attempt: int
    generation: int
    colour: int  # the newest checkpoint that its sender has gathered
    content: Content = ()


@dataclass(frozen=True)
class Entry:
    """An input that a task knows."""

    number: Number
    cause: Origin
    output: tuple[Name, Content] | None  # name and content
    is_timer: bool = False  # then the number is of its newest attempt, and `earlier` has those of this life before it
    earlier: tuple[Number, ...] = ()

    @property
    def numbers(self) -> tuple[Number, ...]:
        return (*self.earlier, self.number)


@dataclass(frozen=True)
class State:
    """What a keyed task has: replaced as a whole. `history` is the value; the rest is what goes with it."""

    history: tuple[tuple[Name, Content], ...] = ()  # each input that was counted, with its content
    entries: dict[Name, Entry] = field(default_factory=dict)
    timers: frozenset[int] = frozenset()  # of keys: ids of messages

    def after(self, record: "Record") -> "State":
        """Return the state that this record makes of it."""
        assert record.entry is not None
        history = self.history
        if record.content is not None:
            history = (*history, (record.name, record.content))
        return State(history, {**self.entries, record.name: record.entry}, record.timers)


@dataclass(frozen=True)
class Note:
    """One home's part of a frontier."""

    life: int = 0
    done: frozenset[int] = frozenset()  # counts of this life
    dropped: frozenset[Origin] = frozenset()  # dead letters that will never be replayed, by name
    by_name: frozenset[Origin] = frozenset()  # all that is done, by name: only if a rule is broken
    position: frozenset[int] = frozenset()  # ids that a source that resumes here does not emit: with dead letters
    letters: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Frontier:
    """The notes of all homes: F(e)."""

    notes: dict[str, Note] = field(default_factory=dict)

    def has(self, number: Number, cause: Origin) -> bool:
        """Return whether nothing of a message can come again: it is done under this number, or it was dropped."""
        if self.is_present(number):
            return number[2] in self.notes[number[0]].done
        return any(cause in one.dropped or cause in one.by_name for one in self.notes.values())

    def is_present(self, number: Number) -> bool:
        """Return whether the number is of the life that its home had when it noted this."""
        note = self.notes.get(number[0])
        return note is not None and note.life == number[1]


@dataclass(frozen=True)
class Snapshot:
    """What one worker has in one checkpoint."""

    checkpoint: int = 0
    states: dict[str, State] = field(default_factory=dict)
    frontier: Frontier = Frontier()


@dataclass
class Disk:
    """What outlives a worker's process."""

    base: Snapshot = field(default_factory=Snapshot)  # the newest decided one, as far as the store can go back
    prepared: Snapshot | None = None
    log: list["Record"] = field(default_factory=list)
    synced: int = 0  # records of the log that survive a loss of power


@dataclass(frozen=True)
class Record:
    """A log record: what one input has changed; or, where `checkpoint` is given, the mark of a gather."""

    task: str = ""
    name: Name = ()
    content: Content | None = None  # None: a known input, under another number
    entry: Entry | None = None
    timers: frozenset[int] = frozenset()
    checkpoint: int = 0
