"""Pauses of a spout task: for a full queue below it, for too much in flight, or for a reason of another part.

Adds up how long the task has waited. Must not know messages, queues' contents, or what makes a reason end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from topology.runtime.tasks.interfaces import FedQueue

Check = Callable[[], str]  # returns why the task may not read, in a sentence; empty if it may


class Pauses:
    """The pauses of one spout task. Make it in a running loop.

    `queue` is the full queue that the task waits for, or None. `reason` is what one of `checks` said when the task was
    paused for it, and empty otherwise.
    """

    def __init__(self, *checks: Check) -> None:
        self.queue: FedQueue | None = None
        self.reason = ""
        self.checks: Final[list[Check]] = [*checks]
        self._total_s = 0.0  # of the pauses that are over
        self._since: float | None = None  # loop time at which the current pause began
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def seconds(self) -> float:
        """Seconds for which the task has been paused in all, with the current pause."""
        since = self._since
        return self._total_s + (self._loop.time() - since if since is not None else 0.0)

    def is_held(self) -> bool:
        """Ask the checks in their order. If one gives a reason, `reason` has it afterwards."""
        for check in self.checks:
            if reason := check():
                self.reason = reason
                return True
        return False

    async def until_room(self, queue: FedQueue) -> None:
        """Wait until this queue has drained."""
        self.queue = queue
        await self._timed(queue.room())
        self.queue = None

    async def until_woken(self) -> None:
        """Wait for `wake`; then no reason holds the task any more, until `is_held` finds one."""
        await self._timed(self._sleep())
        self.reason = ""

    def wake(self) -> None:
        """End the wait of `until_woken`, if there is one."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _timed(self, pause: Awaitable[None]) -> None:
        self._since = self._loop.time()
        await pause
        self._total_s += self._loop.time() - self._since
        self._since = None

    async def _sleep(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
