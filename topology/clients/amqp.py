"""Connections to RabbitMQ by AMQP 0-9-1, each with one channel. Must not know queues, or what is sent.

Knows aiormq, the protocol half of aio-pika. The other half makes an object with methods of each message and connects
again by itself; a source confirms many messages by one frame, and decides itself when to connect.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

from topology.clients.addresses import LOOSE_AT, has_loose_at, without_secrets
from topology.clients.amqp_frames import ReadableFrames
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.secrets import Secret
from topology.text import printable

T = TypeVar("T")

CONNECT_S: Final = 3.0  # seconds that connecting may take
CALL_S: Final = 10.0  # seconds that a server has to answer a call
CLOSE_S: Final = 2.5  # seconds that closing may take; then the socket is closed …
ABORT_S: Final = 0.5  # … and the rest of it may take so many
LOOK_S: Final = 0.01  # seconds that the look at what a connection knows already may take
HEARTBEAT_S: Final = 10  # seconds; a server that says nothing for three times as long is away
NAME_MAX: Final = 255  # bytes of the name of a queue or an exchange, and of a routing key
SCHEMES: Final = ("amqp", "amqps")
LIBRARY_LOG: Final = "aiormq"

log = logging.getLogger("kedge.amqp")


class ChannelRefused(Exception):
    """The error for a channel that the server has closed as it refuses a call. `code`: 403, 404, 405 or 406."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class AmqpChannel:
    """One connection with one channel, which end together. `raw` is the aiormq.Channel.

    `lost` is set once the channel is closed, for whatever reason; nothing that was delivered by it can be confirmed
    then.
    """

    def __init__(self, url: Secret, library: Any, connection: Any, raw: Any, transports: "Transports") -> None:
        self.raw = raw
        self.lost = asyncio.Event()
        self._url, self._library = url, library
        self._connection, self._transports = connection, transports
        self._why: BaseException | None = None
        self._when_lost: Callable[[], None] = lambda: None
        raw.closing.add_done_callback(self._closed)

    def _closed(self, closing: "asyncio.Future[Any]") -> None:
        self._give_up(None if closing.cancelled() else closing.exception())

    def _give_up(self, why: BaseException | None) -> None:
        self._why = self._why or why
        self.lost.set()
        self._when_lost()

    @property
    def version(self) -> tuple[int, int]:
        """The major and the minor version of RabbitMQ; (0, 0) if the server is another one, or does not say."""
        return version_of(self._connection.server_properties)

    def when_lost(self, call: Callable[[], None]) -> None:
        """Have a function called once the channel is lost; at once if it is."""
        self._when_lost = call
        if self.lost.is_set():
            call()

    def away(self) -> ServerAway:
        """Return the error for a lost channel, with the reason."""
        return away(self._url, self._why or ConnectionResetError("the connection is lost"))

    async def call(self, work: Awaitable[T]) -> T:
        """Wait for a call of `raw`, but no longer than CALL_S, and than until the channel is lost.

        Raises ServerAway, and ChannelRefused if the server refuses the call; both ways the channel is lost. aiormq's
        own calls may wait for ever if the connection is lost while they write.
        """
        calling = asyncio.ensure_future(work)
        lost = asyncio.ensure_future(self.lost.wait())
        try:
            await asyncio.wait((calling, lost), timeout=CALL_S, return_when=asyncio.FIRST_COMPLETED)
            if calling.done() and not calling.cancelled():
                return calling.result()
            if not self.lost.is_set():
                self._give_up(TimeoutError(f"it has not answered within {CALL_S:g} s"))
            raise self._explained(self._why)
        except failures(self._library) as error:
            raise self._explained(error) from error
        finally:
            for each in (calling, lost):
                each.cancel()
                each.add_done_callback(_looked_at)

    def _explained(self, error: BaseException | None) -> Exception:
        """Return the error for a call that has failed, or for a channel that was closed."""
        errors = self._library.exceptions
        if isinstance(error, errors.ChannelInvalidStateError) and self._why is not None:
            error = self._why
        if error is None:
            return self.away()
        codes = {
            errors.ChannelAccessRefused: 403,
            errors.ChannelNotFoundEntity: 404,
            errors.ChannelLockedResource: 405,
            errors.ChannelPreconditionFailed: 406,
        }
        for kind, code in codes.items():
            if isinstance(error, kind):
                return ChannelRefused(code, said(error))
        return away(self._url, error)

    async def is_blocked(self) -> bool:
        """Return True if the server takes nothing now, as it has too little memory or room on its disk."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._connection.ready()
        except TimeoutError:
            return True
        return False

    async def close(self) -> None:
        """Close both. Does not raise, and takes CLOSE_S and ABORT_S at most."""
        await _discarded(self._connection, self._transports)


class Transports:
    """The socket of one connection; aiormq keeps it to itself, and leaves it open if closing takes too long.

    `decode` is the module pamqp.decode. `where` is for a warning, if a message has what pamqp does not read.
    """

    def __init__(self, tls: Tls | None, decode: Any, where: str) -> None:
        self._tls, self._decode, self._where = tls, decode, where
        self._has_warned = False
        self._writer: asyncio.StreamWriter | None = None

    async def create(self, url: Any, **kwargs: Any) -> tuple[ReadableFrames, asyncio.StreamWriter]:
        """Connect. aiormq calls it."""
        context: ssl.SSLContext | None = None
        if url.scheme == "amqps":
            context = (self._tls or Tls()).for_client()
        reader, self._writer = await asyncio.open_connection(url.host, url.port, ssl=context)
        return ReadableFrames(reader, self._decode, self._left_out), self._writer

    def _left_out(self, name: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            text = "%s: a message has a %s that can't be read, and comes without it; there may be more of these"
            log.warning(text, self._where, name)

    def abort(self) -> None:
        """Close the socket at once."""
        if self._writer is not None:
            self._writer.transport.abort()


async def connected(
    url: Secret, *, needed_by: str, confirms: bool, tls: Tls | None = None, name: str = "kedge"
) -> AmqpChannel:
    """Return a new connection with its channel. `confirms`: the server confirms what is published.

    Raises ServerAway, and ConfigurationError, which begins with `needed_by`, for a missing library and for what the
    server refuses. `name` is what the server's tools show.
    """
    library = client("aiormq", package="aio-pika", extra="amqp", needed_by=needed_by)
    _hush()
    where = without_secrets(url)
    decode = client("pamqp.decode", package="aio-pika", extra="amqp", needed_by=needed_by)
    transports = Transports(tls, decode, where)
    errors = library.exceptions
    connection: Any = None
    try:
        async with asyncio.timeout(CONNECT_S):
            connection = library.Connection(
                _with_heartbeat(url), transport_factory=transports, client_properties={"connection_name": name}
            )
            await connection.connect()
            raw = await connection.channel(publisher_confirms=confirms, on_return_raises=True)
    except (errors.AuthenticationError, errors.ProbableAuthenticationError):
        await _discarded(connection, transports)
        raise refused(f"{needed_by}: {where} refuses this user or password") from None
    except errors.InvalidFrameError as error:
        await _discarded(connection, transports)
        if "Connection.Close" in str(error):  # it takes the password, and closes when the virtual host is opened
            host = printable(connection.vhost)
            text = f"{needed_by}: {where} refuses the virtual host {host!r:.80}: it is not there, or not for this user"
            raise refused(text) from None
        raise away(url, error) from None
    except (errors.AMQPError, OSError, TimeoutError, EOFError, RuntimeError) as error:
        await _discarded(connection, transports)
        raise away(url, error) from None  # the error has the URL in its frames
    except BaseException:
        await _discarded(connection, transports)
        raise
    return AmqpChannel(url, library, connection, raw, transports)


async def _discarded(connection: Any, transports: Transports) -> None:
    """Close a connection, or what a failed or interrupted try to connect leaves open. Does not raise."""
    closing = asyncio.ensure_future(connection.close()) if connection is not None else None
    try:
        if closing is not None:
            await asyncio.wait((closing,), timeout=CLOSE_S)
    finally:
        transports.abort()  # aiormq waits for a socket that takes nothing
        if closing is not None:
            closing.add_done_callback(_looked_at)
            await asyncio.wait((closing,), timeout=ABORT_S)
            closing.cancel()


def checked_url(needed_by: str, url: "str | Secret", tls: Tls | None) -> Secret:
    """Return the URL. Raises ConfigurationError, which begins with `needed_by`, for one that is none of RabbitMQ's."""
    secret = Secret(url)
    if has_loose_at(secret.reveal()):
        raise invalid(f"{needed_by}: url {LOOSE_AT}")
    scheme = ""
    try:
        parts = urlsplit(secret.reveal())
        if parts.hostname and parts.port != 0:
            scheme = parts.scheme
    except ValueError:
        scheme = ""
    if scheme not in SCHEMES:
        raise invalid(f"{needed_by}: url is amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps://, not another one")
    if tls is not None and scheme != "amqps":
        raise invalid(f"{needed_by}: tls needs a url that begins with amqps://")
    return secret


def version_of(properties: Mapping[str, Any]) -> tuple[int, int]:
    """Return the version that a server gives among its properties, as `AmqpChannel.version` has it."""
    found = re.match(r"(\d+)\.(\d+)", str(properties.get("version", "")))
    if properties.get("product") != "RabbitMQ" or found is None:
        return (0, 0)
    return (int(found[1]), int(found[2]))


def _with_heartbeat(url: Secret) -> str:
    text = url.reveal()
    query = urlsplit(text).query
    if "heartbeat" in parse_qs(query):
        return text
    return f"{text}{'&' if query else '?'}heartbeat={HEARTBEAT_S}"


def _hush() -> None:
    """Keep aiormq from logging each lost connection with a traceback, unless someone has set its level: what it logs
    comes as an error too."""
    library_log = logging.getLogger(LIBRARY_LOG)
    if library_log.level == logging.NOTSET:
        library_log.setLevel(logging.CRITICAL)


def _looked_at(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()


def said(error: BaseException) -> str:
    """Return an error of aiormq's, for people."""
    last = error.args[-1] if error.args else None
    return printable(str(last if isinstance(last, str) and last else error) or type(error).__name__)


def failures(library: Any) -> tuple[type[Exception], ...]:
    """Return the classes of the errors that calls of a lost or refused channel raise."""
    return (library.exceptions.AMQPError, library.exceptions.ChannelInvalidStateError, OSError, TimeoutError)


def said_of_return(error: Any) -> str:
    """Return why a message came back (an aiormq PublishError), for people."""
    return printable(", ".join(str(part) for part in error.args))


def away(url: Secret, error: BaseException) -> ServerAway:
    """Return the error for a server that cannot be used, with the reason."""
    return ServerAway(f"{without_secrets(url)} can't be used: {said(error)}")
