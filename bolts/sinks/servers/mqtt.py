"""`MqttSink`: records as messages of MQTT topics. Knows MQTT 5; must not know batches, nor how one connects."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bolts.sinks.batching import BATCH
from bolts.sinks.publishing.bodies import Body
from bolts.sinks.publishing.publisher import Outgoing, Published, Publisher
from bolts.sinks.publishing.sink import PublishingSink
from topology.clients import mqtt
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.tls import Tls
from topology.secrets import Secret

ANSWER_S: Final = 10.0  # seconds without an acknowledgement after which the sink says that it waits
# seconds without an acknowledgement after which the connection is given up, and what is not acknowledged is sent again
STUCK_S: Final = 60.0
# connections that were lost one after the other while messages waited, without an acknowledgement of any: after so many
# messages are sent one at a time …
ALONE_AFTER: Final = 3
BLAMED_AFTER: Final = 6  # … and one that has lost so many connections alone is refused, …
# … if the server works meanwhile: it acknowledges another message, or so many seconds have passed
BLAMED_S: Final = 60.0
KEY: Final = "kedge-key"  # user properties of a message
RECORD: Final = "kedge-record"
NO_TOPIC: Final = "its topic is a text without + and #, of at most 65,535 bytes"


class MqttSink(PublishingSink):
    """Publish each record as a message with QoS 1, and ack it when the server has acknowledged it (PUBACK).

        topology.bolt("alerts", MqttSink("mqtt://127.0.0.1", "alerts"), alerts.shuffle())

    The server gives a message to the sessions that subscribe to its topic at that moment; if there are none, it is
    gone. Whether the server has it on the disk, its own settings say. **MQTT does not recognize what is sent again**:
    after a crash or a lost connection a message may come twice. Each has its key as the user property `kedge-key`, by
    which consumers can tell, and the record's class as `kedge-record`. The same task sends nothing again that was
    acknowledged.

    url      mqtt://HOST:PORT, or mqtts://. A Secret, if it has a user and a password.
    topic    The topic, or a function of the record that returns it.
    body     A function that makes the body of a record, as bytes or str. None: a JSON object.
    retain   True: the server retains the last message of each topic, for those that subscribe later.
    user, password  For servers that ask for them.
    tls      Certificates; None: those of the system if the URL begins with mqtts://.
    batch, within_ms  As in `SqliteSink`.
    """

    drops_replays = False
    durability: ClassVar[str] = "acknowledged by the MQTT server, as its settings have it"

    def __init__(
        self,
        url: str | Secret,
        topic: str | Callable[[Any], str],
        *,
        body: Body | None = None,
        retain: bool = False,
        user: str | None = None,
        password: str | Secret | None = None,
        tls: Tls | None = None,
        batch: int = BATCH,
        within_ms: float = 2.0,
    ) -> None:
        super().__init__(body=body, batch=batch, within_ms=within_ms)
        self.access = mqtt.access("MqttSink", url, user=user, password=password, tls=tls)
        if not callable(topic) and not mqtt.is_topic(topic):
            raise invalid(
                f"MqttSink: topic is a text without + and #, or a function that returns one, not {topic!r:.80}"
            )
        self.encodes_json = body is None
        self.topic, self.retain = topic, retain

    def _make_publisher(self) -> Publisher:
        return MqttPublisher(self)


@dataclass
class LostAlone:
    """Connections that were lost while one message, and no other, waited. `first_at`: loop time of the first."""

    first_at: float
    count: int = 0


class MqttPublisher:
    """One connection; see `Publisher`.

    A call that is made again knows what it has sent: it sends only what was lost with a connection, or what the
    server did not take. A message that was lost alone comes after all others.
    """

    def __init__(self, sink: MqttSink) -> None:
        mqtt.library("MqttSink")
        self._sink = sink
        self.where = f"{sink.topic} of {sink.access.where}" if isinstance(sink.topic, str) else sink.access.where
        self._client: mqtt.MqttClient | None = None
        self._window = self._window_max = 1  # messages that may wait for their acknowledgements; what the server takes
        self._sent: dict[str, int] = {}  # key → number, of the messages that wait for an acknowledgement
        self._keys: dict[int, str] = {}  # number → key
        self._known: dict[str, str] = {}  # key → the reason for which it is refused; "" if it is acknowledged
        self._passing = ""  # the reason for which the server does not take messages now
        self._losses = 0  # connections that were lost since the last acknowledgement, while messages waited
        self._suspects: dict[str, LostAlone] = {}  # by key
        self._acknowledged_at = float("-inf")  # loop time of the last acknowledgement
        self._news = asyncio.Event()
        self._heard_at = 0.0  # loop time of the last acknowledgement, or of the last message that was sent

    async def open(self) -> None:
        """See `Publisher.open`."""
        sink = self._sink
        if self._client is not None:
            if not self._client.lost.is_set():
                return
            self._note_loss(self._client)
        await self.close()
        made = self._client = mqtt.MqttClient(
            sink.access, "", answered=lambda number, reason: self._answered(made, number, reason)
        )
        try:
            await made.connect(clean=True, session_expiry_s=0)
            if getattr(made.takes, "MaximumQoS", 1) < 1:
                raise refused(f"MqttSink: {sink.access.where} has no QoS 1, so messages may be lost")
            if sink.retain and not getattr(made.takes, "RetainAvailable", 1):
                raise refused(f"MqttSink: {sink.access.where} retains no messages; leave out retain")
        except BaseException:
            await self.close()
            raise
        self._window_max = min(getattr(made.takes, "ReceiveMaximum", mqtt.WINDOW_MAX), mqtt.WINDOW_MAX)
        self._window = 1 if self._losses >= ALONE_AFTER or self._suspects else self._window_max
        made.when_lost(self._news.set)

    def _note_loss(self, made: mqtt.MqttClient) -> None:
        """Look for a message that makes the server close the connection: some servers do so in place of an answer. If
        the server loses all connections, no message is to blame."""
        self._losses += bool(self._sent)
        if len(self._sent) != 1:
            return
        (key,) = self._sent
        now = asyncio.get_running_loop().time()
        lost = self._suspects.setdefault(key, LostAlone(now))
        lost.count += 1
        works = self._acknowledged_at > lost.first_at or now - lost.first_at >= BLAMED_S
        if lost.count >= BLAMED_AFTER and works:
            self._known[key] = f"the server closes the connection each time that it is sent ({made.why})"
            del self._suspects[key]
            self._losses = 0

    async def publish(self, messages: Sequence[Outgoing]) -> Published:
        """See `Publisher.publish`."""
        await self.open()
        made = self._client
        assert made is not None, "open"
        keys = {message.key for message in messages}
        self._known = {key: why for key, why in self._known.items() if key in keys}
        self._suspects = {key: lost for key, lost in self._suspects.items() if key in keys}
        self._passing = ""
        for message in self._suspects_last(messages):
            if message.key in self._known or message.key in self._sent:
                continue
            while len(self._sent) >= self._window:
                await self._answer(made)
            self._send(made, message)
        while self._sent:
            await self._answer(made)
        if len(self._known) < len(keys):
            raise ServerAway(f"{self._sink.access.where} does not take messages now: {self._passing}")
        refusals = {at: why for at, message in enumerate(messages) if (why := self._known[message.key])}
        self._known = {}
        self._window = self._window_max
        return Published(refusals)

    def _suspects_last(self, messages: Sequence[Outgoing]) -> Sequence[Outgoing]:
        """Return the messages in their order, and last those that were lost alone: the others show if the server
        works."""
        if not self._suspects:
            return messages
        losses = {key: lost.count for key, lost in self._suspects.items()}
        return sorted(messages, key=lambda message: losses.get(message.key, 0))

    def _send(self, made: mqtt.MqttClient, message: Outgoing) -> None:
        """Begin to send a message, or note why it cannot be sent."""
        sink = self._sink
        topic = sink.topic if isinstance(sink.topic, str) else _topic_of(sink.topic, message.record)
        if topic is None:
            self._known[message.key] = NO_TOPIC
            return
        facts = [(KEY, message.key), (RECORD, type(message.record).__name__)]
        try:
            number = made.publish(topic, message.body, retain=sink.retain, facts=facts, json=sink.encodes_json)
        except mqtt.MqttTooLarge as error:
            self._known[message.key] = str(error)
            return
        self._sent[message.key], self._keys[number] = number, message.key
        self._heard_at = asyncio.get_running_loop().time()

    async def _answer(self, made: mqtt.MqttClient) -> None:
        """Wait for the next acknowledgement. Raises ServerAway if the connection is lost, or after ANSWER_S."""
        if made.lost.is_set():
            raise made.away()
        self._news.clear()
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._news.wait()
        except TimeoutError:
            count = len(self._sent)
            if asyncio.get_running_loop().time() - self._heard_at > STUCK_S:
                await self.close()
            raise ServerAway(f"{self._sink.access.where} has not acknowledged {count:,} messages yet") from None

    def _answered(self, made: mqtt.MqttClient, number: int, reason: mqtt.Reason) -> None:
        """Note an acknowledgement."""
        key = self._keys.pop(number, None)
        if made is not self._client or key is None:
            return
        del self._sent[key]
        self._heard_at = self._acknowledged_at = asyncio.get_running_loop().time()
        self._losses = 0
        self._suspects.pop(key, None)
        code, name = reason
        if code in mqtt.PASSING:
            self._passing = name
        else:
            self._known[key] = f"the server refuses it: {name}" if code >= mqtt.FAILURE else ""
        self._news.set()

    async def close(self) -> None:
        """See `Publisher.close`."""
        made, self._client = self._client, None
        self._sent, self._keys = {}, {}
        if made is not None:
            await made.close()


def _topic_of(function: Callable[[Any], str], record: Any) -> str | None:
    """Return the topic that the user's function gives; None if it is none."""
    try:
        topic = function(record)
    except Exception:  # the user's code may raise anything
        return None
    return topic if mqtt.is_topic(topic) else None
