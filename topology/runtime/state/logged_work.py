"""The inputs of one task whose outputs wait for the log, in order, and the records that the log gets of them.

A record has the value of the key, what the input is known by, and its outputs (P8). Must not know how outputs leave,
nor when the log is written.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from topology.codes.tuples import STATE_RECORD_TOO_LONG
from topology.core.tuples import Tuple
from topology.errors import EmitError
from topology.records import Record
from topology.runtime.checkpoints.log_commit import LogCommit
from topology.runtime.state.due_times import Due
from topology.runtime.state.key_values import KeyValue, KeyValues
from topology.runtime.state.known_input import KnownInput
from topology.runtime.state.packed_outputs import PackedOutputs
from topology.storage.encoding.log_records import pack
from topology.storage.log.layout import RECORD_BYTES_MAX

UNLOGGED_MAX: Final = 16_384  # inputs that may wait for the log; then no more are taken
UNLOGGED_BYTES_MAX: Final = 64 << 20  # about, of the outputs of those
OPEN_MAX: Final = 2_048  # inputs that wait for the end of a sync before they are written
OPEN_BYTES_MAX: Final = 1 << 20  # of their records, about
LOGGED_BYTES_MAX: Final = RECORD_BYTES_MAX - (1 << 20)  # of the value and the outputs of one input, about

# An input that was processed and whose outputs wait for the log: the tuple, or None if its generation is over; its
# outputs, what is known of it, or None if it can't come again, and bytes of memory, about. A plain tuple: the hot path
# makes many.
Work: TypeAlias = tuple[Tuple[Any] | None, Sequence[Record], KnownInput | None, int]


class LoggedWork:
    """The work of one task. A `LoggedPart`. `let_go` is called with the work whose records the log has."""

    def __init__(
        self,
        log: LogCommit,
        component: str,
        known_as: str,
        outputs: PackedOutputs,
        keys: KeyValues,
        let_go: Callable[[list[Work]], None],
    ) -> None:
        self.log = log
        self.count = self.bytes = 0  # of all that waits
        self.open: list[Work] = []  # not in the log yet
        self._component, self._known_as = component, known_as
        self._outputs, self._keys, self._let_go = outputs, keys, let_go
        self._records: list[tuple[Any, ...]] = []  # of `open`, and of inputs that came again: fields of `LoggedInput`
        self._records_bytes = 0  # of those, with the values
        self._taken: list[Work] = []  # being written
        self._written: deque[tuple[int, list[Work]]] = deque()  # in the log up to this position
        log.add(self)

    @property
    def full(self) -> bool:
        return self.count >= UNLOGGED_MAX or self.bytes >= UNLOGGED_BYTES_MAX

    @property
    def is_much(self) -> bool:
        """True if too much waits to be written for it to wait for the end of a sync."""
        return len(self.open) >= OPEN_MAX or self._records_bytes >= OPEN_BYTES_MAX

    def room(self, count: int) -> int:
        """Return how many inputs may be taken, of so many."""
        return 0 if self.bytes >= UNLOGGED_BYTES_MAX else min(count, max(0, UNLOGGED_MAX - self.count))

    def keep(
        self,
        tup: Tuple[Any],
        records: Sequence[Record],
        key: bytes | None,
        held: Any,
        entry: KnownInput | None,
        size: int,
        fired: tuple[Any, ...] | None = None,
    ) -> None:
        """Take the change and the outputs of an input, or of a timer that has `fired`. Raises EmitError if the log
        can't take them: then nothing was taken."""
        value, needs = held, size
        if type(held) is KeyValue:
            value = self._keys.content(held)
        if type(value) is bytes:
            needs += len(value)
        if needs > LOGGED_BYTES_MAX:
            raise self._too_long(needs)
        if fired is not None:
            known = (0, 0, (), (), -1) if entry is None else (tup.origin, tup.identity, (), entry.outputs, entry.first)
            self._records.append((key, value, *known, -1, entry is not None, fired))
        elif entry is not None:
            self._records.append((key, value, tup.origin, tup.identity, entry.messages, entry.outputs, entry.first))
        elif held is not None:
            self._records.append((key, value, 0, 0, ()))
        else:
            needs = 0
        if entry is not None:
            entry.out = False
        self._records_bytes += needs
        self.open.append((tup, records, entry, size))
        self.count += 1
        self.bytes += size

    def _too_long(self, needs: int) -> EmitError:
        text = (
            f"{self._component!r} has a value, and outputs, of about {needs:,} bytes for one input; "
            f"the log takes {LOGGED_BYTES_MAX:,}"
        )
        return EmitError(text, code=STATE_RECORD_TOO_LONG)

    def takes_number(self, entry: KnownInput) -> bool:
        """Return False for a known input whose outputs are too long for the log: it is of a run without one."""
        return entry.size <= LOGGED_BYTES_MAX

    def keep_number(self, tup: Tuple[Any], records: Sequence[Record], entry: KnownInput) -> None:
        """Take that a known input, which has these outputs, came again: it is known under its new messages from now
        on."""
        known = (entry.key, None, tup.origin, tup.identity, entry.messages, entry.outputs, entry.first)
        self._records.append((*known, entry.slot, entry.timer) if entry.slot >= 0 else known)
        size = entry.size  # what the log gets; a group of these may be larger than a record of it
        self._records_bytes += size
        self.open.append((tup, records, entry, size))
        self.count += 1
        self.bytes += size

    # -- `LoggedPart`

    def take_records(self) -> list[bytes]:
        rows, self._records = self._records, []
        size, self._records_bytes = self._records_bytes, 0
        self._taken += self.open
        self.open = []
        if not rows:
            return []
        step = len(rows) if size < RECORD_BYTES_MAX // 2 else 1  # a record of the log has its limit too
        classes = self._outputs.classes
        return [pack(self._known_as, classes, rows[at : at + step]) for at in range(0, len(rows), step)]

    def written(self, position: int) -> None:
        if self._taken:
            self._written.append((position, self._taken))
            self._taken = []

    def release(self, position: int) -> None:
        gone: list[Work] = []
        while self._written and self._written[0][0] <= position:
            gone += self._written.popleft()[1]
        if gone:
            self.count -= len(gone)
            self.bytes -= sum([work[3] for work in gone])
            self._let_go(gone)

    # -- what waits

    def tuples(self) -> Iterator[Tuple[Any]]:
        """Yield the tuples that wait, and those that came again and wait with them."""
        written = (work for _, works in self._written for work in works)
        for tup, _, entry, _ in (*written, *self._taken, *self.open):
            if tup is not None:
                yield tup
            if entry is not None and entry.waiting:
                yield from entry.waiting

    def begin_generation(self) -> None:
        """The tuples that wait are of trees that are over. What they have changed stays, and so do timers."""
        self.open = [*map(_without_tuple, self.open)]
        self._taken = [*map(_without_tuple, self._taken)]
        self._written = deque((position, [*map(_without_tuple, works)]) for position, works in self._written)


def _without_tuple(work: Work) -> Work:
    tup, records, entry, size = work
    return (tup if tup is not None and not tup.root and type(tup.record) is Due else None), records, entry, size
