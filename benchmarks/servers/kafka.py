"""Kafka by confluent-kafka, on librdkafka's mock brokers in a process of their own: a consumer with commits by itself,
and a producer that is idempotent."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.servers.kinds import DECODER, Reading
from benchmarks.servers.processes import beside, python
from bolts.sinks.kafka.sink import KafkaSink
from spouts.kafka.source import KafkaSource

BATCH: Final = 1_000
PARTITIONS: Final = 4
BROKERS: Final = """
import ctypes, pathlib, sys
import confluent_kafka
(path,) = (pathlib.Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*")
library, pointer = ctypes.CDLL(str(path)), ctypes.c_void_p
library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = pointer
library.rd_kafka_mock_cluster_new.restype = pointer
library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
handle = library.rd_kafka_new(0, pointer(library.rd_kafka_conf_new()), ctypes.create_string_buffer(512), 512)
cluster = pointer(library.rd_kafka_mock_cluster_new(pointer(handle), 1))
library.rd_kafka_mock_set_controller_id(cluster, 1)
library.rd_kafka_mock_topic_create(cluster, sys.argv[1].encode(), int(sys.argv[2]), 1)
print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
sys.stdin.read()
"""


class Kafka:
    def __init__(self) -> None:
        self.name = f"kedge-bench-{secrets.token_hex(4)}"

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        with beside(*python(BROKERS, self.name, str(PARTITIONS))) as process:
            assert process.stdout is not None
            self._brokers = process.stdout.readline().strip()
            yield

    async def fill(self, bodies: Sequence[bytes]) -> None:
        self._producer = Producer({"bootstrap.servers": self._brokers, "enable.idempotence": True, "linger.ms": 5})
        await self.write(bodies)

    async def receive(self) -> None:
        """Make the producer of plain code, which takes up to a second with its first message."""
        self._producer = Producer({"bootstrap.servers": self._brokers, "enable.idempotence": True, "linger.ms": 5})
        self._producer.produce(self.name, b"{}")
        assert self._producer.flush(60) == 0

    async def read(self, count: int) -> AsyncIterator[int]:
        settings = {"bootstrap.servers": self._brokers, "group.id": "bare", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        try:
            consumer.assign([TopicPartition(self.name, number, 0) for number in range(PARTITIONS)])
            while count > 0:
                messages = consumer.consume(min(BATCH, count), 1.0)
                for message in messages:
                    value = message.value()
                    assert isinstance(value, bytes)
                    DECODER.decode(value)
                count -= len(messages)
                yield len(messages)
        finally:
            consumer.close()

    async def write(self, bodies: Sequence[bytes]) -> None:
        producer = self._producer
        for number, body in enumerate(bodies):
            while True:
                try:
                    producer.produce(self.name, body, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        assert producer.flush(60) == 0

    def source(self) -> KafkaSource[Reading]:
        return KafkaSource(self._brokers, self.name, value=Reading)

    def sink(self) -> KafkaSink:
        return KafkaSink(self._brokers, self.name)
