"""HTTP by aiohttp: a server that decodes posts, and a client that posts, eight at a time. One message a request.

Posts come from a process of their own with 16 connections; a receiver of what a sink posts is such a process too.
"""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Final

import aiohttp
from aiohttp import web

from benchmarks.servers.kinds import DECODER, Reading
from benchmarks.servers.processes import beside, listening, python
from bolts.sinks.http.webhook import WebHook
from spouts.http.ingest import HttpIngest

AT_ONCE: Final = 8
POSTS: Final = """
import asyncio, itertools, sys
async def connection(port, bodies):
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        except OSError:
            await asyncio.sleep(0.01)
    for body in bodies:
        while True:
            lines = ("POST / HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}")
            writer.write("\\r\\n".join((*lines, "", "")).encode() + body)
            answer = await reader.readuntil(b"\\r\\n\\r\\n")
            length = [line for line in answer.lower().split(b"\\r\\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(length[0].split(b":")[1])) if length else None
            if answer.startswith(b"HTTP/1.1 2"):
                break
            await asyncio.sleep(0.01)
async def main(port, path):
    bodies = open(path, "rb").read().splitlines()
    await asyncio.gather(*(connection(port, bodies[number::16]) for number in range(16)))
asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
"""
RECEIVER: Final = """
import sys
from aiohttp import web
async def take(request):
    await request.read()
    return web.Response()
app = web.Application()
app.router.add_post("/", take)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
"""


class Http:
    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self._url = f"http://127.0.0.1:{self._port}/"
        self._beside = ExitStack()

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        with tempfile.NamedTemporaryFile("wb") as self._file, self._beside:
            yield

    async def fill(self, bodies: Sequence[bytes]) -> None:
        self._file.write(b"\n".join(bodies))
        self._file.flush()
        self._beside.enter_context(beside(*python(POSTS, str(self._port), self._file.name)))

    async def receive(self) -> None:
        """Begin the receiver of what is posted, and wait until it listens."""
        self._beside.enter_context(beside(*python(RECEIVER, str(self._port))))
        await listening(self._port)

    async def read(self, count: int) -> AsyncIterator[int]:
        came: asyncio.Queue[int] = asyncio.Queue()

        async def take(request: web.Request) -> web.Response:
            DECODER.decode(await request.read())
            came.put_nowait(1)
            return web.Response(status=202)

        app = web.Application()
        app.router.add_post("/", take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port).start()
        try:
            for _ in range(count):
                yield await came.get()
        finally:
            await runner.cleanup()

    async def write(self, bodies: Sequence[bytes]) -> None:
        left = iter(bodies)
        async with aiohttp.ClientSession() as session:

            async def post() -> None:
                for body in left:
                    async with session.post(self._url, data=body) as answer:
                        answer.raise_for_status()

            await asyncio.gather(*(post() for _ in range(AT_ONCE)))

    def source(self) -> HttpIngest[Reading]:
        return HttpIngest(self._port, value=Reading)

    def sink(self) -> WebHook:
        return WebHook(self._url, concurrency=AT_ONCE)
