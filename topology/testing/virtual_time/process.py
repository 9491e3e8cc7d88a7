"""A life: the equivalent of a process, if several workers share a virtual-time loop. It can be ended as by SIGKILL.

All that a life begins, directly or indirectly, carries the life in its context. Must not know workers or loops.
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
    """One life. `VirtualLoop.kill` sets `over` for good. User code that crashes sets `ending`. `paused` is set by the
    loop's `pause`, until its `wake`."""

    def __init__(self) -> None:
        self.over = False
        self.ending = False
        self.paused = False
        self.waiting: list[Callable[[], object]] = []  # calls from outside that came while it was paused
        self._context = copy_context()
        self._context.run(_LIFE.set, self)

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function within this life: its timers, callbacks and tasks end with the life."""
        return self._context.copy().run(function, *args, **kwargs)  # a copy, because a context can't be entered twice

    def reach(self, call: Callable[[], object]) -> None:
        """Call something from outside in this life, now or once it is awake. Does nothing if the life is over."""
        if self.paused:
            self.waiting.append(partial(self.reach, call))
        elif not self.over:
            call()

    def task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a task within this life. If the life ends, the task never ends, so wait for something else too."""
        return asyncio.get_running_loop().create_task(work, context=self._context.copy())


def life_of(context: Context | None = None) -> SimulatedProcess | None:
    """Return the life that a context belongs to, by default the current context. None if it belongs to no life."""
    return _LIFE.get() if context is None else context.get(_LIFE)


class Crashed(BaseException):
    """The exception with which `crash_here` ends user code. It is not reported, because its worker is dead."""


def crash_here() -> NoReturn:
    """End the worker whose code calls this, as os._exit or a segmentation fault does.

    Use it for user code that takes its worker down, in a run with `crashes` or with `may_crash`. Nothing that this
    worker does in the same turn of the loop leaves it. Raises RuntimeError anywhere else.

        def process(self, frame: Frame) -> None:
            if frame.number == 7:
                crash_here()
    """
    life = life_of()
    if life is None:
        raise RuntimeError("only a worker of run_topology(…, may_crash=True) can crash here")
    life.ending = True
    raise Crashed
