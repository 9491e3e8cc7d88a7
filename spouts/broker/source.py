"""`BrokerSource`: a source on a server that gives messages until they are confirmed.

A task of the loop keeps the connection, and another confirms what is settled; `poll` takes what has come. Must not know
any protocol, nor payloads' formats.
"""

import asyncio
import contextlib
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.broker.connection import Connection, Received
from spouts.broker.retries import ServerRetries
from spouts.broker.unconfirmed import Unconfirmed
from spouts.lines import Line
from spouts.payload.decoder import PayloadDecoder
from spouts.payload.formats import Payload, Value
from topology.clients.errors import ServerAway, invalid, not_yet
from topology.components import Message, Positions, Spout, Task
from topology.dead_letters import Malformed
from topology.errors import ConfigurationError
from topology.records import Record

R = TypeVar("R", bound=Record, default=Line)

PREFETCH: Final = 2_000  # messages that have come and are not emitted, if the user does not say
OPENING_S: Final = 5.0  # seconds that one try of the first connection may take
CONFIRM_AT_ONCE: Final = 1_000  # messages that one call confirms
LAST_CONFIRM_S: Final = 5.0  # seconds that the last confirmations may take


class BrokerSource(Spout, Generic[R]):
    """A source whose server gives each message until it is confirmed. A subclass provides the connection.

    A message is confirmed once a decided checkpoint has it, so after any crash the server gives again what was not
    done. A message that is given again while it is under way is not emitted twice. If `prefetch` messages have come and
    are not emitted, the source asks for no more, and the rest waits at the server.

    If the server goes away, the source connects again, without end, and the stall line says so. The first connection is
    tried until start_timeout_s.
    """

    names_messages: ClassVar[bool] = True  # False: its server has no ids, so `Json(…, id=…)` may name a field
    offers: ClassVar[frozenset[str]] = frozenset()  # the names of the facts beside a payload
    away: str = ""  # the reason for which nothing comes now

    def __init__(self, value: Value[R], *, prefetch: int = PREFETCH, from_texts: bool = False) -> None:
        self._kind = type(self).__name__
        if type(prefetch) is not int or prefetch < 1:
            raise invalid(f"{self._kind}: prefetch is a number of messages of at least 1, not {prefetch!r:.80}")
        self._decoder = PayloadDecoder(self._kind, value, self.offers, from_texts=from_texts)
        if self.names_messages and self._decoder.names_messages:
            raise invalid(f"{self._kind}: its server names the messages; leave out id")
        self.prefetch = prefetch
        self.received = self.malformed = 0
        self._connection: Connection | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @abstractmethod
    def _connect(self, task: Task) -> Connection:
        """Return the connection of this task, not yet open. Called by `open`, on the loop."""

    def _id_of(self, received: Received) -> MessageId:
        """Return the id of a message that has none by itself, nor in a field."""
        raise NotImplementedError(f"{self._kind} has no id for a message")

    def emits(self) -> tuple[type[Record], ...]:
        """Return the record class, and `Malformed`."""
        return self._decoder.emits()

    async def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Connect and subscribe.

        Raises ConfigurationError for what the user has to fix, and NotYet for a server that does not answer; the source
        is then closed, and may be opened again.
        """
        self._unconfirmed = Unconfirmed()
        self._positions = positions if isinstance(positions, Positions) else Positions(positions)
        self._ready: deque[Message[Any]] = deque()
        self._news = asyncio.Event()  # something is ready, or the source has ended or failed
        self._room = asyncio.Event()  # fewer messages are ready than `prefetch`
        self._settled: deque[Any] = deque()  # handles to confirm
        self._to_confirm = asyncio.Event()
        self._confirmed = asyncio.Event()  # `_settled` is empty, and nothing is being confirmed
        self._confirmed.set()
        self._ended = False
        self._failure: BaseException | None = None
        self._retries = ServerRetries(task.component, task.random, self._set_away)
        connection = self._connection = self._connect(task)
        try:
            async with asyncio.timeout(OPENING_S):
                await connection.open()
        except (ServerAway, TimeoutError) as error:
            why = str(error) or f"{connection.where} has not answered within {OPENING_S:g} s"
            await self.close()
            raise not_yet(f"{self._kind}: {why}") from error
        except BaseException:
            await self.close()
            raise
        loop = asyncio.get_running_loop()
        for name, work in (("receives", self._receive), ("confirms", self._confirm)):
            self._tasks.append(loop.create_task(self._watched(work), name=f"{task.component} {name}"))

    async def poll(self, limit: int) -> list[Message[R]]:
        """Wait for a message; return up to `limit`. Cancelling it loses nothing."""
        ready = self._ready
        while not ready:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return []
            self._news.clear()
            await self._news.wait()
        taken = [ready.popleft() for _ in range(min(limit, len(ready)))]
        if len(ready) < self.prefetch:
            self._room.set()
        return taken

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        """Confirm these messages to the server, soon."""
        for message in ids:
            if (handle := self._unconfirmed.settle((partition, message))) is not None:
                self._settled.append(handle)
        if self._settled:
            self._confirmed.clear()
            self._to_confirm.set()

    async def close(self) -> None:
        """Confirm what is settled, and disconnect. Waits some seconds at most."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._tasks and not self.away and self._failure is None:
            # a server that does not answer gives the messages again, and then they are settled at once
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_CONFIRM_S):
                    await self._confirmed.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks and not self.away:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_CONFIRM_S):
                    await connection.give_back(self._unconfirmed.handles())
        self._tasks = []
        await connection.close()

    def summary(self) -> Iterable[str]:
        """Yield the counts, and the place of the source."""
        if self._connection is not None:
            again, malformed = self._unconfirmed.given_again, self.malformed
            parts = [f"{self.received:,} received from {self._connection.where}"]
            parts += [f"{again:,} given again"] * bool(again) + [f"{malformed:,} malformed"] * bool(malformed)
            yield ", ".join(parts)

    # -- receiving

    async def _receive(self) -> None:
        connection = self._connection
        assert connection is not None, "open"
        is_open = True

        async def receive() -> Sequence[Received]:
            nonlocal is_open
            try:
                if not is_open:
                    await self._open_again(connection)
                    is_open = True
                    self._set_away("")
                return await connection.receive(max(1, self.prefetch - len(self._ready)))
            except ServerAway:
                is_open = False
                await connection.close()
                raise

        while True:
            while len(self._ready) >= self.prefetch:
                self._room.clear()
                await self._room.wait()
            messages = await self._retries.ask(receive)
            if not messages:
                self._ended = True
                self._news.set()
                return
            for message in messages:
                self._take(message)

    async def _open_again(self, connection: Connection) -> None:
        """Connect once more. What the server refuses now, after it has accepted it, may be repaired there."""
        try:
            async with asyncio.timeout(OPENING_S):
                await connection.open()
        except ConfigurationError as error:
            raise ServerAway(str(error)) from error
        except TimeoutError as error:
            raise ServerAway(f"{connection.where} has not answered within {OPENING_S:g} s") from error

    def _take(self, received: Received) -> None:
        """Make a message of what the server has given, unless it is under way or done."""
        self.received += 1
        own = received.id
        if own is not None and self._is_known(received, own):
            return
        decoded = self._decoder.decode(Payload(received.data, received.attributes, received.at))
        if own is None:
            own = decoded.id if decoded.id is not None else self._id_of(received)
            if self._is_known(received, own):
                return
        if type(decoded.record) is Malformed:
            self.malformed += 1
        self._ready.append(Message(decoded.record, own, received.partition, decoded.at))
        self._news.set()

    def _is_known(self, received: Received, message: MessageId) -> bool:
        """Return True if this message is not to be emitted; note its new handle."""
        name, handle = (received.partition, message), received.handle
        if self._unconfirmed.was_settled(name):
            if handle is not None:
                self._settled.append(handle)
                self._confirmed.clear()
                self._to_confirm.set()
            return True
        return not self._unconfirmed.is_new(name, handle)

    # -- confirming

    async def _confirm(self) -> None:
        connection, settled = self._connection, self._settled
        assert connection is not None, "open"
        while True:
            await self._to_confirm.wait()
            self._to_confirm.clear()
            while settled:
                handles = [settled.popleft() for _ in range(min(CONFIRM_AT_ONCE, len(settled)))]
                try:
                    await connection.confirm(handles)
                except ServerAway:  # it gives these messages again, and then they are confirmed
                    settled.clear()
            self._confirmed.set()

    # -- the two tasks

    async def _watched(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failure = error
            self._news.set()

    def _set_away(self, why: str) -> None:
        self.away = why
