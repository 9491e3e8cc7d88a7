"""RabbitMQ by aio-pika: a consumer with an ack each, and publishes whose confirms are awaited together."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aio_pika

from benchmarks.servers.kinds import DECODER, Reading
from bolts.sinks.servers.amqp import AmqpSink
from spouts.servers.amqp import AmqpSource

URL: Final = "amqp://guest:guest@127.0.0.1:5672"
BATCH: Final = 1_000
WINDOW: Final = 1_000  # messages without an ack


class Amqp:
    def __init__(self) -> None:
        self.name = f"kedge-bench-{secrets.token_hex(4)}"

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        async with await aio_pika.connect(URL) as connection:
            self._channel = await connection.channel()
            await self._channel.set_qos(WINDOW)
            self._queue = await self._channel.declare_queue(self.name, durable=True)
            try:
                yield
            finally:
                await self._queue.delete(if_unused=False, if_empty=False)

    async def fill(self, bodies: Sequence[bytes]) -> None:
        await self.write(bodies)

    async def receive(self) -> None:
        """Do nothing: the server keeps what comes."""

    async def read(self, count: int) -> AsyncIterator[int]:
        async with self._queue.iterator() as messages:
            async for message in messages:
                DECODER.decode(message.body)
                await message.ack()
                yield 1
                count -= 1
                if not count:
                    return

    async def write(self, bodies: Sequence[bytes]) -> None:
        publish = self._channel.default_exchange.publish
        for first in range(0, len(bodies), BATCH):
            some = enumerate(bodies[first : first + BATCH], first)
            mode = aio_pika.DeliveryMode.PERSISTENT
            made = (aio_pika.Message(body, message_id=str(number), delivery_mode=mode) for number, body in some)
            await asyncio.gather(*(publish(message, self.name) for message in made))

    def source(self) -> AmqpSource[Reading]:
        return AmqpSource(URL, self.name, value=Reading, requires_ids=True)

    def sink(self) -> AmqpSink:
        return AmqpSink(URL, routing_key=self.name)
