"""Connections to NATS. Knows nats-py; must not know streams or messages.

nats-py waits for a socket without a limit in some places, and in one of them it swallows the caller's cancellation. It
reports a lost connection only after it has sent what was left, which may never be. So private parts of it are used
here: the socket, which `abort` closes at once, and the task that reads, which ends with the connection.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from topology.clients.addresses import LOOSE_AT, has_loose_at, without_secrets
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.secrets import Secret

CONNECT_S: Final = 3.0  # seconds that one step of connecting may take
CONNECT_ALL_S: Final = 10.0  # seconds that connecting may take, through all addresses
PING_S: Final = 10.0  # seconds between two pings; after two without an answer the connection is lost
CLOSE_S: Final = 2.0  # seconds that sending the rest may take when a connection is closed …
ABORT_S: Final = 0.5  # … and the rest of it may take so many
COMPLAINTS_MAX: Final = 10  # errors of one try to connect that are kept
SOCKETS: Final = ("nats", "tls")
WEB_SOCKETS: Final = ("ws", "wss")


async def connected(
    url: Secret,
    *,
    needed_by: str,
    lost: Callable[[], None] | None = None,
    complains: Callable[[Exception], None] | None = None,
    credentials: str | None = None,
    tls: Tls | None = None,
) -> Any:
    """Return a nats.aio.client.Client that is connected, and does not connect again by itself.

    `lost` is called when the connection is lost or closed, maybe more than once. `complains` is called with each error
    that the server sends or the library reports. Takes CONNECT_ALL_S at most. Raises ServerAway, and
    ConfigurationError, which begins with `needed_by`, for a missing library and for credentials that are refused.
    """
    nats = client("nats", package="nats-py", extra="nats", needed_by=needed_by)
    addresses = _addresses(url)
    if urlsplit(addresses[0]).scheme in WEB_SOCKETS:
        client("aiohttp", package="aiohttp", extra="http", needed_by=f"{needed_by}, for a web socket,")
    context = tls.for_client() if tls is not None else None
    complaints: list[Exception] = []

    async def failed(error: Exception) -> None:
        if len(complaints) < COMPLAINTS_MAX:
            complaints.append(error)
        if complains is not None:
            complains(error)

    async def gone() -> None:
        if lost is not None:
            lost()

    made = nats.NATS()
    try:
        async with asyncio.timeout(CONNECT_ALL_S):
            await made.connect(
                addresses,
                name="kedge",
                allow_reconnect=False,
                max_reconnect_attempts=1,  # of one address, before all were tried; 0 would be without end
                reconnect_time_wait=0,
                connect_timeout=CONNECT_S,
                ping_interval=PING_S,
                max_outstanding_pings=2,
                disconnected_cb=gone,
                closed_cb=gone,
                error_cb=failed,
                tls=context,
                user_credentials=credentials,
                **({} if credentials is not None else _user(addresses)),
            )
    except BaseException as error:
        await discarded(made)
        if not isinstance(error, nats.errors.Error | OSError | TimeoutError | ValueError):
            raise
        if any("authorization" in str(each).lower() for each in (error, *complaints)):
            raise refused(f"{needed_by}: {where_of(url)} refuses these credentials") from None
        raise away(url, next(iter(complaints), error)) from None  # the error has the URL in its frames
    _watch(made, lost)
    return made


def _watch(made: Any, lost: Callable[[], None] | None) -> None:
    """Have `lost` called when nothing is read any more, and look at the errors of the library's own tasks."""
    for task in _tasks(made):
        task.add_done_callback(looked_at)
    reading: asyncio.Task[None] | None = getattr(made, "_reading_task", None)
    if reading is not None and lost is not None:
        reading.add_done_callback(lambda _: lost())


def _tasks(made: Any) -> Iterator["asyncio.Task[None]"]:
    """Yield the tasks that work for a connection."""
    for name in ("_reading_task", "_ping_interval_task", "_flusher_task"):
        if isinstance(task := getattr(made, name, None), asyncio.Task):
            yield task
    for subscription in [*getattr(made, "_subs", {}).values()]:
        if isinstance(task := getattr(subscription, "_wait_for_msgs_task", None), asyncio.Task):
            yield task


def _user(addresses: list[str]) -> dict[str, str]:
    """Return the user and password, or the token, of the addresses if they all have the same: nats-py would send them
    with the escapes of a URL."""
    users = {(parts.username, parts.password) for parts in map(urlsplit, addresses)}
    name, password = users.pop()
    if users or name is None:
        return {}
    if password is None:
        return {"token": unquote(name)}
    return {"user": unquote(name), "password": unquote(password)}


async def answered(work: Coroutine[Any, Any, Any], lost: asyncio.Event, limit_s: float) -> Any:
    """Wait for a call of a client's, but no longer than `limit_s`, and than until the connection is lost.

    Raises TimeoutError and ConnectionResetError, and what the call raises. After these two the connection should be
    discarded: the call may go on until then.
    """
    calling = asyncio.ensure_future(work)
    losing = asyncio.ensure_future(lost.wait())
    try:
        await asyncio.wait((calling, losing), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if calling.done() and not calling.cancelled():
            return calling.result()
        if lost.is_set():
            raise ConnectionResetError("the connection is lost")
        raise TimeoutError(f"it has not answered within {limit_s:g} s")
    finally:
        for each in (calling, losing):
            each.cancel()
            each.add_done_callback(looked_at)


async def closed(used: Any) -> None:
    """Send what waits to be sent, and close a connection. Does not raise, and takes CLOSE_S and ABORT_S at most."""
    sending = asyncio.ensure_future(used.flush(CLOSE_S)) if used.is_connected else None
    try:
        if sending is not None:
            await asyncio.wait((sending,), timeout=CLOSE_S)
    finally:
        if sending is not None:
            sending.cancel()
            sending.add_done_callback(looked_at)
        await discarded(used)


async def discarded(made: Any) -> None:
    """Close a connection at once, or what a failed or interrupted try to connect leaves open. Does not raise, and takes
    ABORT_S at most."""
    abort(made)
    closing = asyncio.ensure_future(_close(made))
    closing.add_done_callback(looked_at)
    try:
        await asyncio.wait((closing,), timeout=ABORT_S)
    finally:
        closing.cancel()


def abort(made: Any) -> None:
    """Close the socket at once. What waits to be sent is dropped; calls that wait for the socket go on."""
    made._pending, made._pending_data_size = [], 0  # the library would wait until they are sent
    transport = getattr(made, "_transport", None)
    of_web_socket = getattr(getattr(getattr(transport, "_ws", None), "_response", None), "connection", None)
    for holder in (getattr(transport, "_io_writer", None), of_web_socket):
        socket: asyncio.WriteTransport | None = getattr(holder, "transport", None)
        if socket is not None:
            socket.abort()


async def _close(made: Any) -> None:
    """Have the library close what it has, and end its tasks."""
    tasks = {*_tasks(made)} - {asyncio.current_task()}
    with contextlib.suppress(Exception):
        await made.close()
    for task in tasks:
        task.cancel()
        task.add_done_callback(looked_at)
    transport = getattr(made, "_transport", None)
    if transport is not None:
        with contextlib.suppress(Exception):
            transport.close()
            await transport.wait_closed()
    if tasks:
        await asyncio.wait(tasks)


def looked_at(future: "asyncio.Future[Any]") -> None:
    """Take note of a future's error, so that asyncio logs none as an error without a reader."""
    if not future.cancelled():
        future.exception()


def checked_url(needed_by: str, url: "str | Secret") -> Secret:
    """Return the URL. Raises ConfigurationError, which begins with `needed_by` and has nothing of the URL, for one that
    is none of NATS."""
    secret = Secret(url)
    addresses = _addresses(secret)
    if any(map(has_loose_at, addresses)):
        raise invalid(f"{needed_by}: url {LOOSE_AT}")
    schemes = set()
    for address in addresses:
        try:
            parts = urlsplit(address)
            schemes.add(parts.scheme if parts.hostname and parts.port != 0 else "")
        except ValueError:
            schemes.add("")
    if not schemes <= {*SOCKETS, *WEB_SOCKETS}:
        text = "url is nats://HOST:PORT, tls://, ws:// or wss://, or several of them with commas between them"
        raise invalid(f"{needed_by}: {text}, not another one; in a password write %2C for a comma")
    if not (schemes <= {*SOCKETS} or schemes <= {*WEB_SOCKETS}):
        raise invalid(f"{needed_by}: url has web sockets (ws, wss) and others; the addresses are of one kind")
    return secret


def _addresses(url: Secret) -> list[str]:
    return [part.strip() for part in url.reveal().split(",")]


def where_of(url: Secret) -> str:
    """Return the addresses, for people."""
    return without_secrets(url)


def away(url: Secret, error: BaseException) -> ServerAway:
    """Return the error for a server that cannot be used, with the reason."""
    why = "it does not answer" if isinstance(error, TimeoutError) and not str(error) else str(error)
    return ServerAway(f"{where_of(url)} can't be used: {why or type(error).__name__}")
