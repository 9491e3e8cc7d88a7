"""`WebSocketSource`: the messages of a WebSocket server as a source. Must not know payloads."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.broker.connection import Received
from spouts.broker.source import PREFETCH, BrokerSource
from spouts.checks import alone
from spouts.http.own_ids import OwnIds, TextIdDecoder
from spouts.http.sessions import HttpSession, checked_headers, checked_url
from spouts.lines import Line
from spouts.payload.formats import Value
from topology.clients.errors import ServerAway, invalid
from topology.clients.tls import Tls
from topology.components import Task
from topology.dead_letters import Malformed
from topology.records import Record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

MESSAGE_BYTES: Final = 4 * 1024 * 1024  # bytes of a message, if the user does not say
MESSAGE_BYTES_MAX: Final = 256 * 1024 * 1024
HEARTBEAT_S: Final = 20.0  # seconds, if the user does not say
CLOSE_S: Final = 2.0  # seconds that the goodbye may take
TOO_BIG: Final = 1009  # the WebSocket close code
AFTER: Final = "\n"  # between the id of a message and the number of a malformed one that came after it

Sent = str | bytes | Secret  # a message to the server: bytes as a binary one, others as text


class WebSocketSource(BrokerSource[R]):
    """Messages of a WebSocket server. The source connects again, without end, when the connection is lost.

        trades = topology.spout("trades", WebSocketSource("wss://feed.example/v1", value=Json(Trade, id="trade_id"),
                                                          subscribe='{"op": "subscribe", "channel": "trades"}'))

    **What is lost.** A WebSocket server keeps nothing by itself. Messages that come while the source is not connected
    are lost, and so are those that are under way when its worker dies. If the server can begin again at a message, say
    how by `resume`; then neither is.

    A message's id is the field of `Json(…, id=…)`, as a text: a message that comes again under the same id is dropped
    while it is under way, and later if it is among the last 100,000. Without such a field each message has a name of
    its own. One task: a second connection would get the same messages.

    Slow bolts make the source read no more, once `prefetch` messages wait. A server may drop messages then, or the
    connection. Statuses 401, 403, 404 and other refusals end the run at the start, and count as away later. Redirects
    are not followed.

    url      ws:// or wss://. A Secret, if it has a password or a token.
    value    The record class of a JSON payload; `Json`, `Msgpack` or a function for other ones. `Line`: the text.
    subscribe  What is sent after each connection: a message, or several. bytes are sent as a binary message. A Secret,
             if it has a token.
    resume   A function that is given the id of the last message, or None, and returns what asks the server for *that
             message and all after it*, or None for nothing. It is sent after `subscribe`. In a later run it is given
             the id of the oldest message that was not done.
    headers  Further headers of the request; values may be Secrets.
    protocols  Subprotocols, the preferred one first.
    heartbeat_s  Seconds of silence after which the source sends a ping. If nothing comes for as long again, the
             connection is lost.
    max_message_bytes  Bytes of a message (4 MiB). A longer one ends the connection; the stall line says why.
    tls      Certificates; None: those of the system.
    prefetch Messages that have come and are not emitted, at most.

    Beside the payload there is `type`: text or binary. There is no event time unless `Json(…, at=…)` names a field.
    """

    given_again = "never"
    names_messages = False
    offers: ClassVar[frozenset[str]] = frozenset({"type"})

    def __init__(
        self,
        url: str | Secret,
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        subscribe: Sent | Sequence[Sent] = (),
        resume: Callable[[str | None], Sent | None] | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        protocols: Sequence[str] = (),
        heartbeat_s: float = HEARTBEAT_S,
        max_message_bytes: int = MESSAGE_BYTES,
        tls: Tls | None = None,
        prefetch: int = PREFETCH,
    ) -> None:
        super().__init__(value, prefetch=prefetch)
        self._decoder = TextIdDecoder("WebSocketSource", value, self.offers)
        self.url = checked_url("WebSocketSource", url, ("ws", "wss"))
        self.headers = checked_headers("WebSocketSource", self.url, headers)
        first = (subscribe,) if isinstance(subscribe, str | bytes | Secret) else tuple(subscribe)
        if not all(isinstance(each, str | bytes | Secret) for each in first):
            raise invalid("WebSocketSource: subscribe is a text or bytes, or several of these")
        self.subscribe = tuple(Secret(each) if isinstance(each, str) else each for each in first)
        if isinstance(protocols, str) or not all(isinstance(each, str) and each for each in protocols):
            raise invalid(f"WebSocketSource: protocols is a list of names, not {protocols!r:.80}")
        if resume is not None and not self._decoder.names_messages:
            raise invalid("WebSocketSource: resume is given ids of messages, so name their field: value=Json(…, id=…)")
        if not isinstance(heartbeat_s, int | float) or not 0 < heartbeat_s < float("inf"):
            raise invalid(f"WebSocketSource: heartbeat_s is a number of seconds above 0, not {heartbeat_s!r:.80}")
        if type(max_message_bytes) is not int or not 1 <= max_message_bytes <= MESSAGE_BYTES_MAX:
            limits = f"from 1 to {MESSAGE_BYTES_MAX:,}"
            raise invalid(f"WebSocketSource: max_message_bytes is {limits}, not {max_message_bytes!r:.80}")
        self.resume, self.protocols = resume, tuple(protocols)
        self.heartbeat_s, self.max_message_bytes, self.tls = heartbeat_s, max_message_bytes, tls
        if resume is not None:
            vars(self)["given_again"] = "same"  # elsewhere a constant of the class

    async def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Connect and subscribe. Raises as `BrokerSource.open` does."""
        alone(task, "is one connection")
        self._own_ids = OwnIds(task, "WebSocketSource")
        position = positions.get("")
        self._last = position if isinstance(position, str) and self.resume is not None else None
        self._after_last = 0  # malformed messages since
        done, mark, _ = (self._last or "").partition(AFTER)
        if mark:  # the oldest message that is not done is malformed: the one before it is done
            self._last = done
        await super().open(task, positions)
        if mark:
            self._unconfirmed.settle(("", done))

    def _connect(self, task: Task) -> "WebSocketConnection":
        return WebSocketConnection(self)

    def asks_again(self) -> Sent | None:
        """Return what asks the server to begin at the last message, or None."""
        return self.resume(self._last) if self.resume is not None else None

    def _take(self, received: Received) -> None:
        before = len(self._ready)
        super()._take(received)
        if len(self._ready) > before and type(self._ready[-1].record) is not Malformed:
            self._last, self._after_last = str(self._ready[-1].id), 0

    def _id_of(self, received: Received) -> MessageId:
        if self.resume is None or self._last is None:
            return self._own_ids.next()
        self._after_last += 1  # a malformed message: its id says where it stands, for a later run
        return f"{self._last}{AFTER}{self._after_last}"


class WebSocketConnection:
    """One connection after the other."""

    def __init__(self, source: WebSocketSource[Any]) -> None:
        self._source = source
        self._http = HttpSession("WebSocketSource", source.url, source.headers, source.tls)
        self.where = self._http.where
        self._socket: Any = None
        self._is_asked = False  # a ping was sent, and nothing has come since

    async def open(self) -> None:
        """See `Connection.open`."""
        source = self._source
        question = source.asks_again()
        messages = (*source.subscribe, *(() if question is None else (question,)))
        try:
            session = self._http.begin()
            self._socket = await session.ws_connect(
                self._http.url, protocols=source.protocols, autoping=False, max_msg_size=source.max_message_bytes
            )
            self._http.keep_alive(self._socket)
            self._is_asked = False
            for message in messages:
                await self._send(message)
        except self._http.errors as error:
            raise self._http.of_error(error) from None  # the error has the URL

    async def _send(self, message: Sent) -> None:
        if isinstance(message, bytes):
            await self._socket.send_bytes(message)
        else:
            await self._socket.send_str(message.reveal() if isinstance(message, Secret) else message)

    async def receive(self, limit: int) -> Sequence[Received]:
        """See `Connection.receive`."""
        kinds = self._http.library.WSMsgType
        while True:
            message = await self._next()
            if message is None:
                continue
            if message.type is kinds.TEXT:
                return [Received(None, message.data.encode(), None, {"type": "text"})]
            if message.type is kinds.BINARY:
                return [Received(None, message.data, None, {"type": "binary"})]
            if message.type is kinds.PING:
                with contextlib.suppress(ConnectionError):  # the next read says that it is lost
                    await self._socket.pong(message.data)
            elif message.type is not kinds.PONG:
                raise self._lost(message)

    async def _next(self) -> Any:
        """Return the next message; None if a ping was sent in place of waiting longer."""
        try:
            async with asyncio.timeout(self._source.heartbeat_s):
                message = await self._socket.receive()
        except TimeoutError:
            if self._is_asked:
                text = f"{self.where} has not answered a ping for {self._source.heartbeat_s:g} s"
                raise ServerAway(text) from None
            self._is_asked = True
            with contextlib.suppress(ConnectionError):
                await self._socket.ping()
            return None
        self._is_asked = False
        return message

    def _lost(self, message: Any) -> ServerAway:
        code = getattr(message.data, "code", None) or self._socket.close_code
        if code == TOO_BIG and message.type is self._http.library.WSMsgType.ERROR:
            limit = self._source.max_message_bytes
            return ServerAway(f"{self.where} sends a message of more than {limit:,} bytes; raise max_message_bytes")
        return ServerAway(f"{self.where} has closed the connection (code {code})")

    async def confirm(self, handles: Sequence[Any]) -> None:
        """See `Connection.confirm`: there is nothing to say."""

    async def give_back(self, handles: Sequence[Any]) -> None:
        """See `Connection.give_back`."""

    async def close(self) -> None:
        """See `Connection.close`."""
        used, self._socket = self._socket, None
        if used is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_S):
                    await used.close()
        await self._http.end()
