"""Sends messages to Kafka, and waits until the brokers have confirmed each. Knows a producer of confluent-kafka; must
not know batches, nor tuples.

librdkafka repeats what it has sent until a broker answers, however long that takes. So a call that gives up leaves its
messages with librdkafka, and the next call waits for the same ones, and sends nothing twice.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from bolts.sinks.contract import StoreAway
from bolts.sinks.publishing.publisher import Outgoing, Published
from topology.clients.errors import ServerAway
from topology.clients.kafka import FORBIDDEN, GONE, TOPIC, ClientErrors, KafkaAccess, KafkaAdmin, library_for, said
from topology.records import Record

ANSWER_S: Final = 10.0  # seconds that a call waits for the brokers before it says that they are away
POLL_S: Final = 0.1  # seconds between two looks at whether the sink is closed
CLOSE_S: Final = 2.0  # seconds that closing may take
KEY_HEADER: Final = "kedge-key"
RECORD_HEADER: Final = "kedge-record"
TOO_LARGE: Final = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_MSG_SIZE"})
BAD: Final = frozenset({"INVALID_RECORD", "INVALID_MSG", "INVALID_TIMESTAMP", "POLICY_VIOLATION", "_UNKNOWN_PARTITION"})

Named = str | Callable[[Any], Any]


class DeliveryReport:
    """The knowledge of one message that was given to librdkafka."""

    __slots__ = ("error", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self.error: Any = None

    def take(self, error: Any, _: object) -> None:
        """Take the delivery report."""
        self.error, self.is_done = error, True


class BadMessage(Exception):
    """The error for a message that cannot be sent as it is. The text is the reason."""


class KafkaPublisher:
    """One producer; see `Publisher`."""

    def __init__(self, access: KafkaAccess, topic: Named, key: Named | None) -> None:
        self.where = access.brokers if callable(topic) else f"{topic} of {access.brokers}"
        self._library = library_for(access.needed_by)
        self._access, self._topic, self._key = access, topic, key
        self._errors = ClientErrors(access.needed_by)
        self._producer: Any = None
        self._reports: dict[str, DeliveryReport] = {}  # by key, of the messages of a call that has not returned yet
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kedge-kafka")
        self._closing = False

    async def open(self) -> None:
        """See `Publisher.open`. Also checks that the topic is there, if it is fixed."""
        if self._producer is not None:
            return
        self._loop = asyncio.get_running_loop()
        cluster = KafkaAdmin(self._access)
        try:
            await (cluster.reached() if callable(self._topic) else cluster.topics([self._topic]))
        finally:
            cluster.close()
        self._errors.forget()
        own = {
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": 0,  # librdkafka repeats without end; a call of ours has an end
            "topic.metadata.propagation.max.ms": 5_000,  # until a topic that is not there fails
            "linger.ms": 0,  # a batch comes at once
            "partitioner": "murmur2_random",  # that of the Java client
            "error_cb": self._errors,
        }
        self._producer = self._access.make("Producer", own)

    async def publish(self, messages: Sequence[Outgoing]) -> Published:
        """See `Publisher.publish`."""
        await self.open()
        return await self._loop.run_in_executor(self._thread, self._published, messages)

    async def close(self) -> None:
        """See `Publisher.close`. Messages that are not confirmed may be stored all the same."""
        self._closing = True
        producer, self._producer = self._producer, None
        self._reports.clear()
        if producer is not None:
            purging = self._loop.run_in_executor(self._thread, producer.purge)  # after the call under way
            with contextlib.suppress(self._library.KafkaException, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await purging
        self._thread.shutdown(wait=False)

    # -- in the thread

    def _published(self, messages: Sequence[Outgoing]) -> Published:
        """Send the messages that were not sent yet, and wait for the reports of all."""
        published = Published({})
        producer, self._errors.all_down = self._producer, False
        until = self._loop.time() + ANSWER_S
        waiting: list[tuple[int, Outgoing]] = []
        for at, message in enumerate(messages):
            try:
                if message.key not in self._reports:
                    self._send(producer, message, until)
                waiting.append((at, message))
            except BadMessage as error:
                published.refused[at] = str(error)
        self._wait(producer, [self._reports[message.key] for _, message in waiting], until)
        large = [each for each in waiting if _name(self._reports[each[1].key].error) in TOO_LARGE]
        if len(large) > 1:  # brokers refuse what was sent together, also for the sake of one of them
            for _, message in large:
                del self._reports[message.key]
            for _, message in large:
                self._send(producer, message, until)
                self._wait(producer, [self._reports[message.key]], self._loop.time() + ANSWER_S)
        self._judge(waiting, published)
        self._reports.clear()
        return published

    def _judge(self, waiting: Sequence[tuple[int, Outgoing]], published: Published) -> None:
        """Enter what is refused for good. Raises ServerAway if there is something to be sent again."""
        again: Any = None
        for at, message in waiting:
            error = self._reports[message.key].error
            if error is None:
                continue
            name = _name(error)
            own_topic = callable(self._topic) and (name in GONE or name in FORBIDDEN)
            if name in TOO_LARGE or name in BAD or own_topic:
                published.refused[at] = f"the server refuses it: {said(error)}"
            else:
                again = error
                del self._reports[message.key]
        if again is not None:
            if again.fatal():
                self._producer = None  # it sends nothing any more; the next call makes another
            raise self._away(said(again))

    def _send(self, producer: Any, message: Outgoing, until: float) -> None:
        """Give a message to librdkafka. Waits for room in its queue. Raises BadMessage."""
        topic, key = self._topic_of(message.record), self._key_of(message.record)
        headers = [(KEY_HEADER, message.key), (RECORD_HEADER, type(message.record).__name__)]
        report = DeliveryReport()
        while True:
            try:
                producer.produce(topic, message.body, key=key, headers=headers, on_delivery=report.take)
            except BufferError:
                producer.poll(POLL_S)
                self._check(until)
                continue
            except self._library.KafkaException as error:
                report.take(error.args[0], None)
            self._reports[message.key] = report
            return

    def _wait(self, producer: Any, reports: Sequence[DeliveryReport], until: float) -> None:
        """Wait for these reports. Raises ServerAway if that takes too long."""
        while not all(report.is_done for report in reports):
            producer.flush(POLL_S)
            self._check(until)

    def _check(self, until: float) -> None:
        if self._closing:
            raise StoreAway("the sink is closed")
        if self._errors.all_down:
            raise self._away(self._errors.trouble)
        if self._loop.time() >= until:
            raise self._away(self._errors.trouble or f"not all messages were confirmed within {ANSWER_S:g} s")

    def _away(self, why: str) -> ServerAway:
        return ServerAway(f"{self.where} can't be used: {why}")

    # -- one message

    def _topic_of(self, record: Record) -> str:
        if not callable(self._topic):
            return self._topic
        topic = _called(self._topic, record, "topic")
        if isinstance(topic, str) and TOPIC.match(topic):
            return topic
        raise BadMessage(f"its topic is a name of letters, digits, '.', '_' and '-', and not {topic!r:.80}")

    def _key_of(self, record: Record) -> bytes | None:
        if self._key is None:
            return None
        name = self._key
        key = _called(name if callable(name) else partial(_field, name=name), record, "key")
        if isinstance(key, bytes) or key is None:
            return key
        if isinstance(key, str) or type(key) is int:
            return str(key).encode(errors="surrogatepass")
        raise BadMessage(f"its key is str, int or bytes, and not {type(key).__name__}")


def _field(record: Record, *, name: str) -> Any:
    return getattr(record, name)


def _called(function: Callable[[Any], Any], record: Record, what: str) -> Any:
    """Return what the user's function gives. Raises BadMessage with its error."""
    try:
        return function(record)
    except Exception as error:  # the user's code may raise anything
        raise BadMessage(f"its {what} could not be made: {type(error).__name__}: {error}") from error


def _name(error: Any) -> str:
    return "" if error is None else str(error.name())
