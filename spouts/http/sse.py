"""`SseSource`: the events of a server (text/event-stream) as a source. Must not know payloads."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.broker.connection import Received
from spouts.broker.source import PREFETCH, BrokerSource
from spouts.checks import alone
from spouts.http.event_stream import EventStreamParser, EventTooLong, StreamEvent
from spouts.http.own_ids import OwnIds, TextIdDecoder
from spouts.http.resume_point import ResumePoint
from spouts.http.sessions import HttpSession, checked_headers, checked_url
from spouts.lines import Line
from spouts.payload.formats import Value
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.tls import Tls
from topology.components import Task
from topology.errors import NotesAway
from topology.records import Record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

EVENT_BYTES: Final = 8 * 1024 * 1024  # bytes of an event, if the user does not say
EVENT_BYTES_MAX: Final = 256 * 1024 * 1024
UNREADABLE_S: Final = 5.0  # seconds before a new connection, if a stream cannot be read on
RETRY_AFTER_MAX_S: Final = 3_600.0  # seconds that a header Retry-After may ask to wait
ID_MAX: Final = 4_096  # bytes of an id: a note has to keep it, and a header to carry it
CONTENT: Final = "text/event-stream"

log = logging.getLogger("kedge.spouts")


class SseSource(BrokerSource[R]):
    """Server-sent events: the source reads a stream of text/event-stream, and connects again when it ends.

        edits = topology.spout("edits", SseSource("https://stream.example/edits", value=Json(Edit)))

    **Resuming.** When it connects again, the source sends the id of the last event that it has received, as
    `Last-Event-ID`. A later run sends the id up to which a decided checkpoint has all events; a note keeps it. So no
    event is lost as long as the server keeps events that have ids, and gives them again in their order. An event
    without an id that was under way when the worker died is lost. A log line says so if such events come. If a server
    keeps nothing, or its ids begin again with each connection, set `resumes=False`.

    A message's id is that of its event, which the server must never give to another event; or the field of `Json(…,
    id=…)`; or a name of its own. One task.

    The server's `retry:` and `Retry-After` are kept: the source connects no sooner. Status 204 ends the source. A
    server that answers by an error of its own (5xx, 429) is away, as one that does not answer is. Other statuses are
    refused at the start, and count as away later. Redirects are not followed.

    url      http:// or https://. A Secret, if it has a password or a token.
    value    The record class of a JSON payload; `Json` or a function for other ones. `Line`: the text.
    headers  Further headers of the request; values may be Secrets.
    last_event_id  The id after which the first run begins. Empty: where the server begins.
    resumes  False: the server keeps no events, so no id is sent, and events' ids are no ids of messages.
    silence_s  Seconds without a byte after which the connection counts as lost. None: only the system finds out, after
             a minute, that a server is gone.
    max_event_bytes  Bytes of an event (8 MiB). With a longer one the source is away, and says so.
    tls      Certificates; None: those of the system.
    prefetch Messages that have come and are not emitted, at most.

    Beside the payload there are `event` (the event's type) and `id` (that of the last event that had one). There is no
    event time unless `Json(…, at=…)` names a field.
    """

    given_again = "same"
    names_messages = False  # a field may name them
    offers: ClassVar[frozenset[str]] = frozenset({"event", "id"})

    def __init__(
        self,
        url: str | Secret,
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        headers: Mapping[str, str | Secret] | None = None,
        last_event_id: str = "",
        resumes: bool = True,
        silence_s: float | None = None,
        max_event_bytes: int = EVENT_BYTES,
        tls: Tls | None = None,
        prefetch: int = PREFETCH,
    ) -> None:
        super().__init__(value, prefetch=prefetch)
        self._decoder = TextIdDecoder("SseSource", value, self.offers)
        self.url = checked_url("SseSource", url, ("http", "https"))
        self.headers = checked_headers("SseSource", self.url, headers)
        if not isinstance(last_event_id, str) or not last_event_id.isprintable() or len(last_event_id) > ID_MAX:
            raise invalid(f"SseSource: last_event_id is an id, as a text of one line, not {last_event_id!r:.80}")
        if last_event_id and not resumes:
            raise invalid("SseSource: resumes=False sends no last_event_id; leave one of both out")
        if silence_s is not None and not (isinstance(silence_s, int | float) and 0 < silence_s < float("inf")):
            raise invalid(f"SseSource: silence_s is a number of seconds above 0, or None, not {silence_s!r:.80}")
        if type(max_event_bytes) is not int or not 1 <= max_event_bytes <= EVENT_BYTES_MAX:
            text = f"SseSource: max_event_bytes is from 1 to {EVENT_BYTES_MAX:,}, not {max_event_bytes!r:.80}"
            raise invalid(text)
        self.last_event_id, self.resumes = last_event_id, resumes
        self.silence_s, self.max_event_bytes, self.tls = silence_s, max_event_bytes, tls
        if not resumes:
            vars(self)["given_again"] = "never"  # elsewhere a constant of the class
        self._warned = False

    async def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Connect, and ask for what comes after the last settled event. Raises as `BrokerSource.open` does."""
        alone(task, "is one stream")
        self._own_ids = OwnIds(task, "SseSource")
        self._notes = task.notes
        self._note = f"events of {task.known_as or task.component}"
        self._noted = task.notes.get(self._note)
        self._point = ResumePoint(self._noted if self._noted is not None else self.last_event_id)
        await super().open(task, positions)

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        """Note, soon, the place up to which all events are settled."""
        for message in ids:
            self._point.settle(message)
        super().settled(ids, partition)

    def keep_point(self) -> None:
        """Store the place after which a later run begins. Blocks for a note's fsync, at most once per checkpoint."""
        after = self._point.after
        if not self.resumes or after == (self._noted or ""):
            return
        try:
            self._notes.set(self._note, after)
        except NotesAway as error:  # the next checkpoint's call stores a later one
            log.warning("the place in %s can't be stored now: %s", self.url_shown, error)
            return
        self._noted = after

    async def close(self) -> None:
        """Store the place, and disconnect. Waits some seconds at most."""
        try:
            if self._connection is not None:
                self.keep_point()
        finally:
            await super().close()

    @property
    def url_shown(self) -> str:
        """The address, for people."""
        return self._connection.where if self._connection is not None else "the stream"

    def _connect(self, task: Task) -> "SseConnection":
        return SseConnection(self, self._point.after if self.resumes else "")

    def received_of(self, event: StreamEvent) -> Received:
        """Return an event as a message of the server."""
        if event.id is None and self.resumes and not self._warned:
            self._warned = True
            text = "%s gives events without ids: those that are under way when the worker dies are lost"
            log.warning(text, self.url_shown)
        own = event.id if self.resumes and not self._decoder.names_messages else None
        return Received(own, event.data, None, {"event": event.type, "id": event.last_id}, handle=(event.id or "",))

    def _id_of(self, received: Received) -> MessageId:
        return self._own_ids.next()

    def _is_known(self, received: Received, message: MessageId) -> bool:
        known = super()._is_known(received, message)
        if not known:
            self._point.came(message, received.handle[0])
        return known


class SseConnection:
    """One stream after the other; each begins after the last event of the one before."""

    def __init__(self, source: SseSource[Any], after: str) -> None:
        self._source = source
        self._http = HttpSession("SseSource", source.url, source.headers, source.tls)
        self.where = self._http.where
        self._last_id, self._retry_s = after, 0.0
        self._not_before = 0.0  # loop time until which the server wants to be left alone
        self._is_over = False
        self._unreadable = ""  # why this stream cannot be read on
        self._response: Any = None
        self._events: deque[Received] = deque()
        self._loop = asyncio.get_running_loop()

    async def open(self) -> None:
        """See `Connection.open`."""
        if (wait_s := self._not_before - self._loop.time()) > 0:
            raise ServerAway(self._unreadable or f"{self.where} has asked to wait, {wait_s:.1f} s more")
        headers = {"Accept": CONTENT, "Cache-Control": "no-store", "Accept-Encoding": "identity"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        try:
            session = self._http.begin(self._source.silence_s)
            self._response = await session.get(self._http.url, headers=headers, allow_redirects=False)
        except self._http.errors as error:
            raise self._http.of_error(error) from None  # the error has the URL
        status = self._response.status
        if status == 204:
            self._is_over = True
            return
        if status != 200:
            self._wait(_seconds(self._response.headers.get("Retry-After", "")))
            raise self._http.of_status(status, self._response.headers)
        if self._response.content_type != CONTENT:
            raise refused(f"SseSource: {self.where} gives {self._response.content_type}, not {CONTENT}")
        connection = self._response.connection
        self._http.keep_alive(connection.transport if connection is not None else None)
        self._unreadable = ""
        self._parser = EventStreamParser(self._last_id, self._source.max_event_bytes)

    async def receive(self, limit: int) -> Sequence[Received]:
        """See `Connection.receive`."""
        while not self._events:
            if self._is_over:
                return []
            if self._unreadable:
                self._wait(UNREADABLE_S)
                raise ServerAway(self._unreadable)
            try:
                chunk = await self._response.content.readany()
            except self._http.errors as error:
                self._wait(self._retry_s)
                raise self._http.of_error(error) from None
            if not chunk:
                self._wait(self._retry_s)
                raise ServerAway(f"{self.where} has ended the stream")
            self._read(chunk)
        return [self._events.popleft() for _ in range(min(limit, len(self._events)))]

    def _read(self, chunk: bytes) -> None:
        """Take what this part of the stream completes."""
        try:
            events = self._parser.feed(chunk)
        except EventTooLong as error:
            limit, events = self._source.max_event_bytes, error.before
            self._unreadable = f"{self.where} gives an event of more than {limit:,} bytes; raise max_event_bytes"
        for event in events:
            if len(event.last_id.encode()) > ID_MAX:
                raise ServerAway(f"{self.where} gives an id of more than {ID_MAX:,} bytes")
            self._events.append(self._source.received_of(event))
        if self._parser.retry_s is not None:
            self._retry_s = self._parser.retry_s
        if self._source.resumes:
            self._last_id = self._parser.last_id

    def _wait(self, seconds: float) -> None:
        self._not_before = max(self._not_before, self._loop.time() + seconds)

    async def confirm(self, handles: Sequence[Any]) -> None:
        """See `Connection.confirm`: the server hears nothing; the place is noted."""
        self._source.keep_point()

    async def give_back(self, handles: Sequence[Any]) -> None:
        """See `Connection.give_back`."""

    async def close(self) -> None:
        """See `Connection.close`."""
        response, self._response = self._response, None
        if response is not None:
            response.close()
        await self._http.end()


def _seconds(text: str) -> float:
    """Return the seconds of a Retry-After; 0 for a date, which is not read, and for anything else."""
    return min(float(text), RETRY_AFTER_MAX_S) if text.isdecimal() and len(text) < 10 else 0.0
