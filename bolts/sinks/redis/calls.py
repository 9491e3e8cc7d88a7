"""One connection of a sink: scripts, and the wait for replicas. Knows Redis's commands; must not know records."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from topology.clients import redis
from topology.clients.tls import Tls
from topology.secrets import Secret

ANSWER_S: Final = 10.0  # seconds that an answer may take
REPLICAS_S: Final = 5.0  # seconds that one call waits for replicas
CALL_RECORDS: Final = 100  # records of one script, so that others' commands do not wait for long
ROUND_BYTES: Final = 8 << 20  # bytes that are sent before the answers are read


class RedisCalls:
    """The connection of one task, made again after an error."""

    def __init__(self, url: Secret, target: str, tls: Tls | None, wait_replicas: int) -> None:
        self.server = redis.RedisServer(url, needed_by="RedisSink", tls=tls, key=target)
        self._target, self._wait_replicas = target, wait_replicas
        self._link: redis.RedisLink | None = None

    async def open(self) -> str:
        """Connect if there is no connection. Return the type of the target's value then, else an empty text."""
        if self._link is not None and not self._link.is_lost:
            return ""
        await self.close()
        self._link, kind = await self.server.connect(answer_s=ANSWER_S, name="kedge")
        return kind

    async def all(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Send the commands and return the answers; see `RedisLink.call_all`."""
        assert self._link is not None, "open"
        return await self._link.call_all(commands)

    async def scripts(self, source: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Run a script for each call, which has the number of its keys, the keys and the arguments. Return what each
        has said: a list, or the text of an error for all of it."""
        digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        answers = await self.all([("EVALSHA", digest, *call) for call in calls])
        unknown = [
            at for at, each in enumerate(answers) if isinstance(each, redis.RedisRefusal) and each.code == "NOSCRIPT"
        ]
        if unknown:
            again = await self.all([("EVAL", source, *calls[at]) for at in unknown])
            for at, answer in zip(unknown, again, strict=True):
                answers[at] = answer
        said = [str(each) if isinstance(each, redis.RedisRefusal) else each for each in answers]
        for each in said:
            for answer in each if isinstance(each, list) else ():
                self._check(answer)
        return said

    def _check(self, said: Any) -> None:
        """Raise ServerAway for an error within a script that may pass."""
        if isinstance(said, bytes):
            found = self.server.explained(self.server.errors.ResponseError(said.decode(errors="replace")))
            if not isinstance(found, redis.RedisRefusal):
                raise found

    async def replicated(self) -> None:
        """Wait until the replicas have all that was written, if the sink asks for it. Raises ServerAway."""
        wanted = self._wait_replicas
        if not wanted:
            return
        # WAIT is about this connection's own writes, and what is known already may be another one's: so write last
        mark = ("SET", f"{tagged(self._target)}:kedge:wait", "1", "PX", 60_000)
        _, count = await self.all([mark, ("WAIT", wanted, int(REPLICAS_S * 1000))])
        if not isinstance(count, int) or count < wanted:
            raise self.server.away(f"{count} of {wanted} replicas have the last records after {REPLICAS_S:g} s")

    async def close(self) -> None:
        """End the connection."""
        used, self._link = self._link, None
        if used is not None:
            await used.close()


def tagged(target: str) -> str:
    """Return the begin of a key that a Redis Cluster keeps in the slot of the target."""
    _, brace, rest = target.partition("{")
    return target if brace and rest.partition("}")[0] and "}" in rest else f"{{{target}}}"


def rounds(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each part that is sent at once: as many as fit into ROUND_BYTES, and one at least."""
    begin = total = 0
    for at, size in enumerate(sizes):
        if total and total + size > ROUND_BYTES:
            yield begin, at
            begin, total = at, 0
        total += size
    if begin < len(sizes):
        yield begin, len(sizes)


def flat(said: Sequence[Any], parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Return what was said of each record; what was said of a whole script counts for each of its records."""
    return [
        answer
        for each, part in zip(said, parts, strict=True)
        for answer in (each if isinstance(each, list) else [each] * len(part))
    ]
