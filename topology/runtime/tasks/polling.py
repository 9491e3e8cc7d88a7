"""The source of a spout's messages: its `poll` as it is, or a pump that makes one of its `records` generator.

Both give a batch and the epochs that its partitions had. Must not know trees or replays.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Protocol

from topology.codes.runtime import POLL_RETURNED_NONE
from topology.components import Message, Spout
from topology.errors import KedgeError
from topology.runtime.asyncio_tools import shielded_task

CLOSE_S: Final = 10.0  # how long a generator may take to end


class Polling(Protocol):
    """A source of batches. `poll` waits; an empty batch is the end; cancelled, it has lost nothing."""

    epochs: Mapping[str, str]

    @property
    def ahead(self) -> int:
        """Messages that the source has given and `poll` has not: `poll` gives these without waiting for the source."""
        ...

    async def poll(self, limit: int) -> Sequence[Message[Any]]: ...

    def stop(self) -> None:
        """Asks the source for nothing more, but for what it is about to give."""

    async def late(self) -> bool:
        """After `stop`: waits for what the source was about to give. Whether there is something; it may never come."""
        ...

    async def close(self) -> None: ...


class Polled:
    """A spout that defines `poll`."""

    def __init__(self, spout: Any) -> None:
        self._spout = spout
        self.epochs: Mapping[str, str] = {}

    async def poll(self, limit: int) -> Sequence[Message[Any]]:
        messages: Sequence[Message[Any]] | None = await self._spout.poll(limit)
        if messages is None:
            raise KedgeError(f"{type(self._spout).__name__}.poll returned None", code=POLL_RETURNED_NONE)
        self.epochs = self._spout.partitions()
        return messages

    @property
    def _within(self) -> Polling | None:
        """The way in to another spout, where this one wraps that, as `Paced` does."""
        within: Polling | None = getattr(self._spout, "polling_within", None)
        return within

    @property
    def ahead(self) -> int:
        return self._within.ahead if self._within is not None else 0

    def stop(self) -> None:
        if self._within is not None:
            self._within.stop()

    async def late(self) -> bool:
        return self._within is not None and await self._within.late()

    async def close(self) -> None:
        return None


class Pumped:
    """A spout that defines `records`: an asyncio task iterates it, at most `most` messages ahead of `poll`."""

    def __init__(self, spout: Any, most: int) -> None:
        self._spout, self._most = spout, most
        self.epochs: Mapping[str, str] = {}
        self._stopped = self._parked = False  # parked: the generator stands where it has yielded last
        self._ahead: deque[tuple[Message[Any], Mapping[str, str]]] = deque()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[BaseException | None] | None = None

    async def poll(self, limit: int) -> Sequence[Message[Any]]:
        if self._task is None:
            polling = asyncio.current_task()  # whose name says which spout it is
            name = f"{polling.get_name() if polling is not None else ''} records"
            self._task = asyncio.create_task(shielded_task(self._pump), name=name)
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
            records, has_loop = self._spout.records(), True
            try:
                async for message in records:
                    self._ahead.append((message, self._spout.partitions()))
                    self._changed.set()
                    while self._stopped or len(self._ahead) >= self._most:
                        if self._stopped and not self._parked:
                            self._parked = True
                            self._changed.set()
                        self._changed.clear()
                        await self._changed.wait()
            except GeneratorExit:  # this coroutine is garbage: nothing can be awaited any more
                has_loop = False
                raise
            finally:
                # another kind of iterator is ended by the garbage collector, when the run is over
                if has_loop and isinstance(records, AsyncGenerator):
                    await records.aclose()
        finally:
            self._changed.set()

    @property
    def ahead(self) -> int:
        return len(self._ahead)

    def stop(self) -> None:
        """The generator stays where it is until `close`: its `finally` blocks may take away what acks need."""
        self._stopped = True
        self._changed.set()

    async def late(self) -> bool:
        while not self._ahead:
            if self._task is None or self._task.done() or self._parked:
                return False
            self._changed.clear()
            await self._changed.wait()
        return True

    async def close(self) -> None:
        """Ends the generator; its `finally` blocks run."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_S)  # it may ignore its cancellation


def polling(spout: Any, *, ahead_max: int | None = None) -> Polling:
    """The way in to a spout's messages. `ahead_max`: how far a generator may run ahead at most, where that is less than
    the spout's `reads_ahead`."""
    if hasattr(spout, "poll"):
        return Polled(spout)
    reads_ahead: int = getattr(spout, "reads_ahead", Spout.reads_ahead)
    return Pumped(spout, reads_ahead if ahead_max is None else min(reads_ahead, ahead_max))
