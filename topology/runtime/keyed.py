"""The executor of a bolt that keeps state: `process(record, state)`, each input's effect once, in memory.

An input that was processed is remembered, with what it emitted, until its message is done; a replay of it leaves the
state alone and sends the same outputs under its new roots (D2, D3). The state itself is one value a key, changed when
`process` has returned and its outputs were sent, and not at all when it raises (D9). Nothing survives the process.
"""

from collections import deque
from collections.abc import Sequence
from types import GeneratorType
from typing import Any, Final

from acker.progress import Progress
from acker.roots import NUMBER_SHIFT, OWNER_SHIFT, message_of
from topology.codes.tuples import K614
from topology.components import Tuple
from topology.errors import EmitError
from topology.records import Record
from topology.runtime.executor import QUEUE_HIGH, Executor
from topology.runtime.failures import Reason
from topology.runtime.outputs import collected, waits

WORKER_SHIFT: Final = OWNER_SHIFT + 12 - NUMBER_SHIFT  # of a message: what is above it is its home worker

Pair = tuple[int, int]
Messages = tuple[int, ...]  # the messages that an input belongs to: its roots without their attempts
LOOKED_AT_A_TURN: Final = 500  # of what an idle task remembers, at a turn of the clockwork
PARKED_MAX: Final = QUEUE_HIGH  # inputs that may wait for a key that is under way; then no more are taken


class KeyState:
    """`topology.components.State` of one input: sees its own changes, and keeps them to itself until `merge`."""

    __slots__ = ("_changed", "_key", "_value", "_values")

    def __init__(self, values: dict[bytes, Any], key: bytes) -> None:
        self._values = values
        self._key = key
        self._changed = False
        self._value: Any = values.get(key)

    def get(self, default: Any = None) -> Any:
        return default if self._value is None else self._value

    def set(self, value: Any) -> None:
        try:
            hash(value)  # what is immutable through and through can be hashed, what holds a list somewhere can't (D9)
        except TypeError as error:
            raise EmitError(f"a state's value is immutable through and through ({error})", code=K614) from error
        self._value = value
        self._changed = True

    def clear(self) -> None:
        self._value = None
        self._changed = True

    def merge(self) -> None:
        """Lets the changes take effect."""
        if self._changed:
            if self._value is None:
                self._values.pop(self._key, None)
            else:
                self._values[self._key] = self._value


class KeyedExecutor(Executor):
    """Drives `process(record, state)`: one input a key at a time, whatever the concurrency (D3)."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.values: dict[bytes, Any] = {}
        self.remembered: dict[Pair, tuple[Sequence[Record], Messages]] = {}
        self.stale = 0  # tuples of finished trees, refused (D5)
        self._filed: deque[tuple[Messages, Pair]] = deque()  # what is remembered, oldest first
        self._tidied_at = 0
        self._progress: dict[int, Progress] = {}  # home worker → which of its messages are done
        self._busy: dict[bytes, deque[Tuple[Any]]] = {}  # a key under way → the inputs that wait for it
        self._parked = 0  # inputs that wait for a key
        self._cut_off = False
        self._states: dict[int, tuple[bytes, KeyState]] = {}  # id of an input under way → its key and state

    def slice(self, count: int) -> int:
        taken = 0
        while taken < count and len(self.under_way) < self.concurrency and self._parked < PARKED_MAX:
            self._begin(self.queue.popleft())
            taken += 1
        return taken

    def _begin(self, tup: Tuple[Any]) -> None:
        root = tup.root
        if root and (self._is_done(root >> NUMBER_SHIFT) if not tup.others else self._is_stale(tup)):
            self.stale += 1
            return
        try:
            assert tup.source.key is not None, "the plan gives state only behind fields() and global_()"
            key = tup.source.key(tup.record)
            if key in self._busy:
                self._busy[key].append(tup)
                self._parked += 1
                return
            self.executed += 1
            known = self.remembered.get((tup.origin, tup.identity)) if tup.root else None
            if known is not None:
                records, filed = known
                sent = self.outbox.emit(records, tup) if records else 0
                if filed != (messages := messages_of(tup)):
                    self._file(tup, records, messages)  # known again under new numbers (D4)
                self.ack_input(tup, sent)
                return
            state = KeyState(self.values, key)
            outputs = self.bolt.process(tup.record, state)
            if type(outputs) is not GeneratorType and outputs is not None and waits(outputs):
                self._busy[key] = deque()
                self._states[id(tup)] = key, state
                self.begin_waiting(tup, outputs)
                return
            self._done(tup, collected(outputs) if outputs is not None else (), state)
        except BaseException as error:
            self.raised(tup, error)

    def _done(self, tup: Tuple[Any], records: Sequence[Record], state: KeyState) -> None:
        """Sends the outputs, lets the change take effect, remembers both. All or, where it raises, nothing."""
        sent = self.outbox.emit(records, tup) if records else 0
        state.merge()
        if tup.root:
            self._file(tup, records, messages_of(tup))
        self.ack_input(tup, sent)

    def _file(self, tup: Tuple[Any], records: Sequence[Record], messages: Messages) -> None:
        pair = tup.origin, tup.identity
        self.remembered[pair] = records, messages
        self._filed.append((messages, pair))
        self._forget(2)  # more than one for each that comes

    def finish(self, tup: Tuple[Any], outputs: Sequence[Record], error: BaseException | None) -> None:
        key, state = self._states.pop(id(tup))
        try:
            if error is not None:
                raise error
            self._done(tup, outputs, state)
        except BaseException as raised:
            self.raised(tup, raised)
        self._free(key)

    def fail_input(self, tup: Tuple[Any], error: BaseException | None, reason: Reason, text: str = "") -> None:
        super().fail_input(tup, error, reason, text)
        under_way = self._states.pop(id(tup), None)
        if under_way is not None:  # cut off, or over its time limit
            self._free(under_way[0])

    def _free(self, key: bytes) -> None:
        """Goes on with the inputs that waited for this key, in their order, up to one that is under way again."""
        waiting = self._busy.pop(key, deque())
        while waiting and not self._cut_off:
            self._parked -= 1
            self._begin(waiting.popleft())
            if key in self._busy:
                self._busy[key] = waiting
                break
        self.wake()

    def cut_off(self) -> None:
        self._cut_off = True
        super().cut_off()

    @property
    def workable(self) -> bool:
        return super().workable and self._parked < PARKED_MAX

    @property
    def waiting(self) -> int:
        return len(self.queue) + self._parked

    @property
    def quiet(self) -> bool:
        return super().quiet and not self._busy

    def held(self) -> list[Tuple[Any]]:
        return [tup for waiting in self._busy.values() for tup in waiting]

    def progressed(self, progress: Progress) -> None:
        """Takes note of which messages of one home are done.

        What was remembered for them is forgotten bit by bit, so that the loop never stands still for it. A tuple of
        theirs that still comes is stale, and refused (D4, D5).
        """
        self._progress[progress.newest >> WORKER_SHIFT] = progress

    def tidy(self) -> None:
        if self.executed == self._tidied_at:  # idle: while inputs come, each of them forgets some
            self._forget(LOOKED_AT_A_TURN)
        self._tidied_at = self.executed

    def _forget(self, looked_at: int) -> None:
        """Looks at so many of the inputs that are remembered, in turn; forgets those whose messages are all done (D15).

        As each input that comes looks at two, no more are remembered than about twice those that are not done.
        """
        filed, is_done = self._filed, self._is_done
        for _ in range(min(looked_at, len(filed))):
            messages, pair = entry = filed.popleft()
            if not (is_done(messages[0]) if len(messages) == 1 else all(map(is_done, messages))):
                filed.append(entry)
            elif (known := self.remembered.get(pair)) is not None and known[1] == messages:
                del self.remembered[pair]  # not filed again under other numbers since

    def _is_done(self, message: int) -> bool:
        progress = self._progress.get(message >> WORKER_SHIFT)
        return progress is not None and progress.covers(message)

    def _is_stale(self, tup: Tuple[Any]) -> bool:
        return any(map(self._is_done, messages_of(tup)))


def messages_of(tup: Tuple[Any]) -> Messages:
    """The messages that an input belongs to."""
    if tup.others:
        return tuple(map(message_of, tup.roots))
    return (tup.root >> NUMBER_SHIFT,)
