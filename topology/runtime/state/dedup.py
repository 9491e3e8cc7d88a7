"""The inputs that a task remembers: identity → what they emitted, until their messages are done.

Rows of the journal are kept or not as a whole. A row goes once none of its inputs is remembered. What little is left
of an old row is filed again with newer inputs, so that the journal is not much longer than what is remembered.
Bounded in bytes: over that the sources wait (D14). Must not know bolts, keys, nor who asks.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from acker.floors import Floors

Pair = tuple[int, int]
Messages = tuple[int, ...]  # the messages that an input belongs to: its roots without their attempts
ENTRY_BYTES: Final = 400  # of memory, approximately, for an input without its outputs
SPARSE: Final = 8  # a row of which only one in so many is remembered is filed again
REFILED_AT_ONCE: Final = 1_000  # inputs, with a commit
PASSED_MAX: Final = 8  # looks at a row as a whole, before its inputs are looked at one by one; one counts
PASS_SHARE: Final = 16  # for so many of its inputs


class RememberedRow(msgspec.Struct, eq=False, gc=False):
    """A row of the journal. `number` 0: it is not on its way to the disk yet. `first` and `last`: all of its inputs'
    messages lie between, where each has one; else `last` is the lower one. `size`: what all of its inputs count, where
    they do and none was forgotten alone; else it is negative. `stored`: its bytes on the disk."""

    number: int = 0
    pairs: Sequence[Pair] = ()
    live: int = 0
    kept: bool = False
    first: int = 0
    last: int = -1
    size: int = -1
    stored: int = 0


class Turn(msgspec.Struct, eq=False, gc=False):
    """A row in its turn. Of a task of its own: several may have inputs in a row, after a change of their number."""

    row: RememberedRow
    looked: int = -1  # at which version of the floors it was looked at in vain as a whole,
    looked_into: int = -1  # and its inputs one by one
    passed: int = 0  # how often the first was done and not the second


class RememberedInput(msgspec.Struct, eq=False, gc=False):
    """One input. `records`: its outputs; `packed`: the same as bytes, where they have come from the disk."""

    slot: int
    messages: Messages
    row: RememberedRow
    records: Sequence[Any] = ()
    outputs: Sequence[tuple[int, bytes]] = ()
    loaded: bool = False  # records are to be decoded from outputs
    bytes: int = ENTRY_BYTES
    counted: bool = True  # against the bound
    waiting: list[Any] | None = None  # tuples of this input that came before it was kept (D3)


class Memory:
    """Of one task. `bytes` counts against the bound: what belongs to lives of homes that are over does not, or sources
    would wait for what only they can end."""

    def __init__(self, floors: Floors) -> None:
        self.entries: dict[Pair, RememberedInput] = {}
        self.floors = floors
        self.bytes = 0
        self.rows: dict[int, RememberedRow] = {}  # those that are kept
        self._filed: deque[Turn] = deque()  # in the order in which they are looked at
        self._in_turn: set[int] = set()  # numbers of rows that an earlier life has kept, and that are among those

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, pair: Pair, entry: RememberedInput) -> None:
        """An input that is not kept yet, or a timer."""
        self.entries[pair] = entry
        if entry.counted:
            self.bytes += entry.bytes

    def restore(self, row: RememberedRow, pair: Pair, entry: RememberedInput, *, timer: bool) -> None:
        """Take up what an earlier life has committed. If an input is there twice, as after a move that was cut short,
        the later one counts."""
        before = self.entries.get(pair)
        if before is not None:
            self._loses(before.row)
            self.entries[pair] = entry
        else:
            self.add(pair, entry)
        row.live += 1
        self.rows[row.number] = row
        if not timer and row.number not in self._in_turn:
            self._in_turn.add(row.number)
            self._filed.append(Turn(row))

    def is_kept(
        self, row: RememberedRow, again: Sequence[tuple[Pair, RememberedInput]] = (), *, timer: bool = False
    ) -> None:
        """A row is durable; what is in it has it already, but for those that were filed `again`, of which some may be
        forgotten by now. A timer's is not looked at in turn, as no home announces when it is over."""
        row.kept = True
        row.live = len(row.pairs) - len(again)
        self.rows[row.number] = row
        if again:
            row.size = -1
        for pair, entry in again:
            if self.entries.get(pair) is entry:
                self._loses(entry.row)
                entry.row = row
                row.live += 1
        if not timer:
            self._filed.append(Turn(row))

    def renumbered(self, entry: RememberedInput, messages: Messages) -> None:
        """An input is known under other numbers now (D4)."""
        if entry.messages != messages:
            entry.messages = messages
            entry.row.last = entry.row.first - 1

    def forget(self, looked_at: int, *, thorough: bool) -> None:
        """Looks at about so many inputs, row by row, in turn; forgets those whose messages are all over (D4, D15): a
        whole row where all that was emitted then is done, else, once in a while, one by one; each once for each news of
        what is done. `thorough`: one by one at once."""
        filed, version = self._filed, self.floors.version
        while filed and looked_at > 0:
            turn = filed[0]
            if (turn.looked_into if thorough else turn.looked) == version:
                break
            filed.popleft()
            row = turn.row
            turn.looked = version
            turn.passed += 1
            size = len(row.pairs)
            if row.first <= row.last and self.floors.has_done(row.first, row.last) and not self._has_dead(row):
                looked_at -= size
                self._drop_all(row)
            elif thorough or turn.passed >= PASSED_MAX or size < PASS_SHARE:
                looked_at -= size
                turn.looked_into, turn.passed = version, 0
                self._look_into(row)
            else:
                looked_at -= size // PASS_SHARE
            if row.live > 0:
                filed.append(turn)

    def _has_dead(self, row: RememberedRow) -> bool:
        dead = self.floors.dead
        return bool(dead) and any(origin in dead for origin, _ in row.pairs)

    def _drop_all(self, row: RememberedRow) -> None:
        entries = self.entries
        if row.size >= 0:  # the hot path
            for pair in row.pairs:
                del entries[pair]
            self.bytes -= row.size
        else:
            for pair in row.pairs:
                entry = entries.get(pair)
                if entry is not None and entry.row is row:
                    del entries[pair]
                    if entry.counted:
                        self.bytes -= entry.bytes
        row.live, row.size = 0, -1

    def _look_into(self, row: RememberedRow) -> None:
        floors, entries = self.floors, self.entries
        if row.live <= 0:
            return
        for pair in row.pairs:
            entry = entries.get(pair)
            if entry is None or entry.row is not row:
                continue
            if floors.are_over(entry.messages, pair[0]):
                self._drop(pair, entry)
            elif entry.counted and floors.is_earlier(entry.messages):
                entry.counted = False
                row.size = -1
                self.bytes -= entry.bytes

    def drop(self, pair: Pair) -> RememberedRow:
        """Forgets one that is not looked at in turn."""
        entry = self.entries[pair]
        self._drop(pair, entry)
        return entry.row

    def _drop(self, pair: Pair, entry: RememberedInput) -> None:
        del self.entries[pair]
        self._loses(entry.row)
        if entry.counted:
            self.bytes -= entry.bytes

    def _loses(self, row: RememberedRow) -> None:
        row.live -= 1
        row.size = -1

    # -- rows that go

    def empty_rows(self) -> dict[int, int]:
        """Rows of which nothing is remembered: number → bytes on the disk."""
        return {number: row.stored for number, row in self.rows.items() if row.live <= 0}

    def gone(self, numbers: Sequence[int]) -> None:
        """These rows are not on the disk any more."""
        for number in numbers:
            self.rows.pop(number, None)

    def sparse(self, newest: int) -> Iterator[tuple[Pair, RememberedInput]]:
        """Inputs in rows before `newest` that hold little else, a bounded number of them: to be filed again."""
        left = REFILED_AT_ONCE
        for number, row in self.rows.items():
            if number >= newest or left <= 0:
                return
            if 0 < row.live * SPARSE <= len(row.pairs) and row.live <= left:
                for pair in row.pairs:
                    entry = self.entries.get(pair)
                    if entry is not None and entry.row is row:
                        left -= 1
                        yield pair, entry
