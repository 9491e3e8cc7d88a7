"""A Kafka cluster for tests: librdkafka's mock brokers, in a process of its own, which speak the real protocol on TCP.

    with KafkaCluster() as cluster:
        cluster.make_topic("logins", 4)
        cluster.put("logins", [b"{}"])

The brokers are those that librdkafka's own tests use, behind its C functions `rd_kafka_mock_…`. They have topics with
ids, offsets of groups, retention, and can be down. They have no passwords, no transactions that hide a message, and do
not recognize what an idempotent producer sends twice. The process ends when its stdin does, so also with a test that
is killed.
"""

import asyncio
import ctypes
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition

from bolts.sinks.kafka.sink import KafkaSink
from spouts.kafka.source import KafkaSource
from topology import Task
from topology.runtime.clock import LoopClock
from topology.testing.sinks import SinkSubject
from topology.testing.sources import SourceItem, SourceSubject
from topology.testing.sources.driver import DrivenSource, Memory

BROKERS = 3
WAIT_S = 30.0  # for an answer, on a busy machine
PRODUCE = 0  # the number of this request in Kafka's protocol
QUIET = {"log_level": 0}  # librdkafka's own lines on stderr


class NoMock(Exception):
    """librdkafka's mock brokers cannot be reached in this installation; the text is the reason."""


def mock_library() -> Any:
    """librdkafka, as it is in the wheel of confluent-kafka. Raises NoMock."""
    package = Path(confluent_kafka.__file__).parent
    found = sorted((package.parent / "confluent_kafka.libs").glob("librdkafka*"))
    if not found:
        raise NoMock("confluent-kafka was not installed as a wheel with librdkafka in it")
    library = ctypes.CDLL(str(found[0]))
    pointer, text, number, long = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64
    size = ctypes.c_size_t
    for name, result, arguments in (
        ("conf_new", pointer, []),
        ("new", pointer, [number, pointer, text, size]),
        ("mock_cluster_new", pointer, [pointer, number]),
        ("mock_cluster_bootstraps", text, [pointer]),
        ("mock_set_controller_id", None, [pointer, number]),
        ("mock_topic_create", number, [pointer, text, number, number]),
        ("mock_topic_delete", number, [pointer, text]),
        ("mock_partition_delete_records", number, [pointer, text, number, long]),
        ("mock_broker_set_down", number, [pointer, number]),
        ("mock_broker_set_up", number, [pointer, number]),
        ("mock_broker_set_rtt", number, [pointer, number, number]),
        ("mock_broker_set_host_port", None, [pointer, number, text, number]),
        ("mock_set_apiversion", number, [pointer, ctypes.c_int16, ctypes.c_int16, ctypes.c_int16]),
        ("mock_push_request_errors_array", None, [pointer, ctypes.c_int16, size, ctypes.POINTER(number)]),
        ("mock_start_request_tracking", None, [pointer]),
        ("mock_stop_request_tracking", None, [pointer]),
        ("mock_get_requests", ctypes.POINTER(pointer), [pointer, ctypes.POINTER(size)]),
        ("mock_request_api_key", ctypes.c_int16, [pointer]),
        ("mock_request_destroy_array", None, [ctypes.POINTER(pointer), size]),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class MockBrokers:
    """The brokers themselves, in this process. Each public method is a command."""

    def __init__(self, count: int) -> None:
        self._library = mock_library()
        error = ctypes.create_string_buffer(512)
        handle = self._library.rd_kafka_new(0, self._library.rd_kafka_conf_new(), error, 512)
        self._cluster = self._library.rd_kafka_mock_cluster_new(handle, count)
        self._ids = range(1, count + 1)
        self._do("set_controller_id", 1)

    def _do(self, name: str, *arguments: Any) -> Any:
        code = getattr(self._library, f"rd_kafka_mock_{name}")(self._cluster, *arguments)
        if isinstance(code, int) and code:
            raise RuntimeError(f"{name}{arguments}: {code}")
        return code

    def addresses(self) -> str:
        found: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return found.decode()

    def make_topic(self, name: str, partitions: int) -> None:
        self._do("topic_create", name.encode(), partitions, 1)

    def delete_topic(self, name: str) -> None:
        self._do("topic_delete", name.encode())

    def delete_before(self, name: str, partition: int, offset: int) -> None:
        self._do("partition_delete_records", name.encode(), partition, offset)

    def advertise(self, port: int) -> None:
        """Clients are told this port for each broker."""
        for broker in self._ids:
            self._do("broker_set_host_port", broker, b"127.0.0.1", port)

    def down(self) -> None:
        for broker in self._ids:
            self._do("broker_set_down", broker)

    def up(self) -> None:
        for broker in self._ids:
            self._do("broker_set_up", broker)

    def answers_after(self, milliseconds: int) -> None:
        for broker in self._ids:
            self._do("broker_set_rtt", broker, milliseconds)

    def knows(self, request: int, lowest: int, highest: int) -> None:
        """The brokers know these versions of a request."""
        self._do("set_apiversion", request, lowest, highest)

    def refuse(self, request: int, codes: Sequence[int]) -> None:
        """The next requests of this kind get these errors."""
        array = (ctypes.c_int32 * len(codes))(*codes)
        self._do("push_request_errors_array", request, len(codes), array)

    def track(self) -> None:
        self._do("start_request_tracking")

    def requests(self, request: int) -> int:
        """How many requests of this kind came since `track`."""
        count = ctypes.c_size_t()
        found = self._library.rd_kafka_mock_get_requests(self._cluster, ctypes.byref(count))
        kinds = [self._library.rd_kafka_mock_request_api_key(found[at]) for at in range(count.value)]
        if count.value:
            self._library.rd_kafka_mock_request_destroy_array(found, count)
        return kinds.count(request)

    def lose_next_answer(self) -> None:
        """Store what the next produce request brings, and close its connection without an answer."""
        self.answers_after(5_000)
        self.track()
        until = time.monotonic() + WAIT_S
        while not self.requests(PRODUCE) and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(0.1)  # a request is stored right after it was counted
        self._do("stop_request_tracking")
        self.down()
        self.answers_after(0)
        self.up()


def serve(count: int) -> None:
    """Takes commands as lines of JSON; answers each by a line."""
    brokers = MockBrokers(count)
    print(json.dumps(brokers.addresses()), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = {"ok": getattr(brokers, name)(*arguments)}
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)


class KafkaCluster:
    """A cluster in a process of its own. Commands of `MockBrokers` by `tell`; the rest by ordinary clients."""

    def __init__(self, brokers: int = BROKERS) -> None:
        mock_library()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(brokers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lock = threading.Lock()
        self.brokers: str = json.loads(self._line())

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> "KafkaCluster":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def tell(self, command: str, *arguments: Any) -> Any:
        """Give a command, and return its result."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps([command, *arguments]) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._line())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]

    def make_topic(self, name: str, partitions: int = 4) -> str:
        self.tell("make_topic", name, partitions)
        return name

    @contextmanager
    def away(self) -> Iterator[None]:
        """No broker takes a connection."""
        self.tell("down")
        try:
            yield
        finally:
            self.tell("up")

    @contextmanager
    def lost_answer(self) -> Iterator[None]:
        """The next messages are stored, and their sender is not told."""
        thread = threading.Thread(target=self.tell, args=("lose_next_answer",))
        thread.start()
        try:
            yield
        finally:
            thread.join()


def put(brokers: str, topic: str, values: Iterable[bytes | None], **options: Any) -> None:
    """Send these to a topic, and wait until it has them."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, **QUIET})
    errors: list[Any] = []
    for value in values:
        while True:
            try:
                producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error), **options)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(WAIT_S)
    assert not left, f"{left} messages are not stored"
    assert not any(errors), errors


def all_messages(brokers: str, topic: str) -> list[Any]:
    """All messages of a topic, by partition, each in its order."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "reads-all", "enable.partition.eof": True, **QUIET})
    try:
        numbers = [*consumer.list_topics(topic, WAIT_S).topics[topic].partitions]
        found: dict[int, list[Any]] = {number: [] for number in numbers}
        limits = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), WAIT_S, cached=False)
            for number in numbers
        }
        wanted = {number: high for number, (low, high) in limits.items() if high > low}
        consumer.assign([TopicPartition(topic, number, limits[number][0]) for number in wanted])
        until = time.monotonic() + WAIT_S
        while any(not found[number] or found[number][-1].offset() < high - 1 for number, high in wanted.items()):
            assert time.monotonic() < until, "not all messages came"
            for message in consumer.consume(1_000, 0.05):
                if message.error() is None:
                    found[message.partition() or 0].append(message)
        return [message for number in numbers for message in found[number]]
    finally:
        consumer.close()


def committed(brokers: str, group: str, topic: str, partitions: int) -> list[int]:
    """What a group has committed of each partition; -1001 if nothing."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": group, **QUIET})
    try:
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        return [one.offset for one in consumer.committed(asked, WAIT_S)]
    finally:
        consumer.close()


def commit(brokers: str, group: str, topic: str, offsets: Sequence[int]) -> None:
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": group, **QUIET})
    try:
        given = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
        consumer.commit(offsets=given, asynchronous=False)
    finally:
        consumer.close()


def seen_once(messages: Iterable[Any]) -> list[Any]:
    """The messages as a consumer takes them that drops repeated keys, as docs/how-to/kafka.md tells."""
    found: dict[bytes, Any] = {}
    for message in messages:
        found.setdefault(dict(message.headers())["kedge-key"], message)
    return [*found.values()]


def lines(count: int, begin: int = 0) -> list[bytes]:
    return [b"line %d" % number for number in range(begin, begin + count)]


def numbered(begin: int, end: int) -> list[str]:
    return [f"line {number}" for number in range(begin, end)]


def texts(messages: Sequence[Any]) -> list[str]:
    return sorted((message.record.text for message in messages), key=lambda text: int(text.split()[1]))


async def opened(made: KafkaSource[Any], memory: Memory | None = None, tasks: int = 1, index: int = 0) -> DrivenSource:
    driven = DrivenSource(made, memory or Memory(), tasks, index)
    await driven.open()
    return driven


async def taken(made: KafkaSource[Any], count: int, memory: Memory | None = None) -> list[Any]:
    """The first messages of a run."""
    driven = await opened(made, memory)
    try:
        await driven.take(count, WAIT_S)
        return driven.messages
    finally:
        await driven.close()


def task() -> Task:
    return Task("run", "logs", 0, 1, LoopClock(asyncio.get_running_loop()), Random(1), Memory().notes)


class KafkaSourceSubject(SourceSubject):
    tasks = 2

    def __init__(self, brokers: str, topic: str, cluster: KafkaCluster | None = None) -> None:
        self.brokers, self.topic, self.cluster = brokers, topic, cluster

    def make(self) -> KafkaSource[SourceItem]:
        return KafkaSource(self.brokers, self.topic, value=SourceItem)

    def put(self, numbers: Sequence[int]) -> None:
        put(self.brokers, self.topic, map(self.payload, numbers))

    def put_bad(self) -> bytes:
        put(self.brokers, self.topic, [b'{"number": "one"}'])
        return b'{"number": "one"}'

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.cluster is not None
        with self.cluster.away():
            yield

    def missing(self) -> KafkaSource[SourceItem]:
        return KafkaSource("127.0.0.1:9", self.topic, value=SourceItem)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "kafka_kit:KafkaSourceSubject", [self.brokers, self.topic]


class KafkaSinkSubject(SinkSubject):
    """`rows` are those of a consumer that drops repeated keys: Kafka keeps what a restart sends again."""

    tasks = 2

    def __init__(self, brokers: str, topic: str, cluster: KafkaCluster | None = None) -> None:
        self.brokers, self.topic, self.cluster = brokers, topic, cluster

    def make(self) -> KafkaSink:
        return KafkaSink(self.brokers, self.topic, batch=50)

    def rows(self) -> list[tuple[int, int]]:
        rows = [json.loads(message.value()) for message in seen_once(all_messages(self.brokers, self.topic))]
        return [(row["number"], row["revision"]) for row in rows]

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.cluster is not None
        with self.cluster.away():
            yield

    @contextmanager
    def lost_answer(self) -> Iterator[None]:
        assert self.cluster is not None
        with self.cluster.lost_answer():
            yield

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "kafka_kit:KafkaSinkSubject", [self.brokers, self.topic]


if __name__ == "__main__":
    serve(int(sys.argv[1]))
