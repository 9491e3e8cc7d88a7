"""The two threads that a worker's store blocks in place of its loop: one writes, one syncs.

Threads are switched more often while the store is at work. Must not know what is written.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final, TypeVar

SWITCH_S: Final = 0.0005  # each SQL statement takes the GIL back from the loop: at 5 ms a commit of 3 ms takes 12

T = TypeVar("T")


class _Switching:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0

    def during(self, function: Callable[[], T]) -> T:
        """Call the function. Threads are switched sooner until it returns or raises.

        The last of several users restores the interval that there was. This wraps a call and no task: when a task ends
        that is cancelled, or left behind when its loop closes or its worker dies, is unknown.
        """
        with self._lock:
            if not self._users:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_S, self._before))
            self._users += 1
        try:
            return function()
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setswitchinterval(self._before)


SWITCHING: Final = _Switching()  # the process has one interval


class StoreThreads:
    """The threads of one store. Make it in a running loop.

    `writing` and `syncing` are what a thread does, or has done last. `executor` is used in place of two new threads.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self.writing: asyncio.Future[Any] | None = None
        self.syncing: asyncio.Future[None] | None = None
        self._executor = executor
        self._loop = asyncio.get_running_loop()

    async def write(self, function: Callable[[], T]) -> T:
        """Call the function in a thread. If the caller is cancelled, the thread continues."""
        self.writing = writing = self._loop.run_in_executor(self._threads(), SWITCHING.during, function)
        return await asyncio.shield(writing)

    async def sync(self, function: Callable[[], None]) -> None:
        """Call the function in a thread, beside what is written. If the caller is cancelled, the thread continues."""
        self.syncing = syncing = self._loop.run_in_executor(self._threads(), function)
        await asyncio.shield(syncing)

    async def close(self, function: Callable[[], None]) -> None:
        """Wait for what the threads do, call the function in one, and give the threads back."""
        if started := {future for future in (self.writing, self.syncing) if future is not None}:
            await asyncio.wait(started)
        await self.write(function)
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def _threads(self) -> Executor:
        self._executor = self._executor or ThreadPoolExecutor(2, thread_name_prefix="kedge-store")
        return self._executor
