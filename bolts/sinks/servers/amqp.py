"""`AmqpSink`: records as messages of RabbitMQ. Knows AMQP 0-9-1; must not know batches, nor how one connects."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from bolts.sinks.batching import BATCH
from bolts.sinks.publishing.bodies import Body
from bolts.sinks.publishing.publisher import Outgoing, Published, Publisher
from bolts.sinks.publishing.sink import PublishingSink
from topology.clients import amqp
from topology.clients.addresses import without_secrets
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.secrets import Secret

ANSWER_S: Final = 10.0  # seconds without all confirmations of a batch after which the sink says that it waits
# seconds without any confirmation after which the connection is given up, and what is not confirmed is sent again
STUCK_S: Final = 60.0
PERSISTENT: Final = 2  # the delivery mode
TOO_LARGE: Final = re.compile(r"larger than (?:configured )?max size (\d+)")


class AmqpSink(PublishingSink):
    """Publish each record as a message of RabbitMQ, and ack it when RabbitMQ has confirmed it.

        topology.bolt("alerts", AmqpSink("amqp://guest:guest@127.0.0.1", routing_key="alerts"), alerts.shuffle())

    Each message is persistent and has its key as `message-id`, and the record's class as `type`. **RabbitMQ does not
    recognize what is sent again**: after a crash or a lost connection a message may be there twice, with the same
    `message-id`. `AmqpSource` drops the second one; other consumers can. The same task sends nothing again that was
    confirmed.

    If a queue is full (`reject-publish`), or the server low on memory or disk, the sink waits, and the sources pause.

    url      amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps://. A Secret, if it has a password of yours.
    exchange The exchange, which has to exist. "": the default one, whose routing keys are names of queues.
    routing_key  The routing key, or a function of the record that returns it.
    body     A function that makes the body of a record, as bytes or str. None: a JSON object.
    mandatory  True: a record fails if no queue takes its message. False: RabbitMQ drops it, as it does for others.
    tls      Certificates; None: those of the system if the URL begins with amqps://.
    batch, within_ms  As in `SqliteSink`.
    """

    drops_replays = False
    durability: ClassVar[str] = "confirmed by RabbitMQ: on the disk if its queues are durable"

    def __init__(
        self,
        url: str | Secret,
        exchange: str = "",
        routing_key: str | Callable[[Any], str] = "",
        *,
        body: Body | None = None,
        mandatory: bool = True,
        tls: Tls | None = None,
        batch: int = BATCH,
        within_ms: float = 2.0,
    ) -> None:
        super().__init__(body=body, batch=batch, within_ms=within_ms)
        self.url = amqp.checked_url("AmqpSink", url, tls)
        if not isinstance(exchange, str) or len(exchange.encode()) > amqp.NAME_MAX:
            raise invalid(f"AmqpSink: exchange is a name of at most {amqp.NAME_MAX} bytes, not {exchange!r:.80}")
        if not callable(routing_key) and not _is_key(routing_key):
            text = f"AmqpSink: routing_key is a text of at most {amqp.NAME_MAX} bytes, or a function that returns one"
            raise invalid(f"{text}, not {routing_key!r:.80}")
        if not exchange and not routing_key:
            raise invalid("AmqpSink: without an exchange, routing_key is the name of a queue; give one of both")
        self.encodes_json = body is None
        self.exchange, self.routing_key, self.mandatory, self.tls = exchange, routing_key, mandatory, tls

    def _make_publisher(self) -> Publisher:
        return AmqpPublisher(self)


class AmqpPublisher:
    """One connection; see `Publisher`.

    A call that is made again knows what it has sent: it sends only what was lost with a connection, or what
    RabbitMQ did not take.
    """

    def __init__(self, sink: AmqpSink) -> None:
        self._library = client("aiormq", package="aio-pika", extra="amqp", needed_by="AmqpSink")
        self._sink = sink
        to = sink.exchange and f"exchange {sink.exchange}"
        if not to and isinstance(sink.routing_key, str):
            to = f"queue {sink.routing_key}"
        self.where = f"{to} of {without_secrets(sink.url)}" if to else without_secrets(sink.url)
        self._channel: amqp.AmqpChannel | None = None
        self._sent: dict[str, asyncio.Future[Any]] = {}  # key → the confirmation that this channel waits for
        self._known: dict[str, str] = {}  # key → the reason for which it is refused; "" if it is confirmed
        self._max_bytes: int | None = None  # bytes of the largest message, once the server has said so
        self._heard_at = 0.0  # loop time of the last confirmation, or of the last message that was sent

    async def open(self) -> None:
        """See `Publisher.open`. Also checks that the exchange is there, or the queue of a fixed routing key."""
        sink = self._sink
        if self._channel is not None and not self._channel.lost.is_set():
            return
        await self.close()
        channel = await amqp.connected(sink.url, needed_by="AmqpSink", confirms=True, tls=sink.tls)
        self._channel = channel
        try:
            if sink.exchange:
                await channel.call(channel.raw.exchange_declare(sink.exchange, passive=True))
            elif sink.mandatory and isinstance(sink.routing_key, str):
                await channel.call(channel.raw.queue_declare(sink.routing_key, passive=True))
        except amqp.ChannelRefused as error:
            await self.close()
            if error.code == 404:
                raise refused(f"AmqpSink: there is no {self.where}") from error
            raise refused(f"AmqpSink: {self.where} can't be used: {error}") from error
        except ServerAway:
            await self.close()
            raise

    async def publish(self, messages: Sequence[Outgoing]) -> Published:
        """See `Publisher.publish`."""
        await self.open()
        channel = self._channel
        assert channel is not None, "open"
        keys = {message.key for message in messages}
        self._known = {key: why for key, why in self._known.items() if key in keys}
        for message in messages:
            if message.key not in self._known and message.key not in self._sent:
                self._send(channel, message)
        await self._wait(channel)
        nacked = self._look()
        open_count = len(keys) - len(self._known)
        if open_count:
            await self._explain(channel, open_count, nacked)
        refusals = {at: why for at, message in enumerate(messages) if (why := self._known[message.key])}
        self._known = {}
        return Published(refusals)

    def _send(self, channel: amqp.AmqpChannel, message: Outgoing) -> None:
        """Begin to send a message, or note why it cannot be sent."""
        sink = self._sink
        key = sink.routing_key if isinstance(sink.routing_key, str) else _key_of(sink.routing_key, message.record)
        if key is None:
            self._known[message.key] = f"its routing key is a text of at most {amqp.NAME_MAX} bytes"
            return
        if self._max_bytes is not None and len(message.body) > self._max_bytes:
            self._known[message.key] = f"it is larger than the server takes ({self._max_bytes:,} bytes)"
            return
        properties = self._library.spec.Basic.Properties(
            content_type="application/json" if sink.encodes_json else None,
            delivery_mode=PERSISTENT,
            message_id=message.key,
            message_type=type(message.record).__name__,
        )
        self._heard_at = asyncio.get_running_loop().time()
        self._sent[message.key] = asyncio.ensure_future(
            channel.raw.basic_publish(
                message.body,
                exchange=sink.exchange,
                routing_key=key,
                properties=properties,
                mandatory=sink.mandatory,
                wait=False,
            )
        )

    async def _wait(self, channel: amqp.AmqpChannel) -> None:
        """Wait until all messages are answered, the channel is lost, or ANSWER_S are over."""
        answers = asyncio.ensure_future(asyncio.wait(self._sent.values())) if self._sent else None
        if answers is None:
            return
        lost = asyncio.ensure_future(channel.lost.wait())
        try:
            await asyncio.wait((answers, lost), timeout=ANSWER_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (answers, lost):
                each.cancel()

    def _look(self) -> int:
        """Note the answers. Return the number of messages that RabbitMQ did not take."""
        errors, nacked = self._library.exceptions, 0
        for key, answer in [*self._sent.items()]:
            if not answer.done():
                continue
            del self._sent[key]
            self._heard_at = asyncio.get_running_loop().time()
            if answer.cancelled():
                continue
            error = answer.exception()
            if error is None:
                self._known[key] = ""
            elif isinstance(error, errors.PublishError):
                self._known[key] = f"no queue takes it: {amqp.said_of_return(error)}"
            elif isinstance(error, errors.DeliveryError):
                nacked += 1
            elif not isinstance(error, amqp.failures(self._library)):  # those are of a lost channel
                raise error  # a bug of ours
        return nacked

    async def _explain(self, channel: amqp.AmqpChannel, open_count: int, nacked: int) -> None:
        """Raise the error for a call that has to be made again."""
        where = without_secrets(self._sink.url)
        if channel.lost.is_set():
            why = channel.away()
            if (found := TOO_LARGE.search(str(why))) is not None:
                self._max_bytes = int(found[1])
            await self.close()
            raise why
        if nacked:
            raise ServerAway(f"{where} does not take {nacked:,} messages now: a queue is full, or its node failed")
        if await channel.is_blocked():
            raise ServerAway(f"{where} takes nothing now: it is low on memory or disk (rabbitmqctl list_alarms)")
        if asyncio.get_running_loop().time() - self._heard_at > STUCK_S:
            await self.close()
        raise ServerAway(f"{where} has not confirmed {open_count:,} messages yet")

    async def close(self) -> None:
        """See `Publisher.close`."""
        channel, self._channel = self._channel, None
        for answer in self._sent.values():
            answer.cancel()
        if self._sent:
            await asyncio.wait(self._sent.values(), timeout=amqp.LOOK_S)
            self._look()
        self._sent = {}
        if channel is not None:
            await channel.close()


def _is_key(key: object) -> bool:
    """Return True if it can be a routing key."""
    try:
        return isinstance(key, str) and len(key.encode()) <= amqp.NAME_MAX
    except UnicodeEncodeError:
        return False


def _key_of(function: Callable[[Any], str], record: Any) -> str | None:
    """Return the routing key that the user's function gives; None if it is none."""
    try:
        key = function(record)
    except Exception:  # the user's code may raise anything
        return None
    return key if _is_key(key) else None
