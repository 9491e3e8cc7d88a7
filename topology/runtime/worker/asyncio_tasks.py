"""The asyncio tasks of one worker. None of them may end unnoticed. Must not know what they do."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from topology.runtime.asyncio_tools import shielded_task


class AsyncioTasks:
    """Starts tasks and reports their ends: `ended` is called for each, then `failed` with (error, name, source) for one
    that raised, or that was cancelled before `closing` was set. `source`: it reads a source."""

    def __init__(self, ended: Callable[[], None], failed: Callable[[BaseException, str, bool], None]) -> None:
        self.running: set[asyncio.Task[Any]] = set()
        self.closing = False
        self._sources: set[asyncio.Task[Any]] = set()
        self._ended, self._failed = ended, failed

    def spawn(self, work: Callable[[], Awaitable[Any]], name: str, *, source: bool = False) -> None:
        """Run this work as a task of that name."""
        task = asyncio.get_running_loop().create_task(shielded_task(work), name=name)
        self.running.add(task)
        if source:
            self._sources.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[BaseException | None]) -> None:
        self.running.discard(task)
        self._ended()
        error = None if task.cancelled() else task.result()
        if task.cancelled() and not self.closing:
            error = RuntimeError(f"{task.get_name()} was cancelled by something that it ran")
        if error is not None:
            self._failed(error, task.get_name(), task in self._sources)
