"""The inputs that a task knows: by origin and identity, with their outputs (D2, D4).

An input is known from the moment on at which it has changed something, until a decided frontier has its message. A
snapshot has those that are open: of messages that its frontier does not have. Inputs that an earlier life has left have
no message: they go once they have come again. Bounded: over a number of bytes the sources wait (D14), and of what
earlier lives have left the oldest goes. Must not know bolts, keys, nor who asks.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from acker.frontier import HOME_SHIFT, Frontier, home_of
from topology.codes.runtime import KNOWN_INPUTS_DROPPED
from topology.groupings import slot_of, slot_of_identity
from topology.runtime.state.known_input import KnownInput, Messages
from topology.runtime.state.lookups import AT_ONCE, KnownPairs, Pair, drop, find_open
from topology.storage.encoding.entries import ENTRIES_MAX, OutputClass, packed_columns

LEFT_MAX: Final = 1_000_000  # inputs of earlier lives that a task remembers

logger = logging.getLogger("kedge")


class KnownInputs(KnownPairs):
    """Of one task."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component
        self._is_unsure = False  # if some were restored with messages, until a frontier tells which lives there are
        self._bytes_gathered = 0  # of those of the snapshot under way
        self._decided = self.older  # those that were open at the last decided checkpoint
        self._trash: list[dict[Pair, KnownInput]] = []  # emptied by the thread: the loop would be held for too long
        self._open: tuple[dict[Pair, KnownInput], int] = {}, 0  # of the snapshot that was packed last, and their size

    def __len__(self) -> int:
        return len(self.now) + len(self.gathered) + len(self.older)

    def __iter__(self) -> Iterator[tuple[Pair, KnownInput]]:
        yield from [*self.older.items(), *self.gathered.items(), *self.now.items()]

    def restore(self, pair: Pair, entry: KnownInput) -> None:
        """Take up what an earlier life has left. Its messages, if it has some, may be of lives that are over."""
        self.older[pair] = entry
        if entry.messages:
            self._is_unsure = True
            self.bytes += entry.size

    @property
    def left(self) -> Iterator[tuple[Pair, KnownInput]]:
        """The inputs of earlier lives that have not come again."""
        return ((pair, entry) for pair, entry in self if not entry.messages and not entry.timer)

    def lives_end(self, owner: int, lost: frozenset[int]) -> None:
        """The life of this owner is over, and these sub-roots stand for nothing any more: what came in their trees goes
        only once it has come again, whatever number a later life has. All messages of its home are of that life, or of
        one before. `owner` -1: none is over."""
        home = home_of(owner)
        for _, entry in self:
            if any(message >> HOME_SHIFT == home or message in lost for message in each(entry.messages)):
                entry.messages = ()

    def _look_at_lives(self, frontier: Frontier) -> None:
        """Of what was restored, what came in trees of a life that is over has no message any more."""
        self._is_unsure = False
        for entry in self.older.values():
            if entry.messages and not all(map(frontier.is_present, each(entry.messages))):
                entry.messages = ()
                self.bytes -= entry.size

    # -- checkpoints

    def gather(self) -> None:
        """Take a snapshot. Takes as long for many as for few, unless the snapshot before was given up."""
        self.gathered = {**self.gathered, **self.now} if self.gathered else self.now
        self._bytes_gathered = self.bytes
        self.now = {}

    def pack(self, frontier: Frontier) -> dict[Pair, KnownInput]:
        """Return the open inputs of the snapshot. In a thread, beside the loop, which may give some other numbers."""
        while self._trash:
            one = self._trash.pop()
            while drop(one, AT_ONCE):
                pass
        notes = {note.owners[-1]: note for note in frontier.notes.values() if len(note.owners) == 1}
        done = {owner: (note.newest, note.unfinished) for owner, note in notes.items()}
        found: dict[Pair, KnownInput] = {}
        inputs = chain(self.older.items(), self.gathered.items())
        candidates: list[tuple[Pair, KnownInput]] = []
        while find_open(inputs, done, AT_ONCE, candidates):  # there may be many, most of one message that is done
            pass
        for pair, entry in candidates:
            if not frontier.has_all(each(entry.messages), pair[0]):
                found[pair] = entry
        self._bound(found)
        self._open = found, sum([entry.size for entry in found.values() if entry.messages])
        return found

    def _bound(self, found: dict[Pair, KnownInput]) -> None:
        if len(found) <= LEFT_MAX:
            return
        left = [pair for pair, entry in found.items() if not entry.messages and not entry.timer]
        over = left[: max(0, len(left) - LEFT_MAX)]
        for pair in over:
            del found[pair]
        if over:
            text = "%s of %r that an earlier run had processed did not come again, and are remembered no more (%s)"
            logger.warning(text, f"{len(over):,} inputs", self._component, KNOWN_INPUTS_DROPPED)

    def kept(self, frontier: Frontier) -> None:
        """Forget what the frontier of the snapshot has: it is decided (P4)."""
        self._trash += (self.older, self.gathered)
        (self.older, size), self.gathered = self._open, {}
        self._decided, self._open = self.older, ({}, 0)
        self.bytes += size - self._bytes_gathered
        if self._is_unsure:
            self._look_at_lives(frontier)

    def not_kept(self) -> None:
        """Take note that the snapshot was given up."""
        self._open = {}, 0

    def go_back(self) -> None:
        """Know what was known in the last decided checkpoint."""
        self.now, self.gathered, self.older = {}, {}, self._decided
        self.bytes = sum([entry.size for entry in self.older.values() if entry.messages])
        for entry in self.older.values():
            entry.waiting = None


def each(messages: Messages) -> tuple[int, ...]:
    """Return the messages that an input came in, each by itself."""
    return messages if isinstance(messages, tuple) else (messages,)


def packed_groups(
    classes: Sequence[OutputClass], found: dict[Pair, KnownInput], lost: frozenset[int] = frozenset()
) -> Iterator[bytes]:
    """Yield rows of these inputs, of ENTRIES_MAX bytes each, about, except for a single larger one."""
    group: dict[Pair, KnownInput] = {}
    size = 0
    for pair, entry in found.items():
        group[pair] = entry
        size += entry.size
        if size > ENTRIES_MAX:
            yield packed_entries(classes, group, lost)
            group, size = {}, 0
    if group:
        yield packed_entries(classes, group, lost)


def packed_entries(
    classes: Sequence[OutputClass], found: dict[Pair, KnownInput], lost: frozenset[int] = frozenset()
) -> bytes:
    """Return the row of these inputs. `classes` are those that their outputs are numbered by. What came in a sub-tree
    that is `lost` has no message in it: a later life does not hear which ones are."""

    def named(messages: Messages) -> tuple[int, ...]:
        return each(messages) if not lost or lost.isdisjoint(each(messages)) else ()

    entries = [*found.values()]
    counted = {
        at: (entry.first, entry.key) for at, entry in enumerate(entries) if entry.first >= 0 and entry.key is not None
    }
    for pair, entry in found.items():
        if entry.slot < 0:
            entry.slot = slot_of_identity(pair[1]) if entry.key is None else slot_of(entry.key)
    return packed_columns(
        classes,
        [*found],
        [entry.slot for entry in entries],
        [named(entry.messages) for entry in entries],
        [entry.outputs for entry in entries],
        [at for at, entry in enumerate(entries) if entry.timer],
        counted,
    )
