"""The server of `HttpIngest`: it listens, checks and reads requests, hands their messages over, and answers.

Knows aiohttp, which is passed in; must not know how messages are emitted, nor what their records are.
"""

import asyncio
import contextlib
import errno
import hmac
import json
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spouts.http.accepted import AcceptedMessages, OfferedMessage, Ticket, TicketWait
from spouts.http.bodies import JSON_TYPE, LINES_TYPES, RETRY, BodyReader, BodySplitter
from spouts.http.refusals import HttpRefusal
from topology.clients.errors import refused
from topology.secrets import Secret

HEALTH: Final = "/healthz"
KEY_MAX: Final = 255  # characters of an Idempotency-Key
CONNECTIONS_MAX: Final = 1_000  # per task, and at most half of the files that the process may have open
IDLE_S: Final = 60.0  # seconds that a connection may be without a whole head of a request
LINGER_S: Final = 5.0  # seconds for which the rest of a refused body is read, so that the client sees the answer
HANDSHAKE_S: Final = 10.0  # seconds that a client may take for TLS
GOODBYE_S: Final = 1.0  # seconds that the end of a connection of TLS may take
LAST_ANSWERS_S: Final = 3.0  # seconds that the last answers may take at the end
BACKLOG: Final = 512  # connections that the system keeps for us
SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization"})  # they never get into a record

log = logging.getLogger("kedge.spouts")

# Messages of a request: payloads, key, the facts beside them → what is offered. Raises HttpRefusal for those that do
# not fit.
Decode = Callable[[Sequence[bytes], str, bool, Mapping[str, Any]], Sequence[OfferedMessage]]


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """The options of a server; each is one of `HttpIngest`'s."""

    host: str
    port: int
    path: str
    token: Secret | None
    max_body_bytes: int
    wait_s: float
    body_s: float

    @property
    def where(self) -> str:
        """The address, for people."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def has(self, path: str) -> bool:
        """Return True if requests to this path bring messages."""
        if self.path.endswith("/*"):
            return path.startswith(self.path[:-1])
        return path == self.path


class IngestServer:
    """One listening server. `web` is the module aiohttp.web. Make it in a running loop."""

    def __init__(
        self,
        settings: IngestSettings,
        web: Any,
        accepted: AcceptedMessages,
        splitter: BodySplitter,
        decode: Decode,
    ) -> None:
        self.refused = 0  # requests that were answered by an error
        self.is_draining = False
        self._settings, self._web = settings, web
        self._accepted, self._splitter, self._decode = accepted, splitter, decode
        self._listener: asyncio.Server | None = None
        quiet = logging.getLogger("kedge.spouts.http")  # aiohttp's own reports of what outsiders send amiss
        quiet.disabled = True
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._connections_max = CONNECTIONS_MAX if files < 0 else max(1, min(CONNECTIONS_MAX, files // 2))
        self._http = web.Server(
            self._handle,
            handler_cancellation=True,
            access_log=None,
            logger=quiet,
            keepalive_timeout=IDLE_S,
            lingering_time=LINGER_S,
            auto_decompress=False,
        )

    async def listen(self, needed_by: str, tls: ssl.SSLContext | None, *, shared: bool) -> None:
        """Listen. `shared`: other tasks listen there too. Raises ConfigurationError, which begins with `needed_by`, if
        that is not possible."""
        loop = asyncio.get_running_loop()
        settings = self._settings
        try:
            self._listener = await loop.create_server(
                self._connected,
                settings.host,
                settings.port,
                ssl=tls,
                backlog=BACKLOG,
                reuse_port=True if shared else None,
                ssl_handshake_timeout=HANDSHAKE_S if tls is not None else None,
                ssl_shutdown_timeout=GOODBYE_S if tls is not None else None,
            )
        except (OSError, ValueError) as error:
            raise refused(f"{needed_by}: {self._why_not(error)}") from None

    def _why_not(self, error: Exception) -> str:
        where = self._settings.where
        number = getattr(error, "errno", None)
        if number == errno.EADDRINUSE:
            return f"{where} is in use by another program; end that one, or choose another port"
        if number == errno.EACCES:
            return f"{where} needs more rights; choose a port of 1024 or above"
        if isinstance(error, socket.gaierror) or number == errno.EADDRNOTAVAIL:
            return f"{self._settings.host} is no address of this machine; 0.0.0.0 stands for all of them"
        return f"it can't listen at {where}: {getattr(error, 'strerror', None) or error}"

    def drain(self) -> None:
        """Accept nothing more. Requests that wait are answered as before."""
        self.is_draining = True

    async def close(self) -> None:
        """Answer what waits, and close all connections. Takes some seconds at most."""
        self.drain()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        self._accepted.cut()
        transports = [connection.transport for connection in self._http.connections]
        self._http.pre_shutdown()
        await self._http.shutdown(LAST_ANSWERS_S)
        for transport in transports:
            if transport is not None:
                transport.abort()  # nothing happens to one whose last answer was sent
        if listener is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_ANSWERS_S):
                    await listener.wait_closed()

    def _connected(self) -> asyncio.Protocol:
        if len(self._http.connections) >= self._connections_max:
            return _Crowded()
        protocol: asyncio.Protocol = self._http()
        return protocol

    # -- one request

    async def _handle(self, request: Any) -> Any:
        try:
            status, fields, headers = await self._answer(request)
        except HttpRefusal as refusal:
            status, headers = refusal.status, refusal.headers
            fields = {"error": refusal.text, **refusal.fields}
        except Exception:  # a bug of ours: the client hears of it, and the source goes on
            log.exception("a request to %s has failed", self._settings.where)
            status, fields, headers = 500, {"error": "an internal error"}, {}
        if status >= 400:
            self.refused += 1
        body = json.dumps(fields).encode()
        response = self._web.Response(status=status, body=body, content_type=JSON_TYPE, headers=headers)
        response.headers["Server"] = "kedge"
        if self.is_draining:
            response.force_close()
        return response

    async def _answer(self, request: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
        accepted = self._accepted
        if request.path == HEALTH and request.method in ("GET", "HEAD"):
            if self.is_draining or not accepted.has_begun:
                raise HttpRefusal(503, f"the run {'ends' if self.is_draining else 'begins'}", headers=RETRY)
            return 200, {"status": "ok", "waiting": accepted.waiting, "max_waiting": accepted.max_waiting}, {}
        content_type, is_packed = self._checked(request)
        wait, wait_s = self._wait_of(request)
        if not wait and not accepted.has_begun:  # the start may still fail, and 202 would have said too much
            raise HttpRefusal(503, "the run begins; send it again soon", headers=RETRY)
        key = _key_of(request)
        with BodyReader(accepted.held, self._settings.max_body_bytes, self._settings.body_s) as reader:
            if (request.content_length or 0) > self._settings.max_body_bytes:
                reader.too_large()
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0  # else an error would not be answered any more
            body = await reader.read(_chunks(request), packed=is_packed)
            self._check_open()
            payloads, is_batch = self._splitter.payloads(body, content_type)
            if len(payloads) > accepted.max_waiting:
                raise HttpRefusal(413, f"a request has {accepted.max_waiting:,} messages at most")
            known = accepted.known
            tickets = accepted.take(self._decode(payloads, key, is_batch, _facts(request)))
            known = accepted.known - known
        if not wait:
            return 202, {"accepted": len(tickets)} | ({"known": known} if known else {}), {}
        await self._waited(tickets, wait, wait_s)
        if dead := [index for index, ticket in enumerate(tickets) if ticket.end == "dead"]:
            text = "these messages are dead; the dead letters of the run say why"
            raise HttpRefusal(422, text, {"dead": dead})
        return 200, {"done": len(tickets)} | ({"known": known} if known else {}), {}

    def _checked(self, request: Any) -> tuple[str, bool]:
        """Return the content type, and whether the body is packed. Raises HttpRefusal for a request that is not for
        us."""
        if not self._settings.has(request.path):
            raise HttpRefusal(404, "there is nothing at this path")
        if request.method != "POST":
            raise HttpRefusal(405, "messages come by POST", headers={"Allow": "POST"})
        self._check_token(request.headers.get("Authorization", ""))
        self._check_open()
        content_type = request.content_type if "Content-Type" in request.headers else ""
        if content_type != JSON_TYPE and not content_type.endswith("+json") and content_type not in LINES_TYPES:
            text = f"the header Content-Type is {JSON_TYPE}, or application/x-ndjson for one message a line"
            raise HttpRefusal(415, text)
        if (charset := request.charset) is not None and charset.lower() not in ("utf-8", "utf8", "us-ascii"):
            raise HttpRefusal(415, "JSON is in UTF-8")
        encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", "x-gzip"):
            raise HttpRefusal(415, "a body may be packed by gzip", headers={"Accept-Encoding": "gzip"})
        return content_type, encoding != "identity"

    def _check_open(self) -> None:
        if self.is_draining:
            raise HttpRefusal(503, "the run ends; send it again later", headers=RETRY)

    def _check_token(self, given: str) -> None:
        token = self._settings.token
        if token is None:
            return
        scheme, _, text = given.partition(" ")
        ours, theirs = (each.encode("utf-8", "surrogateescape") for each in (token.reveal(), text.strip()))
        if not hmac.compare_digest(ours, theirs) or scheme.lower() != "bearer":
            text = "the header Authorization is not: Bearer, and the token"
            raise HttpRefusal(401, text, headers={"WWW-Authenticate": "Bearer"})

    def _wait_of(self, request: Any) -> tuple[str, float]:
        """Return what the request waits for ("ack", "settled", or "" for nothing), and for how many seconds."""
        seconds = self._settings.wait_s
        wait = request.query.get("wait", "")
        if wait not in ("", "ack", "settled"):
            raise HttpRefusal(400, "wait is ack or settled")
        for preference in ",".join(request.headers.getall("Prefer", ())).split(","):
            name, _, value = preference.partition(";")[0].strip().lower().partition("=")
            if name == "wait":
                wait = wait or "ack"
                if value.strip('"').isdecimal():
                    seconds = min(seconds, float(value.strip('"')))
        return wait, seconds

    async def _waited(self, tickets: Sequence[Ticket], wait: str, seconds: float) -> None:
        waiting = TicketWait(tickets, until_settled=wait == "settled")
        try:
            async with asyncio.timeout(seconds):
                is_over = await waiting.over()
        except TimeoutError:
            done = sum(ticket.end != "" for ticket in tickets)
            text = f"not done within {seconds:g} s; send it again with the same key to wait on"
            raise HttpRefusal(504, text, {"done": done, "of": len(tickets)}) from None
        finally:
            waiting.leave(tickets)
        if not is_over:
            text = "the run has ended before all was done; send it again with the same key"
            raise HttpRefusal(503, text, headers=RETRY)


class _Crowded(asyncio.Protocol):
    """A connection over the limit: it gets an answer that says so, and is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n")
        transport.write(b"Connection: close\r\n\r\n")
        transport.close()


def _key_of(request: Any) -> str:
    """Return the request's own name, or "". The quotes around it are not a part of it."""
    key: str = request.headers.get("Idempotency-Key", "").strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if len(key) > KEY_MAX or not key.isprintable():
        raise HttpRefusal(400, f"an Idempotency-Key has {KEY_MAX} printable characters at most")
    return key


def _facts(request: Any) -> dict[str, Any]:
    """Return the facts beside the payloads of a request."""
    facts: dict[str, Any] = {"path": _text(request.path), "remote": request.remote or "", "method": request.method}
    for name in request.headers:
        if (lower := name.lower()) not in SECRET_HEADERS:
            facts[f"header:{lower}"] = _text(", ".join(request.headers.getall(name)))
    return facts


def _text(given: str) -> str:
    """Return a text that a record may have: bytes of a header that are no UTF-8 are replaced."""
    return given if given.isascii() else given.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def _chunks(request: Any) -> AsyncIterator[bytes]:
    """Yield the body as it comes. Raises HttpRefusal for a broken one."""
    while True:
        try:
            chunk = await request.content.readany()
        except (asyncio.CancelledError, TimeoutError):
            raise
        except Exception:  # aiohttp's errors of a broken framing, or a lost connection
            raise HttpRefusal(400, "the body is cut off", headers={"Connection": "close"}) from None
        if not chunk:
            return
        yield chunk
