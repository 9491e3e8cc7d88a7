"""Content of a worker's store: marks, dead letters, trials, state and what is remembered with it. Values, with no
behaviour and no I/O.

`topology.runtime` makes them, and a `Store` writes them. This file must not know either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from acker.identity import MessageId

ROW_BYTES: Final = 100  # bytes that stand for the time that any row costs
LETTER_BYTES: Final = 8_192  # estimate for a deleted letter, whose length is unknown


class Span(NamedTuple):
    """Finished messages, successive in the order of their emission, both ends included. Ids that are ints grow within
    an epoch, so a span covers every int between. Names (str, bytes) stand alone: first == last."""

    first: MessageId
    last: MessageId


class Mark(msgspec.Struct, frozen=True):
    """The progress of one task in one epoch of one partition (E3, E4).

    `position` is where to resume: the id of the oldest message that was emitted and is not done, in back-off or not,
    including dead letters that are not stored yet. If all are done, it is the id of the newest. `done` are the finished
    messages from `position` on. A source that resumes at `position` may emit them again, and the runtime skips them.
    """

    component: str
    task: int
    partition: str
    epoch: str
    position: MessageId
    done: tuple[Span, ...]
    newest: MessageId  # the id that was emitted last


class Begun(msgspec.Struct, frozen=True):
    """A record that a task of a spout has run, as one of `tasks`. From then on its marks, or their absence, are
    meaningful."""

    component: str
    task: int
    tasks: int


class Letter(msgspec.Struct, frozen=True):
    """A dead letter: a message that Kedge has given up on, with all data to inspect it and to replay it."""

    name: str  # "3-17": the store that it was first kept in, and its number there; never reused
    component: str  # the spout
    task: int
    partition: str
    epoch: str
    id: MessageId
    at: datetime | None  # the message's event time
    origin: int
    identity: int
    record_class: str  # the name of its stream
    record: bytes  # as `topology.records.encode` returns it
    text: str  # the record for people, shortened
    failed_in: str  # the component that failed
    reason: str  # the value of a failures.Reason
    code: str  # a code of the catalogue, or empty
    problem: str  # the exception in one line, shortened
    traceback: str  # the user's frames, shortened
    attempts: int
    deaths: int  # deaths of workers that are attributed to it (E7)
    died_at: datetime
    replaying: bool = False  # a replay was requested and is not done yet
    served: bool = True  # False: subscribers of the spout's dead letters have not processed it yet
    unheard: str = ""  # the reason for which they never will: it was given up after as many attempts as a message has
    begun: int = 0  # times that its worker died while it was sent or replayed alone


class Trial(msgspec.Struct, frozen=True):
    """A suspect that is replayed alone, or will be. `deaths`: the workers that have died meanwhile (E7)."""

    component: str
    task: int
    partition: str
    epoch: str
    id: MessageId
    deaths: int
    running: bool  # it is in flight now: one more death is attributed to it


class StateRow(NamedTuple):
    """The stored data of one key of a bolt with state, filed by the key's slot (D7). `body` is opaque to the store, and
    empty if the key has no data any more. Its first 8 bytes are its checksum: `encoding.state.body_of` makes it."""

    slot: int
    key: bytes
    body: bytes


class StateChange(NamedTuple):
    """Rows of one component that change together. `digest` is the XOR of the checksums of the replaced and the new
    bodies, each as a little-endian int. The caller keeps the rows in memory, so it knows both."""

    component: str
    rows: Sequence[StateRow]
    digest: int


class EntryRow(NamedTuple):
    """Inputs that the tasks of one component know, with their outputs: `entries` as `encoding.entries` packs them."""

    component: str
    entries: bytes


@dataclass
class Changes:
    """Changes that become durable together, in one transaction. Later entries for the same thing replace earlier ones.

    `begun` and `trials` say nothing of messages that are done, and may be committed at any time. All else is a part of
    the cut, and is committed with a checkpoint alone.
    """

    marks: list[Mark] = field(default_factory=list)
    over: list[Mark] = field(default_factory=list)  # no longer kept; only their identity matters
    begun: list[Begun] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)  # new, or changed
    gone: list[str] = field(default_factory=list)  # names of letters that were replayed or dropped
    trials: list[Trial] = field(default_factory=list)
    acquitted: list[Trial] = field(default_factory=list)  # trials that are over
    states: list[StateChange] = field(default_factory=list)
    entries: list[EntryRow] = field(default_factory=list)  # of a checkpoint: all that are known then

    @property
    def size(self) -> int:
        """The approximate bytes that are written. Each row adds a constant, and a deleted letter counts with its
        maximum."""
        marks = sum([ROW_BYTES + 2 * ROW_BYTES * len(mark.done) for mark in self.marks])
        states = sum([len(row.body) + ROW_BYTES for change in self.states for row in change.rows])
        entries = sum([len(row.entries) + ROW_BYTES for row in self.entries])
        letters = sum([len(letter.record) + len(letter.traceback) + ROW_BYTES for letter in self.letters])
        letters += LETTER_BYTES * len(self.gone)
        rows = ROW_BYTES * (len(self.over) + len(self.acquitted) + len(self.begun) + len(self.trials))
        return marks + states + entries + letters + rows

    def __bool__(self) -> bool:
        return bool(self.entries) or not self.is_idle

    @property
    def is_idle(self) -> bool:
        """True if nothing has happened, but for inputs that may be known."""
        positions = self.marks, self.over, self.begun, self.letters, self.gone, self.trials, self.acquitted
        return not any((*positions, self.states))


@dataclass(frozen=True)
class Loaded:
    """The content of a store when it was opened."""

    marks: tuple[Mark, ...] = ()
    begun: tuple[Begun, ...] = ()
    trials: tuple[Trial, ...] = ()
    letters: int = 0  # the number of letters
    letter_bytes: int = 0  # the total length of their records, texts and tracebacks
    next_letter: int = 1  # the number of the next letter
    unserved: tuple[str, ...] = ()  # names of letters that subscribers have not processed
    replaying: tuple[str, ...] = ()  # names of letters whose replay is requested
    deaths: int = 0  # deaths of the worker since it last ended in order
    dead_origins: tuple[int, ...] = ()  # of the letters: the memory of these messages is kept (E1)
    checkpoint: int = 0  # the last decided one that this store has taken part in


@dataclass(frozen=True)
class LoadedStates:
    """All state in a store, and the inputs that are known, as of the last decided checkpoint and the log behind it."""

    rows: Mapping[str, Sequence[StateRow]]  # by component
    entries: Sequence[EntryRow]
