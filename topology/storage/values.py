"""What a worker's store holds: marks, dead letters, trials, state and what is remembered with it. Values, with no
behaviour and no I/O.

Whoever gathers them is in `topology.runtime`; whoever writes them is a `Store`. Must not know either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from acker.identity import MessageId

ROW_BYTES: Final = 100  # as many as a row costs time, whatever is in it
LETTER_BYTES: Final = 8_192  # of a letter that goes: how long it is nobody remembers


class Span(NamedTuple):
    """Messages that are done, one after the other in the order of their emission, both ends included. Ids that are
    ints grow within an epoch, so this covers every int between; names (str, bytes) stand alone: first == last."""

    first: MessageId
    last: MessageId


class Mark(msgspec.Struct, frozen=True):
    """How far one task has come with one epoch of one partition (E3, E4).

    `position` is where to resume: the id of the oldest message that was emitted and is not done, back-off and dead
    letters not yet stored included; where all are done, that of the newest. `done` are those that are done from
    `position` on, so a source that resumes at `position` may give them again, and the runtime passes over them.
    """

    component: str
    task: int
    partition: str
    epoch: str
    position: MessageId
    done: tuple[Span, ...]
    newest: MessageId  # the id that was emitted last


class Begun(msgspec.Struct, frozen=True):
    """That a task of a spout has run, as one of so many: its marks, or that it has none yet, count from then on."""

    component: str
    task: int
    tasks: int
    ahead: int = 0  # messages that it may emit beyond its last durable marks, before those are durable (D4)


class Letter(msgspec.Struct, frozen=True):
    """A dead letter: a message that nobody will process any more, with everything to look at it and to replay it."""

    name: str  # "3-17": the store that it was first kept in, and its number there; never used again
    component: str  # the spout
    task: int
    partition: str
    epoch: str
    id: MessageId
    at: datetime | None  # the message's event time
    origin: int
    identity: int
    record_class: str  # the name of its stream
    record: bytes  # as `topology.records.encode` gives it
    text: str  # the record for people, cut
    failed_in: str  # the component that failed
    reason: str  # of failures.Reason, its value
    code: str  # of the catalogue, or empty
    problem: str  # the exception in one line, cut
    traceback: str  # the user's frames, cut
    attempts: int
    deaths: int  # of workers, that are laid to it (E7)
    died_at: datetime
    replaying: bool = False  # somebody has asked for its replay, which is not done yet
    served: bool = True  # False: subscribers of the spout's dead letters have not processed it yet
    unheard: str = ""  # why they never will: it was given up after as many attempts as a message has
    begun: int = 0  # times that it was served or replayed alone, and its worker died before that had ended


class Trial(msgspec.Struct, frozen=True):
    """A suspect that is replayed alone, or will be: so many workers have died while it was (E7)."""

    component: str
    task: int
    partition: str
    epoch: str
    id: MessageId
    deaths: int
    running: bool  # it is under way now: one more death, and it is laid to it


class StateRow(NamedTuple):
    """What is kept of one key of a bolt with state, filed by the key's slot (D7). `body` is opaque to the store, and
    empty where nothing is kept of the key any more. Its first 8 bytes are its checksum: `states.body_of` makes it."""

    slot: int
    key: bytes
    body: bytes


class StateChange(NamedTuple):
    """Rows of one component that change together. `digest` is the XOR of the checksums of the bodies that they replace
    and of their own, each as a little-endian int: whoever keeps the rows in memory knows both."""

    component: str
    rows: Sequence[StateRow]
    digest: int


class JournalRow(NamedTuple):
    """Inputs that one task has committed together, with what they have put out: `entries` as `journal` packs them.
    Numbers are given by whoever commits, from `Loaded.next_journal` on, and are never used twice in a file."""

    number: int
    component: str
    entries: bytes


class KeptFloor(NamedTuple):
    """What a home had announced of its messages when something was forgotten for it: `progress` as `floors` packs it.
    Durable with what is forgotten, so that nothing is taken for new that was forgotten (D5)."""

    worker: int
    progress: bytes


@dataclass
class Changes:
    """What becomes durable together, in one transaction. Later entries for the same thing replace earlier ones.

    `lasting`: it survives a loss of power. Where that is False it survives the process, and becomes lasting with the
    next commit that is.
    """

    marks: list[Mark] = field(default_factory=list)
    over: list[Mark] = field(default_factory=list)  # not kept any more; only what they are of counts
    begun: list[Begun] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)  # new, or changed
    gone: list[str] = field(default_factory=list)  # names of letters that were replayed or dropped
    trials: list[Trial] = field(default_factory=list)
    acquitted: list[Trial] = field(default_factory=list)  # trials that are over
    states: list[StateChange] = field(default_factory=list)
    journal: list[JournalRow] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)  # numbers of rows of the journal that nobody needs any more,
    forgotten_bytes: int = 0  # and how long those are together: each of their pages is written to
    floors: list[KeptFloor] = field(default_factory=list)
    lasting: bool = True

    @property
    def size(self) -> int:
        """Bytes of what is written to, about; each row counts some, and a letter that goes as many as it may have."""
        marks = sum([ROW_BYTES + 2 * ROW_BYTES * len(mark.done) for mark in self.marks])
        gone = len(self.over) + len(self.acquitted) + len(self.forgotten)
        floors = sum([len(floor.progress) + ROW_BYTES for floor in self.floors])
        states = sum([len(row.body) + ROW_BYTES for change in self.states for row in change.rows])
        journal = sum([len(row.entries) + ROW_BYTES for row in self.journal])
        letters = sum([len(letter.record) + len(letter.traceback) + ROW_BYTES for letter in self.letters])
        letters += LETTER_BYTES * len(self.gone)
        rows = ROW_BYTES * (gone + len(self.begun) + len(self.trials))
        return marks + floors + states + journal + letters + self.forgotten_bytes + rows

    def __bool__(self) -> bool:
        positions = self.marks, self.over, self.begun, self.letters, self.gone, self.trials, self.acquitted
        return any((*positions, self.states, self.journal, self.forgotten, self.floors))


@dataclass(frozen=True)
class Loaded:
    """What a store held when it was opened."""

    marks: tuple[Mark, ...] = ()
    begun: tuple[Begun, ...] = ()
    trials: tuple[Trial, ...] = ()
    letters: int = 0  # how many there are,
    letter_bytes: int = 0  # and how long their records, texts and tracebacks are together
    next_letter: int = 1  # the number of the next one
    unserved: tuple[str, ...] = ()  # names of those that subscribers have not processed
    replaying: tuple[str, ...] = ()  # and of those whose replay is asked for
    deaths: int = 0  # how often the worker has died since it last ended in order
    dead_origins: tuple[int, ...] = ()  # of the letters: what is remembered of these messages is kept (E1)
    next_journal: int = 1  # the number of the next row of the journal
    floors: tuple[KeptFloor, ...] = ()


@dataclass(frozen=True)
class LoadedStates:
    """All state that a store held when it was asked, and what is remembered with it."""

    rows: Mapping[str, Sequence[StateRow]]  # by component
    journal: Sequence[JournalRow]  # oldest first
