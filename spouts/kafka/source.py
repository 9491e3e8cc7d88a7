"""`KafkaSource`: messages of Kafka's topics, with the run's own positions.

Decides what is emitted and what is committed. `planner` knows where partitions begin, `reader` consumes them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.broker.retries import ServerRetries
from spouts.kafka.begins import BEGINS, BeginAt
from spouts.kafka.partition import FACTS, KafkaFacts, KafkaPartition, time_of
from spouts.kafka.planner import PartitionPlanner
from spouts.kafka.reader import PartitionReader
from spouts.kafka.schemas import MessageSchemas
from spouts.kafka.unsettled import UnsettledOffsets
from spouts.lines import Line
from spouts.payload.decoder import PayloadDecoder
from spouts.payload.formats import Payload, Value
from topology.clients.errors import ServerAway, invalid, not_yet
from topology.clients.kafka import KafkaAdmin, Mechanism, Settings, access, topic_name
from topology.clients.registry.values import RegistryValue
from topology.clients.tls import Tls
from topology.components import Message, Positions, Spout, Task
from topology.dead_letters import Malformed
from topology.errors import ConfigurationError
from topology.records import Record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

PREFETCH: Final = 10_000  # messages that have come and are not emitted, if the user does not say
OPENING_S: Final = 10.0  # seconds that one try to begin may take
LOOK_S: Final = 10.0  # seconds between two looks for new partitions, and at whether the brokers answer
LOOK_AGAIN_S: Final = 0.5  # seconds between two looks, even if brokers have errors
COMMIT_S: Final = 1.0  # seconds between two commits
REFUSED_S: Final = 30.0  # seconds until a commit that was refused is tried again
LAST_COMMIT_S: Final = 2.0  # seconds that the last commit may take
SHOWN_MAX: Final = 8  # partitions whose lag the summary shows

RESERVED: Final = frozenset(
    {
        "bootstrap.servers",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "enable.partition.eof",
        "error_cb",
        "logger",
        "on_commit",
        "plugin.library.paths",
    }
)

log = logging.getLogger("kedge.spouts")


class KafkaSource(Spout, Generic[R]):
    """Messages of one or several topics, from positions that the run keeps itself.

        logins = topology.spout("logins", KafkaSource("broker:9092", "logins", value=Login), tasks=4)

    Each task reads its own partitions, those whose number leaves the task's index when divided by the number of tasks;
    there is no consumer group, and so no rebalancing. A message's id is its offset, and its partition is TOPIC/NUMBER.
    The epoch is the topic's id, so a topic that was deleted and made again has other messages, and is read from its
    first one. A cluster before Kafka 2.8 names no ids: there a new topic under an old name is refused, or taken for the
    old one if it is longer. New partitions are found within some seconds.

    What can be read again: whatever the topics still have. If retention has deleted messages that were not done, a
    warning says how many, and the source resumes with the oldest one. If a partition ends before the position, messages
    were lost or the topic is another one; the run ends with a sentence that says so.

    brokers  HOST:PORT, or several with commas between them.
    topics   The name of a topic, or several. They have to exist.
    value    The record class of a JSON payload; `Json`, `Msgpack` or a function for other ones. `Line`: the text. For
             payloads of a schema registry: what `SchemaRegistry` makes.
    group    The consumer group under which settled offsets are committed, for tools that show lag, about once a second
             and at the end. No consumer may be subscribed in it. None: kedge-TOPOLOGY-COMPONENT.
    begin    Where a partition begins that this run has never read: "earliest"; "latest", at the next message; or
             "committed", at what the group has committed, if anything, else at the earliest.
    follow   False: the source ends at the messages that were the last ones when it was opened.
    tls      Certificates. `Tls()`: those of the system. None: without encryption.
    user, password, mechanism  For SASL; the mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
    settings  Further properties of librdkafka, such as {"fetch.min.bytes": 100_000, "client.rack": "a"}. Values may be
             Secrets.
    prefetch  Messages that have come and are not emitted, at most; 32 MiB at most. librdkafka has 16 MiB in front.

    Beside the payload there are `topic`, `partition`, `offset`, `key` (as text), `key_bytes`, `tombstone` (True if the
    message has no value) and headers. The event time is the message's own, unless `Json(…, at=…)` names a field.
    Messages of transactions come once they are committed (`isolation.level`).

    `lag` has, by partition, how many messages are in the topic and not emitted.
    """

    shared_ids = True
    away: str = ""  # the reason for which nothing comes now

    def __init__(
        self,
        brokers: str,
        topics: str | Sequence[str],
        *,
        value: Value[R] | RegistryValue[R] = Line,  # type: ignore[assignment]
        group: str | None = None,
        begin: BeginAt = "earliest",
        follow: bool = True,
        tls: Tls | None = None,
        user: str | None = None,
        password: str | Secret | None = None,
        mechanism: Mechanism = "PLAIN",
        settings: Settings | None = None,
        prefetch: int = PREFETCH,
    ) -> None:
        kind = type(self).__name__
        secured: dict[str, Any] = {"tls": tls, "user": user, "password": password, "mechanism": mechanism}
        self._access = access(kind, brokers, **secured, settings=settings, reserved=RESERVED)
        names = [topics] if isinstance(topics, str) else list(topics)
        self.topics = [topic_name(kind, name) for name in dict.fromkeys(names)]
        if not self.topics:
            raise invalid(f"{kind}: topics has at least one topic")
        if begin not in BEGINS:
            raise invalid(f'{kind}: begin is "earliest", "latest" or "committed", not {begin!r:.80}')
        if group is not None and not (isinstance(group, str) and group):
            raise invalid(f"{kind}: group is the name of a consumer group, not {group!r:.80}")
        if type(prefetch) is not int or prefetch < 1:
            raise invalid(f"{kind}: prefetch is a number of messages of at least 1, not {prefetch!r:.80}")
        self._decoder = PayloadDecoder(kind, value, FACTS, fetches=True)
        self._schemas = MessageSchemas(value)
        if self._decoder.names_messages:
            raise invalid(f"{kind}: a message's offset is its id; leave out id")
        self.group, self.begin, self.follow, self.prefetch = group, begin, follow, prefetch
        self.received = self.malformed = 0
        self._cluster: KafkaAdmin | None = None
        self._reader: PartitionReader | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._unsettled = UnsettledOffsets()
        self._epochs: Mapping[str, str] = {}

    def emits(self) -> tuple[type[Record], ...]:
        """Return the record class, and `Malformed`."""
        return self._decoder.emits()

    async def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Find the partitions and where each begins, and begin to read them.

        Raises ConfigurationError for what the user has to fix, and NotYet for brokers that do not answer, or if a note
        cannot be stored now; the source is then closed, and may be opened again.
        """
        kind, self._component = type(self).__name__, task.component
        self._committing_as = self.group or f"kedge-{task.topology}-{task.known_as or task.component}"
        self._news, self._look_now = asyncio.Event(), asyncio.Event()
        self._unsettled = UnsettledOffsets()
        self._failure: BaseException | None = None
        self._stuck_at: dict[KafkaPartition, int] = {}  # … at the last look; -1: that was logged
        self._retries = ServerRetries(task.component, task.random, self._set_away)
        self._away_of = {"brokers": "", "registry": ""}
        cluster = self._cluster = KafkaAdmin(self._access)
        options: dict[str, Any] = {"begin": self.begin, "group": self._committing_as, "follow": self.follow}
        planner = self._planner = PartitionPlanner(cluster, self.topics, task, **options)
        try:
            await self._schemas.open(task, partial(self._set_away, of="registry"))
            async with asyncio.timeout(OPENING_S):
                first = await planner.begin(positions if isinstance(positions, Positions) else Positions(positions))
            self._reader = PartitionReader(
                self._access,
                self._committing_as,
                bounded=not self.follow,
                prefetch=self.prefetch,
                notify=self._has_news,
                trouble=self._look_now.set,
            )
            self._reader.start(first)
        except (ServerAway, TimeoutError) as error:
            await self.close()
            why = str(error) or f"{cluster.where} has not answered within {OPENING_S:g} s"
            raise not_yet(f"{kind}: {why}") from error
        except BaseException:
            await self.close()
            raise
        self._epochs = {each.name: each.epoch for each in first}
        loop = asyncio.get_running_loop()
        for name, work in (("looks", self._look), ("commits", self._commit)):
            self._tasks.append(loop.create_task(self._watched(work), name=f"{task.component} {name}"))

    async def poll(self, limit: int) -> list[Message[R]]:
        """Wait for a message; return up to `limit`, of one partition. Cancelling it loses nothing."""
        reader = self._reader
        assert reader is not None, "open"
        while not len(reader.ready):
            if (failure := self._failure or reader.failure) is not None:
                raise failure
            if reader.ended and not len(reader.ready):
                return []
            self._news.clear()
            await self._news.wait()
        if self._schemas.are_used:
            await self._schemas.fetch(reader.ready.first(limit))
        return self._messages(*reader.ready.take(limit))

    def partitions(self) -> Mapping[str, str]:
        """Return partition → the id of its topic."""
        return self._epochs

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        """Take note of them, for the next commit."""
        self._unsettled.settle(ids, partition)

    async def close(self) -> None:
        """Commit what is settled, and disconnect. Waits some seconds at most."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        cluster, self._cluster = self._cluster, None
        reader, self._reader = self._reader, None
        if reader is not None:
            if tasks and not self._away_of["brokers"]:
                with contextlib.suppress(TimeoutError, ServerAway, ConfigurationError):
                    async with asyncio.timeout(LAST_COMMIT_S):
                        await self._commit_to(reader)
            await reader.close()
        if cluster is not None:
            cluster.close()

    @property
    def lag(self) -> dict[str, int]:
        """Partition → messages that are there and not emitted, as a broker has told last, some seconds ago at most. A
        compacted topic has fewer."""
        if self._reader is None:
            return {}
        return {each.name: max(each.high, each.read) - each.next for each in self._planner.partitions.values()}

    def summary(self) -> Iterable[str]:
        """Yield the counts, and how far behind the source is."""
        if self._reader is None:
            return
        lag = self.lag
        where = f"{', '.join(self.topics)} of {self._access.brokers}"
        malformed = f", {self.malformed:,} malformed" * bool(self.malformed)
        yield f"{self.received:,} received from {where}{malformed}; {sum(lag.values()):,} behind"
        behind = sorted((-count, name) for name, count in lag.items() if count)
        for count, name in behind[:SHOWN_MAX]:
            yield f"{name} is {-count:,} behind"
        if len(behind) > SHOWN_MAX:
            yield f"and {len(behind) - SHOWN_MAX:,} more partitions"

    # -- messages

    def _messages(self, partition: KafkaPartition, given: Sequence[Any]) -> list[Message[R]]:
        name, decode = partition.name, self._decoder.decode
        made: list[Message[R]] = []
        for message in given:
            decoded = decode(Payload(message.value() or b"", KafkaFacts(message), time_of(message)))
            if type(decoded.record) is Malformed:
                self.malformed += 1
            made.append(Message(decoded.record, message.offset(), name, decoded.at))  # type: ignore[arg-type]
        if self._epochs.get(name) != partition.epoch:
            self._epochs = {**self._epochs, name: partition.epoch}
        partition.next = given[-1].offset() + 1
        self.received += len(made)
        self._unsettled.emitted(partition, [message.offset() for message in given])
        return made

    def _has_news(self) -> None:
        self._news.set()
        if self._away_of["brokers"]:
            self._set_away("")  # the next look says it again if another partition cannot be read

    # -- partitions

    async def _look(self) -> None:
        """Look at the cluster now and then, and when brokers have errors."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._look_now.wait()
            self._look_now.clear()
            await self._retries.ask(self._look_once)
            await asyncio.sleep(LOOK_AGAIN_S)  # so that errors without end do not make looks without end

    async def _look_once(self) -> None:
        reader, planner = self._reader, self._planner
        assert reader is not None, "open"
        before = dict(planner.partitions)
        stuck = dict(reader.stuck)
        try:
            change = await planner.look(stuck)
        except ServerAway as error:
            raise ServerAway(f"{error}{''.join(f'; {why}' for why in [*stuck.values()][:1])}") from error
        reader.errors.forget()
        reader.leave(change.leave)
        reader.follow(change.follow)
        self._tell_stuck({each: stuck[each.place] for each in change.follow if each.place in stuck})
        for place, each in before.items():
            if planner.partitions.get(place) is not each:
                self._unsettled.drop(each)

    def _tell_stuck(self, stuck: Mapping[KafkaPartition, str]) -> None:
        """Log partitions that were stuck at the same offset before, once."""
        for each, why in stuck.items():
            if self._stuck_at.get(each) == each.read:
                text = "%s: %s can't be read on at offset %d, and is tried again: %s"
                log.warning(text, self._component, each.name, each.read, why)
                self._stuck_at[each] = -1
            elif self._stuck_at.get(each) != -1:
                self._stuck_at[each] = each.read
        self._stuck_at = {each: at for each, at in self._stuck_at.items() if at != -1 or each in stuck}

    # -- commits

    async def _commit(self) -> None:
        """Commit now and then. Only tools need it, so nothing waits for it."""
        reader, told = self._reader, ""
        assert reader is not None, "open"
        while True:
            await asyncio.sleep(COMMIT_S)
            if self._away_of["brokers"]:
                continue
            try:
                await self._commit_to(reader)
            except ServerAway as error:
                log.debug("%s: offsets could not be committed now: %s", self._component, error)
            except ConfigurationError as error:
                if told != str(error):
                    told = str(error)
                    log.warning("%s: offsets are not committed, and tools see no progress: %s", self._component, error)
                await asyncio.sleep(REFUSED_S)

    async def _commit_to(self, reader: PartitionReader) -> None:
        news = self._unsettled.news()
        if news:
            await reader.commit({each.place: offset for each, offset in news.items()})
            self._unsettled.tell(news)

    # -- the tasks of the loop

    async def _watched(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failure = error
            self._news.set()

    def _set_away(self, why: str, of: str = "brokers") -> None:
        self._away_of[of] = why
        self.away = self._away_of["registry"] or self._away_of["brokers"]
