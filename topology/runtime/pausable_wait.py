"""Wait for something, for a time in which this process was not stopped: paused is not dead (F68).

If the process or its whole group was stopped, or its terminal accepted nothing (Ctrl-S), others had no time either, or
their answers were not read. Must not know what is waited for.
"""

import asyncio
from collections.abc import Collection
from typing import Any, Final

MOMENT_S: Final = 0.001  # seconds: less than that is no time; what is left of sums may be a billionth
# seconds: the longest wait of the loop; one wait counts for at most twice as much, however long it took
STEP_S: Final = 0.5


async def first_of(ends: Collection[asyncio.Future[Any]], timeout_s: float | None) -> bool:
    """Wait until one of these is done, or for so many seconds in which the loop has turned; None has no limit. Return
    True if one is done. Cancels none."""
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
