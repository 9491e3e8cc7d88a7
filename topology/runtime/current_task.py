"""The task whose code runs: set whenever the runtime enters user code, read when something is logged.

It is a context variable, so that asyncio tasks and `asyncio.to_thread` calls that user code starts belong to the same
task. It is set once for each loop of a task, and around work in another task's turn: never once per tuple. Knows no
log.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple


class TaskPlace(NamedTuple):
    """One task of a component, and its worker."""

    worker: int
    component: str
    task: int


HERE: Final[ContextVar[TaskPlace | None]] = ContextVar("kedge_here", default=None)


@contextmanager
def entered(place: TaskPlace) -> Iterator[None]:
    """Assign what is called or awaited inside the block to this task."""
    before = HERE.set(place)
    try:
        yield
    finally:
        HERE.reset(before)
