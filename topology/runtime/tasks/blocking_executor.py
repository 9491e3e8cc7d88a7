"""Drives a bolt with `blocking = True`: its `process` runs in a thread, and the loop goes on.

What it returns is collected there, so that a generator's lines run in the thread, too; it is emitted, acked or failed
on the loop, as that of an async `process`. A thread can't be interrupted: an input over its time limit fails at once,
and its place is free when the thread has returned. Must not know trees or spouts.
"""

import asyncio
import contextvars
import errno
from collections.abc import Sequence
from typing import Any

from topology.codes.tuples import PROCESS_RETURNED_NO_ITERABLE
from topology.errors import EmitError
from topology.records import Record
from topology.runtime.hot.outputs import collected, waits
from topology.runtime.tasks.bolt_threads import Daemons
from topology.runtime.tasks.executor import Executor


class BlockingExecutor(Executor):
    """As many inputs at a time as its concurrency says: 1, unless the topology says more."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.waits = True
        self._threads = Daemons(self.concurrency, f"kedge {self.component}.{self.task}")
        self._taken = 0  # threads that have not returned, those of abandoned inputs included
        self._calls: set[asyncio.Future[Any]] = set()  # theirs

    @property
    def workable(self) -> bool:
        return bool(self.queue) and self._taken < self.concurrency

    def slice(self, count: int) -> int:
        taken = 0
        while taken < count and self._taken < self.concurrency:
            tup = self.queue.popleft()
            taken += 1
            self._taken += 1
            self.begin_waiting(tup, self._in_thread(tup.record))
        self.executed += taken
        return taken

    async def _in_thread(self, record: Record) -> Sequence[Record]:
        """Runs in the input's own asyncio task, so that what is logged there belongs to this component."""
        context = contextvars.copy_context()
        try:
            called = self._loop.run_in_executor(self._threads, lambda: context.run(self._process, record))
        except BaseException as refused:  # no thread can be made: the input fails, and is tried again after a back-off
            self._returned()
            if isinstance(refused, RuntimeError):
                raise OSError(errno.EAGAIN, f"no thread for `process` can be made: {refused}") from refused
            raise
        self._calls.add(called)
        called.add_done_callback(self._returned)
        outputs, error = await asyncio.shield(called)
        if error is not None:
            raise error
        return outputs

    def _process(self, record: Record) -> tuple[Sequence[Record], BaseException | None]:
        """In the thread. What it raises is returned: a future passes not every exception on."""
        try:
            outputs = self.bolt.process(record)
            if outputs is None:
                return (), None
            if waits(outputs):
                raise EmitError(
                    "`process` of a bolt with blocking = True returned what must be awaited",
                    code=PROCESS_RETURNED_NO_ITERABLE,
                )
            return collected(outputs), None
        except BaseException as error:
            return (), error

    def _returned(self, called: "asyncio.Future[Any] | None" = None) -> None:
        if called is not None:
            self._calls.discard(called)
        self._taken -= 1
        self.wake()

    async def returned(self, within_s: float) -> int:
        """Waits until no thread of this task is at work, so that `close` is called after the last of them; at most so
        long. Returns how many are left behind: they end with the process."""
        if not self._calls:
            return 0
        _, left = await asyncio.wait(set(self._calls), timeout=within_s)
        for call in left:
            call.cancel()  # what it returns later is dropped
        return len(left)
