"""`BrokerSource`: a source on a server that gives messages until they are confirmed.

A task of the loop keeps the connection, and another confirms what is settled; `poll` takes what has come. Must not know
any protocol, nor payloads' formats.
"""

import asyncio
import contextlib
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Generic

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.broker.connection import Connection, Received
from spouts.broker.payload_room import PayloadRoom
from spouts.broker.retries import ServerOutage
from spouts.broker.unconfirmed import Unconfirmed
from spouts.lines import Line
from spouts.payload.decoder import PayloadDecoder, content_digest, malformed
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
END_S: Final = 2.0  # seconds that the tasks of a closed source may take to end …
CANCEL_S: Final = 0.1  # … in which they are cancelled so often: a client library may swallow a cancellation
OTHER_CONTENT: Final = "the id {!r:.300} was used for other content"

log = logging.getLogger("kedge.spouts")


class BrokerSource(Spout, Generic[R]):
    """A source whose server gives each message until it is confirmed. A subclass provides the connection.

    A message is confirmed once a decided checkpoint has it, so after any crash the server gives again what was not
    done. A message that is given again while it is under way is not emitted twice, nor is one that was settled and
    whose confirmation the server has not heard, as far as `Unconfirmed` remembers it.

    The source asks for no more while `prefetch` messages have come and are not emitted, or messages with payloads of 64
    MiB; the rest waits at the server. One answer may exceed the bytes, if its payloads are larger than those before. A
    connection to which the server sends unasked has to bound what it holds itself. Messages that were emitted are not
    counted: the run bounds them.

    If the server goes away, the source connects again, without end, at longer and longer intervals; the stall line and
    the log say why. That includes a server that takes the connection and refuses a confirmation. It counts as back once
    a confirmation has succeeded, a new message has come and no confirmation was refused, or 5 seconds have passed
    without trouble. The first connection is tried until start_timeout_s.
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

    def _content_of(self, received: Received) -> bytes:
        """Return a digest of a message that a field names, the same if it is given again."""
        return content_digest(received.data)

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
        self._waiting = PayloadRoom(self.prefetch)  # what is ready
        self._room = asyncio.Event()  # `_waiting` is not full
        self._settled: deque[Any] = deque()  # handles to confirm
        self._to_confirm = asyncio.Event()
        self._confirmed = asyncio.Event()  # `_settled` is empty, and nothing is being confirmed
        self._confirmed.set()
        self._ended = False
        self._failure: BaseException | None = None
        self._retries = ServerOutage(task.component, task.random, self._set_away)
        self._is_open, self._is_closing = True, False
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
        self._waiting.leave(len(taken))
        if not self._waiting.is_full:
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
        await self._end_tasks()
        if self._tasks and not self.away:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_CONFIRM_S):
                    await connection.give_back(self._unconfirmed.handles())
        self._tasks = []
        self.away = ""
        await connection.close()

    async def _end_tasks(self) -> None:
        """End the two tasks. Takes END_S at most."""
        self._is_closing = True
        self._retries.stop()
        running, loop = {*self._tasks}, asyncio.get_running_loop()
        until = loop.time() + END_S
        while running and loop.time() < until:
            for task in running:
                task.cancel()
            _, running = await asyncio.wait(running, timeout=CANCEL_S)
        for task in running:
            log.warning("%s: a task does not end, and is left alone: %s", self._kind, task.get_name())

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
        while not self._is_closing:
            while self._waiting.is_full:
                self._room.clear()
                await self._room.wait()
            try:
                if not self._is_open:
                    await self._open_again(connection)
                    self._is_open = True
                    self._retries.connected()
                messages = await connection.receive(self._waiting.limit())
            except ServerAway as error:
                self._is_open = False
                await connection.close()
                await asyncio.sleep(self._retries.failed(error))
                continue
            if not messages:
                self._ended = True
                self._news.set()
                return
            self._waiting.heard([len(message.data) for message in messages])
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
        if received.after is not None and isinstance(own, int):
            self._unconfirmed.nothing_between(received.partition, received.after, own)
        if own is not None and self._is_known(received, own):
            return
        payload = Payload(received.data, received.attributes, received.at)
        decoded = self._decoder.decode(payload)
        if own is None:
            own = decoded.id
            if own is not None and self._unconfirmed.has_other((received.partition, own), self._content_of(received)):
                decoded, own = replace(decoded, record=malformed(payload, OTHER_CONTENT.format(own))), None
            if own is None:
                own = self._id_of(received)
            if self._is_known(received, own):
                return
        if type(decoded.record) is Malformed:
            self.malformed += 1
        self._ready.append(Message(decoded.record, own, received.partition, decoded.at))
        self._waiting.enter(len(received.data))
        self._retries.came()
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
                was_open = self._is_open
                try:
                    await connection.confirm(handles)
                except ServerAway as error:  # it gives these messages again, and then they are confirmed
                    settled.clear()
                    if was_open:
                        self._retries.refused(error)
                else:
                    if was_open and self._is_open:
                        self._retries.over()
            self._confirmed.set()

    # -- the two tasks

    async def _watched(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._set_away("")
            self._failure = error
            self._news.set()

    def _set_away(self, why: str) -> None:
        self.away = why
