"""Connections to NATS. Knows nats-py; must not know streams or messages."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from topology.clients.addresses import without_secrets
from topology.clients.errors import ServerAway, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.secrets import Secret

CONNECT_S: Final = 3.0  # seconds that connecting may take
PING_S: Final = 10.0  # seconds between two pings; after two without an answer the connection is lost
CLOSE_S: Final = 2.0  # seconds that closing may take


async def connected(
    url: Secret,
    *,
    needed_by: str,
    lost: Callable[[], None] | None = None,
    credentials: str | None = None,
    tls: Tls | None = None,
) -> Any:
    """Return a nats.aio.client.Client that is connected, and does not connect again by itself.

    `lost` is called once when the connection is lost or closed. Raises ServerAway, and ConfigurationError, which begins
    with `needed_by`, for a missing library and for credentials that are refused.
    """
    nats = client("nats", package="nats-py", extra="nats", needed_by=needed_by)
    where = where_of(url)
    context = tls.for_client() if tls is not None else None
    refusals: list[Exception] = []

    async def failed(error: Exception) -> None:
        refusals.append(error)

    async def gone() -> None:
        if lost is not None:
            lost()

    made = nats.NATS()
    try:
        await made.connect(
            url.reveal().split(","),
            name="kedge",
            allow_reconnect=False,
            connect_timeout=CONNECT_S,
            ping_interval=PING_S,
            max_outstanding_pings=2,
            disconnected_cb=gone,
            closed_cb=gone,
            error_cb=failed,
            tls=context,
            user_credentials=credentials,
        )
    except (nats.errors.Error, OSError, TimeoutError, ValueError) as error:
        await _discarded(made)
        if any("authorization" in str(each).lower() for each in (error, *refusals)):
            text = f"{needed_by}: {where} refuses these credentials"
            raise refused(text) from None
        raise away(url, next(iter(refusals), error)) from None  # the error has the URL in its frames
    except BaseException:
        await _discarded(made)
        raise
    return made


async def closed(used: Any) -> None:
    """Close a connection. Does not raise, and takes CLOSE_S at most."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSE_S):
            await used.close()
    await _discarded(used)


async def _discarded(made: Any) -> None:
    """Close the socket, which a failed or interrupted connection leaves open."""
    transport = getattr(made, "_transport", None)
    close: Callable[[], object] | None = getattr(transport, "close", None)
    if close is not None:
        with contextlib.suppress(Exception):
            close()
            writer: Awaitable[None] = transport.wait_closed()  # type: ignore[union-attr]
            async with asyncio.timeout(CLOSE_S):
                await writer


def where_of(url: Secret) -> str:
    """Return the addresses, for people."""
    return ", ".join(without_secrets(part) for part in url.reveal().split(","))


def away(url: Secret, error: BaseException) -> ServerAway:
    """Return the error for a server that cannot be used, with the reason."""
    return ServerAway(f"{where_of(url)} can't be used: {str(error) or type(error).__name__}")
