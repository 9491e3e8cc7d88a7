"""NATS JetStream: a pull consumer with an ack each, and publishes whose acks are awaited together."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import nats

from benchmarks.servers.kinds import DECODER, Reading
from bolts.sinks.servers.nats import NatsSink
from spouts.servers.nats import NatsSource

URL: Final = "nats://127.0.0.1:4222"
BATCH: Final = 1_000


class Nats:
    def __init__(self) -> None:
        self.name = f"KEDGE-BENCH-{secrets.token_hex(4)}"

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        self._client = await nats.connect(URL)
        self._stream: Any = self._client.jetstream(publish_async_max_pending=2 * BATCH)
        await self._stream.add_stream(name=self.name, subjects=[self.name], duplicate_window=900)
        try:
            yield
        finally:
            await self._stream.delete_stream(self.name)
            await self._client.close()

    async def fill(self, bodies: Sequence[bytes]) -> None:
        await self.write(bodies)

    async def receive(self) -> None:
        """Do nothing: the server keeps what comes."""

    async def read(self, count: int) -> AsyncIterator[int]:
        subscribed = await self._stream.pull_subscribe(self.name, durable="bare")
        while count > 0:
            messages = await subscribed.fetch(min(BATCH, count))
            for message in messages:
                DECODER.decode(message.data)
                await message.ack()
            count -= len(messages)
            yield len(messages)

    async def write(self, bodies: Sequence[bytes]) -> None:
        for first in range(0, len(bodies), BATCH):
            futures = [
                await self._stream.publish_async(self.name, body, headers={"Nats-Msg-Id": str(first + number)})
                for number, body in enumerate(bodies[first : first + BATCH])
            ]
            for future in futures:
                await future

    def source(self) -> NatsSource[Reading]:
        return NatsSource(URL, self.name, value=Reading)

    def sink(self) -> NatsSink:
        return NatsSink(URL, self.name)
