"""`Inbox`: what has come to a source and is not emitted yet, with a bound. Knows the loop.

A source whose messages come by themselves puts them here, and its `poll` takes them. Must not know what they are.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

PREFETCH: Final = 2_000  # messages that have come and are not emitted, if the user does not say
BYTES_MAX: Final = 16 << 20  # of their contents
LATE_S: Final = 1.0  # seconds that a drain waits for what was about to come


class Incoming(NamedTuple):
    """One message that has come. `problem`: the reason why its content is not whole. `at`: when it came, in UTC."""

    id: int
    data: bytes
    problem: str
    attributes: Mapping[str, Any]
    at: datetime | None


class Inbox:
    """The messages that wait for `poll`. Make it in a running loop.

    It is full at `most` messages, or at 16 MiB. `holds_back(True)` is then called, once, and `holds_back(False)` when
    half of it is free again. What is put meanwhile is kept all the same: who puts has to stop.

    `ahead`, `stop` and `late` make it the `polling_within` of its spout: a run that drains emits what has come.
    `stops` is called by `stop`, and `to_come` is waited for until nothing comes any more.
    """

    def __init__(
        self,
        most: int,
        holds_back: Callable[[bool], None],
        *,
        stops: Callable[[], None] = lambda: None,
    ) -> None:
        self.is_full = False
        self.to_come: asyncio.Event | None = None
        self._most, self._holds_back, self._stops = most, holds_back, stops
        self._waiting: deque[Incoming] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._ended = False
        self._failure: BaseException | None = None

    def put(self, messages: Sequence[Incoming]) -> None:
        """Add messages."""
        if not messages:
            return
        self._waiting.extend(messages)
        self._bytes += sum(len(message.data) for message in messages)
        self._news.set()
        if not self.is_full and (len(self._waiting) >= self._most or self._bytes >= BYTES_MAX):
            self.is_full = True
            self._holds_back(True)

    def end(self, failure: BaseException | None = None) -> None:
        """Let `take` return nothing, or raise, when all has been taken."""
        self._ended = True
        self._failure = self._failure or failure
        self._news.set()

    async def take(self, limit: int) -> list[Incoming]:
        """Wait for a message; return up to `limit`. An empty list means the end. Cancelling it loses nothing."""
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return []
            self._news.clear()
            await self._news.wait()
        waiting = self._waiting
        taken = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
        self._bytes -= sum(len(message.data) for message in taken)
        if self.is_full and len(waiting) <= self._most // 2 and self._bytes <= BYTES_MAX // 2:
            self.is_full = False
            self._holds_back(False)
        return taken

    # -- at the end of a run

    @property
    def ahead(self) -> int:
        """Return how many messages `take` returns without waiting."""
        return len(self._waiting)

    def stop(self) -> None:
        """Ask for nothing more."""
        self._stops()

    async def late(self) -> bool:
        """After `stop`: wait for what was about to come. Return True if there is something."""
        if self.to_come is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LATE_S):
                    await self.to_come.wait()
        return bool(self._waiting)
