"""Waiting at the start for what a component needs to open, and what is not there yet (F73).

Knows the loop and the log; must not know tasks, workers or what is waited for.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from topology.codes.startup import COMPONENT_WAITING_TO_OPEN
from topology.errors import NotYet, StartError

RETRY_FIRST_S: Final = 0.1  # before `open` is called again; doubled each time …
RETRY_LAST_S: Final = 1.0  # … up to this: what comes is not kept waiting
TOLD_EVERY_S: Final = 10.0  # between two lines that say what is waited for

logger = logging.getLogger("kedge")


async def open_in_time(component: str, call: Callable[[], Any], clock: Callable[[], float], limit_s: float) -> None:
    """Calls `open`, and again while it raises NotYet; the last time once `limit_s` have passed on the clock, which is
    the loop's. Then raises StartError; and whatever else `open` raises, at once."""
    started_at = clock()
    reported_at, delay = float("-inf"), RETRY_FIRST_S
    while True:
        try:
            result = call()
            if inspect.isawaitable(result):
                await result
        except NotYet as error:
            now = clock()
            left_s = started_at + limit_s - now
            if left_s <= 0:
                text = f"{component!r} could not be opened within start_timeout_s = {limit_s:g} s: {error}"
                raise StartError(text, code=COMPONENT_WAITING_TO_OPEN, next=error.next) from error
            if now - reported_at >= TOLD_EVERY_S:
                reported_at = now
                text = "%r waits, as what it needs is not there yet, for %.0f s more at most: %s (%s)"
                logger.warning(text, component, left_s, error, COMPONENT_WAITING_TO_OPEN)
        else:
            if reported_at > float("-inf"):
                logger.warning("%r is open, after %.0f s", component, clock() - started_at)
            return
        await asyncio.sleep(min(delay, left_s))
        delay = min(delay * 2, RETRY_LAST_S)
