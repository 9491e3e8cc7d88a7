"""`HttpIngest`: messages that others post by HTTP. Knows payloads; must not know how a request is read or answered."""

import contextlib
import hashlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.http.accepted import AcceptedMessages, OfferedMessage
from spouts.http.bodies import BODIES_BYTES_MAX, BodySplitter
from spouts.http.own_ids import OwnIds, TextIdDecoder
from spouts.http.refusals import HttpRefusal
from spouts.http.serving import HEALTH, IngestServer, IngestSettings
from spouts.lines import Line
from spouts.payload.formats import Json, Msgpack, Payload, Value
from topology.clients.errors import invalid
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.components import Message, Spout, Task
from topology.dead_letters import Malformed
from topology.records import Record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

BODY_BYTES: Final = 4 * 1024 * 1024  # bytes of a body, if the user does not say
WAITING: Final = 10_000  # messages that are accepted and not done, if the user does not say
DIGEST_BYTES: Final = 16  # of what a key stands for


class HttpIngest(Spout, Generic[R]):
    """Messages that others POST: one JSON object, an array of them, or one a line (application/x-ndjson).

        orders = topology.spout("orders", HttpIngest("0.0.0.0:8080", value=Order, path="/orders", token=token))

    **The answer says what is certain.** Without more, it is 202: the messages are in memory, *and are lost if the
    process dies*. Kedge cannot give them again; only the sender can. With `?wait=ack` (or the header `Prefer: wait`)
    the answer comes when all messages of the request are done, and with `?wait=settled` when a decided checkpoint has
    them: 200. Use `settled` with durability "checkpoint", where messages that are done may have to come again. 422 says
    that messages are dead, and which; 504 that the time is over; 503, with Retry-After, that too many messages wait, or
    that the run ends. After 503, 504 or a lost connection the sender sends the request again.

    **The header `Idempotency-Key` names the message**; KEY/0, KEY/1, … those of a batch. So a request that is sent
    again has the same effects as if it was sent once: while it is under way both requests wait for the same messages,
    and the last 100,000 names of a task that are done are answered at once. Later, or after a restart, sinks that drop
    replays drop it; a bolt with state counts it again. Another body under the same key is refused (409). Without a key
    a message has a name of its own, and a request that is sent again is another message.

    A request is taken as a whole or not at all. One that does not fit the record class is answered by 400 with the
    reason and the index, so there is no stream of malformed messages. Bodies may be packed by gzip. GET /healthz
    answers 200, without a token; 503 until the run reads its sources, and once it ends. A run that drains accepts
    nothing more, and answers what waits.

    address  A port of 127.0.0.1, or "HOST:PORT"; the host 0.0.0.0 is that of all addresses.
    value    The record class; `Json` or a function for other ones. `Line`: the JSON text. The field of `Json(…, id=…)`
             names the message in place of the key.
    path     The path of requests. `/hooks/*`: all below /hooks/.
    token    Requests need the header `Authorization: Bearer TOKEN`. None: all are taken.
    tls      The server's certificate; see `Tls`. None: plain HTTP.
    max_body_bytes  Bytes of a body, packed and unpacked (4 MiB); 413 above.
    max_waiting  Messages of a task that are accepted and not done (10,000). It is also the limit of one request.
    wait_s   Seconds that a request may wait (30). A sender may ask for fewer: `Prefer: wait=5`.
    body_s   Seconds that a body may take to come (30).

    Beside the payload there are `path`, `remote` (the sender's address), `method` and headers, their names in lower
    case; never `Authorization`. There is no event time unless `Json(…, at=…)` names a field.

    Several tasks share the port (SO_REUSEPORT), and each has its own memory of names. It needs the guarantee
    at-least-once: without it no message is ever known to be done.
    """

    given_again = "never"
    shared_ids = True  # a key names one message, whichever task it comes to; names of our own have the task in them
    outside_ids = True
    offers: ClassVar[frozenset[str]] = frozenset({"path", "remote", "method"})

    def __init__(
        self,
        address: int | str,
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        path: str = "/",
        token: str | Secret | None = None,
        tls: Tls | None = None,
        max_body_bytes: int = BODY_BYTES,
        max_waiting: int = WAITING,
        wait_s: float = 30.0,
        body_s: float = 30.0,
    ) -> None:
        self.host, self.port = _host_and_port(address)
        if not isinstance(path, str) or not path.startswith("/") or "?" in path or path == HEALTH:
            raise invalid(f"HttpIngest: path begins with / and is not {HEALTH}, unlike {path!r:.80}")
        for name, count, most in (
            ("max_body_bytes", max_body_bytes, BODIES_BYTES_MAX // 4),
            ("max_waiting", max_waiting, 1_000_000),
        ):
            if type(count) is not int or not 1 <= count <= most:
                raise invalid(f"HttpIngest: {name} is a number from 1 to {most:,}, not {count!r:.80}")
        for name, seconds in (("wait_s", wait_s), ("body_s", body_s)):
            if not isinstance(seconds, int | float) or not 0 < seconds <= 3_600:
                raise invalid(f"HttpIngest: {name} is a number of seconds from 0 to 3,600, not {seconds!r:.80}")
        self.token = Secret(token) if token is not None else None
        if self.token is not None and not self.token:
            raise invalid("HttpIngest: token is empty; leave it out to take all requests")
        if isinstance(value, Msgpack):
            raise invalid("HttpIngest: its bodies are JSON; use Json(…) in place of Msgpack(…)")
        self._decoder = TextIdDecoder("HttpIngest", value, self.offers)
        given: Any = value
        self._decodes_json = isinstance(given, Json) or (inspect.isclass(given) and given is not Line)
        self.path, self.tls = path, tls
        self.max_body_bytes, self.max_waiting = max_body_bytes, max_waiting
        self.wait_s, self.body_s = wait_s, body_s
        self._server: IngestServer | None = None

    def emits(self) -> tuple[type[Record], ...]:
        """Return the record class. A payload that does not fit is refused, and never a message."""
        return self._decoder.emits()[:1]

    async def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Listen.

        Raises ConfigurationError if the address cannot be used, or aiohttp is missing; NotYet if a note cannot be
        stored now.
        """
        web = client("aiohttp.web", package="aiohttp", extra="http", needed_by="HttpIngest")
        context = self.tls.for_server() if self.tls is not None else None
        self._own_ids = OwnIds(task, "HttpIngest")
        self._accepted = AcceptedMessages(self.max_waiting)
        settings = IngestSettings(
            self.host, self.port, self.path, self.token, self.max_body_bytes, self.wait_s, self.body_s
        )
        splitter = BodySplitter(self.max_waiting, is_checked=self._decodes_json)
        self._where = settings.where
        self._server = IngestServer(settings, web, self._accepted, splitter, self._offered)
        await self._server.listen("HttpIngest", context, shared=task.tasks > 1)

    async def poll(self, limit: int) -> list[Message[R]]:
        """Wait for a message; return up to `limit`. Cancelling it loses nothing. The source never ends by itself."""
        return await self._accepted.given(limit)

    @property
    def polling_within(self) -> "AcceptedAhead":
        """The messages that are accepted and not emitted: a run that drains emits them before it ends."""
        return AcceptedAhead(self._accepted, self._server)

    def ack(self, id: MessageId) -> None:
        """Answer the requests that wait for it with `wait=ack`, if it is the last of theirs."""
        self._accepted.done(id)

    def fail(self, id: MessageId) -> None:
        """Answer the requests that wait for it, if it is the last of theirs."""
        self._accepted.dead(id)

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        """Answer the requests that wait for these with `wait=settled`, if they are the last of theirs."""
        self._accepted.settled(ids)

    async def close(self) -> None:
        """Answer what waits, and close all connections. Waits some seconds at most."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    def summary(self) -> Iterable[str]:
        """Yield the counts, and the address."""
        if self._server is not None:
            accepted = self._accepted
            parts = [f"{accepted.accepted:,} accepted at {self._where}"]
            parts += [f"{accepted.known:,} known already"] * bool(accepted.known)
            parts += [f"{self._server.refused:,} requests answered by an error"] * bool(self._server.refused)
            yield ", ".join(parts)

    # -- from payloads to messages

    def _offered(
        self, payloads: Sequence[bytes], key: str, is_batch: bool, facts: Mapping[str, Any]
    ) -> Sequence[OfferedMessage]:
        """Return the messages of a request. Raises HttpRefusal for the first that does not fit."""
        of_key = _digest(*payloads) if key else b""
        name = key.replace("%", "%25").replace("/", "%2F") if key else self._own_ids.next()
        found: list[OfferedMessage] = []
        for index, payload in enumerate(payloads):
            decoded = self._decoder.decode(Payload(payload, facts))
            record: Any = decoded.record
            if type(record) is Malformed:
                text = (
                    f"message {index} does not fit: {record.error}" if is_batch else f"it does not fit: {record.error}"
                )
                raise HttpRefusal(400, text, {"index": index})
            if decoded.id is not None:
                own, digest = decoded.id, _digest(payload)
            else:
                own, digest = (f"{name}/{index}" if is_batch else name), of_key
            found.append(OfferedMessage(Message(record, own, at=decoded.at), digest, len(payload)))
        return found


class AcceptedAhead:
    """The messages that are not polled yet, as the runtime asks for them when a run drains."""

    def __init__(self, accepted: AcceptedMessages, server: IngestServer | None) -> None:
        self._accepted, self._server = accepted, server

    @property
    def ahead(self) -> int:
        """Messages that `poll` gives without waiting."""
        return self._accepted.ready

    def stop(self) -> None:
        """Accept nothing more."""
        if self._server is not None:
            self._server.drain()

    async def late(self) -> bool:
        """Return False: nothing is accepted after `stop`."""
        return False


def _digest(*payloads: bytes) -> bytes:
    """Return a digest of a request's content; it differs if the payloads are cut otherwise."""
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for payload in payloads:
        found.update(b"%d:" % len(payload))
        found.update(payload)
    return found.digest()


def _host_and_port(address: object) -> tuple[str, int]:
    """Return both parts of an address. Raises ConfigurationError."""
    host, number = "127.0.0.1", address
    if isinstance(address, str):
        host, colon, text = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
        with contextlib.suppress(ValueError):
            number = int(text)
    if type(number) is not int or not 1 <= number <= 65_535 or not host:
        raise invalid(f"HttpIngest: an address is a port from 1 to 65535, or HOST:PORT, not {address!r:.80}")
    return host, number
