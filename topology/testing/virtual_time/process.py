"""A life: what one process is, where several workers share a virtual-time loop. It can be ended as SIGKILL ends one.

All that a life begins, and what that begins in turn, carries it in its context. Must not know workers or loops.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_LIFE: Final[ContextVar["SimulatedProcess | None"]] = ContextVar("kedge_life", default=None)


class SimulatedProcess:
    """`over` is set by `VirtualLoop.kill`, and never taken back; `ending` by code of its own that has crashed; `paused`
    by the loop's `pause`, until its `wake`."""

    def __init__(self) -> None:
        self.over = False
        self.ending = False
        self.paused = False
        self.waiting: list[Callable[[], object]] = []  # what has come from outside while it was paused
        self._context = copy_context()
        self._context.run(_LIFE.set, self)

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function within this life: timers, callbacks and tasks that it begins end with it."""
        return self._context.copy().run(function, *args, **kwargs)  # a copy: a context is not entered twice

    def reach(self, call: Callable[[], object]) -> None:
        """Calls something that comes to this life from outside, now, or once it is awake; never where it is over."""
        if self.paused:
            self.waiting.append(partial(self.reach, call))
        elif not self.over:
            call()

    def task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begins a task within this life. Once that is over, the task never ends: wait for something beside it."""
        return asyncio.get_running_loop().create_task(work, context=self._context.copy())


def life_of(context: Context | None = None) -> SimulatedProcess | None:
    """The life that a context belongs to, the current one unless given; None where it is nobody's."""
    return _LIFE.get() if context is None else context.get(_LIFE)


class Crashed(BaseException):
    """What `crash_here` ends user code with. Nobody is told of it: the worker that it is raised in is dead."""


def crash_here() -> NoReturn:
    """Ends the worker whose code calls this, as os._exit does, or a segmentation fault: for user code that takes its
    worker down, in a run with `crashes`, or with `may_crash`. Nothing that this worker does in the same turn of the
    loop leaves it. Raises RuntimeError anywhere else.

        def process(self, frame: Frame) -> None:
            if frame.number == 7:
                crash_here()
    """
    life = life_of()
    if life is None:
        raise RuntimeError("only a worker of run_topology(…, may_crash=True) can crash here")
    life.ending = True
    raise Crashed
