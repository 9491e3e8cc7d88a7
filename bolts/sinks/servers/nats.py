"""`NatsSink`: records as messages of a NATS JetStream stream. Knows nats-py; must not know batches."""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from topology.text import printable

ANSWER_S: Final = 10.0  # seconds without all confirmations of a batch after which the sink says that it waits
# seconds without any confirmation after which the connection is given up, and what is not confirmed is sent again
STUCK_S: Final = 15.0
LOOK_S: Final = 2.0  # seconds that the look for the stream of a subject may take
KEY_HEADER: Final = "Nats-Msg-Id"
RECORD_HEADER: Final = "Kedge-Record"
# bytes of a subject; a server takes a line of 4,096 (max_control_line) with the subject, an inbox and two lengths, and
# closes the connection for a longer one
SUBJECT_MAX: Final = 3_900
NO_SUBJECT: Final = (
    f"its subject is a text of at most {SUBJECT_MAX:,} bytes, of parts with a dot between them, without spaces and "
    "wildcards"
)
NOBODY: Final = "503"  # the status of the answer if nothing has subscribed to a subject
STREAM_NAMES: Final = "$js.api.stream.names"  # the subject of a question, in small letters
# errors of a stream that pass, though their codes say that the client is at fault: the account's limits are reached or
# missing (10002, 10120), or the same message is being stored (10158)
PASSING: Final = frozenset({10002, 10120, 10158})
DENIED: Final = re.compile(r'permissions violation for publish to "(.*)"', re.IGNORECASE)

log = logging.getLogger("kedge.bolts")


class NatsSink(PublishingSink):
    """Publish each record as a message of a JetStream stream, and ack it when the stream has stored it.

        topology.bolt("alerts", NatsSink("nats://127.0.0.1:4222", "alerts.login"), alerts.shuffle())

    The stream has to exist, and to take the subject. Each message has its key as `Nats-Msg-Id`, so the server drops
    what is sent again within the stream's duplicate window. That is two minutes unless the stream says otherwise, and a
    replay may come later: make it longer, `nats stream edit NAME --dupe-window 15m`. The header `Kedge-Record` has the
    record's class.

    A record fails alone if the server refuses its message, or if no stream takes the subject that a function has given
    for it.

    url      nats://HOST:PORT, tls://, ws:// or wss://; several with commas between them. A Secret, if it has a password
             or a token.
    subject  The subject, or a function of the record that returns it; then name the stream too.
    stream   The stream whose duplicate window is checked. None: the one that takes the subject.
    body     A function that makes the body of a record, as bytes or str. None: a JSON object.
    remembers_s  Seconds that the stream's duplicate window has at least. 0: it is not relied on; a replay may then
             store a message twice. If the window becomes shorter during a run, the log warns after the next connection.
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
        if not callable(subject) and not is_subject(subject):
            text = f"NatsSink: subject is a text of at most {SUBJECT_MAX:,} bytes, of parts with a dot between them,"
            raise invalid(f"{text} without spaces and wildcards, or a function that returns one, not {subject!r:.80}")
        self.url = nats.checked_url("NatsSink", url)
        self.subject, self.credentials, self.tls = subject, credentials, tls
        self.stream = stream
        self.remembers_s = remembers_s or None
        self.drops_replays = bool(remembers_s)

    def _make_publisher(self) -> Publisher:
        return NatsPublisher(self)


class NatsPublisher:
    """One connection; see `Publisher`.

    A call that is made again knows what it has sent: it sends only what was lost with a connection, or what the server
    did not take.
    """

    def __init__(self, sink: NatsSink) -> None:
        self._library = client("nats", package="nats-py", extra="nats", needed_by="NatsSink")
        self._sink = sink
        self.where = nats.where_of(sink.url)
        if isinstance(sink.subject, str):
            self.where = f"{sink.subject} of {self.where}"
        self._client: Any = None
        self._stream: Any = None
        self._lost = asyncio.Event()  # of this connection
        self._sending: asyncio.Task[None] | None = None  # sends on this connection, and waits for the answers
        self._answers = ""  # the subject of the answers to this connection, before the number of a message
        self._waiting: dict[str, tuple[str, str]] = {}  # number → key and subject of what waits for its answer
        self._last = 0  # the number of the last message
        self._all_answered = asyncio.Event()
        self._astray: dict[str, str] = {}  # key → subject, of what no stream has answered for
        self._known: dict[str, str] = {}  # key → the reason for which it is refused; "" if it is confirmed
        self._repeated: set[str] = set()  # keys of which the server has said that it knows them
        # by a subject in small letters, as nats-py gives errors: the subjects that are sent to now, how many messages
        # have no answer, and how many errors say that this user may not publish there. A connection's own
        self._spellings: dict[str, set[str]] = {}
        self._unanswered: Counter[str] = Counter()
        self._denied: Counter[str] = Counter()
        self._passing = ""  # the reason for which the server does not take messages now
        self._heard_at = 0.0  # loop time of the last confirmation, or of the last message that was sent
        self._window_s: float | None = None  # the stream's duplicate window when it was looked at last

    async def open(self) -> None:
        """See `Publisher.open`. Also checks that a stream takes the subject, if it is fixed."""
        sink, errors = self._sink, self._library.errors
        if self._client is not None and self._client.is_connected and not self._lost.is_set():
            return
        await self.close()
        lost = self._lost = asyncio.Event()
        self._client = await nats.connected(
            sink.url,
            needed_by="NatsSink",
            lost=lost.set,
            complains=lambda error: self._complained(error) if self._lost is lost else None,
            credentials=sink.credentials,
            tls=sink.tls,
        )
        self._stream = self._client.jetstream(timeout=ANSWER_S)
        try:
            await nats.answered(self._begin(self._client), lost, ANSWER_S)
        except BaseException as error:
            await self.close()
            if isinstance(error, self._library.js.errors.NotFoundError):
                raise refused(f"NatsSink: no stream takes {sink.stream or self.where}") from error
            if isinstance(error, errors.Error | OSError | TimeoutError):
                raise self._away(error) from error
            raise

    async def _begin(self, used: Any) -> None:
        """Check the stream, and subscribe to the answers."""
        await self._check()
        # JetStreamContext.publish_async never ends for a message that the server refuses, as of nats-py 2.16
        self._answers = used.new_inbox()

        async def answered(message: Any) -> None:
            if used is self._client:
                self._answered(message)

        await used.subscribe(f"{self._answers}.*", cb=answered)

    async def _check(self) -> None:
        """Look for the stream, and at how long it remembers: the first time it has to be long enough."""
        sink = self._sink
        name = sink.stream
        if name is None:
            if not isinstance(sink.subject, str):
                return
            name = await self._stream.find_stream_name_by_subject(sink.subject)
        window_s = (await self._stream.stream_info(name)).config.duplicate_window or 0.0
        before_s, enough = self._window_s, sink.remembers_s is None or window_s >= sink.remembers_s
        if not enough:
            text = (
                f"NatsSink: stream {name!r} forgets after {window_s:g} s what it has stored, and replays may come "
                f"later: nats stream edit {name} --dupe-window {sink.remembers_s:g}s"
            )
            if before_s is None:
                raise refused(f"{text}; or pass remembers_s=0, and a replay may store a message twice")
            if before_s != window_s:
                log.warning("%s. It was %g s before; a replay may now store a message twice", text, before_s)
        self._window_s = window_s

    async def publish(self, messages: Sequence[Outgoing]) -> Published:
        """See `Publisher.publish`."""
        await self.open()
        old_error = self._client.last_error
        keys = {message.key for message in messages}
        self._known = {key: why for key, why in self._known.items() if key in keys}
        self._repeated &= keys
        if self._sending is None:
            self._passing, self._astray = "", {}
            self._forget_denials()
            rest = [message for message in messages if message.key not in self._known]
            self._sending = asyncio.ensure_future(self._send(self._client, self._lost, rest))
        await self._wait(self._sending)
        await self._judge(self._sending, old_error)
        open_count = len(keys) - len(self._known)
        if open_count:
            await self._explain(open_count, old_error)
        if self._sending is not None:  # nothing is left that it could wait for
            await asyncio.wait((self._sending,), timeout=LOOK_S)
            self._sending = None
        refusals = {at: why for at, message in enumerate(messages) if (why := self._known[message.key])}
        repeated, self._known, self._repeated = len(self._repeated), {}, set()
        return Published(refusals, repeated)

    async def _send(self, used: Any, lost: asyncio.Event, messages: Sequence[Outgoing]) -> None:
        """Send messages, or note why one cannot be sent, and wait for the answers. It may wait for the socket without
        end, and a cancellation may do nothing: `nats.abort` ends it."""
        loop = asyncio.get_running_loop()
        subjects = [self._subject_of(message.record) for message in messages]
        for subject in subjects:
            if subject is not None:
                self._spellings.setdefault(subject.lower(), set()).add(subject)
        for message, subject in zip(messages, subjects, strict=True):
            if lost.is_set() or used is not self._client:
                return
            headers = {KEY_HEADER: message.key, RECORD_HEADER: type(message.record).__name__}
            if (why := self._refusal(used, subject, headers, message.body)) or subject is None:
                self._known[message.key] = why
                continue
            self._all_answered.clear()
            self._last += 1
            self._waiting[f"{self._last}"] = message.key, subject
            self._unanswered[subject.lower()] += 1
            await used.publish(subject, message.body, f"{self._answers}.{self._last}", headers)
            self._heard_at = loop.time()
        if self._waiting and used is self._client:
            await self._all_answered.wait()

    def _refusal(self, used: Any, subject: str | None, headers: Mapping[str, str], body: bytes) -> str:
        """Return why a message cannot be sent, or an empty text."""
        if subject is None:
            return NO_SUBJECT
        if len(body) + _bytes_of(headers) > used.max_payload:
            return f"it is larger than the server takes ({used.max_payload:,} bytes, max_payload)"
        if self._is_denied(subject.lower()) and callable(self._sink.subject):
            return f"the server refuses it: no permission to publish to {printable(subject)}"
        return ""

    def _is_denied(self, small: str) -> bool:
        """Return True if this user may not publish to the one subject that is so in small letters."""
        return small in self._denied and len(self._spellings.get(small, ())) == 1

    async def _wait(self, sending: "asyncio.Task[None]") -> None:
        """Wait until all messages are answered, the connection is lost, or ANSWER_S are over."""
        losing = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait((sending, losing), timeout=ANSWER_S, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the sink is closed, and its inputs fail: nothing more may be sent
            nats.abort(self._client)
            sending.cancel()
            raise
        finally:
            losing.cancel()

    async def _judge(self, sending: "asyncio.Task[None]", old_error: object) -> None:
        """Note the answers, each by itself. Raises ServerAway, or a bug of ours, if sending has failed."""
        if sending.done():
            self._sending = None
            error = None if sending.cancelled() else sending.exception()
            if error is not None:
                why = self._cause(old_error) or error
                await self.close()
                if isinstance(error, self._library.errors.Error | OSError | TimeoutError):
                    raise self._away(why) from error
                raise error
        if self._lost.is_set():
            return
        if callable(self._sink.subject):  # a subject may have a subscriber, who does not answer, and no stream
            await self._ask(self._astray, dict(self._waiting.values()))
        elif self._astray:
            self._passing = self._passing or "no stream takes them"

    def _answered(self, message: Any) -> None:
        """Note the answer to a message. One that is no stream's is of a subscriber who answers too."""
        number = message.subject.rpartition(".")[2]
        key, subject = self._waiting.get(number, ("", ""))
        nobody = (message.headers or {}).get("Status") == NOBODY
        answer = answer_of(message.data)
        if not key or (answer is None and not nobody):
            return
        del self._waiting[number]
        self._unanswered[small := subject.lower()] -= 1
        self._heard_at = asyncio.get_running_loop().time()
        if answer is None:
            self._astray[key] = subject
        elif error := answer.get("error"):
            why = printable(str(error.get("description")))
            if is_final(error):
                self._known[key] = f"the server refuses it: {why}"
            else:
                self._passing = why
        else:
            self._known[key] = ""
            if answer.get("duplicate"):
                self._repeated.add(key)
        self._deny(small, False)

    async def _ask(self, astray: Mapping[str, str], waiting: Mapping[str, str]) -> None:
        """Refuse the messages whose subjects no stream takes: they are among those that no stream has answered for, and
        those that wait. The others have a stream that does not answer now."""
        found: dict[str, bool] = {}
        until = asyncio.get_running_loop().time() + ANSWER_S
        for key, subject in {**waiting, **astray}.items():
            if key in self._known:  # its answer has come meanwhile
                continue
            try:
                if subject not in found:
                    found[subject] = await self._is_taken(subject, until)
            except (self._library.errors.Error, OSError, TimeoutError) as error:
                self._passing = self._why(error)
                if STREAM_NAMES not in self._denied or self._lost.is_set():
                    return
                found[subject] = key not in astray  # this user may not ask
            if found[subject]:
                self._passing = self._passing or f"the stream of {printable(subject)} does not answer"
                continue
            self._forget(key, f"no stream takes its subject {printable(subject)}")

    def _forget(self, key: str, why: str) -> None:
        """Refuse a message, and wait for its answer no more."""
        self._known[key] = why
        for number in [number for number, (waiting, _) in self._waiting.items() if waiting == key]:
            del self._waiting[number]
        if not self._waiting:
            self._all_answered.set()

    async def _is_taken(self, subject: str, until: float) -> bool:
        """Ask the server whether a stream takes a subject."""
        if self._lost.is_set() or asyncio.get_running_loop().time() > until:
            raise TimeoutError("the look for the streams of its subjects takes too long")
        try:
            look = self._stream.find_stream_name_by_subject(subject)
            return bool(await nats.answered(look, self._lost, LOOK_S))
        except self._library.js.errors.NotFoundError:
            return False

    async def _explain(self, open_count: int, old_error: object) -> None:
        """Raise the error for a call that has to be made again."""
        where = nats.where_of(self._sink.url)
        if self._lost.is_set():
            why = self._cause(old_error) or ConnectionResetError("the connection is lost")
            await self.close()
            raise self._away(why)
        if self._sending is None:
            raise ServerAway(f"{where} does not take {open_count:,} messages now: {self._passing}")
        if asyncio.get_running_loop().time() - self._heard_at > STUCK_S:
            await self.close()
        raise ServerAway(f"{where} has not confirmed {open_count:,} messages yet")

    def _complained(self, error: Exception) -> None:
        """Note a subject to which this user may not publish: the server answers no message to it."""
        if (found := DENIED.search(str(error))) is not None:
            small = found[1].lower()
            self._denied[small] += 1
            self._deny(small, self._is_denied(small))

    def _deny(self, small: str, is_sure: bool) -> None:
        """Refuse what waits at a subject to which this user may not publish. If several subjects are so in small
        letters, wait until all that were sent to them have an answer or an error: those without an answer are it."""
        if is_sure or self._denied[small] == self._unanswered[small] > 0:
            why = "no permission to publish to"
            for number, (key, subject) in [*self._waiting.items()]:
                if subject.lower() != small:
                    continue
                del self._waiting[number]
                if callable(self._sink.subject):
                    self._known[key] = f"the server refuses it: {why} {printable(subject)}"
                else:
                    self._passing = f"{why} {printable(subject)}"
        if not self._waiting:
            self._all_answered.set()

    def _forget_denials(self) -> None:
        """Forget what is known of subjects, but for those of which errors are still to come: all messages of a subject
        are refused at the first error about it."""
        kept = {small for small, errors in self._denied.items() if errors < self._unanswered[small]}
        self._spellings = {small: self._spellings[small] for small in kept}
        self._unanswered = Counter({small: self._unanswered[small] for small in kept})
        self._denied = Counter({small: self._denied[small] for small in kept})

    async def close(self) -> None:
        """See `Publisher.close`."""
        used, self._client = self._client, None
        sending, self._sending = self._sending, None
        self._waiting, self._spellings = {}, {}
        self._unanswered, self._denied = Counter(), Counter()
        if sending is not None:
            nats.abort(used)
            sending.cancel()
            sending.add_done_callback(nats.looked_at)
        if used is not None:
            await nats.discarded(used)

    def _cause(self, old_error: object) -> Exception | None:
        """Return the error by which the connection was lost in this call, if the client has one. It keeps old ones, and
        one about permissions closes no connection."""
        error: Exception | None = self._client.last_error
        return None if error is old_error or DENIED.search(str(error)) else error

    def _why(self, error: BaseException) -> str:
        if isinstance(error, self._library.js.errors.ServiceUnavailableError):
            return "it has no JetStream now"
        return str(error) or type(error).__name__

    def _away(self, error: BaseException) -> ServerAway:
        return nats.away(self._sink.url, OSError(self._why(error)))

    def _subject_of(self, record: Record) -> str | None:
        """Return the subject of a record; None if the user's function gives none."""
        function = self._sink.subject
        if isinstance(function, str):
            return function
        try:
            subject = function(record)
        except Exception:  # the user's code may raise anything
            return None
        return subject if is_subject(subject) else None


def is_subject(subject: object) -> bool:
    """Return True if it can be the subject of a message."""
    if not isinstance(subject, str) or not all(subject.split(".")):
        return False
    try:
        size = len(subject.encode())
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return size <= SUBJECT_MAX and not any(mark in "*>\x7f" or mark < "!" or mark.isspace() for mark in subject)


def _bytes_of(headers: Mapping[str, str]) -> int:
    """Return the bytes that the headers of a message take. The server counts them as a part of the message."""
    return len("NATS/1.0\r\n\r\n") + sum(len(f"{name}: {value}\r\n".encode()) for name, value in headers.items())


def answer_of(data: bytes) -> dict[str, Any] | None:
    """Return what a stream has answered, with an error that is a dict if it has one; None if it is no stream's answer.

    A service may subscribe to a subject, and answer by JSON of its own.
    """
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict):
        return None
    error, is_named = answer.get("error"), isinstance(answer.get("stream"), str)
    if isinstance(error, dict) and error:  # old servers, and those without a leader, name no stream
        return answer if is_named or type(error.get("err_code")) is int else None
    return answer if is_named and error is None and type(answer.get("seq")) is int else None


def is_final(error: Mapping[str, Any]) -> bool:
    """Return True if a stream never takes this message, and False if it may later."""
    code, number = error.get("code"), error.get("err_code")
    is_passing = code in (408, 429) or (type(number) is int and number in PASSING)
    return isinstance(code, int) and 400 <= code < 500 and not is_passing
