"""Timers of one task: they are a part of the state, and each fires once, after a crash too. Overdue timers fire at once
(B10).

A timer that is due comes to the task as an input does. Its identity is made of component, key, name and due time. It
takes its turn with the inputs of its key. What it emits is known with the change that takes it out of the state, and is
sent by `timer_outputs`. Must not know how state is kept.
"""

import asyncio
import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from acker.identity import timer_pair
from topology.core.tuples import Tuple
from topology.keys import values_of
from topology.runtime.current_task import TaskPlace
from topology.runtime.failures import Failure, Reason
from topology.runtime.state.due_times import Due, DueTimes
from topology.runtime.state.state_value import StateValue
from topology.runtime.state.timer_outputs import TimerOutputs
from topology.runtime.state.timer_retries import TimerRetries

LOOK_S: Final = 1.0  # the wall clock is looked at again after at most this long: it may step
AT_ONCE: Final = 512  # timers that are put into the queue at a time
END_S: Final = 0.002  # seconds between two such times, when all timers fire at the end
MOVED_MIN: Final = 64  # timers that were moved or removed before the heap is rebuilt without them


class TaskTimers:
    """The timers of one task. Make it in a running loop. `put` takes tuples for the task's queue. `fields`: how many
    fields a key has at most."""

    def __init__(
        self,
        bolt: Any,
        place: TaskPlace,
        due_times: DueTimes,
        outputs: TimerOutputs,
        retries: TimerRetries,
        *,
        topology_id: str,
        known_as: str,
        fields: int,
        put: Callable[[Sequence[Tuple[Any]]], None],
    ) -> None:
        self.component = place.component
        self.due_times, self.outputs = due_times, outputs
        self._bolt, self._retries, self._put = bolt, retries, put
        self._topology_id, self._known_as, self._fields = topology_id, known_as, fields
        self._set: dict[tuple[bytes, str], int] = {}  # those that the state has and that are in no queue
        self._heap: list[tuple[int, bytes, str]] = []  # some of them were moved, or removed, since
        self._handle: asyncio.TimerHandle | None = None
        self._failures: dict[Due, int] = {}  # failures of on_timer itself
        self._out: set[Due] = set()  # in the queue, or waiting for another try
        self._later: set[Due] = set()  # those of them that wait for another try
        self._asked_at = 0  # the time of the last call of `is_late`
        self._at_end: set[Due] = set()  # those that fire since all inputs have ended
        self._ending: deque[tuple[int, bytes, str]] = deque()  # those of them that have not had their turn
        self._loop = asyncio.get_running_loop()

    def set(self, key: bytes, timers: Mapping[str, int], gone: Iterable[str] = ()) -> None:
        """Give the key these timers. Remove those with the names in `gone`."""
        for name in gone:
            self._set.pop((key, name), None)
        for name, due in timers.items():
            if self._set.get((key, name)) != due and Due(key, name, due) not in self._out:
                self._set[key, name] = due
                heapq.heappush(self._heap, (due, key, name))
        if len(self._heap) > MOVED_MIN + 2 * len(self._set):
            self._heap = [(due, key, name) for (key, name), due in self._set.items()]
            heapq.heapify(self._heap)
        self._arm()

    def later(self, record: Due, reason: Reason) -> None:
        """Put a timer that has failed into the queue again after a while.

        Once all inputs have ended, the run waits for it. Then it is tried as often as a message is, or one poison timer
        would keep the run from its end.
        """
        times = self._failures[record] = self._failures.get(record, 0) + 1
        self._out.add(record)
        retries = self._retries
        ended = retries.ended_at is not None
        if ended and retries.is_spent(Failure(reason, self.component), times, 0, 0.0, draining=False):
            retries.give_up("a timer", times)
            return
        self._later.add(record)
        self._loop.call_later(retries.back_off_s(times), self._again, record)

    def over(self, record: Due) -> None:
        """Take note that the effect of this timer is a part of the state, or that it was not due any more."""
        self._failures.pop(record, None)
        self._out.discard(record)

    def fire_all(self) -> None:
        """Make all timers due that the state has now, in their order. Those that are set meanwhile are not."""
        self._retries.inputs_ended()
        ending = sorted((due, key, name) for (key, name), due in self._set.items())
        self._at_end.update(Due(key, name, due) for due, key, name in ending)
        self._ending.extend(ending)
        self._end()

    @property
    def ending(self) -> bool:
        """True if some of those have not had their turn, or have failed and come again."""
        retries = self._retries
        return bool(self._ending) or (retries.ended_at is not None and bool(self._later) and not retries.draining)

    @property
    def untold(self) -> bool:
        """True if there are timers, and this task has not heard that all inputs have ended: a predecessor may have."""
        return bool(self._set) and self._retries.ended_at is None and not self._is_over

    @property
    def _is_over(self) -> bool:
        return self._retries.closed or self._retries.draining

    def is_late(self) -> bool:
        """Return True if a timer that was due at the last call has not fired yet, or only in vain."""
        before, self._asked_at = self._asked_at, self.due_times.now()
        waits = bool(self._heap) and self._heap[0][0] <= before
        return waits or any(record.due <= before for record in self._out)

    def _end(self) -> None:
        """Put some of those into the queue, and the others after a while."""
        if self._is_over:
            self._ending.clear()
        for _ in range(min(AT_ONCE, len(self._ending))):
            due, key, name = self._ending.popleft()
            if self._set.get((key, name)) == due:
                del self._set[key, name]
                self._put([self._tuple(Due(key, name, due))])
        if self._ending:
            self._loop.call_later(END_S, self._end)

    def begin_generation(self) -> None:
        """Timers that were in the queue are due again: it was emptied."""
        again = [*self._out - self._later]
        for record in again:
            self._out.discard(record)
            self._set[record.key, record.name] = record.due
            heapq.heappush(self._heap, (record.due, record.key, record.name))
        self._end_again(again)
        self._arm()

    def _end_again(self, records: Iterable[Due]) -> None:
        """Of these, what fires because all inputs have ended has another turn: no second end of them comes."""
        again = sorted((record.due, record.key, record.name) for record in records if record in self._at_end)
        if again and not self._ending:
            self._loop.call_soon(self._end)  # once the task has gone back
        self._ending.extend(again)

    def go_back(self, keys: Mapping[bytes, Mapping[str, int]]) -> None:
        """The state is as in an earlier snapshot: these keys have these timers."""
        self.outputs.go_back()
        self._out = {record for record in self._out if record.key not in keys}
        self._later &= self._out
        gone = defaultdict[bytes, list[str]](list)
        for key, name in self._set:
            if key in keys and name not in keys[key]:
                gone[key].append(name)
        for key, timers in keys.items():
            self.set(key, timers, gone[key])
            self._end_again(Due(key, name, due) for name, due in timers.items())

    def drain(self) -> None:
        """Leave what is not due in the state, for the next run. Send now what waits to be sent again."""
        self._retries.draining = True
        if self._handle is not None:
            self._handle.cancel()
        self.outputs.send_all_now()

    def close(self) -> None:
        """Fire nothing any more, and send nothing again."""
        self._retries.closed = True
        self.outputs.close()
        if self._handle:
            self._handle.cancel()

    def call(self, record: Due, state: StateValue) -> Any:
        """Call `on_timer` of the bolt, which may set the same timer again. Return what it returns."""
        self._out.discard(record)
        self.due_times.fired(record.due)
        return self._bolt.on_timer(values_of(record.key, self._fields), record.name, state)

    def _again(self, record: Due) -> None:
        if record in self._later and not self._is_over:
            self._put([self._tuple(record)])
        self._later.discard(record)

    def _arm(self) -> None:
        if not self._heap or self._is_over:
            return
        at = self._loop.time() + min(max((self._heap[0][0] - self.due_times.now()) / 1e6, 0.0), LOOK_S)
        if self._handle is not None:
            if self._handle.when() <= at:
                return
            self._handle.cancel()
        self._handle = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        """Put into the queue what is due, a bounded number at a time."""
        if self._is_over:
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        now, due = self.due_times.now(), list[Tuple[Any]]()
        while self._heap and self._heap[0][0] <= now and len(due) < AT_ONCE:
            at, key, name = heapq.heappop(self._heap)
            if self._set.get((key, name)) == at:
                del self._set[key, name]
                due.append(self._tuple(Due(key, name, at)))
        if due:
            self._put(due)
        self._arm()

    def _tuple(self, record: Due) -> Tuple[Any]:
        pair = timer_pair(self._topology_id, self._known_as, record.key, record.name, record.due)
        self._out.add(record)
        return Tuple(record, *pair, 0, (), self.outputs.source)
