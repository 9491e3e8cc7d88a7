"""`AmqpSource`: a queue of RabbitMQ as a source. Knows AMQP 0-9-1; must not know how a connection is made."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Literal

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.broker.connection import Received
from spouts.broker.deliveries import BrokerDelivery, ConfirmedPrefix, OpenDeliveries
from spouts.broker.source import BrokerSource
from spouts.http.own_ids import OwnIds, TextIdDecoder
from spouts.lines import Line
from spouts.payload.decoder import Decoded, content_digest, malformed
from spouts.payload.formats import Payload, Value
from topology.clients import amqp
from topology.clients.addresses import without_secrets
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.tls import Tls
from topology.components import Task
from topology.errors import ConfigurationError
from topology.records import Record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

UNCONFIRMED: Final = 10_000  # messages that RabbitMQ gives without a confirmation, if the user does not say
UNCONFIRMED_MAX: Final = 65_535  # the most that basic.qos can say
LOOK_S: Final = 1.0  # seconds between two looks at whether the queue still gives messages, if none come
STREAM_HEADER: Final = "x-stream-offset"  # only messages of a stream have it
DECLARES: Final = (None, "durable", "quorum")
DELIVERY_LIMIT: Final = "x-delivery-limit"
UNLIMITED_SINCE: Final = (4, 0)  # the first RabbitMQ with a limit if none is said, and with -1 for no limit
LIMITED: Final = "a message that is under way at so many restarts or lost connections is dropped, or dead-lettered"
NO_ID: Final = "it has no message-id, and requires_ids=True asks for one"

log = logging.getLogger("kedge.spouts")


class AmqpSource(BrokerSource[R]):
    """Messages of a RabbitMQ queue, which are acknowledged once a decided checkpoint has them.

        logins = topology.spout("logins", AmqpSource("amqp://guest:guest@127.0.0.1", "logins", value=Login))

    RabbitMQ gives again what was not acknowledged, in any order, and has nothing that was. So there are no positions,
    and nothing is read again.

    **The id** of a message is its property `message-id`, with a digest of its body. `AmqpSink` sets it; many other
    producers do not. A message without one gets a name of its own. It keeps that name if it is given again after a lost
    connection while it is under way; after a crash or a restart it is another message, and its effects may be stored
    twice. The log says so once, and `given_again` is "other ids". With `requires_ids=True` or `Json(…, id="order")` it
    is "same". A message that a producer sends several times under one id is one message, as long as the first is under
    way or among the 100,000 that were settled last. Later, sinks drop it. Another body under the same value of a field
    is malformed for as long.

    **A quorum queue with a delivery limit loses messages.** RabbitMQ drops a message that was given more often, or
    dead-letters it. Each restart of a run and each lost connection counts, for all messages that the source has without
    an acknowledgement, up to `prefetch`. RabbitMQ 4 has a limit of 20 if none is set. `declare="quorum"` makes a queue
    without a limit. If the queue is there already, set a high `delivery-limit` and a dead-letter exchange by a policy.

    A property or a header that cannot be read, such as a `timestamp` in nanoseconds, is left out, and the log says so.

    Several tasks share the queue, so use one task before a bolt with state (`kedge check --guarantees`). A stream of
    RabbitMQ's is refused: it keeps what was acknowledged, and begins anywhere.

    url      amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps://. A Secret, if it has a password of yours.
    queue    The name of the queue. It has to exist, unless `declare` makes it.
    value    The record class of a JSON payload; `Json`, `Msgpack` or a function for other ones. `Line`: the text.
    declare  "durable" or "quorum": the queue is made if it is not there. None: it is never made.
    requires_ids  True: a message without message-id is malformed.
    tls      Certificates; None: those of the system if the URL begins with amqps://.
    prefetch Messages of a task that RabbitMQ gives without an acknowledgement (basic.qos), up to 65,535. It has to be
             more than what is under way between two checkpoints: a task reads at most `prefetch` messages in
             `checkpoint_s`, and stops if bolts hold so many. All of them are in memory, whatever their size: for
             payloads above some kB, set a smaller number.

    Beside the payload there are `routing_key`, `exchange`, `message_id`, `correlation_id`, `type`, `content_type`,
    `redelivered` (True if the message may have been given before) and headers. The event time is the property
    `timestamp`, unless `Json(…, at=…)` names a field.
    """

    given_again = "other ids"
    shared_ids = True  # names of our own have the task in them
    one_queue = True
    outside_ids = True
    names_messages = False
    offers: ClassVar[frozenset[str]] = frozenset(
        {"routing_key", "exchange", "message_id", "correlation_id", "type", "content_type", "redelivered"}
    )

    def __init__(
        self,
        url: str | Secret,
        queue: str,
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        declare: Literal["durable", "quorum"] | None = None,
        requires_ids: bool = False,
        tls: Tls | None = None,
        prefetch: int = UNCONFIRMED,
    ) -> None:
        super().__init__(value, prefetch=prefetch)
        if prefetch > UNCONFIRMED_MAX:
            raise invalid(f"AmqpSource: prefetch is a number of messages up to {UNCONFIRMED_MAX:,}, not {prefetch:,}")
        if not isinstance(queue, str) or not 0 < len(queue.encode()) <= amqp.NAME_MAX:
            raise invalid(f"AmqpSource: queue is a name of at most {amqp.NAME_MAX} bytes, not {queue!r:.80}")
        if declare not in DECLARES:
            raise invalid(f'AmqpSource: declare is None, "durable" or "quorum", not {declare!r:.80}')
        self.url = amqp.checked_url("AmqpSource", url, tls)
        self.queue, self.declare, self.requires_ids, self.tls = queue, declare, requires_ids, tls
        decoder = AmqpDecoder("AmqpSource", value, self.offers)
        decoder.requires_ids = requires_ids
        self._decoder = decoder
        if requires_ids or self._decoder.names_messages:
            vars(self)["given_again"] = "same"  # elsewhere a constant of the class
        self._nameless = 0

    @property
    def by_field(self) -> bool:
        """True if a field names the messages, and not their `message-id`."""
        return self._decoder.names_messages

    def _connect(self, task: Task) -> "AmqpConnection":
        self._deliveries = OpenDeliveries(OwnIds(task, "AmqpSource").next)
        name = f"kedge {task.topology} {task.component} {task.index}"
        return AmqpConnection(self, self._deliveries, name)

    def _id_of(self, received: Received) -> MessageId:
        """Return a name for a message that has none, or whose field cannot be read."""
        self._nameless += 1
        if self._nameless == 1 and not self.requires_ids and not self.by_field:
            log.warning(
                "%s: a message of queue %s has no message-id, so after a crash it may be processed twice; let its "
                "producer set one, or name a field: Json(…, id=…)",
                *(self._kind, self.queue),
            )
        return self._deliveries.name_for(received.handle)

    def _is_known(self, received: Received, message: MessageId) -> bool:
        received.handle = self._deliveries.joined(message, received.handle)
        return super()._is_known(received, message)


class AmqpDecoder(TextIdDecoder[R]):
    """A decoder for which a message without an id may be malformed."""

    requires_ids = False

    def decode(self, payload: Payload) -> Decoded[R]:
        """Decode one payload, as `PayloadDecoder` does."""
        decoded = super().decode(payload)
        if self.requires_ids and decoded.id is None and "message_id" not in payload.attributes:
            return replace(decoded, record=malformed(payload, NO_ID))
        return decoded


class AmqpConnection:
    """One connection with one consumer."""

    def __init__(self, source: AmqpSource[Any], deliveries: OpenDeliveries, name: str) -> None:
        self._source, self._deliveries, self._name = source, deliveries, name
        self.where = f"queue {source.queue} of {without_secrets(source.url)}"
        self._channel: amqp.AmqpChannel | None = None
        self._come: deque[Received] = deque()
        self._news = asyncio.Event()
        self._unacknowledged = ConfirmedPrefix()
        self._consumer = ""
        self._gives_back = False
        self._lifts_limit = True  # False: the queue was made with a delivery limit

    async def open(self) -> None:
        """See `Connection.open`."""
        channel = await self._connected()
        try:
            try:
                await channel.call(self._declared(channel))
            except amqp.ChannelRefused as error:
                if not self._lifts_limit or DELIVERY_LIMIT not in str(error):
                    raise
                self._lifts_limit = False
                log.warning("%s is there already, and has a delivery limit: %s", self.where, LIMITED)
                await channel.close()  # the server has closed one half of it
                channel = await self._connected()
                await channel.call(self._declared(channel))
            await self._consume(channel)
        except amqp.ChannelRefused as error:
            raise self._refusal(error) from error

    async def _connected(self) -> amqp.AmqpChannel:
        source = self._source
        self._channel = await amqp.connected(
            source.url, needed_by="AmqpSource", confirms=False, tls=source.tls, name=self._name
        )
        self._unacknowledged, self._come = ConfirmedPrefix(), deque()
        return self._channel

    async def _consume(self, channel: amqp.AmqpChannel) -> None:
        """Begin the consumer: RabbitMQ gives at most `prefetch` messages without an acknowledgement."""
        await channel.call(channel.raw.basic_qos(prefetch_count=self._source.prefetch))
        begun = await channel.call(
            channel.raw.basic_consume(self._source.queue, lambda message: self._taken(channel, message))
        )
        self._consumer = begun.consumer_tag
        channel.when_lost(self._news.set)

    def _declared(self, channel: amqp.AmqpChannel) -> Any:
        """Return the call that looks for the queue, or makes it; a quorum queue without a limit of deliveries, if the
        server knows how to say that. Older ones take -1 for 0, and have no limit if none is said."""
        source = self._source
        if source.declare is None:
            return channel.raw.queue_declare(source.queue, passive=True)
        arguments: dict[str, Any] | None = {"x-queue-type": "quorum"} if source.declare == "quorum" else None
        if arguments is not None and self._lifts_limit and channel.version >= UNLIMITED_SINCE:
            arguments[DELIVERY_LIMIT] = -1
        return channel.raw.queue_declare(source.queue, durable=True, arguments=arguments)

    def _refusal(self, error: amqp.ChannelRefused) -> ConfigurationError:
        if error.code == 404:
            text = f"AmqpSource: there is no {self.where}; declare it, or pass declare="
            return refused(f'{text}"durable"')
        return refused(f"AmqpSource: {self.where} can't be read: {error}")

    # -- receiving

    def _taken(self, channel: amqp.AmqpChannel, message: Any) -> None:
        """Keep a message that RabbitMQ has given. basic.qos bounds how many there are. What comes when all is given
        back is given back too."""
        if channel is self._channel and not self._gives_back:
            tag = message.delivery.delivery_tag
            self._unacknowledged.add(tag)
            self._come.append(self._received(channel, message))
            self._news.set()

    def _received(self, channel: amqp.AmqpChannel, message: Any) -> Received:
        given, properties = message.delivery, message.header.properties
        headers = properties.headers or {}
        facts = {
            "message_id": properties.message_id,
            "correlation_id": properties.correlation_id,
            "type": properties.message_type,
            "content_type": properties.content_type,
        }
        attributes: dict[str, Any] = {"routing_key": given.routing_key, "exchange": given.exchange}
        attributes |= {name: value for name, value in facts.items() if value}
        attributes["redelivered"] = bool(given.redelivered)
        attributes |= {f"header:{name}": value for name, value in headers.items()}
        delivery = BrokerDelivery(channel, [given.delivery_tag], is_again=bool(given.redelivered))
        own: str | None = None
        if properties.message_id and not self._source.by_field:
            own = f"{properties.message_id}#{content_digest(message.body).hex()}"
        else:
            # RabbitMQ's own headers change when it gives a message again
            of_producer = sorted((name, repr(value)) for name, value in headers.items() if not name.startswith("x-"))
            sent = repr((given.exchange, given.routing_key, of_producer)).encode("utf-8", "surrogatepass")
            delivery.content = content_digest(message.body, sent)
        return Received(own, message.body, _in_utc(properties.timestamp), attributes, "", delivery)

    async def receive(self, limit: int) -> Sequence[Received]:
        """See `Connection.receive`. Raises ConfigurationError for a stream."""
        channel = self._channel
        assert channel is not None, "open"
        while True:
            if channel.lost.is_set():
                raise channel.away()
            if self._come:
                taken = [self._come.popleft() for _ in range(min(limit, len(self._come)))]
                if f"header:{STREAM_HEADER}" in taken[0].attributes:
                    text = f"AmqpSource: {self.where} is a stream, which keeps what is acknowledged; bind a queue"
                    raise refused(f"{text} to the same exchange, and read that")
                return taken
            self._news.clear()
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._news.wait()
            except TimeoutError:
                if self._consumer not in channel.raw.consumers:  # RabbitMQ has ended it, and keeps the channel
                    raise ServerAway(f"{self.where} gives no more: it was deleted, or its server ends") from None

    # -- confirming

    async def confirm(self, handles: Sequence[Any]) -> None:
        """See `Connection.confirm`. What a closed channel has given is given again."""
        channel = self._channel
        if channel is None or channel.lost.is_set():
            return
        deliveries = [delivery for delivery in handles if delivery.connection is channel]
        tags = self._deliveries.taken_tags(deliveries)
        last, single = self._unacknowledged.confirm(tags)
        if last or single:
            try:
                await channel.call(_acknowledge(channel.raw, last, single))
            except amqp.ChannelRefused as error:
                raise channel.away() from error
        self._deliveries.confirmed(deliveries)

    async def give_back(self, handles: Sequence[Any]) -> None:
        """See `Connection.give_back`.

        A quorum queue counts this as a delivery, as it counts a channel or a connection that is closed; since RabbitMQ
        4.3 it is the only way of the three that is not counted.
        """
        channel, self._gives_back = self._channel, True
        if channel is None or channel.lost.is_set():
            return
        try:
            await channel.call(channel.raw.basic_cancel(self._consumer))
            await channel.call(channel.raw.basic_nack(0, multiple=True, requeue=True))  # 0: all that it has given
        except (ServerAway, amqp.ChannelRefused):
            return

    async def close(self) -> None:
        """See `Connection.close`."""
        channel, self._channel = self._channel, None
        self._come.clear()
        self._deliveries.connection_lost()
        if channel is not None:
            await channel.close()


async def _acknowledge(raw: Any, last: int, single: Sequence[int]) -> None:
    """Acknowledge all up to `last`, and each of the others, and wait until that is written."""
    if last:
        await raw.basic_ack(last, multiple=True, wait=not single)
    for tag in single:
        await raw.basic_ack(tag, wait=tag == single[-1])


def _in_utc(at: datetime | None) -> datetime | None:
    return at.astimezone(UTC) if at is not None else None
