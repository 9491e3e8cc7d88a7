"""The way of an input through a task of a bolt with state: the hot path of such bolts, laid out flat.

`keyed_work.pxd` has the types for the compiled core; this source is what both cores run. An input is processed once:
one that is known leaves the state alone (D2). Its change, its entry among the known inputs, and its outputs or their
record for the log are made together, or none of them (D9). `StateExecutor` has all that is rare: timers, inputs that
come again, and what the log lets go. Must not know when a snapshot is taken, nor what the log has.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from types import GeneratorType
from typing import Any, Final, Protocol

import acker.hash64 as hash64
import topology.runtime.hot.hot_path as hot_path
import topology.runtime.state.known_input as known_input
from acker.frontier import NUMBER_BITS, Decided
from acker.roots import NUMBER_SHIFT
from topology.core.tuples import Tuple
from topology.records import Record
from topology.runtime.hot.outputs import END, OUTPUTS_MAX, collected, waits
from topology.runtime.state.due_times import Due
from topology.runtime.state.keyed_executor import messages_of
from topology.runtime.state.known_input import KnownInput
from topology.runtime.state.lookups import HeldKeys, KnownPairs
from topology.runtime.state.packed_outputs import NOTHING, PackedOutputs
from topology.runtime.state.state_value import StateValue
from topology.runtime.state.value import StateCodec
from topology.runtime.tasks.interfaces import TreeHome
from topology.runtime.tasks.outbox import Outbox

TIMERS_FIRST: Final = 1 << 62  # the count of the first output of a key's timers


class InputHost(Protocol):
    """The executor, as far as its inputs see it: what they share with it, and what it does in the rare cases."""

    bolt: Any
    home: TreeHome
    outbox: Outbox
    queue: deque[Tuple[Any]]
    under_way: dict[Any, Any]
    executed: int
    codec: StateCodec | None
    busy: dict[Hashable, deque[Tuple[Any]]]
    decided: Decided

    @property
    def known(self) -> KnownPairs: ...
    @property
    def keys(self) -> HeldKeys: ...
    @property
    def task(self) -> int: ...
    @property
    def has_place(self) -> bool: ...
    def is_stale(self, tup: Tuple[Any]) -> bool: ...
    def refuse(self, tup: Tuple[Any]) -> None: ...
    def park(self, key: Hashable, tup: Tuple[Any]) -> None: ...
    def wait(self, tup: Tuple[Any], outputs: Any, key: Hashable, state: Any) -> None: ...
    def again(self, tup: Tuple[Any], entry: KnownInput) -> None: ...
    def fire(self, record: Due, state: StateValue) -> Any: ...
    def raised(self, tup: Tuple[Any], error: BaseException) -> None: ...
    def ack_input(self, tup: Tuple[Any], sent: int) -> None: ...


class KeyedWork:
    """The inputs of one task. Of its executor, this has what is looked at for each input.

    `timers` and `logged` are set where there are timers, and a log. `takes`, if it is set, is called in place of
    `done`. Call `complete` after calls of `take`, `done` and `leaves`, in the same turn; `slice` does so itself.
    """

    def __init__(self, executor: InputHost, outputs: PackedOutputs, *, by_count: bool) -> None:
        self.executor = executor
        self.codec = executor.codec
        self.known = executor.known
        self.keys = executor.keys
        self.busy = executor.busy
        self.decided = executor.decided
        self.outputs = outputs
        self.by_count = by_count
        self.timers: Any = None
        self.logged: Any = None
        self.takes: Callable[[Tuple[Any], Sequence[Record], StateValue | None], None] | None = None
        self.newest = self.decided.newest
        self.process: Any = None
        self.executed = 0  # inputs that were executed and not counted yet
        self.last = 0  # the root of acks that have not left yet; 0 if there are none
        self.value = 0  # their XOR
        self.over: list[Any] = []  # trees that were completed, and have not been handed on

    def slice(self, count: int) -> int:
        """Take up to so many inputs from the queue. Return how many."""
        executor = self.executor
        popleft, under_way = executor.queue.popleft, executor.under_way
        self._look()
        taken = 0
        while taken < count:
            if under_way and not executor.has_place:
                break  # where nothing is under way, nothing waits for it
            self._begin(popleft())
            taken += 1
        self.complete()
        return taken

    def take(self, tup: Tuple[Any]) -> None:
        """Begin one input. Does not raise."""
        self._look()
        self._begin(tup)

    def _look(self) -> None:
        """Look at what changes between two slices."""
        self.newest = self.decided.newest
        self.process = self.executor.bolt.process

    def _begin(self, tup: Tuple[Any]) -> None:
        root, executor = tup.root, self.executor
        if root:
            message = root >> NUMBER_SHIFT
            newest = self.newest.get(message >> NUMBER_BITS, -1)
            if (tup.others or newest >= message) and executor.is_stale(tup):
                executor.refuse(tup)
                return
        pair = tup.origin, tup.identity
        key_of, record = tup.source.key, tup.record
        try:
            key: Any = pair if self.codec is None or key_of is None else key_of(record)
            if key in self.busy:
                executor.park(key, tup)
                return
            self.executed += 1
            if root and (entry := self.known.get(pair)) is not None:
                executor.again(tup, entry)
                return
            if self.codec is None:
                state, outputs = None, self.process(record)
            else:
                state = StateValue(self.codec, key, self.keys.get(key))
                if root or type(record) is not Due:
                    outputs = self.process(record, state)
                else:
                    outputs = executor.fire(record, state)
            records: Sequence[Record] = ()
            if outputs is not None:
                if type(outputs) is GeneratorType:
                    first = next(outputs, END)
                    if first is not END:  # as most have it: nothing or one, and no list
                        second = next(outputs, END)
                        records = (first,) if second is END else [first, second, *collected(outputs)]
                elif type(outputs) is list or type(outputs) is tuple:
                    records = outputs if len(outputs) <= OUTPUTS_MAX else collected(outputs)
                elif waits(outputs):
                    executor.wait(tup, outputs, key, state)
                    return
                else:
                    records = collected(outputs)
            if self.takes is None:
                self.done(tup, records, state)
            else:
                self.takes(tup, records, state)
        except BaseException as error:
            executor.raised(tup, error)

    def done(self, tup: Tuple[Any], records: Sequence[Record], state: StateValue | None) -> None:
        """The input has been processed: its effect is there from now on, all of it or, where this raises, nothing.

        A value or a record without a byte form fails this input and no other (D9). A failure to emit fails the input
        too: without a log nothing has changed then."""
        outputs, size = self.outputs.packed(records) if records else NOTHING
        root, key, first, held = tup.root, None, -1, None
        timer = not root and type(tup.record) is Due
        if state is not None:
            key = state.key
            if self.by_count and records:
                count, timer_count = state.counts
                first = TIMERS_FIRST + timer_count if timer else count
                held = state.held(0, len(records)) if timer else state.held(len(records))
            elif state.changed:
                held = state.held(0)
        elif tup.source.key is not None:
            key = tup.source.key(tup.record)
        entry = None
        if root:
            messages = messages_of(tup) if tup.others else root >> NUMBER_SHIFT
            entry = known_input.new(messages, key, records, outputs, False, first)
        elif timer and records:
            entry = KnownInput((), key, records, outputs, False, first, timer=True)
        sent = 0
        if self.logged is not None:
            fired = (self.executor.task, *self.timers.due_times.have_fired) if timer and self.timers else None
            self.logged.keep(tup, records, key, held, entry, size, fired)
        elif records and not timer:
            sent = self.emit(tup, records, entry)
        if held is not None and state is not None:
            self.keys.put(state.key, held)
            if self.timers is not None and state._timers is not None:  # `timers_changed`, without a call
                self.timers.set(state.key, state.timers, state.timers_gone)
        if entry is not None:
            self.known.add((tup.origin, tup.identity), entry, size)
        if timer and self.timers is not None:
            self.timers.over(tup.record)
        if self.logged is None:
            self.leaves(tup, entry, sent)

    def emit(self, tup: Tuple[Any], records: Sequence[Record], entry: KnownInput | None) -> int:
        """Let these outputs leave. Return the XOR of their edges."""
        outbox = self.executor.outbox
        if entry is not None and entry.first >= 0 and entry.key is not None:
            return outbox.emit_counted(records, tup, entry.key, entry.first)
        if outbox.plain is not None:
            return hot_path.emit(outbox.plain, records, tup, outbox.undeclared)
        return outbox.emit(records, tup)

    def leaves(self, tup: Tuple[Any], entry: KnownInput | None, sent: int) -> None:
        """The outputs of an input have left: it is acked. Those of a timer leave now. Acks of inputs in a row that
        belong to one tree leave as one."""
        root = tup.root
        if root and not tup.others:
            if root != self.last:
                if self.last:
                    self._settle()
                self.last, self.value = root, 0
            tag = tup.source.tag
            edge = (hash64.derived(hash64.parent_of(tup.identity), tag) or 1) if tag else tup.identity
            self.value ^= sent ^ edge
        elif not root and type(tup.record) is Due:
            if entry is not None and self.timers is not None:
                self.timers.outputs.send((tup.origin, tup.identity), entry)
        else:
            self.executor.ack_input(tup, sent)

    def _settle(self) -> None:
        home = self.executor.home
        hot_path.settle(home.ledger.young, home.ack, self.last, self.value, self.over)
        self.last = 0

    def complete(self) -> None:
        """Let the acks leave that wait, and hand on the trees that are done."""
        executor = self.executor
        if self.last:
            self._settle()
        executor.executed += self.executed
        self.executed = 0
        if self.over:
            over, self.over = self.over, []
            executor.home.completed(over)
