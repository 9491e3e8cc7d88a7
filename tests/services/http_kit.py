"""Real HTTP servers and clients for tests: requests to `HttpIngest`, and a server whose events `SseSource` and
`WebSocketSource` read. All over sockets of 127.0.0.1; no server of others is needed."""

import asyncio
import http.client
import json
import socket
import ssl
import subprocess
import threading
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import WSMsgType, web
from tcp_proxy import TcpProxy

from spouts.http.ingest import HttpIngest
from spouts.http.sse import SseSource
from spouts.http.websocket import WebSocketSource
from spouts.payload.formats import Json
from topology.testing.sources import SourceItem, SourceSubject
from topology.testing.sources.driver import DrivenSource, Memory, within

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
SOON_S = 20.0  # for what happens soon, on a busy machine


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def certificate_in(folder: Path) -> tuple[str, str]:
    """A certificate for localhost that it signs itself, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return str(certificate), str(key)


def item_json(number: int) -> bytes:
    return msgspec.json.encode({"number": number, "text": f"item {number}"})


def numbers(source: DrivenSource) -> list[int]:
    return [message.record.number for message in source.messages]


def array(*items: int) -> bytes:
    return b"[" + b",".join(map(item_json, items)) + b"]"


# -- requests


@dataclass(frozen=True)
class Answered:
    """An answer. `body` is its JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]


def asked_now(
    port: int,
    body: bytes = b"",
    target: str = "/",
    headers: Mapping[str, str] = JSON,
    method: str = "POST",
    timeout_s: float = 30.0,
) -> Answered:
    """One request by a connection of its own. Blocks for the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request(method, target, body, dict(headers))
        answer = connection.getresponse()
        content = answer.read()
        return Answered(answer.status, json.loads(content) if content else None, dict(answer.headers))
    finally:
        connection.close()


async def asked(port: int, body: bytes = b"", target: str = "/", **options: Any) -> Answered:
    return await asyncio.to_thread(asked_now, port, body, target, **options)


@asynccontextmanager
async def ingest(memory: Memory | None = None, **options: Any) -> AsyncIterator[tuple[DrivenSource, int]]:
    """An open `HttpIngest` of SourceItems that was polled once, and its port."""
    port = free_port()
    source = DrivenSource(HttpIngest(port, **{"value": SourceItem, **options}), memory or Memory())
    try:
        await source.open()
        await source.rest(0.001)
        yield source, port
    finally:
        await source.close()


async def until(condition: Any, what: str) -> None:
    assert await within(SOON_S, condition), f"waited {SOON_S:g} s for {what}"


class IngestSubject(SourceSubject):
    """The server is the source itself, and clients post."""

    tasks = 2
    begins_where_it_left = False

    def __init__(self) -> None:
        self.port = free_port()
        self._blocked: socket.socket | None = None

    def make(self) -> HttpIngest[SourceItem]:
        return HttpIngest(self.port, value=SourceItem)

    def put(self, numbers: Sequence[int]) -> None:
        for begin in range(0, len(numbers), 10):  # several connections, so that several tasks have some
            body = b"\n".join(map(self.payload, numbers[begin : begin + 10]))
            # the source was not polled yet: it answers those who wait, and nobody waits here
            answer = asked_now(self.port, body, headers={**LINES, "Prefer": "wait=0"})
            assert answer.status == 504, answer

    def missing(self) -> HttpIngest[SourceItem]:
        self._blocked = socket.create_server(("127.0.0.1", self.port))
        return self.make()

    def close(self) -> None:
        if self._blocked is not None:
            self._blocked.close()


# -- a server of events


class FeedServer:
    """Gives its events by /sse, which begins after Last-Event-ID, by /ws, which begins where the client asks, and by
    /queue, a WebSocket on which each message leaves once.

    status   What /sse and the WebSockets answer in place of events, unless it is 200.
    extra    What each answer of /sse begins with.
    ends_after  Events after which an answer of /sse ends. None: it does not end.
    """

    def __init__(self, port: int | None = None) -> None:
        self.port = port if port is not None else free_port()
        self.status, self.headers, self.extra = 200, dict[str, str](), b""
        self.ends_after: int | None = None
        self.has_ids = True
        self.events: list[bytes] = []
        self.seen: list[dict[str, str]] = []  # headers of requests
        self.heard: list[str | bytes] = []  # messages of clients of WebSockets
        self.open = 0  # requests that are being answered
        self._queue: deque[bytes] = deque()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @contextmanager
    def there(self) -> Iterator["FeedServer"]:
        self.start()
        try:
            yield self
        finally:
            self.stop()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def start(self) -> None:
        self.run(self._start())

    def stop(self) -> None:
        self.run(self._runner.cleanup())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SOON_S)

    def put(self, bodies: Sequence[bytes]) -> None:
        """Blocks until the server has them."""
        self.run(self._put(bodies))

    async def _put(self, bodies: Sequence[bytes]) -> None:
        self.events += bodies
        self._queue += bodies
        async with self._news:
            self._news.notify_all()

    async def _start(self) -> None:
        self._news = asyncio.Condition()
        application = web.Application()
        application.router.add_get("/sse", self._sse)
        application.router.add_get("/ws", self._ws)
        application.router.add_get("/queue", self._ws)
        application.router.add_get("/both", self._both)
        application.router.add_get("/pings", self._pings)
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def also_tls(self, certificate: str, key: str) -> int:
        """Listens at one more port, which is returned."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        port = free_port()
        await web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=context).start()
        return port

    async def _both(self, request: web.Request) -> web.StreamResponse:
        """One message as text, one as bytes."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(item_json(1).decode())
        await socket.send_bytes(item_json(2))
        await socket.receive()
        return socket

    async def _pings(self, request: web.Request) -> web.StreamResponse:
        """A message for a pong."""
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        await socket.ping(b"there?")
        message = await socket.receive()
        if message.type is WSMsgType.PONG and message.data == b"there?":
            await socket.send_str(item_json(1).decode())
        await socket.receive()
        return socket

    async def _sse(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(dict(request.headers))
        if self.status != 200:
            return web.Response(status=self.status, headers=self.headers)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8", **self.headers})
        self.open += 1
        try:
            await answer.prepare(request)
            await answer.write(self.extra)
            first = at = int(request.headers.get("Last-Event-ID", "0"))
            while self.ends_after is None or at - first < self.ends_after:
                await self._until_more_than(at)
                name = b"id: %d\n" % (at + 1) if self.has_ids else b""
                await answer.write(name + b"data: " + self.events[at] + b"\n\n")
                at += 1
        finally:
            self.open -= 1
        return answer

    async def _until_more_than(self, count: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: len(self.events) > count)

    async def _ws(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(dict(request.headers))
        if self.status != 200:
            return web.Response(status=self.status, headers=self.headers)
        socket = web.WebSocketResponse(protocols=("kedge.test",))
        await socket.prepare(request)
        self.open += 1
        listening = asyncio.ensure_future(self._listen(socket))
        giving = asyncio.ensure_future(self._give(socket) if request.path == "/queue" else self._replay(socket))
        try:
            await asyncio.wait((listening, giving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for work in (listening, giving):
                work.cancel()
            await asyncio.gather(listening, giving, return_exceptions=True)
            self.open -= 1
        return socket

    async def _listen(self, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                self.heard.append(message.data)
                async with self._news:
                    self._news.notify_all()

    async def _give(self, socket: web.WebSocketResponse) -> None:
        while True:
            async with self._news:
                await self._news.wait_for(lambda: bool(self._queue))
            await socket.send_str(self._queue.popleft().decode())

    async def _replay(self, socket: web.WebSocketResponse) -> None:
        """Begins with the number that the client has asked for last."""
        known = len(self.heard)
        async with self._news:
            await self._news.wait_for(lambda: len(self.heard) > known)
        asked = json.loads(self.heard[-1])["from"]
        at = (int(asked) if asked is not None else 1) - 1
        while True:
            await self._until_more_than(at)
            await socket.send_str(self.events[at].decode())
            at += 1


class FeedSubject(SourceSubject):
    """A source on a `FeedServer`, behind a proxy."""

    again_s = 3.0

    def __init__(self, port: int, server: FeedServer | None = None, proxy: TcpProxy | None = None) -> None:
        self.port, self.server, self.proxy = port, server, proxy

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.proxy.port if self.proxy is not None else self.port}"

    def put(self, numbers: Sequence[int]) -> None:
        assert self.server is not None
        self.server.put([*map(self.payload, numbers)])

    def put_bad(self) -> bytes:
        assert self.server is not None
        self.server.put([b'{"number": "one"}'])
        return b'{"number": "one"}'

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.away():
            yield


class SseSubject(FeedSubject):
    def make(self) -> SseSource[SourceItem]:
        return SseSource(f"http://{self.address}/sse", value=SourceItem)

    def missing(self) -> SseSource[SourceItem]:
        return SseSource(f"http://127.0.0.1:{free_port()}/sse", value=SourceItem)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "http_kit:SseSubject", [self.port]


class QueueSubject(FeedSubject):
    """A WebSocket server that gives each message once, and knows of no id."""

    begins_where_it_left = False

    def make(self) -> WebSocketSource[SourceItem]:
        return WebSocketSource(f"ws://{self.address}/queue", value=SourceItem)

    def missing(self) -> WebSocketSource[SourceItem]:
        return WebSocketSource(f"ws://127.0.0.1:{free_port()}/queue", value=SourceItem)


def begin_at(last: str | None) -> str:
    """What asks `FeedServer` for the messages from one on."""
    return json.dumps({"from": last})


class ReplaySubject(FeedSubject):
    """A WebSocket server that begins where it is asked to."""

    def make(self) -> WebSocketSource[SourceItem]:
        return WebSocketSource(f"ws://{self.address}/ws", value=Json(SourceItem, id="number"), resume=begin_at)

    def missing(self) -> WebSocketSource[SourceItem]:
        return WebSocketSource(f"ws://127.0.0.1:{free_port()}/ws", value=SourceItem)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "http_kit:ReplaySubject", [self.port]
