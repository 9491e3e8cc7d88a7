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
    There is one thread for each, not two for both: a write goes on if its caller is cancelled, and the next one must
    not begin beside it, in the same transaction.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self.writing: asyncio.Future[Any] | None = None
        self.syncing: asyncio.Future[int] | None = None
        self._writer = self._syncer = executor
        self._loop = asyncio.get_running_loop()

    async def write(self, function: Callable[[], T]) -> T:
        """Call the function in a thread, once what was asked for before is over. If the caller is cancelled, the thread
        continues."""
        self._writer = self._writer or _thread("kedge-store")
        self.writing = writing = self._loop.run_in_executor(self._writer, SWITCHING.during, function)
        writing.add_done_callback(_looked_at)
        return await asyncio.shield(writing)

    def sync_soon(self, function: Callable[[], int]) -> asyncio.Future[int]:
        """Call the function in a thread, beside what is written. Return its result, in time."""
        self._syncer = self._syncer or _thread("kedge-sync")
        self.syncing = syncing = self._loop.run_in_executor(self._syncer, function)
        return syncing

    async def close(self, function: Callable[[], None]) -> None:
        """Wait for what the threads do, call the function in one, and give the threads back."""
        if started := {future for future in (self.writing, self.syncing) if future is not None}:
            await asyncio.wait(started)
        await self.write(function)
        for executor in (self._writer, self._syncer):
            if executor is not None:
                executor.shutdown(wait=False)


def _thread(name: str) -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix=name)


def _looked_at(writing: "asyncio.Future[Any]") -> None:
    """Ask what the write has raised. Its caller may have been cancelled, and then does not ask."""
    if not writing.cancelled():
        writing.exception()
