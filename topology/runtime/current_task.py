"""Which task's code runs: set wherever the runtime enters code of the user's, read where something is logged.

A context variable, so that asyncio tasks and `asyncio.to_thread` calls which user code starts belong to the same task.
It is set once for each loop of a task, and around what works in another one's turn: never for a tuple. Knows no log.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple


class TaskPlace(NamedTuple):
    """One task of a component, and the worker that it is on."""

    worker: int
    component: str
    task: int


HERE: Final[ContextVar[TaskPlace | None]] = ContextVar("kedge_here", default=None)


@contextmanager
def entered(place: TaskPlace) -> Iterator[None]:
    """What is called, or awaited, inside is this task's."""
    before = HERE.set(place)
    try:
        yield
    finally:
        HERE.reset(before)
