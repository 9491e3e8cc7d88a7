"""`KafkaSink`: the arguments of a sink on Kafka, and what it promises. Must not know batches, nor how messages are
sent."""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from bolts.sinks.batching import BATCH
from bolts.sinks.kafka.publisher import KafkaPublisher
from bolts.sinks.publishing.bodies import Body
from bolts.sinks.publishing.publisher import Publisher
from bolts.sinks.publishing.sink import PublishingSink
from topology.clients.errors import invalid
from topology.clients.kafka import Mechanism, Settings, access, topic_name
from topology.clients.tls import Tls
from topology.secrets import Secret

RESERVED: Final = frozenset(
    {
        "bootstrap.servers",
        "acks",
        "request.required.acks",
        "transactional.id",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "retries",
        "message.send.max.retries",
        "error_cb",
        "logger",
        "on_delivery",
        "plugin.library.paths",
    }
)


class KafkaSink(PublishingSink):
    """Send each record as a message to a topic, and ack it when all in-sync replicas have it.

        topology.bolt("alerts", KafkaSink("broker:9092", "alerts", key="user"), alerts.shuffle())

    The topic has to exist. If the producer itself sends a message again, after a lost connection for example, the
    brokers drop it. They do not drop a replay: within a task the sink does that, and after a restart the message may be
    there twice. Each message has a header `kedge-key`, 48 hexadecimal digits, which is equal for both. So a consumer
    can drop the second one. The header `kedge-record` has the record's class.

    brokers  HOST:PORT, or several with commas between them.
    topic    The topic, or a function of the record that returns it.
    body     A function that makes the body of a record, as bytes or str, or what `SchemaRegistry` makes. None: a JSON
             object.
    key      The record field that is the message's key, of type str, int or bytes, or a function of the record that
             returns str, bytes or None. Messages with one key go to one partition, the one that the Java client
             chooses. None: no key.
    tls      Certificates. `Tls()`: those of the system. None: without encryption.
    user, password, mechanism  For SASL; the mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
    settings Further properties of librdkafka, such as {"compression.type": "zstd"}. Values may be Secrets.
    batch, within_ms  As in `SqliteSink`.
    """

    drops_replays = False  # not after a restart
    durability: ClassVar[str] = "stored by all in-sync replicas, as the topic's min.insync.replicas has it"

    def __init__(
        self,
        brokers: str,
        topic: str | Callable[[Any], str],
        *,
        body: Body | None = None,
        key: str | Callable[[Any], "str | bytes | None"] | None = None,
        tls: Tls | None = None,
        user: str | None = None,
        password: str | Secret | None = None,
        mechanism: Mechanism = "PLAIN",
        settings: Settings | None = None,
        batch: int = BATCH,
        within_ms: float = 2.0,
    ) -> None:
        super().__init__(body=body, batch=batch, within_ms=within_ms)
        kind = type(self).__name__
        secured: dict[str, Any] = {"tls": tls, "user": user, "password": password, "mechanism": mechanism}
        self._access = access(kind, brokers, **secured, settings=settings, reserved=RESERVED)
        self.topic = topic if callable(topic) else topic_name(kind, topic)
        if key is not None and not callable(key) and not (isinstance(key, str) and key.isidentifier()):
            raise invalid(f"{kind}: key is the name of a field, or a function, not {key!r:.80}")
        self.key = key

    def _make_publisher(self) -> Publisher:
        return KafkaPublisher(self._access, self.topic, self.key)
