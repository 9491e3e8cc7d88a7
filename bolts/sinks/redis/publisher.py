"""Streams and channels: an entry or a message for each record. Must not know batches, nor how one connects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bolts.sinks.publishing.publisher import Outgoing, Published
from bolts.sinks.redis.calls import CALL_RECORDS, RedisCalls, flat, rounds, tagged
from bolts.sinks.redis.scripts import DATA, KEY, RECORD, STREAM
from topology.clients import redis
from topology.clients.errors import ServerAway, refused
from topology.errors import ConfigurationError

BODY_MAX: Final = 512 << 20  # bytes that a text in Redis may have, by its own default


@dataclass(frozen=True)
class Target:
    """A stream or a channel, and what `RedisSink` says of it."""

    kind: str
    name: str
    max_length: int | None
    remembers_s: float | None


class RedisPublisher:
    """Streams and channels; see `Publisher`.

    A call that is made again, as the replicas are too slow, adds no entry again that Redis has answered on the same
    connection. After a lost connection it does: a server that was restarted, or a replica that took over, may lack it.
    """

    def __init__(self, calls: RedisCalls, target: Target) -> None:
        self._calls, self._to = calls, target
        self._added: set[str] = set()  # keys of entries that this connection has added, without replicas' answers yet
        self.where = f"{target.kind} {target.name} of {calls.server.where}"

    async def open(self) -> None:
        """See `Publisher.open`. Also checks that the target is a stream or free, and what this user may do."""
        to = self._to
        found = await self._calls.open()
        if not found:
            return
        self._added.clear()
        if to.kind == "channel":
            return
        try:
            if found not in ("none", "stream"):
                raise refused(f"RedisSink: {to.name!r} of {self._calls.server.where} is a {found}, and no stream")
            # neither command does anything, except that Redis looks at what this user may do
            await self._calls.all([("XADD", to.name, "NOMKSTREAM", "0-0", DATA, ""), self._marked("", "XX")])
            if to.remembers_s:
                await self._calls.scripts(STREAM, [self._call([])])
        except (ServerAway, ConfigurationError):
            await self._calls.close()
            raise

    async def publish(self, messages: Sequence[Outgoing]) -> Published:
        """See `Publisher.publish`."""
        published = Published({})
        await self.open()
        self._added &= {message.key for message in messages}
        for begin, end in rounds([len(message.body) for message in messages]):
            part = messages[begin:end]
            for at, said in enumerate(await self._sent(part), begin):
                if isinstance(said, redis.RedisRefusal | str | bytes):
                    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
                    published.refused[at] = f"Redis refuses it: {text}"
                else:
                    published.known += said == 0
        await self._calls.replicated()
        self._added.clear()
        return published

    async def _sent(self, messages: Sequence[Outgoing]) -> list[Any]:
        """Send the messages. Return for each 1, 0 if it was known already, or why it was refused."""
        to = self._to
        if any(len(message.body) > BODY_MAX for message in messages):
            return [f"it has more than {BODY_MAX:,} bytes"] * len(messages)  # alone: it is a round by itself
        if to.kind == "channel":
            answers = await self._calls.all([("PUBLISH", to.name, message.body) for message in messages])
            return [each if isinstance(each, redis.RedisRefusal) else 1 for each in answers]
        if not to.remembers_s:
            return await self._appended(messages)
        parts = [messages[at : at + CALL_RECORDS] for at in range(0, len(messages), CALL_RECORDS)]
        said = await self._calls.scripts(STREAM, [self._call(part) for part in parts])
        return flat(said, parts)

    async def _appended(self, messages: Sequence[Outgoing]) -> list[Any]:
        """Add an entry for each message of which this call has none yet. Return as `_sent` does."""
        to = self._to
        length = () if to.max_length is None else ("MAXLEN", "~", to.max_length)
        fresh = [message for message in messages if message.key not in self._added]
        adds = [("XADD", to.name, *length, "*", *_fields(message)) for message in fresh]
        answers = await self._calls.all(adds) if adds else []
        refused = {
            message.key: answer
            for message, answer in zip(fresh, answers, strict=True)
            if isinstance(answer, redis.RedisRefusal)
        }
        self._added |= {message.key for message in fresh} - refused.keys()
        return [refused.get(message.key, 1) for message in messages]

    def _call(self, messages: Sequence[Outgoing]) -> list[Any]:
        to = self._to
        keys = [to.name, *[self._key(message.key) for message in messages]]
        values = [value for message in messages for value in _fields(message)[1::2]]
        return [len(keys), *keys, int((to.remembers_s or 0) * 1000), to.max_length or 0, *values]

    def _key(self, key: str) -> str:
        return f"{tagged(self._to.name)}:kedge:{key}"

    def _marked(self, key: str, how: str) -> tuple[Any, ...]:
        return ("SET", self._key(key), "1", how, "PX", 1_000)

    async def close(self) -> None:
        """See `Publisher.close`."""
        await self._calls.close()


def _fields(message: Outgoing) -> tuple[Any, ...]:
    return (DATA, message.body, KEY, message.key, RECORD, type(message.record).__name__)
