"""The executor of a bolt whose state is kept in memory: `process(record, state)`, each input's effect once.

An input that was processed is remembered, with what it emitted, until its message is done; a replay of it leaves the
state alone and sends the same outputs under its new roots (D2, D3). The state itself is one value a key, changed when
`process` has returned and its outputs were sent, and not at all when it raises (D9). Nothing survives the process.
"""

from collections import deque
from collections.abc import Sequence
from types import GeneratorType
from typing import Any

from topology.components import Tuple
from topology.records import Record
from topology.runtime.state.keyed_executor import Messages, SerialByKeyExecutor, messages_of
from topology.runtime.state.value import check_immutable
from topology.runtime.tasks.outputs import collected, waits

Pair = tuple[int, int]


class KeyState:
    """`topology.components.State` of one input: sees its own changes, and keeps them to itself until `merge`."""

    __slots__ = ("_changed", "_value", "_values", "key")

    def __init__(self, values: dict[bytes, Any], key: bytes) -> None:
        self._values = values
        self.key = key
        self._changed = False
        self._value: Any = values.get(key)

    def get(self, default: Any = None) -> Any:
        return default if self._value is None else self._value

    def set(self, value: Any) -> None:
        check_immutable(value)
        self._value = value
        self._changed = True

    def clear(self) -> None:
        self._value = None
        self._changed = True

    def merge(self) -> None:
        """Lets the changes take effect."""
        if self._changed:
            if self._value is None:
                self._values.pop(self.key, None)
            else:
                self._values[self.key] = self._value


class MemoryStateExecutor(SerialByKeyExecutor):
    """Drives `process(record, state)`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.values: dict[bytes, Any] = {}
        self.remembered: dict[Pair, tuple[Sequence[Record], Messages]] = {}
        self._filed: deque[tuple[Messages, Pair]] = deque()  # what is remembered, oldest first

    def begin(self, tup: Tuple[Any]) -> None:
        if self.is_stale(tup):
            self.refuse(tup)
            return
        try:
            assert tup.source.key is not None, "the plan gives state only behind fields() and global_()"
            key = tup.source.key(tup.record)
            if key in self.busy:
                self.park(key, tup)
                return
            self.executed += 1
            known = self.remembered.get((tup.origin, tup.identity)) if tup.root else None
            if known is not None:
                records, filed = known
                sent = self.outbox.emit(records, tup) if records else 0
                if filed != (messages := messages_of(tup)):
                    self.file(tup, records, messages)  # known again under new numbers (D4)
                self.ack_input(tup, sent)
                return
            state = KeyState(self.values, key)
            outputs = self.bolt.process(tup.record, state)
            if type(outputs) is not GeneratorType and outputs is not None and waits(outputs):
                self.wait(tup, outputs, key, state)
                return
            self.done(tup, collected(outputs) if outputs is not None else (), state)
        except BaseException as error:
            self.raised(tup, error)

    def done(self, tup: Tuple[Any], records: Sequence[Record], state: KeyState) -> None:
        """Sends the outputs, lets the change take effect, remembers both."""
        sent = self.outbox.emit(records, tup) if records else 0
        state.merge()
        if tup.root:
            self.file(tup, records, messages_of(tup))
        self.ack_input(tup, sent)

    @property
    def kept_now(self) -> tuple[int, int, int]:
        return len(self.values), len(self.remembered), 0

    def file(self, tup: Tuple[Any], records: Sequence[Record], messages: Messages) -> None:
        """Remember an input, with its outputs."""
        pair = tup.origin, tup.identity
        self.remembered[pair] = records, messages
        self._filed.append((messages, pair))
        self.forget(2)  # more than one for each that comes

    def forget(self, looked_at: int) -> None:
        """As each input that comes looks at two, no more are remembered than about twice those that are not done."""
        filed, are_over = self._filed, self.floors.are_over
        for _ in range(min(looked_at, len(filed))):
            messages, pair = entry = filed.popleft()
            if not are_over(messages, pair[0]):
                filed.append(entry)
            elif (known := self.remembered.get(pair)) is not None and known[1] == messages:
                del self.remembered[pair]  # not filed again under other numbers since
