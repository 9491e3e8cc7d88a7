"""Runs coroutines to an end that user code can't prevent: a whole loop, or one task in it. Knows no topology."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

GIVE_UP_S: Final = 5.0  # how long tasks that are left may take to end once they are cancelled

logger = logging.getLogger("kedge")

T = TypeVar("T")

_given_up: Final[list[asyncio.Future[Any]]] = []  # kept: as garbage they would run on, without a loop


def settle_heap() -> None:
    """For a process that is all ours, before the run: takes what is loaded by now, modules above all, out of the
    garbage collector's sight. A full collection takes 12 to 14 ms with it, in which no alert leaves, 2.5 without."""
    gc.collect()
    gc.freeze()


async def shielded_task(work: Callable[[], Awaitable[Any]]) -> BaseException | None:
    """What this raises: returned, so that SystemExit in an asyncio task does not end the loop (F6). Only a cancellation
    is passed on. It is called here, so that nothing is left unawaited by a task that is cancelled before it begins."""
    try:
        await work()
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error
    return None


async def finished(work: Coroutine[Any, Any, T], drain: Callable[[], None], abort: Callable[[], None]) -> T:
    """What a run returns, which ends what it has begun though its caller is cancelled: a first cancellation drains it,
    further ones abort it. Raises CancelledError then, once it has ended; else what it raises."""
    running = asyncio.ensure_future(work)  # a task of its own, which nobody cancels
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
    """As `asyncio.run`, but a task that ignores its cancellation is given up after GIVE_UP_S, and named (F9, F10).

    Raises RuntimeError in a running loop, where one awaits instead.
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
    for task in sorted(stubborn, key=lambda one: one.get_name()):
        logger.warning("%s ignores that it was cancelled, and is given up", task.get_name())
