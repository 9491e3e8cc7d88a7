"""Run coroutines to an end that user code can't prevent: a whole loop, or one task in it. Knows no topology."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

GIVE_UP_S: Final = 5.0  # seconds that remaining tasks may take to end after their cancellation

logger = logging.getLogger("kedge")

T = TypeVar("T")

_given_up: Final[list[asyncio.Future[Any]]] = []  # kept, because as garbage they would run on without a loop


def settle_heap() -> None:
    """Hide what is loaded by now, above all modules, from the garbage collector. Call it before the run, in a process
    that is all ours. A full collection takes 12 to 14 ms with these objects, during which no alert leaves, and 2.5 ms
    without."""
    gc.collect()
    gc.freeze()


def to_next(now: float, every_s: float) -> float:
    """Return the seconds from `now` to about the next multiple of `every_s`. Those who wait so share a turn of the
    loop, and an idle process wakes once for all of them."""
    left = every_s - now % every_s
    return left if left > every_s / 10 else left + every_s  # a timer may be a moment early


async def shielded_task(work: Callable[[], Awaitable[Any]]) -> BaseException | None:
    """Run `work` and return what it raises, so that SystemExit in an asyncio task does not end the loop (F6). Only a
    cancellation is raised. `work` is called here, so that a task that is cancelled before it begins leaves nothing
    unawaited."""
    try:
        await work()
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error
    return None


async def finished(work: Coroutine[Any, Any, T], drain: Callable[[], None], abort: Callable[[], None]) -> T:
    """Return the result of a run, which ends what it has begun even if its caller is cancelled.

    A first cancellation drains the run; further ones abort it. Then raises CancelledError once the run has ended.
    Otherwise raises what the run raises.
    """
    running = asyncio.ensure_future(work)  # a task of its own, which is never cancelled
    cancelled = False
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            (abort if cancelled else drain)()
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError from None if running.cancelled() else running.exception()
    return running.result()


def asyncio_run(main: Coroutine[Any, Any, T]) -> T:
    """Run as `asyncio.run` does, but abandon and log a task that ignores its cancellation for GIVE_UP_S (F9, F10).

    Raises RuntimeError in a running loop, where the caller should await instead.
    """
    if asyncio._get_running_loop() is not None:
        main.close()
        raise RuntimeError("an event loop is running here already: await `serve` in it")
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(main)
        finally:
            loop.run_until_complete(_give_up_the_rest())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _give_up_the_rest() -> None:
    loop = asyncio.get_running_loop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    closing = [loop.create_task(loop.shutdown_asyncgens()), loop.create_task(loop.shutdown_default_executor())]
    _, stubborn = await asyncio.wait({*left, *closing}, timeout=GIVE_UP_S)
    _given_up.extend(stubborn)
    for task in sorted(stubborn, key=lambda task: task.get_name()):
        logger.warning("%s ignores its cancellation, and is abandoned", task.get_name())
