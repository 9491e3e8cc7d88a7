"""Connections by MQTT 5. Knows paho-mqtt; must not know topics, sessions' content or what is sent.

paho's client works on the event loop here: its socket is connected by the loop, and read and written when it is ready.
aiomqtt, which is made of paho, cannot be used: it hides the flag of a message that is given again, and the reason for
which a server does not take one; it confirms without order of its own; and it connects in a thread, which a cancelled
run leaves behind with its socket.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from topology.clients.addresses import LOOSE_AT, has_loose_at, without_secrets
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.secrets import Secret
from topology.text import printable

CONNECT_S: Final = 3.0  # seconds that connecting may take
ANSWER_S: Final = 5.0  # seconds that the server has to answer a subscription
CLOSE_S: Final = 2.0  # seconds that closing may take
KEEPALIVE_S: Final = 10  # seconds without a sign of life; after twice as many the connection is lost
LOOK_S: Final = 1.0  # seconds between two looks at whether the server is silent
READ_AT_ONCE: Final = 100  # packets that are read before the loop gets a turn
PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
WINDOW_MAX: Final = 65_535  # messages that may wait for their acknowledgements
PACKET_MAX: Final = 268_435_455  # bytes of a packet, as MQTT can say its length
NEAR_BYTES: Final = 65_536  # below the largest message, from where its properties are measured too
HEADER_BYTES: Final = 9  # of a message: type, length, number, and the length of its topic, at most
FAILURE: Final = 0x80  # reason codes from here on are failures
CREDENTIALS: Final = frozenset({0x86, 0x87, 0x8A, 0x8C})  # reasons: user or password, not authorized, banned, method
OLD: Final = 0x84  # reason: protocol version
REFUSALS: Final = frozenset({0x85, 0x90, 0x95, 0x9A, 0x9B, 0x9C, 0x9D})  # of a connection, which stay
TAKEN_OVER, SILENT = 0x8E, 0x8D  # reasons of a disconnection: another session; keep alive timeout
PASSING: Final = frozenset({0x88, 0x89, 0x97, 0x9F})  # reasons that may pass: unavailable, busy, quota, rate

Reason: TypeAlias = tuple[int, str]  # a reason code of MQTT 5, and its name


@dataclass(frozen=True)
class MqttAccess:
    """The way to a server, checked. `where` is its address, for people."""

    needed_by: str
    where: str
    host: str
    port: int
    tls: Tls | None
    user: str | None
    password: Secret | None


def access(
    needed_by: str, url: "str | Secret", *, user: str | None, password: "str | Secret | None", tls: Tls | None
) -> MqttAccess:
    """Return the way to a server. Raises ConfigurationError, which begins with `needed_by`, for arguments that do not
    fit."""
    text = Secret(url).reveal()
    if has_loose_at(text):
        raise invalid(f"{needed_by}: url {LOOSE_AT}")
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port, parts = "", None, None, urlsplit("")
    if scheme not in PORTS or not host or port == 0 or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise invalid(f"{needed_by}: url is mqtt://HOST:PORT, or mqtts://, not another one")
    if parts.username is not None:
        if user is not None or password is not None:
            raise invalid(f"{needed_by}: user and password are in the url, or beside it, not both")
        user, password = unquote(parts.username), unquote(parts.password or "")
    if password is not None and user is None:
        raise invalid(f"{needed_by}: a password needs a user")
    if tls is not None and scheme != "mqtts":
        raise invalid(f"{needed_by}: tls needs a url that begins with mqtts://")
    secured = (tls or Tls()) if scheme == "mqtts" else None
    secret = Secret(password) if password is not None else None
    return MqttAccess(needed_by, without_secrets(text), host, port or PORTS[scheme], secured, user, secret)


def library(needed_by: str) -> Any:
    """Import and return paho.mqtt.client. Raises ConfigurationError if it is not there."""
    return client("paho.mqtt.client", package="aiomqtt", extra="mqtt", needed_by=needed_by)


def is_topic(topic: object, *, is_filter: bool = False) -> bool:
    """Return True if it is the name of a topic, or with `is_filter` a filter, which may have + and #."""
    if not isinstance(topic, str) or not topic or "\0" in topic:
        return False
    try:
        if len(topic.encode()) > WINDOW_MAX:  # a text's length has 16 bits too
            return False
    except UnicodeEncodeError:
        return False
    if not is_filter:
        return "+" not in topic and "#" not in topic
    levels = topic.split("/")
    plus = all(level == "+" or "+" not in level for level in levels)
    return plus and all(level == "#" or "#" not in level for level in levels) and "#" not in levels[:-1]


class MqttTooLarge(Exception):
    """The error for a message that is larger than the server takes. The text says so."""


class MqttClient:
    """One connection. Make it in a running loop; `connect` once.

    `taken` is called for each message that comes, and `answered` with the number of each message that was published and
    the reason of its acknowledgement. `lost` is set once the connection is over, for the reason `why`.
    """

    def __init__(
        self,
        access: MqttAccess,
        client_id: str,
        *,
        taken: Callable[[Any], None] = lambda message: None,
        answered: Callable[[int, Reason], None] = lambda number, reason: None,
    ) -> None:
        self.lost = asyncio.Event()
        self.session_present = False
        self.failure: Exception | None = None  # raised by `taken`: a bug
        self.takes: Any = None  # the properties of the server's first answer: what it takes
        self._access = access
        self._taken, self._answered = taken, answered
        self._loop = asyncio.get_running_loop()
        self._paho = library(access.needed_by)
        self.why = ""
        self._code = 0
        self._events = 0  # packets that have come
        self._wants_pause = self._is_paused = False
        self._socket: socket.socket | None = None
        self._begun: asyncio.Future[Reason] = self._loop.create_future()
        self._calls: dict[int, asyncio.Future[Sequence[Reason]]] = {}  # subscriptions that wait for their answer
        self._written = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._when_lost: Callable[[], None] = lambda: None
        self._client = self._made(client_id)

    def _made(self, client_id: str) -> Any:
        """Return paho's client, whose callbacks are those of this object."""
        paho, access = self._paho, self._access
        made = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        made.max_inflight_messages_set(0)  # what is under way is bounded by who publishes
        made.max_queued_messages_set(0)
        if access.user is not None:
            made.username_pw_set(access.user, access.password.reveal() if access.password is not None else None)
        made.on_connect = self._on_connect
        made.on_disconnect = self._on_disconnect
        made.on_message = self._on_message
        made.on_publish = self._on_publish
        made.on_subscribe = made.on_unsubscribe = self._on_answer
        made.on_socket_close = self._on_socket_close
        made.on_socket_register_write = self._on_register_write
        made.on_socket_unregister_write = self._on_unregister_write
        return made

    # -- the life of a connection

    async def connect(self, *, clean: bool, session_expiry_s: int, receive_maximum: int = WINDOW_MAX) -> None:
        """Connect. `clean`: a session that the server has is ended, and a new one begins.

        Raises ServerAway, and ConfigurationError for what the server refuses; then `close` it.
        """
        try:
            async with asyncio.timeout(CONNECT_S):
                made = self._socket = await _connected_socket(self._access)
                # paho would connect in a blocking way, and leave a socket open whose TLS has failed
                self._client._create_socket = lambda: made
                properties = _properties(self._access, "CONNECT")
                properties.SessionExpiryInterval = session_expiry_s
                properties.ReceiveMaximum = receive_maximum
                self._client.connect(
                    self._access.host, self._access.port, KEEPALIVE_S, clean_start=clean, properties=properties
                )
                self._loop.add_reader(made, self._read)
                self._looking = self._loop.create_task(self._look(), name=f"{self._access.needed_by} looks")
                code, name = await self._begun
        except (OSError, TimeoutError) as error:
            raise self.away(str(error) or f"it has not answered within {CONNECT_S:g} s") from None
        if code in CREDENTIALS:
            raise refused(f"{self._access.needed_by}: {self._access.where} refuses this user or password: {name}")
        if code == OLD:
            text = f"{self._access.needed_by}: {self._access.where} refuses the connection: {name}; it needs MQTT 5"
            raise refused(text)
        if code in REFUSALS:
            raise refused(f"{self._access.needed_by}: {self._access.where} refuses the connection: {name}")
        if code >= FAILURE:
            raise self.away(name)

    async def close(self) -> None:
        """Send what waits, disconnect, and close the socket. Does not raise, and takes CLOSE_S at most.

        The session goes on at the server.
        """
        if not self.lost.is_set() and self._begun.done():
            with contextlib.suppress(TimeoutError, OSError):
                self._client.disconnect()
                async with asyncio.timeout(CLOSE_S):
                    await self.lost.wait()
        self._over("it is closed")
        self._client.on_disconnect = None
        self._client._sock_close()
        if self._socket is not None:
            self._socket.close()  # paho has not had it, if connecting was interrupted
        if self._looking is not None:
            self._looking.cancel()

    def away(self, why: str = "") -> ServerAway:
        """Return the error for a server that cannot be used, with the reason."""
        return ServerAway(f"{self._access.where} can't be used: {printable(why or self.why)}")

    def when_lost(self, call: Callable[[], None]) -> None:
        """Have a function called once the connection is lost; at once if it is."""
        self._when_lost = call
        if self.lost.is_set():
            call()

    def _over(self, why: str) -> None:
        if self.lost.is_set():
            return
        self.why = why
        self.lost.set()
        self._written.set()
        if not self._begun.done():
            self._begun.set_result((FAILURE, why))
        for call in self._calls.values():
            if not call.done():
                call.set_exception(self.away())
                call.exception()  # the caller may have left
        self._when_lost()

    # -- calls

    async def subscribe(self, filters: Sequence[str], *, retained: bool) -> Sequence[Reason]:
        """Subscribe with QoS 1; return the server's reason for each. `retained`: messages that the server keeps are
        given if the subscription is new. Raises ServerAway."""
        options = _part(self._access, "subscribeoptions").SubscribeOptions
        handling = options.RETAIN_SEND_IF_NEW_SUB if retained else options.RETAIN_DO_NOT_SEND
        return await self._call(
            lambda: self._client.subscribe([(topic, options(qos=1, retainHandling=handling)) for topic in filters])
        )

    async def unsubscribe(self, filters: Sequence[str]) -> None:
        """End subscriptions; one that is not there does not matter. Raises ServerAway."""
        await self._call(lambda: self._client.unsubscribe([*filters]))

    async def _call(self, send: Callable[[], tuple[int, int | None]]) -> Sequence[Reason]:
        code, number = send()
        if code or number is None:
            raise self.away("the connection is lost")
        answer: asyncio.Future[Sequence[Reason]] = self._loop.create_future()
        self._calls[number] = answer
        self._look_at_pause()
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            self._over(f"it has not answered within {ANSWER_S:g} s")
            raise self.away() from None
        finally:
            del self._calls[number]
            self._look_at_pause()

    def publish(self, topic: str, payload: bytes, *, retain: bool, facts: Sequence[tuple[str, str]], json: bool) -> int:
        """Begin to send a message with QoS 1; return its number. `facts` are its user properties.

        Raises ServerAway if the connection is lost, and MqttTooLarge for a message that the server does not take.
        """
        properties = _properties(self._access, "PUBLISH")
        properties.UserProperty = [*facts]
        if json:
            properties.ContentType = "application/json"
        most = min(getattr(self.takes, "MaximumPacketSize", PACKET_MAX), PACKET_MAX)
        size = len(payload) + len(topic.encode()) + HEADER_BYTES
        if size > most or (size > most - NEAR_BYTES and size + len(properties.pack()) > most):
            raise MqttTooLarge(f"it is larger than the server takes ({most:,} bytes)")
        info = self._client.publish(topic, payload, 1, retain, properties)
        if info.rc:
            raise self.away("the connection is lost")
        return int(info.mid)

    def acknowledge(self, number: int) -> None:
        """Begin to send the acknowledgement of a message with QoS 1."""
        self._client.ack(number, 1)

    async def written(self) -> None:
        """Wait until all that was sent is with the operating system, or the connection is lost."""
        if self._client.want_write() and not self.lost.is_set():
            self._written.clear()
            await self._written.wait()

    def pause(self) -> None:
        """Read nothing, until `resume`, but while a call waits for its answer, which comes after the messages. The
        server keeps what it has, or drops what it need not keep."""
        self._wants_pause = True
        self._look_at_pause()

    def resume(self) -> None:
        """Read on."""
        self._wants_pause = False
        self._look_at_pause()

    def _look_at_pause(self) -> None:
        wanted = self._wants_pause and not self._calls
        if wanted == self._is_paused or self._socket is None or self.lost.is_set():
            return
        self._is_paused = wanted
        if wanted:
            self._loop.remove_reader(self._socket)
        else:
            self._loop.add_reader(self._socket, self._read)
            self._loop.call_soon(self._read_pending)  # TLS may have read some already

    # -- the socket

    def _read(self) -> None:
        """Read the packets that have come."""
        for _ in range(READ_AT_ONCE):
            before = self._events
            try:
                self._client.loop_read()
            except Exception as error:  # paho lets errors of its parts through
                self._over(f"{type(error).__name__}: {error}")
                return
            if self._is_paused or self.lost.is_set():
                return
            if before == self._events:
                break
        pending = getattr(self._socket, "pending", None)
        if pending is not None and pending():  # without an event of the socket
            self._loop.call_soon(self._read_pending)

    def _read_pending(self) -> None:
        if not self._is_paused and not self.lost.is_set():
            self._read()

    def _write(self) -> None:
        try:
            self._client.loop_write()
        except Exception as error:  # as in `_read`
            self._over(f"{type(error).__name__}: {error}")

    async def _look(self) -> None:
        """Ask the server for a sign of life now and then."""
        while not self.lost.is_set():
            if self._is_paused:
                self._client._send_pingreq()  # its answer is not read, and no sign of silence
            elif self._client.loop_misc():
                self._over("it has been silent for too long")
            await asyncio.sleep(LOOK_S)

    # -- paho's callbacks

    def _on_register_write(self, _client: Any, _data: Any, made: Any) -> None:
        self._loop.add_writer(made, self._write)

    def _on_unregister_write(self, _client: Any, _data: Any, made: Any) -> None:
        self._loop.remove_writer(made)
        self._written.set()

    def _on_socket_close(self, _client: Any, _data: Any, made: Any) -> None:
        self._loop.remove_reader(made)
        self._loop.remove_writer(made)
        self._loop.call_soon(self._over, "the connection is lost")  # unless paho tells a better reason at once

    def _on_connect(self, _client: Any, _data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._events += 1
        self.session_present, self.takes = bool(flags.session_present), properties
        if not self._begun.done():
            self._begun.set_result((reason.value, str(reason)))

    def _on_disconnect(self, _client: Any, _data: Any, flags: Any, reason: Any, _properties: Any) -> None:
        why = "the connection is lost"
        if flags.is_disconnect_packet_from_server:
            why = str(reason)
        if reason.value == TAKEN_OVER:
            why = "another client has connected with this client id"
        if reason.value == SILENT:
            why = "it has been silent for too long"
        self._over(why)

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        self._events += 1
        try:
            self._taken(message)
        except Exception as error:
            self.failure = error
            self._over(f"{type(error).__name__}: {error}")

    def _on_publish(self, _client: Any, _data: Any, number: int, reason: Any, _properties: Any) -> None:
        self._events += 1
        self._answered(number, (reason.value, str(reason)))

    def _on_answer(self, _client: Any, _data: Any, number: int, reasons: Any, _properties: Any) -> None:
        self._events += 1
        call = self._calls.get(number)
        if call is not None and not call.done():
            call.set_result([(reason.value, str(reason)) for reason in reasons])


def _part(access: MqttAccess, module: str) -> Any:
    """Import and return another module of paho's."""
    return client(f"paho.mqtt.{module}", package="aiomqtt", extra="mqtt", needed_by=access.needed_by)


def _properties(access: MqttAccess, packet: str) -> Any:
    """Return an empty set of properties for a kind of packet."""
    types = _part(access, "packettypes").PacketTypes
    return _part(access, "properties").Properties(getattr(types, packet))


async def _connected_socket(access: MqttAccess) -> socket.socket:
    """Return a socket that is connected, and encrypted if it has to be. It does not block."""
    loop = asyncio.get_running_loop()
    context = access.tls.for_client() if access.tls is not None else None
    failure: OSError = OSError("its name has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(access.host, access.port, type=socket.SOCK_STREAM):
        made = socket.socket(family, kind, protocol)
        try:
            made.setblocking(False)
            await loop.sock_connect(made, address)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                made = context.wrap_socket(made, server_hostname=access.host, do_handshake_on_connect=False)
                await _shake_hands(made)
        except OSError as error:  # an ssl.SSLError is one
            made.close()
            failure = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failure


async def _shake_hands(secured: ssl.SSLSocket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        ready: asyncio.Future[None] = loop.create_future()
        try:
            return secured.do_handshake()
        except ssl.SSLWantReadError:
            loop.add_reader(secured, _ready, ready)
            done = loop.remove_reader
        except ssl.SSLWantWriteError:
            loop.add_writer(secured, _ready, ready)
            done = loop.remove_writer
        try:
            await ready
        finally:
            done(secured)


def _ready(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
