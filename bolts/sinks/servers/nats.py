"""`NatsSink`: records as messages of a NATS JetStream stream. Knows nats-py; must not know batches."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from bolts.sinks.batching import BATCH
from bolts.sinks.publishing.bodies import Body
from bolts.sinks.publishing.publisher import Outgoing, Published, Publisher
from bolts.sinks.publishing.sink import PublishingSink
from topology.clients import nats
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.records import Record
from topology.secrets import Secret

ANSWER_S: Final = 10.0  # seconds that the confirmations of one batch may take
KEY_HEADER: Final = "Nats-Msg-Id"
RECORD_HEADER: Final = "Kedge-Record"


class NatsSink(PublishingSink):
    """Publish each record as a message of a JetStream stream, and ack it when the stream has stored it.

        topology.bolt("alerts", NatsSink("nats://127.0.0.1:4222", "alerts.login"), alerts.shuffle())

    The stream has to exist, and to take the subject. Each message has its key as `Nats-Msg-Id`, so the server drops
    what is sent again within the stream's duplicate window. That is two minutes unless the stream says otherwise, and a
    replay may come later: make it longer, `nats stream edit NAME --dupe-window 15m`. The header `Kedge-Record` has the
    record's class.

    url      nats://HOST:PORT, or tls://; several with commas between them. A Secret, if it has a password or a token.
    subject  The subject, or a function of the record that returns it; then name the stream too.
    stream   The stream whose duplicate window is checked. None: the one that takes the subject.
    body     A function that makes the body of a record, as bytes or str. None: a JSON object.
    remembers_s  Seconds that the stream's duplicate window has at least. 0: it is not relied on; a replay may then
             store a message twice.
    credentials  Path of a .creds file.
    tls      Certificates; None: those of the system if the URL begins with tls://.
    batch, within_ms  As in `SqliteSink`.
    """

    durability: ClassVar[str] = "stored by the stream, as its replicas and storage have it"

    def __init__(
        self,
        url: str | Secret,
        subject: str | Callable[[Any], str],
        *,
        body: Body | None = None,
        stream: str | None = None,
        remembers_s: float = 900.0,
        credentials: str | None = None,
        tls: Tls | None = None,
        batch: int = BATCH,
        within_ms: float = 2.0,
    ) -> None:
        super().__init__(body=body, batch=batch, within_ms=within_ms)
        if not 0 <= remembers_s < float("inf"):
            text = f"NatsSink: remembers_s is a number of seconds, or 0, not {remembers_s!r:.80}"
            raise invalid(text)
        if callable(subject) and stream is None and remembers_s:
            text = "NatsSink: a function as subject does not name the stream: give stream=, or remembers_s=0"
            raise invalid(text)
        self.url, self.subject, self.credentials, self.tls = Secret(url), subject, credentials, tls
        self.stream = stream
        self.remembers_s = remembers_s or None
        self.drops_replays = bool(remembers_s)

    def _make_publisher(self) -> Publisher:
        return NatsPublisher(self)


class NatsPublisher:
    """One connection; see `Publisher`."""

    def __init__(self, sink: NatsSink) -> None:
        self._library = client("nats", package="nats-py", extra="nats", needed_by="NatsSink")
        self._sink = sink
        self.where = nats.where_of(sink.url)
        if isinstance(sink.subject, str):
            self.where = f"{sink.subject} of {self.where}"
        self._client: Any = None

    async def open(self) -> None:
        """See `Publisher.open`. Also checks that a stream takes the subject, if it is fixed."""
        sink, errors = self._sink, self._library.errors
        if self._client is not None and self._client.is_connected:
            return
        await self.close()
        self._client = await nats.connected(sink.url, needed_by="NatsSink", credentials=sink.credentials, tls=sink.tls)
        self._stream = self._client.jetstream(timeout=ANSWER_S)
        try:
            await self._check()
        except self._library.js.errors.NotFoundError as error:
            text = f"NatsSink: no stream takes {sink.stream or self.where}"
            raise refused(text) from error
        except (errors.Error, OSError, TimeoutError) as error:
            raise self._away(error) from error

    async def _check(self) -> None:
        """Look for the stream, and at how long it remembers."""
        sink = self._sink
        name = sink.stream
        if name is None:
            if not isinstance(sink.subject, str):
                return
            name = await self._stream.find_stream_name_by_subject(sink.subject)
        window_s = (await self._stream.stream_info(name)).config.duplicate_window or 0
        if sink.remembers_s is not None and window_s < sink.remembers_s:
            text = (
                f"NatsSink: stream {name!r} forgets after {window_s:g} s what it has stored, and replays may come "
                f"later: nats stream edit {name} --dupe-window {sink.remembers_s:g}s; or pass remembers_s=0, and a "
                "replay may store a message twice"
            )
            raise refused(text)

    async def publish(self, messages: Sequence[Outgoing]) -> Published:
        """See `Publisher.publish`."""
        await self.open()
        library, published = self._library, Published({})
        subject = self._sink.subject
        waiting: list[tuple[int, Any]] = []
        try:
            async with asyncio.timeout(ANSWER_S):
                for at, message in enumerate(messages):
                    headers = {KEY_HEADER: message.key, RECORD_HEADER: type(message.record).__name__}
                    to = subject if isinstance(subject, str) else _subject_of(subject, message.record)
                    if to is None:
                        published.refused[at] = "its subject is a text without spaces and wildcards"
                        continue
                    try:
                        future = await self._stream.publish_async(to, message.body, headers=headers)
                    except library.errors.MaxPayloadError:
                        published.refused[at] = "it is larger than the server takes (max_payload)"
                        continue
                    waiting.append((at, future))
                for at, future in waiting:
                    try:
                        published.known += bool((await future).duplicate)
                    except library.js.errors.APIError as error:
                        if error.code is None or error.code >= 500:
                            raise
                        published.refused[at] = f"the server refuses it: {error.description}"
        except (library.errors.Error, OSError, TimeoutError) as error:
            await self.close()
            raise self._away(error) from error
        finally:
            for _, future in waiting:
                future.cancel()
        return published

    async def close(self) -> None:
        """See `Publisher.close`."""
        used, self._client = self._client, None
        if used is not None:
            await nats.closed(used)

    def _away(self, error: BaseException) -> ServerAway:
        return nats.away(self._sink.url, error)


def _subject_of(function: Callable[[Any], str], record: Record) -> str | None:
    """Return the subject that the user's function gives; None if it is none."""
    try:
        subject = function(record)
    except Exception:  # the user's code may raise anything
        return None
    valid = isinstance(subject, str) and subject and not any(mark in subject for mark in " \t\r\n*>")
    return subject if valid else None
