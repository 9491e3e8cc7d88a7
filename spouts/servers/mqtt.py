"""`MqttSource`: topics of an MQTT server as a source. Knows MQTT 5; must not know how a connection is made."""

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.broker.connection import Received
from spouts.broker.deliveries import BrokerDelivery, OpenDeliveries
from spouts.broker.payload_room import PayloadRoom
from spouts.broker.source import BrokerSource
from spouts.http.own_ids import OwnIds, TextIdDecoder
from spouts.lines import Line
from spouts.payload.decoder import content_digest
from spouts.payload.formats import Value
from topology.clients import mqtt
from topology.clients.errors import ServerAway, invalid, not_yet, refused
from topology.clients.tls import Tls
from topology.components import Task
from topology.errors import NotesAway
from topology.records import Record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

UNACKNOWLEDGED: Final = 10_000  # messages that the server gives without an acknowledgement, if the user does not say
SESSION_S: Final = 7 * 24 * 3600  # seconds for which the server keeps the session, if the user does not say
EVER: Final = 0xFFFF_FFFF  # the number of seconds that means for ever
FILTERS_MAX: Final = 1_000  # topic filters of one source

log = logging.getLogger("kedge.spouts")


class MqttSource(BrokerSource[R]):
    """Messages of MQTT topics, which are acknowledged once a decided checkpoint has them.

        readings = topology.spout("readings", MqttSource("mqtt://127.0.0.1", "sensors/+/reading", value=Reading))

    The source has a session at the server, with a client id of its own, which is the same in each run. While the source
    is away, the server keeps messages for the session, as far as its own limits go: Mosquitto keeps 1,000
    (`max_queued_messages`), and drops the rest without a word. What was acknowledged is gone; nothing is read again.
    Messages that are published with QoS 0 are not kept, nor given again.

    **Messages have no ids** in MQTT. A field of the payload names them, `Json(Reading, id="id")`; its value is
    different for each message of all topics. Another payload or topic under the same value is malformed, as long as the
    first message is under way or among the 100,000 that were settled last. Without a field, each message has a name of
    its own. It keeps that name if it is given again after a lost connection while it is under way; after a crash or a
    restart it is another message, and its effects may be stored twice.

    Several tasks share the topics by a shared subscription, each with a session of its own. So use one task before a
    bolt with state (`kedge check --guarantees`). If a later run has fewer tasks, the sessions of the others keep what
    they have: let the run finish first, with its sources at rest.

    url      mqtt://HOST:PORT, or mqtts://. A Secret, if it has a user and a password.
    topics   A topic filter, or several; + and # are wildcards.
    value    The record class of a JSON payload; `Json`, `Msgpack` or a function for other ones. `Line`: the text.
    client_id  The client id; with several tasks, -0, -1, … is added. None: kedge-TOPOLOGY-COMPONENT. Two runs on one
             server need two ids: a server closes the connection of the older client.
    retained True: a new subscription begins with the messages that the server retains. False: with the next ones.
    session_expiry_s  Seconds for which the server keeps the session while the source is away: a week. The server may
             keep it for less. None: for ever.
    user, password  For servers that ask for them.
    tls      Certificates; None: those of the system if the URL begins with mqtts://.
    prefetch Messages of a task that the server gives without an acknowledgement (receive maximum), up to 65,535. It has
             to be more than what is under way between two checkpoints: a task reads at most `prefetch` messages in
             `checkpoint_s`, and stops if bolts hold so many. The task reads no more while payloads of about 128 MiB
             wait to be emitted, but for those that the server gives when the connection begins.

    Beside the payload there are `topic`, `qos` (that of the delivery, 0 or 1), `retain` (True if the server had
    retained it) and user properties as `header:NAME`. There is no event time unless `Json(…, at=…)` names a field.
    """

    given_again = "other ids"
    shared_ids = True  # names of our own have the task in them
    one_queue = True
    outside_ids = True
    names_messages = False
    offers: ClassVar[frozenset[str]] = frozenset({"topic", "qos", "retain"})

    def __init__(
        self,
        url: str | Secret,
        topics: str | Sequence[str],
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        client_id: str | None = None,
        retained: bool = True,
        session_expiry_s: float | None = SESSION_S,
        user: str | None = None,
        password: str | Secret | None = None,
        tls: Tls | None = None,
        prefetch: int = UNACKNOWLEDGED,
    ) -> None:
        super().__init__(value, prefetch=prefetch)
        self.access = mqtt.access("MqttSource", url, user=user, password=password, tls=tls)
        given = [topics] if isinstance(topics, str) else list(topics)
        self.topics = [*dict.fromkeys(given)]
        for topic in self.topics:
            if not mqtt.is_topic(topic, is_filter=True) or topic.startswith("$share/"):
                raise invalid(f"MqttSource: topics has topic filters such as sensors/+/reading, not {topic!r:.80}")
        if not 0 < len(self.topics) <= FILTERS_MAX:
            raise invalid(f"MqttSource: topics has at least one topic filter, and at most {FILTERS_MAX:,}")
        if client_id is not None and not mqtt.is_topic(client_id):
            raise invalid(f"MqttSource: client_id is a text, without + and #, not {client_id!r:.80}")
        if session_expiry_s is not None and not 1 <= session_expiry_s < EVER:
            text = f"MqttSource: session_expiry_s is a number of seconds of at least 1, not {session_expiry_s!r:.80}"
            raise invalid(text)
        if prefetch > mqtt.WINDOW_MAX:
            raise invalid(f"MqttSource: prefetch is a number of messages up to {mqtt.WINDOW_MAX:,}, not {prefetch:,}")
        self.client_id, self.retained = client_id, retained
        self.session_expiry_s = EVER if session_expiry_s is None else int(session_expiry_s)
        self._decoder = TextIdDecoder("MqttSource", value, self.offers)
        if self._decoder.names_messages:
            vars(self)["given_again"] = "same"  # elsewhere a constant of the class

    def _connect(self, task: Task) -> "MqttConnection":
        self._deliveries = OpenDeliveries(OwnIds(task, "MqttSource").next)
        return MqttConnection(self, self._deliveries, task)

    def _id_of(self, received: Received) -> MessageId:
        """Return a name for a message that has none, or whose field cannot be read."""
        return self._deliveries.name_for(received.handle)

    def _content_of(self, received: Received) -> bytes:
        """Return a digest of the payload and the topic: two sensors may number their messages alike."""
        return content_digest(received.data, str(received.attributes["topic"]).encode("utf-8", "surrogatepass"))

    def _is_known(self, received: Received, message: MessageId) -> bool:
        received.handle = self._deliveries.joined(message, received.handle)
        return super()._is_known(received, message)


class MqttConnection:
    """One connection with a session that outlives it."""

    def __init__(self, source: MqttSource[Any], deliveries: OpenDeliveries, task: Task) -> None:
        mqtt.library("MqttSource")
        self._source, self._deliveries, self._task = source, deliveries, task
        name = f"kedge-{task.topology}-{task.known_as or task.component}"
        self.where = f"{', '.join(source.topics[:3])}{' …' * (len(source.topics) > 3)} of {source.access.where}"
        self._client_id = source.client_id or name
        shared = [f"$share/{name.replace('/', '-')}/{topic}" for topic in source.topics]
        self._filters, self._others = source.topics, shared
        if task.tasks > 1:
            self._client_id += f"-{task.index}"
            self._filters, self._others = shared, source.topics
        self._client: mqtt.MqttClient | None = None
        self._come: deque[Received] = deque()
        self._held = PayloadRoom(source.prefetch + 1)  # what has come
        self._open: dict[int, BrokerDelivery] = {}  # number → the delivery of QoS 1 that is not acknowledged
        self._news = asyncio.Event()
        self._gives_back = False

    # -- the session

    async def open(self) -> None:
        """See `Connection.open`."""
        source = self._source
        made = self._client = mqtt.MqttClient(source.access, self._client_id, taken=lambda one: self._taken(made, one))
        await made.connect(
            clean=False, session_expiry_s=source.session_expiry_s, receive_maximum=min(source.prefetch, mqtt.WINDOW_MAX)
        )
        made.when_lost(self._news.set)
        known = self._known_filters()
        if known and not made.session_present:
            log.warning(
                "%s: %s has forgotten the session of %s; what was sent meanwhile, or not acknowledged, may be lost",
                *(self._task.component, source.access.where, self._client_id),
            )
        self._note({*known, *self._filters})
        for topic, (code, name) in zip(
            self._filters, await made.subscribe(self._filters, retained=source.retained), strict=True
        ):
            if code >= mqtt.FAILURE:
                raise refused(f"MqttSource: {source.access.where} refuses the subscription to {topic!r:.80}: {name}")
            if code != 1:
                text = f"MqttSource: {source.access.where} has no QoS 1 for {topic!r:.80}, so its messages may be lost"
                raise refused(text)
        if made.session_present:  # an earlier run may have had other topics, or one task
            await made.unsubscribe(sorted({*known, *self._others} - {*self._filters}))
        self._note({*self._filters})

    def _known_filters(self) -> list[str]:
        """Return the subscriptions of this session that earlier runs have noted."""
        session, filters = json.loads(self._task.notes.get(self._note_name) or '["", []]')
        return [*filters] if session == self._session else []

    def _note(self, filters: set[str]) -> None:
        """Keep the subscriptions of this session. Raises NotYet if they cannot be stored now."""
        text = json.dumps([self._session, sorted(filters)])
        if self._task.notes.get(self._note_name) == text:
            return
        try:
            self._task.notes.set(self._note_name, text)
        except NotesAway as error:
            raise not_yet(f"MqttSource: a note can't be stored: {error}") from error

    @property
    def _note_name(self) -> str:
        return f"topics of {self._task.known_as or self._task.component} {self._task.index}"

    @property
    def _session(self) -> str:
        return f"{self._client_id} {self._source.access.where}"

    # -- receiving

    def _taken(self, made: mqtt.MqttClient, message: Any) -> None:
        """Keep a message that the server has given. The receive maximum bounds those of QoS 1, a pause all of them, and
        their bytes. At the end there is no pause, and what comes then is not kept: the server gives it again."""
        if self._gives_back:
            return
        known = self._open.get(message.mid) if message.qos else None
        if made is not self._client or (known is not None and message.dup):
            return
        received = self._received(made, message)
        if message.qos:
            self._open[message.mid] = received.handle
        self._come.append(received)
        self._held.enter(len(received.data))
        if self._held.is_full:
            made.pause()
        self._news.set()

    def _received(self, made: mqtt.MqttClient, message: Any) -> Received:
        properties = getattr(message.properties, "UserProperty", None) or []
        try:
            topic = message.topic
        except UnicodeDecodeError:  # forbidden by MQTT, and the payload may still matter
            topic = ""
        attributes: dict[str, Any] = {"topic": topic, "qos": message.qos, "retain": bool(message.retain)}
        attributes |= {f"header:{name}": value for name, value in properties}
        delivery = BrokerDelivery(made, [message.mid] if message.qos else [], is_again=bool(message.dup))
        data = bytes(message.payload)
        if message.qos:  # no other is given again
            beside = repr((topic, properties)).encode("utf-8", "surrogatepass")
            delivery.content = content_digest(beside, data)
        return Received(None, data, None, attributes, "", delivery)

    async def receive(self, limit: int) -> Sequence[Received]:
        """See `Connection.receive`."""
        made = self._client
        assert made is not None, "open"
        while True:
            if made.failure is not None:
                raise made.failure
            if made.lost.is_set():
                raise made.away()
            if self._come:
                taken = [self._come.popleft() for _ in range(min(limit, len(self._come)))]
                self._held.leave(len(taken))
                if not self._held.is_full:
                    made.resume()
                return taken
            self._news.clear()
            await self._news.wait()

    # -- confirming

    async def confirm(self, handles: Sequence[Any]) -> None:
        """See `Connection.confirm`. What another connection has given is given again.

        MQTT asks for acknowledgements in the order of the messages. Those of one call are in order. A message that
        bolts hold does not hold up the others: servers find each by its number.
        """
        made = self._client
        if made is None or made.lost.is_set():
            return
        deliveries = [delivery for delivery in handles if delivery.connection is made]
        numbers = {*self._deliveries.taken_tags(deliveries)}
        in_order = [number for number in self._open if number in numbers] if len(numbers) > 1 else [*numbers]
        for number in in_order:
            self._open.pop(number, None)
            made.acknowledge(number)
        await made.written()
        if not made.lost.is_set():
            self._deliveries.confirmed(deliveries)

    async def give_back(self, handles: Sequence[Any]) -> None:
        """Wait until the server has had the acknowledgements. It gives the others when the session is used again.

        A server that reads slowly drops what it has not read when the next run takes the session over.
        """
        made, self._gives_back = self._client, True
        if made is not None and not made.lost.is_set():
            with contextlib.suppress(ServerAway):
                await made.unsubscribe(self._others)  # which are not there: the answer comes after all that was sent

    async def close(self) -> None:
        """See `Connection.close`."""
        made, self._client = self._client, None
        self._come.clear()
        self._held = PayloadRoom(self._source.prefetch + 1)
        self._open.clear()
        self._deliveries.connection_lost()
        if made is not None:
            await made.close()
