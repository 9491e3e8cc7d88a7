"""The base of executors that work on one input per key at a time, whatever the concurrency (D3): a later input of a key
that is under way waits for it, and stale inputs are refused (D5). Must not know what a key's state is made of.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Final

from acker.frontier import Decided
from acker.roots import NUMBER_SHIFT, message_of
from topology.core.tuples import Tuple
from topology.records import Record
from topology.runtime.failures import Reason
from topology.runtime.queue_limits import QUEUE_HIGH
from topology.runtime.state.known_input import Messages
from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.stale import refused

PARKED_MAX: Final = QUEUE_HIGH  # inputs that may wait for a key that is under way; then no more are taken


class SerialByKeyExecutor(Executor):
    """Subclasses define `begin`, which begins one input, parks it by `park`, or refuses it, and `done`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.decided = self.settings.decided or Decided()  # the worker's: which messages are done
        self.stale = 0  # tuples of finished trees, refused (D5)
        self.busy: dict[Hashable, deque[Tuple[Any]]] = {}  # a key under way → the inputs that wait for it
        self.is_cut_off = False
        self._parked = 0  # inputs that wait for a key
        self._states: dict[int, tuple[Hashable, Any]] = {}  # id of an input under way → its key and state

    @abstractmethod
    def begin(self, tup: Tuple[Any]) -> None:
        """Begins this input, where it is neither stale nor known, and its key is free. Does not raise."""

    @abstractmethod
    def done(self, tup: Tuple[Any], records: Sequence[Record], state: Any) -> None:
        """The input has been processed: lets its effect be. All or, where it raises, nothing."""

    @property
    def has_place(self) -> bool:
        """True if another input may be taken while some are under way."""
        return len(self.under_way) < self.concurrency and self._parked < PARKED_MAX

    def park(self, key: Hashable, tup: Tuple[Any]) -> None:
        """This input waits until its key is free."""
        self.busy[key].append(tup)
        self._parked += 1

    def wait(self, tup: Tuple[Any], outputs: Any, key: Hashable, state: Any) -> None:
        """The input is under way, and its key is taken until `finish`."""
        self.busy[key] = deque()
        self._states[id(tup)] = key, state
        self.begin_waiting(tup, outputs)

    def finish(self, tup: Tuple[Any], outputs: Sequence[Record], error: BaseException | None) -> None:
        key, state = self._states.pop(id(tup))
        try:
            if error is not None:
                raise error
            self.done(tup, outputs, state)
        except BaseException as raised:
            self.raised(tup, raised)
        self._free(key)

    def fail_input(self, tup: Tuple[Any], error: BaseException | None, reason: Reason, text: str = "") -> None:
        super().fail_input(tup, error, reason, text)
        under_way = self._states.pop(id(tup), None)
        if under_way is not None:  # cut off, or over its time limit
            self._free(under_way[0])

    def _free(self, key: Hashable) -> None:
        """Begin the inputs that waited for this key, in their order, up to one that is in flight again."""
        waiting = self.busy.pop(key, deque())
        while waiting and not self.is_cut_off:
            self._parked -= 1
            self.begin(waiting.popleft())
            if key in self.busy:
                self.busy[key] = waiting
                break
        self.wake()

    def begin_generation(self) -> None:
        """As others do; what waits for a key comes again too."""
        super().begin_generation()
        self.busy.clear()
        self._states.clear()
        self._parked = 0

    def cut_off(self) -> None:
        self.is_cut_off = True
        super().cut_off()

    @property
    def workable(self) -> bool:
        return super().workable and self._parked < PARKED_MAX

    @property
    def waiting(self) -> int:
        return len(self.queue) + self._parked

    @property
    def quiet(self) -> bool:
        return super().quiet and not self.busy

    def held(self) -> list[Tuple[Any]]:
        return [tup for waiting in self.busy.values() for tup in waiting]

    def touch_waiting(self) -> None:
        """As others do. What is held here has no hard cap, wherever its home is: it is not forgotten (A19)."""
        super().touch_waiting()
        for tup in self.held():
            for root in tup.roots:
                self.home.queued(root)

    def refuse(self, tup: Tuple[Any]) -> None:
        """Let go of a stale input."""
        self.stale += 1
        refused(tup, self.home, self.decided, self.component)

    def is_stale(self, tup: Tuple[Any]) -> bool:
        """Return whether one of its trees is finished."""
        if tup.others:
            return any(map(self.decided.refuses, map(message_of, tup.roots)))
        return bool(tup.root) and self.decided.refuses(tup.root >> NUMBER_SHIFT)


def messages_of(tup: Tuple[Any]) -> Messages:
    """The messages that an input belongs to."""
    return tuple(map(message_of, tup.roots)) if tup.others else tup.root >> NUMBER_SHIFT
