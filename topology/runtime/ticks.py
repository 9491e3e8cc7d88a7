"""A `tick` that waits: awaited beside the inputs of its task, and given up where that takes too long (F9).

Must not know what it emits.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from topology.records import Record
from topology.runtime.outputs import outcome


class Ticking(Protocol):
    """The executor, as far as it is seen from here."""

    component: str
    task: int
    time_limit_s: float
    ticking: asyncio.Task[Any] | None
    abandoned: set[asyncio.Task[Any]]

    def has_waited(self, task: asyncio.Task[Any]) -> None: ...


async def awaited(executor: Ticking, outputs: Any) -> Sequence[Record]:
    """Awaits what `tick` has returned; in an asyncio task of its own, as it may ignore its cancellation."""
    task = asyncio.get_running_loop().create_task(outcome(outputs), name=f"{executor.component}.{executor.task} tick")
    executor.ticking = task
    try:
        await asyncio.wait({task}, timeout=executor.time_limit_s)
        if not task.done():
            raise TimeoutError(f"not done after {executor.time_limit_s:g} s")
        records, error = task.result()
        if error is not None:
            raise error
        return records
    finally:
        executor.ticking = None
        if not task.done():
            executor.abandoned.add(task)
            task.add_done_callback(executor.has_waited)
            if not task.cancelling():  # a second cancellation would cut its `finally` short
                task.cancel()
