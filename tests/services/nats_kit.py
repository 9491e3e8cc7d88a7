"""Streams of a real NATS server, for tests: made, filled, looked at and deleted, each by a connection of its own."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import nats
from tcp_proxy import TcpProxy

from bolts.sinks.servers.nats import NatsSink
from spouts.servers.nats import NatsSource
from topology.testing.sinks import SinkSubject
from topology.testing.sinks.driver import delivery, item
from topology.testing.sources import SourceItem, SourceSubject

PORT = int(os.environ.get("KEDGE_TEST_NATS", "4222"))


def asked(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns, in a loop of its own."""
    return asyncio.run(work)


async def connected(port: int = PORT) -> Any:
    return await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False, connect_timeout=3)


async def reached() -> None:
    """Raises what keeps a client from connecting."""
    await (await connected()).close()


@asynccontextmanager
async def jetstream(port: int, **options: Any) -> AsyncIterator[Any]:
    client = await nats.connect(f"nats://127.0.0.1:{port}", **options)
    try:
        yield client.jetstream()
    finally:
        await client.close()


def numbered(numbers: Sequence[int]) -> list[Any]:
    return [delivery(item(number)) for number in numbers]


async def count(name: str, port: int = PORT, **options: Any) -> int:
    async with jetstream(port, **options) as js:
        return int((await js.stream_info(name)).state.messages)


class NatsStream:
    """A stream of a test's own, with one subject."""

    def __init__(self, name: str) -> None:
        self.name, self.subject = name, f"{name}.items"

    async def _do(self, call: str, *given: Any, **options: Any) -> Any:
        client = await connected()
        try:
            return await getattr(client.jetstream(), call)(*given, **options)
        finally:
            await client.close()

    @contextmanager
    def there(self) -> Iterator["NatsStream"]:
        asked(self._do("add_stream", name=self.name, subjects=[f"{self.name}.>"], duplicate_window=1_000.0))
        try:
            yield self
        finally:
            asked(self._do("delete_stream", self.name))

    async def publish(self, bodies: Sequence[bytes]) -> None:
        client = await connected()
        try:
            stream = client.jetstream()
            await asyncio.gather(*[await stream.publish_async(self.subject, body) for body in bodies])
        finally:
            await client.close()

    def info(self) -> Any:
        return asked(self._do("stream_info", self.name))

    def consumers(self) -> Any:
        return asked(self._do("consumers_info", self.name))

    async def bodies(self) -> list[bytes]:
        """All messages, in their order."""
        client = await connected()
        try:
            stream = client.jetstream()
            count = (await stream.stream_info(self.name)).state.last_seq
            return [(await stream.get_msg(self.name, number + 1)).data for number in range(count)]
        finally:
            await client.close()


class NatsSourceSubject(SourceSubject):
    again_s = 3.0

    def __init__(self, name: str, port: int = PORT) -> None:
        self.stream = NatsStream(name)
        self.port = port
        self.proxy: TcpProxy | None = None

    def make(self) -> NatsSource[SourceItem]:
        port = self.proxy.port if self.proxy is not None else PORT
        return NatsSource(f"nats://127.0.0.1:{port}", self.stream.name, value=SourceItem)

    def put(self, numbers: Sequence[int]) -> None:
        asked(self.stream.publish([self.payload(number) for number in numbers]))

    def put_bad(self) -> bytes:
        asked(self.stream.publish([b'{"number": "one"}']))
        return b'{"number": "one"}'

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.away():
            yield

    def missing(self) -> NatsSource[SourceItem]:
        return NatsSource("nats://127.0.0.1:9", self.stream.name, value=SourceItem)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "nats_kit:NatsSourceSubject", [self.stream.name]


class NatsSinkSubject(SinkSubject):
    tasks = 2

    def __init__(self, name: str) -> None:
        self.stream = NatsStream(name)
        self.proxy: TcpProxy | None = None

    def make(self) -> NatsSink:
        port = self.proxy.port if self.proxy is not None else PORT
        return NatsSink(f"nats://127.0.0.1:{port}", self.stream.subject, batch=50)

    def rows(self) -> list[tuple[int, int]]:
        import json

        with_threads = [json.loads(body) for body in in_thread(self.stream.bodies())]
        return [(row["number"], row["revision"]) for row in with_threads]

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.away():
            yield

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "nats_kit:NatsSinkSubject", [self.stream.name]


def in_thread(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns, in a loop of another thread: for what a check calls on its own loop."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
