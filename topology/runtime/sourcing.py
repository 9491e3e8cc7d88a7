"""Where a spout's messages come from: its `poll` as it is, or a pump that makes one of its `records` generator.

Both give a batch and the epochs that its partitions had. Must not know trees or replays.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Protocol

from topology.codes.running import K522
from topology.components import Message
from topology.errors import KedgeError
from topology.runtime.hosting import outlived

CLOSE_S: Final = 10.0  # how long a generator may take to end
AHEAD_MAX: Final = 128  # messages that a generator may be ahead of what was emitted


class Polling(Protocol):
    """A source of batches. `poll` waits; an empty batch is the end; cancelled, it has lost nothing."""

    epochs: Mapping[str, str]

    async def poll(self, limit: int) -> Sequence[Message[Any]]: ...
    async def close(self) -> None: ...


class Polled:
    """A spout that defines `poll`."""

    def __init__(self, spout: Any) -> None:
        self._spout = spout
        self.epochs: Mapping[str, str] = {}

    async def poll(self, limit: int) -> Sequence[Message[Any]]:
        messages: Sequence[Message[Any]] | None = await self._spout.poll(limit)
        if messages is None:
            raise KedgeError(f"{type(self._spout).__name__}.poll returned None", code=K522)
        self.epochs = self._spout.partitions()
        return messages

    async def close(self) -> None:
        return None


class Pumped:
    """A spout that defines `records`: an asyncio task iterates it, at most AHEAD_MAX messages ahead."""

    def __init__(self, spout: Any) -> None:
        self._spout = spout
        self.epochs: Mapping[str, str] = {}
        self._ahead: deque[tuple[Message[Any], Mapping[str, str]]] = deque()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[BaseException | None] | None = None

    async def poll(self, limit: int) -> Sequence[Message[Any]]:
        if self._task is None:
            polling = asyncio.current_task()  # whose name says which spout it is
            name = f"{polling.get_name() if polling is not None else ''} records"
            self._task = asyncio.create_task(outlived(self._pump), name=name)
        while not self._ahead:
            if self._task.done():
                if (error := self._task.result()) is not None:
                    raise error
                return ()
            self._changed.clear()
            await self._changed.wait()
        epochs = self._ahead[0][1]
        messages: list[Message[Any]] = []
        while self._ahead and self._ahead[0][1] is epochs and len(messages) < limit:
            messages.append(self._ahead.popleft()[0])
        self.epochs = epochs
        self._changed.set()
        return messages

    async def _pump(self) -> None:
        try:
            records = self._spout.records()
            try:
                async for message in records:
                    self._ahead.append((message, self._spout.partitions()))
                    self._changed.set()
                    while len(self._ahead) >= AHEAD_MAX:
                        self._changed.clear()
                        await self._changed.wait()
            finally:
                if isinstance(records, AsyncGenerator):  # else the garbage collector ends it, when the run is over
                    await records.aclose()
        finally:
            self._changed.set()

    async def close(self) -> None:
        """Ends the generator; its `finally` blocks run."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_S)  # it may ignore its cancellation


def polling(spout: Any) -> Polling:
    """The way in to a spout's messages."""
    return Polled(spout) if hasattr(spout, "poll") else Pumped(spout)
