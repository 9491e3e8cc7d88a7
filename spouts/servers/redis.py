"""`RedisStreamSource`: a stream of Redis as a source, read by a consumer group. Knows the commands of Redis; must not
know how a connection is made, nor payloads' formats."""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, Literal

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.broker.connection import Received
from spouts.broker.read_limit import ReadLimit
from spouts.broker.source import PREFETCH, BrokerSource
from spouts.checks import no_position
from spouts.lines import Line
from spouts.payload.decoder import Decoded, PayloadDecoder, malformed
from spouts.payload.formats import Msgpack, Payload, Value
from topology.clients import redis
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.tls import Tls
from topology.components import Task
from topology.errors import ConfigurationError
from topology.records import Record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

BLOCK_S: Final = 5.0  # seconds that one request waits at the server for an entry
ANSWER_S: Final = 10.0  # seconds that an answer may take beyond that
READ_MAX: Final = 1_000  # entries of one request
BEAT_S: Final = 5.0  # seconds at most between two signs of life of a consumer
LOOK_S: Final = 30.0  # seconds at most between two looks for consumers that are gone
STALE_MIN_S: Final = 1.0  # seconds without a sign of life that a consumer has at least
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
OLDEST: Final = "0"
NEWEST: Final = "$"
NEVER_MS: Final = 10 * 365 * 86_400_000  # milliseconds without a sign of life that no consumer has
log = logging.getLogger("kedge.spouts")

_ID: Final = re.compile(r"(\d{1,20})-(\d{1,20})")
_LAST_NUMBER: Final = 2**64 - 1  # of the entries of one millisecond
_NO_GROUP: Final = ("NOGROUP", "UNBLOCKED")  # the second one if the stream was deleted while a request waited


class RedisStreamSource(BrokerSource[R]):
    """Entries of a Redis stream, read by a consumer group, and acknowledged once a decided checkpoint has them.

        logins = topology.spout("logins", RedisStreamSource("redis://127.0.0.1:6379", "logins", value=Login))

    A message's id is the entry's id. Each task is a consumer, kedge-TOPOLOGY-COMPONENT-INDEX, and begins with the
    entries that it had and has not acknowledged. Entries of consumers that are gone are claimed: those of a run that
    had more tasks, for example. An acknowledged entry does not come again, except to another `group`, as long as the
    stream has it. Ids that a producer chooses itself (`XADD logins 1-1 …`) must never repeat, even if the stream is
    deleted in between.

    Several tasks share the group. If one dies for longer than `stale_after_s`, others get its entries, and a bolt with
    state counts those twice if they come late. Before such a bolt, use one task (`kedge check --guarantees`).

    **Redis itself may lose entries**: it has them in memory, and on the disk only with `appendonly yes`.

    url      redis://USER:PASSWORD@HOST:PORT/DATABASE, or rediss://. A Secret, if it has a password.
    stream   The key of the stream. Stream and group are made if they are not there.
    value    The record class of a JSON payload; `Json`, `Msgpack` or a function for other ones. `Line`: the text.
    group    The name of the consumer group. None: kedge-TOPOLOGY-COMPONENT.
    payload_field  The field of an entry that has the payload. None: the entry's fields are the record's, as texts, from
             which numbers and others are read.
    begin    Where a new group begins: "all", at the oldest entry, or "new", at the next one. Later runs go on.
    stale_after_s  Seconds without a sign of life after which a consumer is gone, at least 1.
    delete_confirmed  True: entries are deleted from the stream when they are acknowledged. For a stream that only this
             group reads.
    tls      Certificates; None: those of the system if the URL begins with rediss://.
    prefetch Entries that have come and are not emitted, at most.

    Beside the payload there are `stream` and `id`, and the entry's other fields as `header:NAME`. The event time is the
    time in the entry's id, unless `Json(…, at=…)` names a field.
    """

    shared_ids = True
    one_queue = True
    offers: ClassVar[frozenset[str]] = frozenset({"stream", "id"})

    def __init__(
        self,
        url: str | Secret,
        stream: str,
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        group: str | None = None,
        payload_field: str | None = "data",
        begin: Literal["all", "new"] = "all",
        stale_after_s: float = 60.0,
        delete_confirmed: bool = False,
        tls: Tls | None = None,
        prefetch: int = PREFETCH,
    ) -> None:
        super().__init__(value, prefetch=prefetch)
        if begin not in ("all", "new"):
            raise invalid(f'RedisStreamSource: begin is "all" or "new", not {begin!r:.80}')
        if not STALE_MIN_S <= stale_after_s < float("inf"):
            text = f"RedisStreamSource: stale_after_s is a number of seconds of at least {STALE_MIN_S:g}"
            raise invalid(f"{text}, not {stale_after_s!r:.80}")
        for name, given in (("stream", stream), ("group", group), ("payload_field", payload_field)):
            if not isinstance(given, str | None) or given == "":
                raise invalid(f"RedisStreamSource: {name} is a text that is not empty, not {given!r:.80}")
        if payload_field is None and isinstance(value, Msgpack):
            raise invalid("RedisStreamSource: without a payload_field an entry has texts, and Msgpack reads none")
        self.url = redis.checked_url("RedisStreamSource", url, tls)
        self.stream, self.group, self.payload_field = stream, group, payload_field
        self.begin, self.stale_after_s = begin, stale_after_s
        self.delete_confirmed, self.tls = delete_confirmed, tls
        self._decoder = EntryDecoder("RedisStreamSource", value, self.offers, from_texts=payload_field is None)

    def _connect(self, task: Task) -> "RedisStreamConnection":
        name = f"kedge-{task.topology}-{task.known_as or task.component}"
        position = next(iter(self._positions.values()), None)
        return RedisStreamConnection(self, self.group or name, f"{name}-{task.index}", position)


class EntryFacts(dict[str, Any]):
    """The facts beside a payload. `problem`: why the entry has no payload that can be read."""

    problem = ""


class EntryDecoder(PayloadDecoder[R]):
    """A decoder that knows entries without a payload."""

    def decode(self, payload: Payload) -> Decoded[R]:
        """Decode one payload, as `PayloadDecoder` does."""
        if isinstance(payload.attributes, EntryFacts) and payload.attributes.problem:
            return Decoded(malformed(payload, payload.attributes.problem), payload.at)
        return super().decode(payload)


class RedisStreamConnection:
    """Two connections of one consumer: one waits for entries, the other one acknowledges them.

    A consumer is known to be gone by the time since it has got an entry, as Redis 7.0 knows no other sign of life. So
    one with entries under way reads the first of them again now and then. That also shows an entry that it has not had:
    for some seconds Redis may still have given entries to a connection that is dead.
    """

    def __init__(
        self, source: RedisStreamSource[Any], group: str, consumer: str, position: MessageId | None = None
    ) -> None:
        self._source, self._group, self._consumer = source, group, consumer
        self._server = redis.RedisServer(source.url, needed_by="RedisStreamSource", tls=source.tls, key=source.stream)
        self.where = f"stream {source.stream} of {self._server.where}"
        self._reads: redis.RedisLink | None = None
        self._acks: redis.RedisLink | None = None
        self._beats: asyncio.Task[None] | None = None
        self._position = _checked_position(position)
        self._newest = ""  # id of the newest entry that the group has given, as far as this consumer knows
        self._own = ""  # id of the last of its own entries that was read again, "" if they all were
        self._look_at = 0.0  # loop time of the next look for consumers that are gone
        self._had: set[str] = set()  # ids that this connection has given, and not acknowledged
        self._had_before: set[str] = set()  # those of earlier connections, until it has read its own entries again
        self._limit = ReadLimit(BLOCK_S + ANSWER_S)
        self._is_late = False  # an answer to an acknowledgement has not come in time: the same line is too slow

    async def open(self) -> None:
        """See `Connection.open`."""
        source = self._source
        self._reads, kind = await self._server.connect(answer_s=BLOCK_S + ANSWER_S, name=self._consumer)
        if kind not in ("none", "stream"):
            raise refused(f"RedisStreamSource: {source.stream!r} of {self._server.where} is a {kind}, and no stream")
        self._acks, _ = await self._server.connect(answer_s=ANSWER_S, name=self._consumer)
        try:
            await self._make_group(is_gone=False)
            # neither does anything, but a user who may not do it is refused here
            await self._acks.call_all(self._acknowledgement(["0-0"]))
            await self._acks.call(*self._first_own())
        except redis.RedisRefusal as error:
            raise refused(f"RedisStreamSource: {self.where} can't be read: {error}") from error
        self._own = OLDEST
        self._look_at = 0.0
        self._is_late = False
        self._had_before |= self._had
        self._had = set()
        self._beats = asyncio.get_running_loop().create_task(self._beat(), name=f"{self._consumer} beats")

    # -- the group

    async def _make_group(self, *, is_gone: bool) -> None:
        """Make the group, and the stream, if they are not there. `is_gone`: the group of before was destroyed.

        Entries under way are pending again in a group that is made again. No crash in between loses them: the group
        begins right before the oldest of them, and is set to its place of before once all of them are pending.
        """
        under_way = sorted(self._had | self._had_before, key=_order)
        begin = await self._begins_at(under_way)
        makes = True
        try:
            await self._asked("XGROUP", "CREATE", self._source.stream, self._group, begin, "MKSTREAM")
        except redis.RedisRefusal as error:
            if error.code != "BUSYGROUP":  # it is there
                raise
            makes = False  # another task has made it
        if under_way and (makes or is_gone) and begin != OLDEST:
            for command in self._pending_again(under_way):
                await self._asked(*command)
            if makes and self._newest:
                await self._asked("XGROUP", "SETID", self._source.stream, self._group, self._newest)
        if not self._newest:
            for row in await self._asked("XINFO", "GROUPS", self._source.stream):
                about = _pairs(row)
                if about.get("name") == self._group.encode():
                    self._newest = about["last-delivered-id"].decode()

    def _pending_again(self, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the commands that make entries pending for this consumer. None is taken from another consumer."""
        claim = ("XCLAIM", self._source.stream, self._group, self._consumer, NEVER_MS)
        parts = [ids[first : first + READ_MAX] for first in range(0, len(ids), READ_MAX)]
        return [(*claim, *part, "FORCE", "JUSTID") for part in parts]

    async def _begins_at(self, under_way: Sequence[str]) -> str:
        """Return the id after which a new group begins.

        A group that this run or an earlier one has read may be gone. The new one begins right before the oldest entry
        under way, or after the newest one that was given if none is. If the stream has neither any more, it is another
        stream, and all of it is new.
        """
        known, after = list(filter(None, [*under_way[:1], self._newest])), self._newest
        if under_way:
            after = _before(under_way[0])
        elif not self._newest:
            if not self._position:
                return OLDEST if self._source.begin == "all" else NEWEST
            known, after = [self._position], _before(self._position)
        for entry in known:
            if await self._asked("XRANGE", self._source.stream, entry, entry, "COUNT", 1):
                return after
        return OLDEST

    # -- receiving

    async def receive(self, limit: int) -> Sequence[Received]:
        """See `Connection.receive`."""
        try:
            while True:
                try:
                    found = await self._next(self._limit.of(min(limit, READ_MAX)))
                except redis.RedisRefusal as error:
                    if error.code not in _NO_GROUP:
                        raise
                    await self._make_group(is_gone=True)
                else:
                    if found:
                        return found
        except redis.RedisRefusal as error:
            raise self._server.away(f"{self._source.stream!r} can't be read: {error}") from error
        except ConfigurationError as error:  # the server refuses now what it has accepted at the begin
            raise ServerAway(str(error)) from error

    async def _next(self, limit: int) -> list[Received]:
        """Return the next entries: its own from before, then those of consumers that are gone, then new ones. May be
        empty."""
        loop = asyncio.get_running_loop()
        if self._own:
            entries = await self._read(limit, self._own)
            self._own = entries[-1][0].decode() if entries else ""
            if not entries:
                self._had_before.clear()  # the others are done, or another consumer has them
            return await self._received(entries)
        if loop.time() >= self._look_at:
            if entries := await self._claimed(limit):
                return await self._received(entries)
            self._look_at = loop.time() + min(LOOK_S, self._source.stale_after_s / 2)
        entries = await self._read(limit, ">", block_s=min(BLOCK_S, self._source.stale_after_s / 2))
        if entries:
            self._newest = entries[-1][0].decode()
        return await self._received(entries)

    async def _read(self, limit: int, after: str, block_s: float | None = None) -> list[Any]:
        block = () if block_s is None else ("BLOCK", int(block_s * 1000))
        group = ("GROUP", self._group, self._consumer)
        streams = self._source.stream, after
        found = await self._bounded(limit, "XREADGROUP", *group, "COUNT", limit, *block, "STREAMS", *streams)
        return found[0][1] if found else []

    async def _bounded(self, limit: int, *command: Any) -> Any:
        """Ask for up to so many entries: the limit of later reads learns from it."""
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        try:
            found = await self._asked(*command)
        except ServerAway as error:
            if self._is_late or isinstance(error, redis.RedisLate):
                self._limit.timed_out(limit)
            raise
        count = len(found[0][1]) if found and command[0] == "XREADGROUP" else len(found or ())
        self._limit.came(limit, count, loop.time() - started_at)
        return found

    async def _claimed(self, limit: int) -> list[Any]:
        """Take entries of one consumer that is gone, and return them. Of several tasks that try, one gets an entry."""
        stream, stale_ms = self._source.stream, int(self._source.stale_after_s * 1000)
        for row in await self._asked("XINFO", "CONSUMERS", stream, self._group):
            about = _pairs(row)
            name = about["name"]
            if name == self._consumer.encode() or not about["pending"] or about["idle"] < stale_ms:
                continue
            pending = await self._asked("XPENDING", stream, self._group, "IDLE", stale_ms, "-", "+", limit, name)
            if pending:
                ids = [each[0] for each in pending]
                claim = ("XCLAIM", stream, self._group, self._consumer, stale_ms, *ids)
                entries = await self._bounded(limit, *claim)
                if found := [entry for entry in entries if entry is not None]:  # None: deleted, in Redis 6
                    return found
        return []

    async def _asked(self, *command: Any) -> Any:
        assert self._reads is not None, "open"
        return await self._reads.call(*command)

    async def _received(self, entries: Sequence[Any]) -> list[Received]:
        deleted = [entry for entry, fields in entries if fields is None]  # from the stream, since they were given
        if deleted:
            level = logging.INFO if self._source.delete_confirmed else logging.WARNING  # its own, before a crash
            text = "%s: %d entries were deleted or trimmed before they were acknowledged, the first is %s of %s"
            log.log(level, text, self._consumer, len(deleted), deleted[0].decode(), self.where)
            await self._asked("XACK", self._source.stream, self._group, *deleted)
        found = [self._one(entry.decode(), fields) for entry, fields in entries if fields is not None]
        self._had.update(each.handle for each in found)
        return found

    def _one(self, entry: str, fields: Sequence[bytes]) -> Received:
        source = self._source
        given = {_text(name): value for name, value in zip(fields[::2], fields[1::2], strict=True)}
        facts = EntryFacts(stream=source.stream, id=entry)
        payload = None if source.payload_field is None else given.pop(source.payload_field, None)
        if payload is None:
            payload = json.dumps({name: _text(value) for name, value in given.items()}).encode()
            facts.problem = _problem(source.payload_field, given)
        if source.payload_field is not None:
            facts.update({f"header:{name}": _text(value) for name, value in given.items()})
        return Received(entry, payload, _time_of(entry), facts, handle=entry)

    # -- confirming

    def _acknowledgement(self, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the commands. If only the first one is done, the next run acknowledges what is deleted."""
        stream = self._source.stream
        delete = [("XDEL", stream, *ids)] if self._source.delete_confirmed else []
        return [*delete, ("XACK", stream, self._group, *ids)]

    async def confirm(self, handles: Sequence[Any]) -> None:
        """See `Connection.confirm`. After an error the source connects again, and gets these entries again."""
        acks = self._acks
        if acks is None:
            return
        try:
            answers = await acks.call_all(self._acknowledgement(handles))
        except (ServerAway, ConfigurationError) as error:
            self._cut(error)
            raise ServerAway(str(error)) from error
        refusal = next((each for each in answers if isinstance(each, redis.RedisRefusal)), None)
        if refusal is not None:
            self._cut(refusal)
            raise self._server.away(str(refusal))
        self._had.difference_update(handles)
        self._had_before.difference_update(handles)

    async def give_back(self, handles: Sequence[Any]) -> None:
        """Do nothing: the consumer of this name begins with them in the next run."""

    async def _beat(self) -> None:
        """Say now and then that this consumer is alive, until it is not."""
        every_s = min(BEAT_S, self._source.stale_after_s / 4)
        while self._acks is not None:
            await asyncio.sleep(every_s)
            try:
                streams = await self._acks.call(*self._first_own())
                first = [entry.decode() for entry, _ in (streams[0][1] if streams else [])]
                if not self._had.issuperset(first):
                    self._own = OLDEST
                elif self._had and not first:  # another task has made the group again
                    for command in self._pending_again([*self._had]):
                        await self._acks.call(*command)
            except redis.RedisRefusal:
                continue  # `receive` sees it too
            except (ServerAway, ConfigurationError) as error:
                self._cut(error)
                return

    def _first_own(self) -> tuple[Any, ...]:
        group = ("GROUP", self._group, self._consumer)
        return ("XREADGROUP", *group, "COUNT", 1, "STREAMS", self._source.stream, OLDEST)

    def _cut(self, why: Exception) -> None:
        self._is_late = isinstance(why, redis.RedisLate)
        if self._reads is not None:
            self._reads.cut(str(why))

    # -- closing

    async def close(self) -> None:
        """See `Connection.close`."""
        beats, self._beats = self._beats, None
        links = [link for link in (self._reads, self._acks) if link is not None]
        self._reads = self._acks = None
        if beats is not None:
            beats.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(beats, return_exceptions=True)
        await asyncio.gather(*[link.close() for link in links])


def _checked_position(position: MessageId | None) -> str:
    """Return the position of an earlier run, "" if there is none. Raises ConfigurationError for another kind of id."""
    if position is None:
        return ""
    if not isinstance(position, str) or _ID.fullmatch(position) is None:
        raise no_position(position, "a position in a stream of Redis is an entry's id")
    return position


def _order(entry: str) -> tuple[int, ...]:
    """Return what orders ids as the stream has them."""
    return tuple(map(int, entry.split("-")))


def _before(entry: str) -> str:
    """Return the id right before this one."""
    milliseconds, number = map(int, entry.split("-"))
    if number:
        return f"{milliseconds}-{number - 1}"
    return f"{milliseconds - 1}-{_LAST_NUMBER}" if milliseconds else OLDEST


def _time_of(entry: str) -> datetime | None:
    """Return the time in an id, in UTC; None if a producer has chosen an id that is no time."""
    try:
        return EPOCH + timedelta(milliseconds=int(entry.partition("-")[0]))
    except OverflowError:
        return None


def _problem(field: str | None, given: Mapping[str, bytes]) -> str:
    """Return why an entry has no payload that can be read, "" if its fields are the payload."""
    if field is not None:
        return f"the entry has no field {field!r:.80}"
    for name, value in given.items():
        try:
            value.decode()
        except UnicodeDecodeError:
            return f"its field {name!r:.80} is not UTF-8"
    return ""


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")


def _pairs(row: Sequence[Any]) -> dict[str, Any]:
    """Return what XINFO says of one group or consumer."""
    return {name.decode(): value for name, value in zip(row[::2], row[1::2], strict=True)}
