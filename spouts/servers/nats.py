"""`NatsSource`: a stream of NATS JetStream as a source. Knows nats-py; must not know payloads."""

import asyncio
import contextlib
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

FETCH_S: Final = 5.0  # seconds that one request waits at the server for a message
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
    all that the stream still has. If a stream was deleted and made again, it is read from its start.

    url      nats://HOST:PORT, or tls://; several with commas between them. A Secret, if it has a password or a token.
    stream   The name of the stream.
    value    The record class of a JSON payload; `Json`, `Msgpack` or a function for other ones. `Line`: the text.
    subject  Only messages of this subject, which may have wildcards. None: all.
    durable  The consumer's name. None: kedge-TOPOLOGY-COMPONENT.
    begin    Where to begin if nothing is known of an earlier run: "all", at the oldest message, or "new", at the next
             one. A work queue is read as it is.
    credentials  Path of a .creds file.
    tls      Certificates; None: those of the system if the URL begins with tls://.
    prefetch Messages that have come and are not emitted, at most.

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
        self.url = Secret(url)
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
        self._lost: asyncio.Event = asyncio.Event()

    async def open(self) -> None:
        """See `Connection.open`."""
        source, library = self._source, self._library
        self._lost = asyncio.Event()
        self._client = await nats.connected(
            source.url,
            needed_by="NatsSource",
            lost=self._lost.set,
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
        wanted, begin = self._position(), source.begin
        names = [self._durable, f"{self._durable}-2"]
        found = {name: await self._consumer(stream, name) for name in names}
        before = {name: consumer for name, consumer in found.items() if consumer is not None}
        if wanted is None and before:  # no state directory: the consumer knows how far the last run was
            wanted = max(consumer.ack_floor.stream_seq for consumer in before.values()) + 1
        if info.config.retention == api.RetentionPolicy.WORK_QUEUE:
            wanted, begin = None, "all"  # it has what is not acknowledged, and is read as it is
        policy = api.DeliverPolicy(begin) if wanted is None else api.DeliverPolicy.BY_START_SEQUENCE
        keeps_interest = info.config.retention == api.RetentionPolicy.INTEREST
        name = next(name for name in names if name not in before or not keeps_interest)
        settings = api.ConsumerConfig(
            durable_name=name,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=UNLIMITED,
            deliver_policy=policy,
            opt_start_seq=wanted,
            filter_subject=source.subject,
        )
        # While no consumer is there, a stream kept by interest would drop its messages, and a work queue takes one only
        if not keeps_interest:
            await self._delete(stream, before)
        await stream.add_consumer(source.stream, settings)
        if keeps_interest:
            await self._delete(stream, before)
        self._messages = await stream.pull_subscribe_bind(name, source.stream)

    def _position(self) -> int | None:
        """Return the number of the first message that is wanted, or None if nothing is known of an earlier run."""
        if (wanted := self._unconfirmed.next_wanted(self.made)) is not None:
            return wanted
        position = self._positions.get(self.made)
        if position is not None and type(position) is not int:
            raise no_position(position, "a position in a stream is a sequence number")
        # an earlier run has read a stream of this name that was deleted since: this one is new
        return 1 if position is None and self._positions else position

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
        while True:
            fetch = asyncio.ensure_future(self._messages.fetch(limit, timeout=FETCH_S))
            lost = asyncio.ensure_future(self._lost.wait())
            try:
                await asyncio.wait((fetch, lost), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for work in (fetch, lost):
                    work.cancel()
                ended: Any = await asyncio.gather(fetch, lost, return_exceptions=True)
            result = ended[0]
            if isinstance(result, list):
                return [self._received(message) for message in result]
            if self._lost.is_set() or isinstance(result, asyncio.CancelledError):
                raise ServerAway(f"the connection to {self.where} is lost")
            if isinstance(result, TimeoutError):  # nothing has come
                continue
            if isinstance(result, self._library.errors.Error | OSError):
                raise self._away(result) from result
            raise result  # a bug of ours

    def _received(self, message: Any) -> Received:
        about = message.metadata
        sequence = about.sequence.stream
        attributes = {"subject": message.subject, "sequence": sequence, "delivered": about.num_delivered}
        attributes |= {f"header:{name}": value for name, value in (message.headers or {}).items()}
        at = about.timestamp.astimezone(UTC)
        return Received(sequence, message.data, at, attributes, self.made, message.reply)

    async def confirm(self, handles: Sequence[Any]) -> None:
        """See `Connection.confirm`. An acknowledgement has no answer; a lost one is of a message that is passed over
        after the next start."""
        try:
            for reply in handles:
                await self._client.publish(reply, b"+ACK")
        except (self._library.errors.Error, OSError) as error:
            raise self._away(error) from error

    async def give_back(self, handles: Sequence[Any]) -> None:
        """Do nothing: the next run begins at the oldest message that is not done."""

    async def close(self) -> None:
        """See `Connection.close`."""
        used, self._client = self._client, None
        if used is not None:
            await nats.closed(used)

    def _away(self, error: BaseException) -> ServerAway:
        return nats.away(self._source.url, error)
