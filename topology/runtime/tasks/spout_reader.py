"""Reads one source for a spout task, until the source ends or the run drains.

Must not know what becomes of the messages.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from topology.components import Message
from topology.runtime.tasks.polling import Polling

QUIET_S: Final = 5.0  # a source whose last poll has waited this long when the run drains counts as caught up


class SpoutReader:
    """The reading of one source. Make it in a running loop.

    `exhausted`: the source has ended by itself. `dry`: that, or it was quiet when the run was drained. `draining`: the
    source is asked for nothing more. `closed`: nothing is read at all. `given` counts what the source has given,
    `passed_over` what of that an earlier run had finished.
    `reread_max`: how many messages an earlier life may have read that come again.
    """

    def __init__(self, source: Polling, *, reread_max: int) -> None:
        self.source = source
        self.exhausted = self.dry = False
        self.draining = self.closed = False
        self.given = self.passed_over = 0
        self._reread_max = reread_max
        self._may_reread = True
        self._polling: asyncio.Task[Any] | None = None  # the task that waits in a poll
        self._asked_at = 0.0  # loop time of the last poll
        self._left = 0  # messages that the source had given, and that were not read, at the close
        self._loop = asyncio.get_running_loop()

    @property
    def has_more(self) -> bool:
        """True if a poll may return something: the run does not drain, or the source has already given it."""
        return not self.draining or bool(self.source.ahead)

    @property
    def may_reread(self) -> bool:
        """True as long as the source may have something that an earlier life of its task has read, as far as is known:
        it has given less than that could read, has not ended, and at no call of this has it been quiet for a while."""
        reread = self.given - self.passed_over
        is_quiet = self._polling is not None and self._loop.time() - self._asked_at >= QUIET_S
        self._may_reread &= not (is_quiet or self.exhausted or reread >= self._reread_max)
        return self._may_reread

    @property
    def unread(self) -> int:
        """Messages that the source has given, and that a drain still has to emit; after `close`, those that it has not
        emitted. What a generator yields after that is not read: the next run reads it again."""
        return self._left if self.closed else self.source.ahead if self.draining else 0

    async def poll(self, room: int) -> Sequence[Message[Any]]:
        """Poll once, for at most `room` messages. Empty if the source has ended, which `exhausted` then says, or if the
        run has begun to drain meanwhile."""
        self._polling, self._asked_at = asyncio.current_task(), self._loop.time()
        try:
            messages = await self.source.poll(room)
        except asyncio.CancelledError:
            if not self.draining or self.closed:
                raise
            return ()
        finally:
            self._polling = None
        if not messages and not self.draining:
            self.exhausted = self.dry = True
        self.given += len(messages)
        return messages

    async def has_late(self) -> bool:
        """Wait, if the run drains, for what the source was about to give. Return whether there is something."""
        return self.draining and await self.source.late()

    def drain(self) -> None:
        """Ask the source for nothing more. What a generator has yielded can still be polled."""
        self.draining = True
        self.source.stop()
        if self._polling is not None:
            self.dry |= self._loop.time() - self._asked_at >= QUIET_S
            self._polling.cancel()

    def close(self) -> None:
        """Read nothing any more, not even what the source has given."""
        if not self.closed:
            self._left = self.source.ahead
        self.draining = self.closed = True
