"""A home in the model of checkpoints: a source, its messages under way, what is done, and dead letters.

Must not know what tasks do. A life of a home numbers its messages from 1; another life begins with the positions of the
frontier that was decided last.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cut_values import LENGTH, Note, Number, Rule, Tup

if TYPE_CHECKING:
    from cut_run import Run


@dataclass
class Source:
    """What a broker has: a message that it was told to forget can't be had again."""

    name: str
    forgotten: set[int] = field(default_factory=set)


@dataclass
class Pending:
    """A message that is emitted and not done."""

    count: int
    attempt: int = 0
    out: bool = True  # False: it waits for its replay
    by_hand: bool = False


class Home:
    def __init__(self, run: "Run", source: Source, life: int, resumed: Note) -> None:
        self.run, self.source, self.life = run, source, life
        self.ids: dict[int, int] = {}  # count → id, of this life
        self.done: set[int] = set()  # counts
        self.finished = set(resumed.position)  # ids that are done for the source, of all lives
        self.letters = set(resumed.letters)
        self.pending: dict[int, Pending] = {}
        self.over: dict[int, Pending] = {}  # messages that are done, and that no decided frontier has
        self.dropped: set[int] = set()  # letters, until a decided frontier has named them
        self.hidden: set[int] = set()  # as above: letters that no checkpoint has yet

    @property
    def name(self) -> str:
        return self.source.name

    def number(self, count: int) -> Number:
        return self.name, self.life, count

    def at_hand(self) -> list[int]:
        """Return the messages that the source has, and that are neither done nor under way."""
        there = set(range(LENGTH)) - self.source.forgotten
        return sorted(there - self.finished - self.pending.keys())

    def emit(self, message: int) -> None:
        """Emit one of those. A source may give them in another order after a restart."""
        self._leave(message, Pending(self._new_count(message)))

    def emit_next(self) -> None:
        for message in self.at_hand()[:1]:
            self.emit(message)

    def _new_count(self, message: int) -> int:
        count = len(self.ids) + 1
        self.ids[count] = message
        return count

    def _leave(self, message: int, pending: Pending) -> None:
        self.pending[message] = pending
        self.run.emitted(self, message, self.number(pending.count), pending.attempt)

    def fail_all(self) -> None:
        for pending in self.pending.values():
            pending.out = False

    def replay(self) -> None:
        """Emit again whatever has failed."""
        for message, pending in list(self.pending.items()):
            if not pending.out:
                pending.attempt, pending.out = pending.attempt + 1, True
                self._leave(message, pending)

    def acked(self, tup: Tup) -> None:
        if tup.number[1] != self.life:
            return
        message = self.ids[tup.number[2]]
        pending = self.pending.get(message)
        if pending is None or not pending.out or (pending.count, pending.attempt) != (tup.number[2], tup.attempt):
            return
        self.over[message] = self.pending.pop(message)
        self.done.add(pending.count)
        if self.run.broken is not Rule.ALL_ITS_NUMBERS:
            self.done |= {count for count, one in self.ids.items() if one == message}
        self.finished.add(message)
        if pending.by_hand:
            self.letters.discard(message)

    # -- dead letters

    def die(self, message: int) -> None:
        """Give a message up: it is a letter from now on, and the source goes past it."""
        pending = self.pending.pop(message)
        self.letters.add(message)
        self.finished.add(message)
        if self.run.broken is Rule.LETTER_WITH_FRONTIER and not pending.by_hand:
            self.hidden.add(message)
        if self.run.broken is Rule.LETTERS_ARE_REMEMBERED:
            self.done.add(pending.count)

    def letters_to_replay(self) -> list[int]:
        return sorted(self.letters - self.pending.keys())

    def replay_by_hand(self, message: int) -> None:
        self._leave(message, Pending(self._new_count(message), by_hand=True))

    def drop(self, message: int) -> None:
        """A letter will never be replayed."""
        self.letters.discard(message)
        self.dropped.add(message)
        self.done |= {count for count, one in self.ids.items() if one == message}
        self.run.dropped.add((self.name, message))

    # -- frontiers

    def note(self) -> Note:
        """Return this home's part of a frontier, of this moment."""
        stored, self.hidden = self.letters - self.hidden, set()
        if self.run.broken is Rule.SETTLED_WHEN_DECIDED:
            self.source.forgotten |= self.finished - self.letters
        by_name = self.finished - self.letters if self.run.broken is Rule.FORGOTTEN_BY_NUMBER else set()
        dropped = self.dropped if self.run.broken is not Rule.DROPPED_ARE_NAMED else set()
        return Note(
            self.life,
            frozenset(self.done),
            frozenset((self.name, one) for one in dropped),
            frozenset((self.name, one) for one in by_name),
            frozenset(self.finished),
            frozenset(stored),
        )

    def go_back(self) -> None:
        """Emit again what is done and in no decided frontier: its effects are gone. It keeps its numbers."""
        for message, pending in self.over.items():
            pending.out = False
            self.pending[message] = pending
            self.done -= {count for count, one in self.ids.items() if one == message}
            if pending.by_hand:
                self.letters.add(message)
            else:
                self.finished.discard(message)
        self.over = {}

    def settled(self, note: Note) -> None:
        """A decided frontier has this note: the source may forget what is in it."""
        gone = note.position - note.letters
        self.over = {message: pending for message, pending in self.over.items() if message not in gone}
        self.source.forgotten |= note.position
        self.dropped -= {message for _, message in note.dropped}
