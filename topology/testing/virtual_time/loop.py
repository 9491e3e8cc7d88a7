"""A virtual-time event loop: minutes of timers in milliseconds of work, and the same run for the same seed.

Waiting moves a clock instead of sleeping. With a seed the callbacks that are ready together run in a shuffled order, as
they might on another day. There are no sockets, signals or threads here. Must not know topologies.
"""

import asyncio
import ctypes
import heapq
import inspect
from asyncio import base_events
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from topology.testing.virtual_time.process import SimulatedProcess, life_of

T = TypeVar("T")

START: Final = datetime(2026, 1, 1, tzinfo=UTC)  # when virtual time begins, unless told
LIMIT_S: Final = 600.0  # virtual seconds after which a run that has not ended is taken for one that never will
TURNS_MAX: Final = 1_000_000  # turns of the loop at one moment; more, and something waits by spinning
RESOLUTION_S: Final = 1e-9  # timers nearer than this are due together

_graves: Final[list[Any]] = []  # tasks and generators of lives that are over: as garbage they would run their `finally`


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, so nothing can ever happen; the text names who waits, and where."""


class VirtualTimeLimit(RuntimeError):
    """The run was still going when its virtual time was over; the text names who waits, and where."""


class Unhandled(RuntimeError):
    """A callback or a task of the run raised what nobody took note of. `contexts` is what asyncio tells of each."""

    def __init__(self, contexts: list[dict[str, Any]]) -> None:
        self.contexts = contexts
        super().__init__("; ".join(f"{one.get('message')}: {one.get('exception')!r}" for one in contexts))


def run_virtual(
    coroutine: Coroutine[Any, Any, T], *, seed: int | None = 0, start: datetime = START, limit_s: float = LIMIT_S
) -> T:
    """Runs a coroutine on a new virtual-time loop and returns its result. Not to be called from a running loop.

    `seed` shuffles what is ready together; None leaves asyncio's own order. `start` is the loop's UTC time at its
    beginning. Raises what the coroutine raises; Deadlock; VirtualTimeLimit after `limit_s` virtual seconds; Unhandled
    where it hid an error.

        assert run_virtual(asyncio.sleep(60, "a minute later")) == "a minute later"
    """
    _refuse_inside_a_loop(coroutine)
    loop = VirtualLoop(seed=seed, start=start, limit_s=limit_s)
    try:
        asyncio.set_event_loop(loop)
        result = loop.run_until_complete(coroutine)
        if loop.unhandled:
            raise Unhandled(loop.unhandled)
        return result
    finally:
        loop.end()
        asyncio.set_event_loop(None)


def spend(seconds: float) -> None:
    """Lets time pass without yielding, as code does that computes or blocks; only within a virtual-time loop.

    def process(self, frame: Frame) -> None:
        spend(0.2)  # of CPU, which the loop stands still for
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "time is spent like this only on a virtual-time loop"
    loop.pass_time(seconds)


class VirtualLoop(base_events.BaseEventLoop):
    """An asyncio loop on virtual time. `time()` begins at 0; `utc()` is the wall clock that goes with it.

    What asyncio promises holds: callbacks of one future, plain callbacks, and timers run in their order. Only whose
    turn it is among tasks, futures and those two is shuffled. Executors run their function in this thread: at once, or,
    where `executor_takes` says how many seconds a call takes, at some moment of that time.
    """

    def __init__(self, *, seed: int | None = 0, start: datetime = START, limit_s: float = LIMIT_S) -> None:
        super().__init__()
        self.unhandled: list[dict[str, Any]] = []
        self._now = 0.0
        self._turns = 0  # since time passed last
        self._start = start
        self._limit_s = limit_s
        self._random = None if seed is None else Random(seed)
        self._selector = _Selector(self)
        self.between_turns: Callable[[], None] | None = None  # called before each turn, when nothing is under way
        self.executor_takes: Callable[[], float] | None = None  # None: no time
        self._free_at: WeakKeyDictionary[Any, float] = WeakKeyDictionary()  # executor → when it is done with all it has
        self._numbers = count()
        self._killed = False  # whether a life has ended
        self._paused: dict[SimulatedProcess, list[asyncio.Handle]] = {}  # what was due meanwhile
        self._begun: WeakKeyDictionary[Any, SimulatedProcess] = (
            WeakKeyDictionary()
        )  # tasks and generators that a life has begun
        self._asyncgens: WeakSet[AsyncGenerator[Any, Any]]
        self._clock_resolution = RESOLUTION_S
        self._ready: deque[asyncio.Handle]
        self._scheduled: list[asyncio.TimerHandle]
        self.set_exception_handler(lambda loop, context: self.unhandled.append(context))

    def time(self) -> float:
        return self._now

    def utc(self) -> datetime:
        """The virtual wall clock."""
        return self._start + timedelta(seconds=self._now)

    def pass_time(self, seconds: float) -> None:
        """Moves the clock. Raises VirtualTimeLimit beyond the limit."""
        self._now += seconds
        self._turns = 0
        if self._now > self._limit_s:
            limit, self._limit_s = self._limit_s, float("inf")  # ending takes time too
            raise VirtualTimeLimit(f"not done after {limit:g} virtual seconds\n{self._who_waits()}")

    def run_in_executor(  # type: ignore[override]  # asyncio's own signature says more than callers use
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Calls the function here, one after the other for one executor. See `executor_takes`."""
        future: asyncio.Future[T] = self.create_future()
        outcome: list[Callable[[], None]] = []

        def work() -> None:
            try:
                outcome.append(partial(future.set_result, func(*args)))
            except BaseException as error:
                outcome.append(partial(future.set_exception, error))

        def tell() -> None:
            if not future.done():
                outcome[0]()

        if self.executor_takes is None:
            work()
            tell()
            return future
        begins = max(self._now, self._free_at.get(executor, 0.0)) if executor is not None else self._now
        works = begins + self.executor_takes()
        ends = works + self.executor_takes()
        if executor is not None:
            self._free_at[executor] = ends
        self.call_at(works, work)
        self.call_at(ends, tell)
        return future

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def end(self) -> None:
        """Cancels what is left and closes the loop. A task that will not end is given up."""
        with suppress(Deadlock, VirtualTimeLimit, RecursionError):
            self._limit_s = self._now + LIMIT_S
            left = self._living()
            for task in left:
                task.cancel()
            if left:
                self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.run_until_complete(self.shutdown_asyncgens())
        self.unhandled = []  # who is given up here would complain when collected
        self.set_exception_handler(lambda loop, context: None)
        self.close()

    def kill(self, life: SimulatedProcess) -> None:
        """Ends a life as SIGKILL does: no callback, timer, task or generator of it runs again, not even to clean up.
        Called from `between_turns`. What it has opened, files and threads say, stays open."""
        life.over = self._killed = True
        self._paused.pop(life, None)
        dead = [one for one, begun in self._begun.items() if begun is life]
        self._asyncgens.difference_update(dead)
        if not _graves:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(_graves))  # kept at Python's end too, which empties modules
        _graves.extend(dead)
        for one in dead:
            if isinstance(one, asyncio.Task):
                _close_unbegun(one.get_coro())

    def pause(self, life: SimulatedProcess) -> None:
        """Has a life stand still, as SIGSTOP does a process: what becomes due of it waits for `wake`. Called from
        `between_turns`."""
        life.paused = True
        self._paused[life] = []

    def wake(self, life: SimulatedProcess) -> None:
        """It goes on: what was due meanwhile is so now. Does nothing for a life that is over."""
        life.paused = False
        self._ready.extend(self._paused.pop(life, []))
        for call in life.waiting:
            self.call_soon(call)
        life.waiting.clear()

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), loop=self)

    def create_task(self, coro: Any, **settings: Any) -> asyncio.Task[Any]:
        self._check_closed()  # type: ignore[attr-defined]
        number = next(self._numbers)
        settings["name"] = settings.get("name") or f"Task-{number}"  # asyncio counts on from one loop to the next
        task = _Task(number, coro, loop=self, **settings)
        if (life := life_of(settings.get("context"))) is not None:
            self._begun[task] = life
        return task

    def _living(self) -> set[asyncio.Task[Any]]:
        over = {task for task, life in self._begun.items() if life.over}
        return asyncio.all_tasks(self) - over

    # -- what BaseEventLoop leaves to its subclasses

    def _asyncgen_firstiter_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        super()._asyncgen_firstiter_hook(agen)  # type: ignore[misc]
        if (life := life_of()) is not None:
            self._begun[agen] = life

    def _process_events(self, event_list: object) -> None:
        """Called once a turn, before what is ready runs: adds the timers that are due, and shuffles."""
        if self.between_turns is not None:
            self.between_turns()
        due = self._now + RESOLUTION_S
        while self._scheduled and self._scheduled[0].when() < due:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            self._now = max(self._now, handle.when())  # so that nobody is woken before the time that it asked for
            self._ready.append(handle)
        if self._killed or self._paused:
            ready = [(life_of(handle._context), handle) for handle in self._ready]  # type: ignore[attr-defined]
            self._ready.clear()
            for life, one in ready:
                if life is None or not (life.over or life.paused):
                    self._ready.append(one)
                elif not life.over:
                    self._paused[life].append(one)
        if self._random is not None and len(self._ready) > 1:
            self._shuffle(self._random)

    def _shuffle(self, random: Random) -> None:
        """Deals the ready handles out in a random order in which those of one group keep theirs."""
        groups: dict[Any, deque[asyncio.Handle]] = defaultdict(deque)
        turns = []
        for handle in self._ready:
            turns.append(group := _group(handle))
            groups[group].append(handle)
        random.shuffle(turns)
        self._ready.clear()
        self._ready.extend(groups[group].popleft() for group in turns)

    def _write_to_self(self) -> None:
        """Wakes the selector of a real loop."""

    def _wait(self, timeout: float | None) -> None:
        if timeout is None:
            raise Deadlock(f"nothing is ready and no timer is set\n{self._who_waits()}")
        if timeout > 0:
            self.pass_time(timeout)
        self._turns += 1
        if self._turns > TURNS_MAX:
            self._turns = 0
            raise VirtualTimeLimit(f"{TURNS_MAX:,} turns of the loop, and no time passed\n{self._who_waits()}")

    def _who_waits(self) -> str:
        lines = []
        for task in sorted(self._living(), key=lambda one: one.get_name()):
            frames = task.get_stack(limit=None)
            where = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "its beginning"
            lines.append(f"  {task.get_name()} waits at {where}")
        return "\n".join(lines)


class _Future(asyncio.Future[Any]):
    """In a set it stands where its number says, and not where its address does, which depends on what ran before."""

    def __init__(self, number: int, **settings: Any) -> None:
        self._number = number
        super().__init__(**settings)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """As `_Future`."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **settings: Any) -> None:
        self._number = number  # before it is begun, as asyncio keeps it in a set then
        super().__init__(coro, **settings)

    def __hash__(self) -> int:
        return self._number


class _Selector:
    """Stands where a real loop asks the system to wait."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        self._loop._wait(timeout)
        return []


def _group(handle: asyncio.Handle) -> Any:
    """Handles of one group keep their order: a future's callbacks, timers, and plain callbacks. A task's next step is
    a group of its own: there is never more than one."""
    if isinstance(handle, asyncio.TimerHandle):
        return "timer"
    callback, args = handle._callback, handle._args  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if args and isinstance(args[0], asyncio.Future) and not isinstance(owner, asyncio.AbstractEventLoop):
        return id(args[0])
    return id(owner) if isinstance(owner, asyncio.Task) else "plain"


def _close_unbegun(coroutine: Any) -> None:
    """Closes a coroutine that has not begun, and those that it was given: nothing of them runs by that, and Python says
    of none, when it ends, that it "was never awaited"."""
    if not inspect.iscoroutine(coroutine) or inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED:
        return
    for given in inspect.getcoroutinelocals(coroutine).values():
        _close_unbegun(given)
    coroutine.close()


def _refuse_inside_a_loop(coroutine: Coroutine[Any, Any, Any]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    coroutine.close()
    raise RuntimeError("this runs an event loop of its own: call it from a plain function, not from an async one")
