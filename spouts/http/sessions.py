"""Connections that a source opens to a server by HTTP: the session, its headers, and the meaning of errors.

Knows aiohttp; must not know messages, nor what becomes of the connection.
"""

import contextlib
import re
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from topology.clients.addresses import without_secrets
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.errors import ConfigurationError
from topology.secrets import Secret
from topology.text import printable

CONNECT_S: Final = 4.0  # seconds that connecting may take
SAID_MAX: Final = 200  # characters of an error that a sentence repeats
# After so many seconds of silence the system asks the other side whether it is there, and every so many seconds again,
# so many times
KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
LATER: Final = frozenset({408, 425, 429})  # statuses that say: not now
GONE: Final = frozenset({404, 410})
NOT_ALLOWED: Final = frozenset({401, 403, 407})
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")


def checked_url(needed_by: str, url: str | Secret, schemes: tuple[str, ...]) -> Secret:
    """Return the address. Raises ConfigurationError if it is no URL with one of these schemes."""
    found = Secret(url)
    with contextlib.suppress(ValueError):
        parts = urlsplit(found.reveal())
        if parts.scheme in schemes and parts.hostname and (parts.port or 1) > 0:
            return found
    wanted = " or ".join(f"{scheme}://HOST/PATH" for scheme in schemes)
    raise invalid(f"{needed_by}: url is {wanted}, not {without_secrets(found)!r:.200}")


def checked_headers(needed_by: str, url: Secret, headers: Mapping[str, str | Secret] | None) -> Mapping[str, Secret]:
    """Return the headers, all as secrets. Raises ConfigurationError for one that no request to this address can
    have."""
    found: dict[str, Secret] = {}
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise invalid(f"{needed_by}: {name!r:.80} is no name of a header")
        if not isinstance(value, str | Secret) or not (secret := Secret(value)).reveal().isprintable():
            raise invalid(f"{needed_by}: the header {name} is a text of one line")
        found[name] = secret
    if "@" in urlsplit(url.reveal()).netloc and any(name.lower() == "authorization" for name in found):
        raise invalid(f"{needed_by}: the password is in url, or in the header Authorization, and not in both")
    return found


class HttpSession:
    """The sessions of one source, one after the other. `where` is the address, for people.

    A redirect is not followed: it could take the headers to another server. Raises ConfigurationError if aiohttp is
    missing, or the certificates cannot be used.
    """

    def __init__(self, needed_by: str, url: Secret, headers: Mapping[str, Secret], tls: Tls | None) -> None:
        self.library = client("aiohttp", package="aiohttp", extra="http", needed_by=needed_by)
        self.where = without_secrets(url)
        self._needed_by, self._url, self._headers = needed_by, url, headers
        self._context = tls.for_client() if tls is not None else True
        self._session: Any = None

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that `of_error` explains."""
        return (self.library.ClientError, OSError, TimeoutError, ValueError, _Redirected)

    @property
    def url(self) -> str:
        """The address itself, which may have a password."""
        return self._url.reveal()

    def begin(self, silence_s: float | None = None) -> Any:
        """Return a new aiohttp.ClientSession. `silence_s`: seconds without a byte after which reading fails."""
        library = self.library
        trace = library.TraceConfig()
        trace.on_request_redirect.append(_refuse_redirect)
        self._session = library.ClientSession(
            connector=library.TCPConnector(ssl=self._context, force_close=True),
            timeout=library.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s),
            cookie_jar=library.DummyCookieJar(),
            headers={"User-Agent": "kedge", **{name: value.reveal() for name, value in self._headers.items()}},
            auto_decompress=True,
            trace_configs=[trace],
        )
        return self._session

    async def end(self) -> None:
        """Close the session, if there is one. Does not raise."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):
                await session.close()

    def keep_alive(self, connection: Any) -> None:
        """Have the system find out if the other side is gone. `connection`: a transport, or a WebSocket of aiohttp."""
        connected = connection.get_extra_info("socket") if connection is not None else None
        if connected is None:
            return
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE:
                if hasattr(socket, name):
                    connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def of_status(self, status: int, headers: Mapping[str, str]) -> Exception:
        """Return the error for an answer with this status: ServerAway, or ConfigurationError for one that a person has
        to repair."""
        if status >= 500 or status in LATER:
            return ServerAway(f"{self.where} answers {status}")
        said = f"{self._needed_by}: {self.where} answers {status}"
        if 300 <= status < 400:
            to = without_secrets(headers.get("Location", "")) or "another address"
            return refused(f"{said}: it has moved to {to}; give that address")
        if status in NOT_ALLOWED:
            return refused(f"{said}: it refuses these headers; check the token in them")
        if status in GONE:
            return refused(f"{said}: there is nothing at this path; check the address")
        return refused(said)

    def of_error(self, error: BaseException) -> Exception:
        """Return the error for an exception of aiohttp or of the system."""
        library = self.library
        if isinstance(error, ServerAway | ConfigurationError):
            return error
        if isinstance(error, _Redirected):
            return self.of_status(error.status, {"Location": error.to})
        if isinstance(error, library.WSServerHandshakeError):
            status = getattr(error, "status", 0)
            if status not in (101, 200):
                return self.of_status(status, getattr(error, "headers", None) or {})
            return refused(f"{self._needed_by}: {self.where} is no WebSocket server: it answers {status}")
        if isinstance(error, library.ClientSSLError):
            why = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
            return refused(f"{self._needed_by}: TLS with {self.where} fails: {_said(why or error)}")
        if isinstance(error, ValueError):  # its text may have the address
            return refused(f"{self._needed_by}: aiohttp can't use {self.where}: {type(error).__name__}")
        reason: object = getattr(error, "os_error", None) or error
        if isinstance(error, library.ClientResponseError):  # its text has the address
            reason = f"{getattr(error, 'status', '')} {getattr(error, 'message', '')}"
        return ServerAway(f"{self.where} can't be used: {_said(reason)}")


class _Redirected(Exception):
    """The server has answered by a redirect."""

    def __init__(self, status: int, to: str) -> None:
        super().__init__(status)
        self.status, self.to = status, to


async def _refuse_redirect(session: Any, context: Any, parameters: Any) -> None:
    response = parameters.response
    raise _Redirected(response.status, response.headers.get("Location", ""))


def _said(error: object) -> str:
    """Return the text of an error, without addresses, which may have a password or a token."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return printable(_ADDRESS.sub("…", text))[:SAID_MAX]
