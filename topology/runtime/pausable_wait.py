"""Waiting for something, for a time in which this process was not stopped: paused is not dead (F68).

Where the process, or all of its group, was stopped meanwhile, or its terminal took nothing (Ctrl-S), those it waits for
had no time either, or nobody has read their answers. Must not know what is waited for.
"""

import asyncio
from collections.abc import Collection
from typing import Any, Final

MOMENT_S: Final = 0.001  # less than that is no time: what is left of sums may be a billionth
STEP_S: Final = 0.5  # the longest wait of the loop's; twice as much is what one may count for, however long it took


async def first_of(ends: Collection[asyncio.Future[Any]], timeout_s: float | None) -> bool:
    """Waits until one of these is done, or for so many seconds that the loop has turned in; None: for ever. Whether one
    is done. Cancels none."""
    loop = asyncio.get_running_loop()
    left_s = timeout_s
    while True:
        began = loop.time()
        step_s = None if left_s is None else max(0.0, min(left_s, STEP_S))
        done, _ = await asyncio.wait(ends, timeout=step_s, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return True
        assert left_s is not None, "one is done"
        left_s -= min(loop.time() - began, 2 * STEP_S)
        if left_s < MOMENT_S:
            return False
