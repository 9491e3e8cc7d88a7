"""`Paced`: another source at a limited rate. Knows the contracts, and no source in particular."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic

from acker.identity import MessageId
from topology.codes.settings import INVALID_PACED_RATE
from topology.components import Message, Polls, R, Records, Spout, Task
from topology.errors import ConfigurationError
from topology.records import Record
from topology.runtime.tasks.polling import Polling, polling
from topology.signatures import of_spout

TOGETHER_S: Final = 0.01  # messages that are due within this many seconds come in one poll
CATCH_UP_S: Final = 0.1  # seconds of delay that may be caught up by sending faster


class Paced(Spout, Generic[R]):
    """The messages of `spout`, at most `rate` per second for all tasks together. Use it to watch a short log, or to
    spare a slow service.

        topology.spout("lines", Paced(FileTail(path), rate=1200))

    Ids, partitions, epochs, event times and positions are those of `spout`, and so are `ack`, `fail`, `settled` and
    `summary`: pacing changes no identity.

    If messages are delayed, for example by a full topology, up to a tenth of a second is caught up. Replays are not
    delayed. Raises ConfigurationError for an invalid rate or spout.
    """

    def __init__(self, spout: Records[R] | Polls[R], rate: float) -> None:
        if not 0 < rate < float("inf"):
            raise ConfigurationError(
                f"Paced: rate is a number of messages per second above 0, not {rate:g}", code=INVALID_PACED_RATE
            )
        if problems := of_spout(spout)[1]:
            raise ConfigurationError(f"Paced: {'; '.join(problems)}", code=problems[0].code)
        wrapped: Any = spout
        self.spout = wrapped
        self.rate = rate
        vars(self)["outside_ids"] = wrapped.outside_ids  # elsewhere a constant of the class, as the next are
        vars(self)["given_again"] = wrapped.given_again
        vars(self)["shared_ids"] = wrapped.shared_ids
        vars(self)["one_queue"] = wrapped.one_queue

    def emits(self) -> Sequence[type[Record]]:
        """Return the classes that `spout` emits."""
        return of_spout(self.spout)[0]

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> Awaitable[None] | None:
        """Open `spout`; all tasks have equal shares of the rate."""
        self._clock = task.clock
        self._task_rate = self.rate / task.tasks
        self._next_at = 0.0  # when the next message may come, in the clock's seconds
        self._source = polling(self.spout, ahead_max=max(1, int(self._task_rate * TOGETHER_S)))
        opened: Awaitable[None] | None = self.spout.open(task, positions)
        return opened

    async def poll(self, limit: int) -> Sequence[Message[R]]:
        """Poll `spout` when the next message is due. Cancelling it loses nothing."""
        await asyncio.sleep(self._next_at - self._clock.monotonic())
        messages = await self._source.poll(min(limit, max(1, int(self._task_rate * TOGETHER_S))))
        earliest = self._clock.monotonic() - CATCH_UP_S
        self._next_at = max(self._next_at, earliest) + len(messages) / self._task_rate
        return messages

    @property
    def polling_within(self) -> Polling:
        """The source of the messages: those that its generator has yielded are emitted before a drain ends."""
        return self._source

    def partitions(self) -> Mapping[str, str]:
        """Return the partitions of `spout`, as they were at its last messages."""
        return self._source.epochs

    def ack(self, id: MessageId) -> None:
        self.spout.ack(id)

    def fail(self, id: MessageId) -> None:
        self.spout.fail(id)

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        self.spout.settled(ids, partition)

    @property
    def away(self) -> str:
        """The reason for which `spout` waits."""
        return getattr(self.spout, "away", "")

    def summary(self) -> Iterable[str]:
        lines: Iterable[str] = self.spout.summary()
        return lines

    def close(self) -> Awaitable[None] | None:
        """Close `spout`, after the end of its generator if it has one."""
        if hasattr(self.spout, "poll") or not hasattr(self, "_source"):
            closed: Awaitable[None] | None = self.spout.close()
            return closed
        return self._close()

    async def _close(self) -> None:
        await self._source.close()
        closed = self.spout.close()
        if closed is not None:
            await closed
