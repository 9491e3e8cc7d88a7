"""`NatsSource`: a stream of NATS JetStream as a source. Knows nats-py; must not know payloads."""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, ClassVar, Final, Literal

from typing_extensions import TypeVar

from spouts.broker.connection import Received
from spouts.broker.source import PREFETCH, BrokerSource
from spouts.broker.unconfirmed import Unconfirmed
from spouts.checks import alone, no_position
from spouts.lines import Line
from spouts.payload.formats import Value
from topology.clients import nats
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.components import Positions, Task
from topology.records import Record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

REQUEST_S: Final = 5.0  # seconds that one request waits at the server for messages
END_S: Final = 2.0  # seconds after that, in which the server says that the request is over
# Bytes that one request asks for. nats-server cuts a client for which more than 64 MiB wait to be sent, and other
# limits may be lower. See `RequestSize`.
REQUEST_BYTES: Final = 8 * 1024 * 1024
REQUEST_BYTES_MIN: Final = 64 * 1024
GROWTH: Final = 8  # a request grows by one part in so many …
PATIENCE: Final = 8  # … after so many that were answered; twice as many after each one that was not
IDLE_S: Final = 2.0  # seconds without a message after which a lost connection is not laid to the size of the request
NEXT: Final = "$JS.API.CONSUMER.MSG.NEXT"
CALL_S: Final = 5.0  # seconds that a call of JetStream's may take
# The server gives a message again after this many seconds without an acknowledgement. This source does not rely on it:
# it replaces its consumer at each start.
ACK_WAIT_S: Final = 24 * 3600.0
UNLIMITED: Final = -1
STREAMS_MAX: Final = 4  # streams of one name that were made one after the other
NAME_MAX: Final = 200  # characters of a consumer's name


class NatsSource(BrokerSource[R]):
    """Messages of a JetStream stream, which are acknowledged once a decided checkpoint has them.

        logins = topology.spout("logins", NatsSource("nats://127.0.0.1:4222", "LOGINS", value=Login))

    The stream has to exist. A message's id is its sequence number, and a position is one too, so a run begins where the
    last one left, even if that was killed. The source makes a durable pull consumer, replaces it at each start, and
    acknowledges there: that shows how far it is, and frees messages of a work queue. In a run without a state
    directory, the consumer says where to begin.

    One task: a stream has one order. For more, declare a source for each of several subjects. What can be read again:
    all that the stream still has. If a stream was deleted and made again, it is read from its start. A stream that ends
    before a message that was read, as after a restored backup, is refused.

    url      nats://HOST:PORT, tls://, ws:// or wss://; several with commas between them. A Secret, if it has a password
             or a token.
    stream   The name of the stream.
    value    The record class of a JSON payload; `Json`, `Msgpack` or a function for other ones. `Line`: the text.
    subject  Only messages of this subject, which may have wildcards. None: all.
    durable  The consumer's name. None: kedge-TOPOLOGY-COMPONENT.
    begin    Where to begin if nothing is known of an earlier run: "all", at the oldest message, or "new", at the next
             one. A work queue is read as it is.
    credentials  Path of a .creds file.
    tls      Certificates; None: those of the system if the URL begins with tls://.
    prefetch Messages that have come and are not emitted, at most. Their payloads have about 64 MiB at most.

    Beside the payload there are `subject`, `sequence`, `delivered` (how often it was given) and headers. The event time
    is the time at which the server stored the message, unless `Json(…, at=…)` names a field.
    """

    offers: ClassVar[frozenset[str]] = frozenset({"subject", "sequence", "delivered"})

    def __init__(
        self,
        url: str | Secret,
        stream: str,
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        subject: str | None = None,
        durable: str | None = None,
        begin: Literal["all", "new"] = "all",
        credentials: str | None = None,
        tls: Tls | None = None,
        prefetch: int = PREFETCH,
    ) -> None:
        super().__init__(value, prefetch=prefetch)
        self.url = nats.checked_url("NatsSource", url)
        self.stream, self.subject, self.durable, self.begin = stream, subject, durable, begin
        self.credentials, self.tls = credentials, tls
        if begin not in ("all", "new"):
            raise invalid(f'NatsSource: begin is "all" or "new", not {begin!r:.80}')
        self._partitions: dict[str, str] = {"": ""}

    def partitions(self) -> Mapping[str, str]:
        """Return the last streams of this name, by the time at which each was made."""
        connection = self._connection
        if isinstance(connection, NatsConnection) and connection.made and connection.made not in self._partitions:
            known = [name for name in self._partitions if name][1 - STREAMS_MAX :]
            self._partitions = dict.fromkeys([*known, connection.made], "")
        return self._partitions

    def _connect(self, task: Task) -> "NatsConnection":
        alone(task, "reads one stream")
        durable = self.durable or f"kedge-{task.topology}-{task.known_as or task.component}"
        name = "".join("-" if mark in " .*>/\\" else mark for mark in durable)[:NAME_MAX]
        return NatsConnection(self, name, self._positions, self._unconfirmed)


class NatsConnection:
    """One connection with one consumer, which begins at the oldest message that is not done."""

    def __init__(self, source: NatsSource[Any], durable: str, positions: Positions, unconfirmed: Unconfirmed) -> None:
        self._library = client("nats", package="nats-py", extra="nats", needed_by="NatsSource")
        self._source, self._durable = source, durable
        self._positions, self._unconfirmed = positions, unconfirmed
        self.where = f"stream {source.stream} of {nats.where_of(source.url)}"
        self.made = ""  # the time at which the stream was made
        self._client: Any = None
        self._requests: PullRequests | None = None
        self._size = RequestSize()
        self._seen: set[str] = set()  # times at which streams of this name were made
        self._lost: asyncio.Event = asyncio.Event()

    async def open(self) -> None:
        """See `Connection.open`."""
        source, library = self._source, self._library
        lost, news = self._lost, self._news = asyncio.Event(), asyncio.Event()

        def is_lost() -> None:
            lost.set()
            news.set()

        def complains(error: Exception) -> None:
            if isinstance(error, library.errors.SlowConsumerError):  # it has dropped messages
                is_lost()

        self._client = await nats.connected(
            source.url,
            needed_by="NatsSource",
            lost=is_lost,
            complains=complains,
            credentials=source.credentials,
            tls=source.tls,
        )
        errors = library.js.errors
        try:
            await self._begin(self._client.jetstream(timeout=CALL_S))
        except errors.NotFoundError as error:
            text = f"NatsSource: there is no stream {source.stream!r} at {nats.where_of(source.url)}"
            raise refused(text) from error
        except errors.ServiceUnavailableError as error:
            raise ServerAway(f"{nats.where_of(source.url)} has no JetStream now") from error
        except errors.APIError as error:
            text = f"NatsSource: {self.where} refuses the consumer {self._durable}: {error.description}"
            raise refused(text) from error
        except (library.errors.Error, OSError, TimeoutError) as error:
            raise self._away(error) from error

    async def _begin(self, stream: Any) -> None:
        """Make a consumer that begins at the first message that is wanted."""
        source, api = self._source, self._library.js.api
        info = await stream.stream_info(source.stream)
        self.made = f"{int(info.created.timestamp()):x}"
        self._seen.add(self.made)
        self._check_end(info.state.last_seq)
        wanted = self._position()
        names = [self._durable, f"{self._durable}-2"]
        found = {name: await self._consumer(stream, name) for name in names}
        before = {name: consumer for name, consumer in found.items() if consumer is not None}
        if wanted is None and before:  # no state directory: the consumer knows how far the last run was
            wanted = max(_begins_after(consumer) for consumer in before.values()) + 1
        if wanted is None:
            wanted = info.state.last_seq + 1 if source.begin == "new" else 1
        if info.config.retention == api.RetentionPolicy.WORK_QUEUE:
            wanted = 1  # it has what is not acknowledged, and is read as it is
        keeps_interest = info.config.retention == api.RetentionPolicy.INTEREST
        if keeps_interest and len(before) == len(names):  # an earlier start has ended between the two calls below
            ahead = max(before, key=lambda name: _begins_after(before[name]))
            await self._delete(stream, {ahead: before.pop(ahead)})
        name = next(name for name in names if name not in before or not keeps_interest)
        settings = api.ConsumerConfig(
            durable_name=name,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=UNLIMITED,
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE if wanted > 1 else api.DeliverPolicy.ALL,
            opt_start_seq=wanted if wanted > 1 else None,
            filter_subject=source.subject,
        )
        # While no consumer is there, a stream kept by interest would drop its messages, and a work queue takes one only
        if not keeps_interest:
            await self._delete(stream, before)
        await stream.add_consumer(source.stream, settings)
        if keeps_interest:
            await self._delete(stream, before)
        self._unconfirmed.begins_at(self.made, wanted)
        subject = f"{NEXT}.{source.stream}.{name}"
        requests = PullRequests(self._client, subject, wanted - 1, size=self._size, lost=self._lost, news=self._news)
        await requests.open()
        self._requests = requests

    def _check_end(self, last: int) -> None:
        """Raise ConfigurationError if the stream ends before a message that was read."""
        position = self._positions.get(self.made)
        known = max(position if type(position) is int else 0, self._unconfirmed.newest(self.made) or 0)
        if last < known:
            raise refused(
                f"NatsSource: {self.where} ends at message {last}, and message {known} was read before: the stream has "
                "lost its end, as a restored backup has, and new messages would be taken for those; give the spout "
                "another name, and it begins as in a first run"
            )

    def _position(self) -> int | None:
        """Return the number of the first message that is wanted, or None if nothing is known of an earlier run."""
        if (wanted := self._unconfirmed.next_wanted(self.made)) is not None:
            return wanted
        position = self._positions.get(self.made)
        if position is not None and type(position) is not int:
            raise no_position(position, "a position in a stream is a sequence number")
        # a stream of this name was read and deleted since: this one is new
        return 1 if position is None and (self._positions or len(self._seen) > 1) else position

    async def _consumer(self, stream: Any, name: str) -> Any:
        try:
            return await stream.consumer_info(self._source.stream, name)
        except self._library.js.errors.NotFoundError:
            return None

    async def _delete(self, stream: Any, names: Mapping[str, Any]) -> None:
        for name in names:
            with contextlib.suppress(self._library.js.errors.NotFoundError):
                await stream.delete_consumer(self._source.stream, name)

    async def receive(self, limit: int) -> Sequence[Received]:
        """See `Connection.receive`."""
        requests = self._requests
        assert requests is not None, "open"
        try:
            messages = await requests.next(limit)
        except ServerAway as error:
            requests.lost()
            raise ServerAway(f"{self.where}: {error}") from error
        except (self._library.errors.Error, OSError) as error:
            raise self._away(error) from error
        return [self._received(message, after) for message, after in messages]

    def _received(self, message: Any, after: int | None) -> Received:
        about = message.metadata
        sequence = about.sequence.stream
        attributes = {"subject": message.subject, "sequence": sequence, "delivered": about.num_delivered}
        attributes |= {f"header:{name}": value for name, value in (message.headers or {}).items()}
        at = about.timestamp.astimezone(UTC)
        return Received(sequence, message.data, at, attributes, self.made, message.reply, after)

    async def confirm(self, handles: Sequence[Any]) -> None:
        """See `Connection.confirm`. An acknowledgement has no answer; a lost one is of a message that is passed over
        after the next start."""
        used = self._client
        if used is None or self._lost.is_set():
            raise ServerAway(f"the connection to {self.where} is lost")
        try:
            for reply in handles:
                await used.publish(reply, b"+ACK")
        except (self._library.errors.Error, OSError) as error:
            raise self._away(error) from error

    async def give_back(self, handles: Sequence[Any]) -> None:
        """Do nothing: the next run begins at the oldest message that is not done."""

    async def close(self) -> None:
        """See `Connection.close`."""
        used, self._client, self._requests = self._client, None, None
        if used is not None:
            await nats.closed(used)

    def _away(self, error: BaseException) -> ServerAway:
        return nats.away(self._source.url, error)


def _begins_after(consumer: Any) -> int:
    """Return the number of the last message that a consumer gives no more; the floor of a new one may be 0."""
    return max(int(consumer.ack_floor.stream_seq), int(consumer.config.opt_start_seq or 1) - 1)


class RequestSize:
    """The bytes that a request asks for: half as many after one whose connection was lost, and more again after
    answers, later after each loss. So a source comes to rest below the limit of its server."""

    def __init__(self) -> None:
        self.bytes = REQUEST_BYTES
        self._patience, self._answered = PATIENCE, 0

    def answered(self) -> None:
        """Note that a request has brought all that it has asked for, or all there was."""
        self._answered += 1
        if self._answered >= self._patience:
            self._answered = 0
            self.bytes = min(self.bytes + self.bytes // GROWTH, REQUEST_BYTES)
        if self.bytes == REQUEST_BYTES:
            self._patience = PATIENCE

    def lost(self, brought: int) -> None:
        """Note that a request has ended with its connection, after so many bytes."""
        self.bytes = max(REQUEST_BYTES_MIN, min(self.bytes // 2, brought or self.bytes))
        self._patience, self._answered = self._patience * 2, 0


class PullRequests:
    """The requests for messages of one consumer on one connection, one after the other, each limited in bytes.

    subject  The subject to which requests go.
    after    The stream's number before the first message that the consumer gives.
    size     How large a request is.
    lost     Set if the connection is lost. A consumer numbers what it gives: this is set if a number does not come.
    news     Set together with `lost`, and if something has come.
    """

    def __init__(
        self, used: Any, subject: str, after: int, *, size: RequestSize, lost: asyncio.Event, news: asyncio.Event
    ) -> None:
        self._client, self._subject, self._size, self._lost, self._news = used, subject, size, lost, news
        self._come: deque[Any] = deque()
        self._given, self._newest = 0, after  # the last number of the consumer, and the highest one of the stream
        self._inbox, self._number = used.new_inbox(), 0
        self._asked = 0  # messages that the open request asks for
        self._left = 0  # messages that it may still bring; 0: none is open
        self._brought, self._moved_at = 0, 0.0  # bytes that it has brought, and the loop time of the last message
        self._factor = 1  # by which a request is larger, as the next message is too large for it

    async def open(self) -> None:
        """Subscribe to the answers."""

        async def came(message: Any) -> None:
            self._come.append(message)
            self._moved_at = asyncio.get_running_loop().time()
            self._news.set()

        await self._client.subscribe(f"{self._inbox}.*", cb=came)

    async def next(self, limit: int) -> list[tuple[Any, int | None]]:
        """Wait for messages; return up to `limit`, each with the number of the stream before which it comes next, or
        None. Raises ServerAway."""
        loop = asyncio.get_running_loop()
        until = loop.time() + REQUEST_S + END_S
        while True:
            self._news.clear()
            found: list[tuple[Any, int | None]] = []
            while self._come and len(found) < limit:
                message = self._come.popleft()
                if message.subject.startswith(self._inbox):
                    self._ended(message)
                else:
                    found.append((message, self._place(message)))
            if found:
                return found
            if self._lost.is_set():
                raise ServerAway("the connection is lost, or messages did not come through it")
            if not self._left:
                await self._ask(limit)
                until = loop.time() + REQUEST_S + END_S
            await self._wait(until)

    def lost(self) -> None:
        """Note that the connection is lost. The next request is smaller, if one was being answered."""
        if self._left and asyncio.get_running_loop().time() - self._moved_at < IDLE_S:
            self._size.lost(self._brought)

    async def _ask(self, limit: int) -> None:
        self._number += 1
        self._asked = self._left = limit
        self._brought, self._moved_at = 0, asyncio.get_running_loop().time()
        wanted = {"batch": limit, "max_bytes": self._size.bytes * self._factor, "expires": int(REQUEST_S * 1e9)}
        await self._client.publish(self._subject, json.dumps(wanted).encode(), f"{self._inbox}.{self._number}")

    async def _wait(self, until: float) -> None:
        """Wait for an answer. Raises ServerAway if there is none, nor the end of the request."""
        try:
            async with asyncio.timeout_at(until):
                await self._news.wait()
        except TimeoutError:
            raise ServerAway(f"a request has had no answer for {REQUEST_S + END_S:g} s") from None

    def _place(self, message: Any) -> int | None:
        """Note a message. Return the number of the stream after which it comes next, or None if that is not known."""
        self._left = max(0, self._left - 1)
        self._brought += len(message.data)
        self._factor = 1
        if not self._left:
            self._size.answered()
        about = message.metadata
        number, sequence = about.sequence.consumer, about.sequence.stream
        if number > self._given + 1:
            self._lost.set()  # what is settled is known by its numbers, so this message may be taken
        after = self._newest if number == self._given + 1 and sequence > self._newest else None
        self._given, self._newest = number, max(self._newest, sequence)
        return after

    def _ended(self, message: Any) -> None:
        """Take note of the end of a request. Raises ServerAway for an end that asks for another consumer."""
        headers = message.headers or {}
        status, why = headers.get("Status", ""), headers.get("Description", "")
        if status == "100" or message.subject != f"{self._inbox}.{self._number}":
            return
        unsent = headers.get("Nats-Pending-Messages", "")
        if unsent.isdecimal() and int(unsent) < self._left:
            self._lost.set()
        if "exceeds maxbytes" in why.lower() and self._left == self._asked:
            self._factor *= 2
        if not self._lost.is_set():
            self._size.answered()
            self._left = 0
        goes_on = ("exceeds maxbytes", "batch completed", "leadership change", "server shutdown")
        if status not in ("404", "408") and not any(words in why.lower() for words in goes_on):
            raise ServerAway(f"a request is refused: {status} {why}".rstrip())
