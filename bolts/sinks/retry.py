"""Calls of a store that are repeated while the store is away, the wait between two tries, and the messages meanwhile.

Knows the loop, a thread for the store's calls and the log; must not know tuples, batches or what a store is.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, Final

from bolts.sinks.contract import StoreAway
from topology.clients.errors import ServerAway
from topology.codes.runtime import SINK_STORE_AWAY

RETRY_FIRST_S: Final = 0.01  # seconds before the first repeated call; doubled each time …
# … up to this many seconds; each wait is between half of it and all, so that many sinks do not ask in step
RETRY_LAST_S: Final = 2.0
TOLD_S: Final = 1.0  # seconds; a longer outage is logged, a lock of some milliseconds is not
CLOSING_S: Final = 4.0  # seconds that a call of an asynchronous store has once the sink is closed …
CANCELLED_S: Final = 0.5  # … and so many more to end once it is cancelled
AGAIN_S: Final = 30.0  # seconds between two log lines of one outage

log = logging.getLogger("kedge.bolts")


class RetryForever:
    """Repeats the calls of one task of a sink. Create it in a running loop.

    `tell` receives the text for `Bolt.away`; the text is empty once the store answers.
    """

    def __init__(self, component: str, random: Random, tell: Callable[[str], None]) -> None:
        self.retries = 0  # number of repeated calls, over all outages
        self.ending = asyncio.Event()  # once set, no call is repeated
        self._component = component
        self._random = random
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"kedge-{component}")

    async def ask(self, call: Callable[..., Any], *args: Any, limit_s: float | None = None) -> Any:
        """Run a call as `once` does, and repeat it while it raises StoreAway.

        Raises StoreAway after `limit_s`, or once `ending` is set. Raises any other exception of the call at once.
        """
        started_at, reported_at, tries = self._loop.time(), float("-inf"), 0
        delay = RETRY_FIRST_S
        while True:
            try:
                result = await self.once(call, *args)
            except ServerAway as error:
                now = self._loop.time()
                if self.ending.is_set() or (limit_s is not None and now - started_at >= limit_s):
                    self._tell("")
                    raise
                tries += 1
                self.retries += 1
                away = f"its store is away ({error}), retry {tries}"
                self._tell(away)
                if now - started_at >= TOLD_S and now - reported_at >= AGAIN_S:
                    reported_at = now
                    log.warning(
                        "%s: %s, for %.0f s so far; its inputs wait (%s)",
                        self._component,
                        away,
                        now - started_at,
                        SINK_STORE_AWAY,
                    )
            except BaseException:
                self._tell("")
                raise
            else:
                if tries:
                    self._tell("")
                if reported_at > started_at:
                    away_s = self._loop.time() - started_at
                    log.warning("%s: its store is back, after %.0f s and %d retries", self._component, away_s, tries)
                return result
            await self._pause(delay * (0.5 + self._random.random() / 2))
            delay = min(delay * 2, RETRY_LAST_S)

    async def once(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run a call once: a coroutine function on the loop, any other in the thread."""
        if inspect.iscoroutinefunction(call):
            return await self._limited(call(*args))
        return await self._loop.run_in_executor(self._thread, call, *args)

    async def _limited(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Await a call of an asynchronous store. Once `ending` is set, it has CLOSING_S more, and is then cancelled.

        Raises StoreAway for a cancelled call, unless it has succeeded meanwhile. A call that ignores its cancellation
        for CANCELLED_S is left behind.
        """
        work = self._loop.create_task(call)
        ending = self._loop.create_task(self.ending.wait())
        try:
            await asyncio.wait((work, ending), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait((work,), timeout=CLOSING_S)
            if work.done():
                return work.result()
        finally:
            ending.cancel()
            if not work.done():
                work.cancel()
                work.add_done_callback(_looked_at)
                await asyncio.wait((work,), timeout=CANCELLED_S)
        if work.done() and not work.cancelled() and work.exception() is None:
            return work.result()
        raise StoreAway("it has not answered, and the sink is closed")

    def close(self) -> None:
        """Release the thread; it ends after the call under way."""
        self._thread.shutdown(wait=False)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.ending.wait()
        except TimeoutError:
            return


def _looked_at(work: "asyncio.Task[Any]") -> None:
    """Take note of the error of a call that has no caller any more."""
    if not work.cancelled():
        work.exception()
