"""How a run ends: a bounded one by itself, any other by a drain. Over all workers of one event loop.

Here, and not in the worker, because a bolt may be flushed only once nothing can reach it, wherever it comes from.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from topology.runtime.worker import Worker

LOOK_S: Final = 0.002  # how often it is looked whether all is quiet; only at the end of a run


async def settle(workers: Sequence[Worker], links_idle: Callable[[], bool]) -> None:
    """Waits until all sources have ended and every message is done; flushes each bolt once nothing can reach it.

    A bolt that was given inputs after its flush, by a replay, and holds them, is flushed again.
    """
    for worker in workers:
        await worker.sources_ended.wait()
    components = workers[0].plan.components
    for name, declared in components.items():
        if declared.kind == "bolt":
            above = [name, *(at for at in components if name in workers[0].plan.below(at))]
            tasks = [one for worker in workers for one in worker.tasks_of(*above)]
            await _until(
                lambda tasks=tasks: (  # type: ignore[misc]  # the default binds this turn's tasks
                    links_idle() and not any(worker.later for worker in workers) and all(one.quiet for one in tasks)
                )
            )
            for worker in workers:
                await worker.flush(worker.tasks_of(name))
    waited_s = 0.0
    while not (links_idle() and all(worker.done for worker in workers)):
        await asyncio.sleep(LOOK_S)
        if links_idle() and all(worker.quiet for worker in workers):
            for worker in workers:
                await worker.flush([one for at, one in worker.executors.items() if one.executed > worker.flushed[at]])
            waited_s += 0.0 if any(worker.pending for worker in workers) else LOOK_S
            if waited_s > workers[0].config.drain_timeout_s:
                return  # bolts have kept tuples that belong to no tree, so that no deadline fails them


async def drain(workers: Sequence[Worker], links_idle: Callable[[], bool]) -> None:
    """Stops the spouts and waits until what is under way is done. The caller limits the time."""
    for worker in workers:
        worker.drain()
    await _until(lambda: links_idle() and all(worker.done for worker in workers))


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # an event would have to be set by every ack
        await asyncio.sleep(LOOK_S)
