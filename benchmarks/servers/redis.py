"""Redis: a consumer group with an XACK for each batch, and XADDs in a pipeline."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis

from benchmarks.servers.kinds import DECODER, Reading
from bolts.sinks.redis.sink import RedisSink
from spouts.servers.redis import RedisStreamSource

URL: Final = "redis://127.0.0.1:6379"
BATCH: Final = 500


class RedisStream:
    def __init__(self) -> None:
        self.name = f"kedge-bench-{secrets.token_hex(4)}"

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        async with Redis.from_url(URL) as client:
            self._client = client
            try:
                yield
            finally:
                async for key in client.scan_iter(f"*{self.name}*", count=10_000):
                    await client.delete(key)

    async def fill(self, bodies: Sequence[bytes]) -> None:
        await self.write(bodies)

    async def receive(self) -> None:
        """Do nothing: the server keeps what comes."""

    async def read(self, count: int) -> AsyncIterator[int]:
        await self._client.xgroup_create(self.name, "bare", "0")
        while count > 0:
            answer: Any = await self._client.xreadgroup("bare", "one", {self.name: ">"}, min(BATCH, count))
            entries = answer[0][1]
            for _, fields in entries:
                DECODER.decode(fields[b"data"])
            await self._client.xack(self.name, "bare", *(entry for entry, _ in entries))
            count -= len(entries)
            yield len(entries)

    async def write(self, bodies: Sequence[bytes]) -> None:
        for first in range(0, len(bodies), BATCH):
            async with self._client.pipeline(transaction=False) as pipeline:
                for body in bodies[first : first + BATCH]:
                    pipeline.xadd(self.name, {"data": body})
                await pipeline.execute()

    def source(self) -> RedisStreamSource[Reading]:
        return RedisStreamSource(URL, self.name, value=Reading)

    def sink(self) -> RedisSink:
        return RedisSink(URL, self.name)
