"""A life: what one process is, where several workers share a virtual-time loop. It can be ended as SIGKILL ends one.

All that a life begins, and what that begins in turn, carries it in its context. Must not know workers or loops.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_LIFE: Final[ContextVar["Life | None"]] = ContextVar("kedge_life", default=None)


class Life:
    """`over` is set by `VirtualLoop.kill`, and never taken back."""

    def __init__(self) -> None:
        self.over = False
        self._context = copy_context()
        self._context.run(_LIFE.set, self)

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function within this life: timers, callbacks and tasks that it begins end with it."""
        return self._context.copy().run(function, *args, **kwargs)  # a copy: a context is not entered twice

    def task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begins a task within this life. Once that is over, the task never ends: wait for something beside it."""
        return asyncio.get_running_loop().create_task(work, context=self._context.copy())


def life_of(context: Context | None = None) -> Life | None:
    """The life that a context belongs to, the current one unless given; None where it is nobody's."""
    return _LIFE.get() if context is None else context.get(_LIFE)
