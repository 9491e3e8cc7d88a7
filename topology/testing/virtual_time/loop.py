"""A virtual-time event loop: minutes of timers in milliseconds of work, and the same run for the same seed.

Waiting moves a clock instead of sleeping. With a seed, callbacks that are ready together run in a shuffled order, as
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

START: Final = datetime(2026, 1, 1, tzinfo=UTC)  # the default beginning of virtual time
LIMIT_S: Final = 600.0  # virtual seconds after which an unfinished run counts as one that never ends
TURNS_MAX: Final = 1_000_000  # turns of the loop at one moment; with more, something waits by spinning
RESOLUTION_S: Final = 1e-9  # seconds: timers nearer than this are due together

_graves: Final[list[Any]] = []  # tasks and generators of lives that are over: as garbage they would run their `finally`


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, so nothing can ever happen. The text names the waiting tasks and their
    places."""


class VirtualTimeLimit(RuntimeError):
    """The run did not end within its virtual time. The text names the waiting tasks and their places."""


class Unhandled(RuntimeError):
    """A callback or a task of the run raised an error that was not handled. `contexts` is what asyncio reports about
    each."""

    def __init__(self, contexts: list[dict[str, Any]]) -> None:
        self.contexts = contexts
        super().__init__("; ".join(f"{context.get('message')}: {context.get('exception')!r}" for context in contexts))


def run_virtual(
    coroutine: Coroutine[Any, Any, T], *, seed: int | None = 0, start: datetime = START, limit_s: float = LIMIT_S
) -> T:
    """Run a coroutine on a new virtual-time loop and return its result. Do not call it from a running loop.

    `seed` shuffles what is ready together; None keeps asyncio's own order. `start` is the loop's UTC time at its
    beginning. Raises what the coroutine raises, Deadlock, VirtualTimeLimit after `limit_s` virtual seconds, and
    Unhandled if the coroutine hid an error.

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
    """Let time pass without yielding, like code that computes or blocks; only within a virtual-time loop.

    def process(self, frame: Frame) -> None:
        spend(0.2)  # of CPU, during which the loop stands still
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "time is spent like this only on a virtual-time loop"
    loop.pass_time(seconds)


class VirtualLoop(base_events.BaseEventLoop):
    """An asyncio loop on virtual time. `time()` begins at 0; `utc()` is the matching wall clock.

    asyncio's promises hold: callbacks of one future, plain callbacks, and timers run in their order. Only the order of
    turns among tasks, futures and those two is shuffled. Executors run their function in this thread: at once, or, if
    `executor_takes` returns the seconds that a call takes, at some moment within that time.
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
        self.between_turns: Callable[[], None] | None = None  # called before each turn, when nothing is running
        self.executor_takes: Callable[[], float] | None = None  # None: no time
        # executor → when it has finished all its work
        self._free_at: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._numbers = count()
        self._killed = False  # True if a life has ended
        self._paused: dict[SimulatedProcess, list[asyncio.Handle]] = {}  # what was due meanwhile
        # Tasks and generators that a life has begun.
        self._life_of: WeakKeyDictionary[Any, SimulatedProcess] = WeakKeyDictionary()
        self._asyncgens: WeakSet[AsyncGenerator[Any, Any]]
        self._clock_resolution = RESOLUTION_S
        self._ready: deque[asyncio.Handle]
        self._scheduled: list[asyncio.TimerHandle]
        self.set_exception_handler(lambda loop, context: self.unhandled.append(context))

    def time(self) -> float:
        return self._now

    def utc(self) -> datetime:
        """Return the virtual wall clock."""
        return self._start + timedelta(seconds=self._now)

    def pass_time(self, seconds: float) -> None:
        """Move the clock. Raises VirtualTimeLimit beyond the limit."""
        self._now += seconds
        self._turns = 0
        if self._now > self._limit_s:
            limit, self._limit_s = self._limit_s, float("inf")  # ending takes time too
            raise VirtualTimeLimit(f"not done after {limit:g} virtual seconds\n{self._who_waits()}")

    def run_in_executor(  # type: ignore[override]  # asyncio's own signature says more than callers use
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call the function here; one after the other for one executor. See `executor_takes`."""
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
        """Cancel what is left and close the loop. A task that does not end is abandoned."""
        self.between_turns = None  # it may have raised, and would again
        with suppress(Deadlock, VirtualTimeLimit, RecursionError):
            self._limit_s = self._now + LIMIT_S
            left = self._living()
            for task in left:
                task.cancel()
            if left:
                self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.run_until_complete(self.shutdown_asyncgens())
        self.unhandled = []  # abandoned tasks would complain when collected
        self.set_exception_handler(lambda loop, context: None)
        self.close()

    def kill(self, life: SimulatedProcess) -> None:
        """End a life as SIGKILL does: no callback, timer, task or generator of it runs again, not even to clean up.

        Call it from `between_turns`. What the life has opened, for example files and threads, stays open.
        """
        life.over = self._killed = True
        dead = [item for item, owner in self._life_of.items() if owner is life]
        self._paused.pop(life, None)  # perhaps the last reference to a task: `dead` has it now
        self._asyncgens.difference_update(dead)
        if not _graves:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(_graves))  # kept at Python's end too, when modules are emptied
        _graves.extend(dead)
        for item in dead:
            if isinstance(item, asyncio.Task):
                _close_unbegun(item.get_coro())

    def pause(self, life: SimulatedProcess) -> None:
        """Make a life stand still, as SIGSTOP does: what becomes due in it waits for `wake`. Call it from
        `between_turns`."""
        life.paused = True
        self._paused[life] = []

    def wake(self, life: SimulatedProcess) -> None:
        """Let a life continue: what was due meanwhile is due now. Does nothing for a life that is over."""
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
            self._life_of[task] = life
        return task

    def _living(self) -> set[asyncio.Task[Any]]:
        over = {task for task, life in self._life_of.items() if life.over}
        return asyncio.all_tasks(self) - over

    # -- methods that BaseEventLoop leaves to subclasses

    def _asyncgen_firstiter_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        super()._asyncgen_firstiter_hook(agen)  # type: ignore[misc]
        if (life := life_of()) is not None:
            self._life_of[agen] = life

    def _process_events(self, event_list: object) -> None:
        """Add the timers that are due, and shuffle. Called once per turn, before what is ready runs."""
        if self.between_turns is not None:
            self.between_turns()
        due = self._now + RESOLUTION_S
        while self._scheduled and self._scheduled[0].when() < due:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            self._now = max(self._now, handle.when())  # so that no task is woken before the time that it asked for
            self._ready.append(handle)
        if self._killed or self._paused:
            ready = [(life_of(handle._context), handle) for handle in self._ready]  # type: ignore[attr-defined]
            self._ready.clear()
            for life, ready_handle in ready:
                if life is None or not (life.over or life.paused):
                    self._ready.append(ready_handle)
                elif not life.over:
                    self._paused[life].append(ready_handle)
        if self._random is not None and len(self._ready) > 1:
            self._shuffle(self._random)

    def _shuffle(self, random: Random) -> None:
        """Put the ready handles in a random order in which those of one group keep theirs."""
        groups: dict[Any, deque[asyncio.Handle]] = defaultdict(deque)
        turns = []
        for handle in self._ready:
            turns.append(group := _group(handle))
            groups[group].append(handle)
        random.shuffle(turns)
        self._ready.clear()
        self._ready.extend(groups[group].popleft() for group in turns)

    def _write_to_self(self) -> None:
        """Do nothing: a real loop would wake its selector."""

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
        for task in sorted(self._living(), key=lambda task: task.get_name()):
            frames = task.get_stack(limit=None)
            where = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "its beginning"
            lines.append(f"  {task.get_name()} waits at {where}")
        return "\n".join(lines)


class _Future(asyncio.Future[Any]):
    """A future whose place in a set depends on its number, not on its address, which depends on what ran before."""

    def __init__(self, number: int, **settings: Any) -> None:
        self._number = number
        super().__init__(**settings)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """A task with the same rule as `_Future`."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **settings: Any) -> None:
        self._number = number  # before it is begun, because asyncio then keeps it in a set
        super().__init__(coro, **settings)

    def __hash__(self) -> int:
        return self._number


class _Selector:
    """Takes the place of the system's wait in a real loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        self._loop._wait(timeout)
        return []


def _group(handle: asyncio.Handle) -> Any:
    """Return the group of a handle. Handles of one group keep their order: a future's callbacks, timers, and plain
    callbacks. A task's next step is a group of its own: there is never more than one."""
    if isinstance(handle, asyncio.TimerHandle):
        return "timer"
    callback, args = handle._callback, handle._args  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if args and isinstance(args[0], asyncio.Future) and not isinstance(owner, asyncio.AbstractEventLoop):
        return id(args[0])
    return id(owner) if isinstance(owner, asyncio.Task) else "plain"


def _close_unbegun(coroutine: Any) -> None:
    """Close a coroutine that has not begun, and its coroutine arguments. None of their code runs, and Python does not
    report at its end that one "was never awaited"."""
    if not inspect.iscoroutine(coroutine) or inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED:
        return
    for argument in inspect.getcoroutinelocals(coroutine).values():
        _close_unbegun(argument)
    coroutine.close()


def _refuse_inside_a_loop(coroutine: Coroutine[Any, Any, Any]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    coroutine.close()
    raise RuntimeError("this runs an event loop of its own: call it from a plain function, not from an async one")
