"""Executors: each drives one bolt task. A queue, and a loop that takes a slice of it, works, and yields.

The hot path's second half: `ProcessExecutor.slice` is the whole way of a tuple through a bolt without state. It must
not know trees or spouts: it acks and fails through its `TreeHome`, and emits through its outbox.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, ClassVar, Final

from acker.frontier import Decided
from acker.identity import edge
from topology.codes.tuples import PROCESS_FINISHES_INPUT
from topology.core.tuples import Tuple
from topology.errors import Reject, TupleStateError
from topology.records import Record
from topology.runtime.current_task import HERE, TaskPlace
from topology.runtime.failures import Failure, Reason, could_not_emit
from topology.runtime.hot.hot_path import work
from topology.runtime.hot.outputs import being_cancelled, collected, outcome, waits
from topology.runtime.queue_limits import QUEUE_HIGH, QUEUE_LOW
from topology.runtime.tasks.interfaces import DownstreamTask, TreeHome
from topology.runtime.tasks.outbox import Outbox
from topology.runtime.waiting_room import WaitingRoom
from topology.user_frames import described, text_of

SLICE_MAX: Final = 128  # tuples between two yields
SLICE_S: Final = 0.001  # about how long a slice may take


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """The settings of one bolt task, from the plan and the worker.

    concurrency   Inputs that may be in flight at a time.
    time_limit_s  An input that takes longer fails (F9).
    random        For identities of records that belong to no tree.
    waits         `process` returns awaitables, or runs in a thread: the live view shows how busy its places are.
    decided       Which messages are done, so that their tuples are refused; None if neither this task nor a task below
                  it remembers inputs.
    """

    place: TaskPlace
    random: Random
    concurrency: int = 1
    time_limit_s: float = 30.0
    waits: bool = False
    decided: Decided | None = None


class _Touches:
    """The trees of inputs that waited in a queue when it was looked through last."""

    def __init__(self) -> None:
        self._last_seen: set[int] = set()
        self._executed_then = 0

    def still_waiting(self, queue: Iterable[Tuple[Any]], executed: int) -> tuple[set[int], bool]:
        """Return the roots that waited the last time too, and whether the queue has moved since."""
        seen = {root for tup in queue for root in tup.roots}
        roots, moved = seen & self._last_seen, executed != self._executed_then
        self._last_seen, self._executed_then = seen, executed
        return roots, moved


class Executor:
    """The parts that all kinds of executors share: the queue, sleeping and waking, inputs in flight, failing.

    Counters only grow. `hand_on`: it works in the turn of the task that feeds it. `slice_s`: as SLICE_S.
    """

    slice_s: ClassVar[float] = SLICE_S

    def __init__(self, bolt: Any, outbox: Outbox, home: TreeHome, settings: ExecutorSettings) -> None:
        self.bolt = bolt
        self.outbox = outbox
        self.home = home
        self.settings = settings
        self.place = settings.place
        self.component = settings.place.component
        self.queue: deque[Tuple[Any]] = deque()
        self.downstream: list[DownstreamTask] = []  # tasks that this one feeds
        self.executed = self.failed = 0
        self.busy_s = 0.0
        self.waited, self.waited_s = 0, 0.0  # inputs that were in flight, and for how long, together
        self.concurrency = settings.concurrency
        self.waits = settings.waits
        self.hand_on = True
        self.under_way: dict[asyncio.Task[Any], tuple[Tuple[Any], float]] = {}
        self.abandoned: set[asyncio.Task[Any]] = set()  # those of inputs that were failed before they ended
        self.ticking: asyncio.Task[Any] | None = None  # a `tick` that waits
        self.waiting_room = WaitingRoom()  # for those that wait until this queue has drained
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._limit = SLICE_MAX
        self._touches = _Touches()
        self._death: BaseException | None = None  # the error that `work` raised in another task's turn

    @property
    def task(self) -> int:
        return self.place.task

    # -- the loop

    async def run(self) -> None:
        """Works until cancelled."""
        HERE.set(self.place)
        while True:
            self.work()
            if self._death is not None:
                raise self._death
            if self.workable:
                await asyncio.sleep(0)
            else:
                await self._sleep()

    @property
    def workable(self) -> bool:
        """True if there is an input to take, and a place for it."""
        return bool(self.queue) and len(self.under_way) < self.concurrency

    def work(self) -> None:
        """Takes a slice, if there is one; then the sleeping tasks below work on what that has sent them."""
        queue = self.queue
        if not queue or len(self.under_way) >= self.concurrency:
            return
        started_at = self._loop.time()
        taken = self.slice(min(self._limit, len(queue)))
        took = self._loop.time() - started_at
        self.busy_s += took
        is_quick = took * SLICE_MAX <= self.slice_s * taken
        self._limit = SLICE_MAX if is_quick else max(1, int(taken * self.slice_s / took))
        if self.waiting_room.futures and len(queue) <= QUEUE_LOW:
            self.waiting_room.let_in()
        if self.downstream:
            drive(self.downstream)

    def handed(self) -> None:
        """Called where another task's turn has put something into the queue: works on it in that turn, if it sleeps,
        and as long as it is a slice at most."""
        if self.asleep:
            if self.hand_on:
                before = HERE.set(self.place)
                try:
                    self.work()
                except BaseException as error:
                    self.die(error)
                HERE.reset(before)
            if self.workable:
                self.wake()

    def die(self, error: BaseException) -> None:
        """End this task, at its own turn, for an error of the runtime. The task that handed on to it is not blamed."""
        self._death = error
        self.wake()

    @property
    def asleep(self) -> bool:
        """True if it waits to be woken, and was not woken yet."""
        return self._waiter is not None and not self._waiter.done()

    @abstractmethod
    def slice(self, count: int) -> int:
        """Takes up to `count` inputs from the queue; returns how many."""

    def wake(self) -> None:
        """Wake the task: there is something in the queue, or a place is free."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def wake_downstream(self) -> None:
        for reader in self.downstream:
            if reader.queue:
                reader.wake()

    async def _sleep(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def room(self) -> None:
        """Waits until this queue has drained; returns at once where it is not full."""
        if self.full:
            await self.waiting_room.future()

    @property
    def inputs(self) -> int:
        """The number of inputs were executed; timers are none."""
        return self.executed

    @property
    def waiting(self) -> int:
        """The number of inputs wait: for their turn, or for whatever keeps them from it."""
        return len(self.queue)

    @property
    def full(self) -> bool:
        """True if the spouts that feed it should pause; `why_full` says what they wait for if not for the queue."""
        return self.waiting > QUEUE_HIGH

    @property
    def why_full(self) -> str:
        return ""

    @property
    def kept_now(self) -> tuple[int, int, int]:
        """Keys that have a state, inputs that are remembered, and their bytes, about."""
        return 0, 0, 0

    @property
    def quiet(self) -> bool:
        """True if nothing waits here and nothing is under way. Held inputs do not count."""
        return not self.queue and not self.under_way and self.ticking is None

    def ack_held(self, tup: Tuple[Any]) -> None:
        """Acks an input that `open_of` has found."""

    def held(self) -> list[Tuple[Any]]:
        """Inputs that `execute` has kept."""
        return []

    def open_of(self, tup: Tuple[Any], act: str) -> Any:
        """Return the open input of a tuple that `execute` holds. Raises TupleStateError if it is finished (A3, A4)."""
        text = f"{self.component!r} tried to {act} a tuple; `process` finishes its inputs by itself"
        raise TupleStateError(text, code=PROCESS_FINISHES_INPUT)

    def inputs_ended(self) -> None:
        """All inputs of a bounded run have ended, unless a replay brings some again."""

    # -- what becomes of an input

    def ack_input(self, tup: Tuple[Any], sent: int) -> None:
        """Acks an input whose emissions' edges XOR to `sent`."""
        if not (root := tup.root):
            return
        value = edge(tup.identity, tup.source.tag) ^ sent
        if tup.others:
            self.ack_roots((root, value) for root in tup.roots)
        elif (tree := self.home.ack(root, value)) is not None:
            self.home.completed([tree])

    def ack_roots(self, values: Iterable[tuple[int, int]]) -> None:
        """Acks (root, value) pairs, and completes what they complete."""
        done = [tree for root, value in values if (tree := self.home.ack(root, value)) is not None]
        if done:
            self.home.completed(done)

    def fail_input(self, tup: Tuple[Any], error: BaseException | None, reason: Reason, text: str = "") -> None:
        """Fails all trees of an input."""
        self.failed += 1
        failure = Failure(reason, self.component, text, error)
        self.home.reported(failure)
        for root in tup.roots:
            self.home.fail(root, failure)

    def raised(self, tup: Tuple[Any], error: BaseException) -> None:
        """Fails an input for what its processing raised, be it SystemExit or CancelledError (F6)."""
        if isinstance(error, Reject):
            self.fail_input(tup, error, Reason.REJECTED, text_of(error))
        elif could_not_emit(error):
            self.fail_input(tup, error, Reason.EMIT, text_of(error))
        else:
            self.fail_input(tup, error, Reason.RAISED, described(error))

    # -- inputs that wait

    def begin_waiting(self, tup: Tuple[Any], outputs: Any) -> None:
        """Lets an input wait for its awaitable (or async iterable) outputs in an asyncio task of its own."""
        task = self._loop.create_task(outcome(outputs), name=f"{self.component}.{self.task}")
        self.under_way[task] = (tup, self._loop.time())
        task.add_done_callback(self.has_waited)

    def has_waited(self, task: "asyncio.Task[tuple[Any, BaseException | None]]") -> None:
        """An asyncio task of user code has ended."""
        entry = self.under_way.pop(task, None)
        if entry is None:  # over its time limit: failed already, and its result is dropped (A5)
            self.abandoned.discard(task)
            if not task.cancelled():
                task.exception()
            return
        tup, started_at = entry
        self.waited, self.waited_s = self.waited + 1, self.waited_s + self._loop.time() - started_at
        if task.cancelled() or task.cancelling():  # by the bolt itself; its result is not trusted (A5)
            self.fail_input(tup, None, Reason.RAISED, "its asyncio task was cancelled")
        else:
            outputs, error = task.result()
            self.finish(tup, outputs, error)
        self.wake_downstream()
        self.wake()

    def finish(self, tup: Tuple[Any], outputs: Sequence[Record], error: BaseException | None) -> None:
        """Emits and acks, or fails, an input that has waited."""
        if error is None:
            try:
                sent = self.outbox.emit(outputs, tup) if outputs else 0
            except BaseException as raised:
                error = raised
            else:
                self.ack_input(tup, sent)
                return
        self.raised(tup, error)

    def check_time_limits(self, now: float) -> None:
        """Fails inputs that have been under way for too long, and frees their places (F9). Cancels their tasks."""
        limit_s = self.settings.time_limit_s
        for task, (tup, started_at) in list(self.under_way.items()):
            if now - started_at > limit_s:
                del self.under_way[task]
                self.abandoned.add(task)
                self.waited, self.waited_s = self.waited + 1, self.waited_s + now - started_at
                self.fail_input(tup, None, Reason.TIME_LIMIT, f"not done after {limit_s:g} s")
                task.cancel()
                self.wake()

    def shift(self, stood_still_s: float) -> None:
        """Time in which the loop did not run counts for no limit (A10)."""
        for task, (tup, started_at) in self.under_way.items():
            self.under_way[task] = (tup, started_at + stood_still_s)

    def cut_off(self) -> None:
        """Fails everything that is under way (A5): cancelled is failed, whatever user code then returns."""
        for task, (tup, _) in list(self.under_way.items()):
            del self.under_way[task]
            self.abandoned.add(task)
            self.fail_input(tup, None, Reason.CUT_OFF)
            task.cancel()

    def begin_generation(self) -> None:
        """A new generation of the run begins: what waits here, or is under way, comes again (P9). What `execute` holds
        stays: its trees are over, and what it does with it is known by its identity."""
        self.queue.clear()
        for task in [*self.under_way]:
            del self.under_way[task]
            self.abandoned.add(task)
            task.cancel()
        if self.waiting_room.futures and not self.full:
            self.waiting_room.let_in()

    # -- deadlines and clocks

    def tidy(self) -> None:
        """Puts away a bounded bit of what is no longer needed. Called several times a second."""

    def touch_waiting(self) -> None:
        """Touches the trees of what waits here since the last call, of what is under way, and of what is held (A9)."""
        roots, moved = self._touches.still_waiting(self.queue, self.executed)
        touch = self.home.queued if moved else self.home.touch
        for root in roots:
            touch(root)
        for tup in [*self.held(), *(tup for tup, _ in self.under_way.values())]:
            for root in tup.roots:
                self.home.touch(root)

    async def tick(self, now: datetime) -> None:
        """Calls the bolt's `tick`; what it gives is sent unanchored, with random identities (B10)."""
        try:
            outputs = self.bolt.tick(now)
            if outputs is not None:
                self.emit_unanchored(await self._awaited(outputs) if waits(outputs) else collected(outputs))
        except BaseException as raised:
            if being_cancelled(raised):
                raise
            self.home.reported(Failure(Reason.RAISED, self.component, f"tick: {described(raised)}", raised))

    async def _awaited(self, outputs: Any) -> Sequence[Record]:
        """Await what `tick` has returned, in an asyncio task of its own: it may ignore its cancellation."""
        task = self._loop.create_task(outcome(outputs), name=f"{self.component}.{self.task} tick")
        self.ticking = task
        limit_s = self.settings.time_limit_s
        try:
            await asyncio.wait({task}, timeout=limit_s)
            if not task.done():
                raise TimeoutError(f"not done after {limit_s:g} s")
            records, error = task.result()
            if error is not None:
                raise error
            return records
        finally:
            self.ticking = None
            if not task.done():
                self.abandoned.add(task)
                task.add_done_callback(self.has_waited)
                if not task.cancelling():  # a second cancellation would cut its `finally` short
                    task.cancel()

    def emit_unanchored(self, records: Iterable[Record], task: int | None = None) -> None:
        """Sends records that belong to no tree; `task` is the target of a direct grouping."""
        staged: list[Any] = []
        random = self.settings.random
        for record in records:
            origin, identity = random.getrandbits(64) or 1, random.getrandbits(64) or 1
            self.outbox.stage(staged, record, origin, identity, 0, (), task)
            self.outbox.count(1)
        self.outbox.send(staged)
        self.wake_downstream()


class ProcessExecutor(Executor):
    """Drives a bolt's `process(record)`."""

    def slice(self, count: int) -> int:
        return work(self, self.bolt.process, count)


def drive(readers: Sequence[DownstreamTask]) -> None:
    """Hands on within this turn of the loop: a lone tuple goes from its spout to the last sink in one, without a future
    and a turn for each task on its way. A task that is awake works at its own turn, as does one whose queue is longer
    than a slice. Called between slices only, never from user code; a topology has no cycles, so neither has this."""
    for reader in readers:
        if reader.queue:
            reader.handed()
