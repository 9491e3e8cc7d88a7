"""The end of a worker: what is in flight is cut off and waited for.

The order of it all is the worker's. Must not know sources, bolts, or what a store is made of.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from topology.runtime.failures import Failure, Reason
from topology.runtime.tasks.blocking_executor import BlockingExecutor
from topology.runtime.tasks.collector import CollectingExecutor
from topology.runtime.tasks.executor import Executor
from topology.runtime.telemetry.failure_log import Reporter

CLOSE_S: Final = 10.0  # how long one component's `close` may take, and what was cut off


async def cut_off(tasks: Iterable[asyncio.Task[Any]], executors: Iterable[Executor], reporter: Reporter) -> int:
    """Cancels these tasks, fails what the executors have under way (A5), and waits for both. Returns how many inputs
    that were. What ignores its cancellation for CLOSE_S is reported and left behind."""
    ending = {*tasks}
    for task in ending:
        task.cancel()
    executors = list(executors)
    in_hand = sum(map(_in_hand, executors))
    for executor in executors:
        executor.cut_off()
        ending |= executor.abandoned
        if executor.ticking is not None:
            executor.ticking.cancel()
            ending.add(executor.ticking)
    threads = asyncio.ensure_future(_threads_returned(executors, reporter))
    if ending:
        _, stubborn = await asyncio.wait(ending, timeout=CLOSE_S)
        for name in sorted({task.get_name() for task in stubborn}):
            reporter.failed(Failure(Reason.CUT_OFF, name, "it ignores that it was cancelled"))
    await threads
    return in_hand


async def _threads_returned(executors: Iterable[Executor], reporter: Reporter) -> None:
    """Waits for threads of bolts with `blocking = True`, all of them at a time; reports those that it leaves."""
    blocking = [executor for executor in executors if isinstance(executor, BlockingExecutor)]
    for one, left in zip(blocking, await asyncio.gather(*(each.returned(CLOSE_S) for each in blocking)), strict=True):
        if left:
            name = f"{one.component}.{one.task}"
            text = f"its `process` is still under way in {left} thread{'s' * (left != 1)}, and is left behind"
            reporter.failed(Failure(Reason.CUT_OFF, name, text))


def _in_hand(executor: Executor) -> int:
    """Inputs that are neither queued nor done."""
    held = len(executor.held())
    return held if isinstance(executor, CollectingExecutor) else held + len(executor.under_way)
