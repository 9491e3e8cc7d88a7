"""A real HTTP server for tests of `WebHook` and the channels on it: it keeps requests, and a test says the answers.

It has a loop and a thread of its own, so a test's loop may be busy or virtual, and its process may be killed.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiohttp import web

from bolts.sinks.http.webhook import WebHook
from topology.testing.sinks import SinkSubject

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@dataclass(frozen=True)
class Posted:
    """A request. `at`: seconds of `time.monotonic` when it came. `names`: of headers, in lower case, as often as they
    are sent."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    names: tuple[str, ...] = ()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


# What becomes of a request: a status, or a response; None: it is stored, and answered by 200.
Answers: TypeAlias = Callable[[Posted], "int | web.StreamResponse | Awaitable[int | web.StreamResponse | None] | None"]


class HookServer:
    """A server on a port of 127.0.0.1. `posted` are all requests, `stored` those that were new and taken, by their
    keys. `answers` decides; a request whose key is known is answered by 200, and not stored again."""

    def __init__(self, answers: Answers | None = None, context: ssl.SSLContext | None = None) -> None:
        self.answers = answers
        self.posted: list[Posted] = []
        self.stored: dict[str, Posted] = {}
        self.loses = 0  # answers to lose after the request was stored
        self.under_way = self.most_under_way = 0
        self.port = 0
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}/hook"

    def start(self) -> None:
        self._call(self._start())

    def stop(self) -> None:
        """Closes the port and all connections."""
        self._call(self._stop())

    @contextmanager
    def away(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start()

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True, ssl_context=self._context)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            for connection in [*(runner.server.connections if runner.server is not None else ())]:
                if connection.transport is not None:
                    connection.transport.abort()
            await runner.cleanup()
        others = asyncio.all_tasks() - {asyncio.current_task()}  # handlers that hang
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self._answer(request)
        finally:
            self.under_way -= 1

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        names = tuple(name.lower() for name, _ in request.headers.items())
        posted = Posted(request.path_qs, dict(request.headers), await request.read(), time.monotonic(), names)
        self.posted.append(posted)
        answer: Any = self.answers(posted) if self.answers is not None else None
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, int):
            return web.Response(status=answer, text=f"this is {answer}")
        if isinstance(answer, web.StreamResponse):
            return answer
        key = posted.headers.get("Idempotency-Key", str(len(self.posted)))
        self.stored.setdefault(key, posted)
        if self.loses:
            self.loses -= 1
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text="ok")


@contextmanager
def hook_server(answers: Answers | None = None, context: ssl.SSLContext | None = None) -> Iterator[HookServer]:
    server = HookServer(answers, context)
    try:
        yield server
    finally:
        server.close()


def is_signed(posted: Posted, secret: str = SECRET) -> bool:
    """Whether a request is signed, by the words of the specification and nothing of ours."""
    headers = {name.lower(): value for name, value in posted.headers.items()}
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + posted.body
    wanted = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    is_fresh = abs(int(headers["webhook-timestamp"]) - time.time()) < 300
    return is_fresh and any(
        hmac.compare_digest(wanted, each.removeprefix("v1,")) for each in headers["webhook-signature"].split(" ")
    )


class HookSubject(SinkSubject):
    """A `WebHook` to a server that drops known keys."""

    tasks = 2
    ordered = False

    def __init__(self, server: HookServer | None = None, port: int = 0, concurrency: int = 4) -> None:
        self.server, self.port, self.concurrency = server, server.port if server else port, concurrency
        self.ordered = concurrency == 1

    def make(self) -> WebHook:
        url = f"http://127.0.0.1:{self.port}/hook"
        return WebHook(url, concurrency=self.concurrency, idempotent=True, timeout_s=20.0)

    def rows(self) -> list[tuple[int, int]]:
        assert self.server is not None
        rows = [posted.json for posted in [*self.server.stored.values()]]
        return [(row["number"], row["revision"]) for row in rows]

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.server is not None
        with self.server.away():
            yield

    @contextmanager
    def lost_answer(self) -> Iterator[None]:
        assert self.server is not None
        self.server.loses = 1
        yield
        assert not self.server.loses, "nothing was answered"

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "hook_kit:subject_at", [self.port]


def subject_at(port: int) -> HookSubject:
    return HookSubject(None, port)
