"""`RedisSink`: the arguments of a sink on Redis, and what it promises. Must not know batches, nor Redis's commands."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, Literal, get_args

from bolts.sinks.batching import BATCH
from bolts.sinks.contract import AsyncSinkStore
from bolts.sinks.publishing.bodies import Body
from bolts.sinks.publishing.publisher import Publisher
from bolts.sinks.publishing.sink import PublishingSink
from bolts.sinks.redis.calls import RedisCalls
from bolts.sinks.redis.hashes import RedisHashes
from bolts.sinks.redis.publisher import RedisPublisher, Target
from bolts.sinks.upsert import upsert_of
from topology.clients.errors import invalid
from topology.clients.redis import checked_url
from topology.clients.tls import Tls
from topology.secrets import Secret

Kind = Literal["stream", "hash", "channel"]

REMEMBERS_S: Final = 900.0  # seconds for which a stream's sink knows its outputs, if the user does not say
REMEMBERS_MAX_S: Final = 10 * 365 * 24 * 3600.0  # seconds


class RedisSink(PublishingSink):
    """Store each record in Redis, and ack it when Redis has answered.

        topology.bolt("alerts", RedisSink("redis://127.0.0.1:6379", "alerts"), alerts.shuffle())

    **stream**: one entry for each record, with the fields `data` (the body), `kedge-record` (the record's class) and
    `kedge-key`. Beside it the sink sets a key `{alerts}:kedge:KEY`, which expires after `remembers_s`: what comes again
    in that time is not added again. A key takes about 150 bytes of the server's memory. In a Redis Cluster the braces
    keep it on the stream's node.

    **hash**: one hash for each value of the fields in `key`, under `TARGET:VALUE`, or `TARGET:VALUE:VALUE`. It has the
    record's fields as texts; a field that is None is left out. The highest `revision` stays, in whatever order the
    records come. One record class for a sink. In a Redis Cluster, put the target in braces: "{latest}".

    **channel**: one PUBLISH for each record. Only who listens at that moment gets it, and a replay may send it twice.

    **Redis itself may lose what it has acked**: it has it on the disk only with `appendonly yes`, and on replicas only
    with `wait_replicas`.

    url      redis://USER:PASSWORD@HOST:PORT/DATABASE, or rediss://. A Secret, if it has a password.
    target   The key of the stream, the begin of the hashes' keys, or the channel.
    kind     "stream", "hash" or "channel".
    key      Of hashes: the fields that name one.
    revision Of hashes: the field whose highest value stays, an int or a datetime.
    max_length  Of a stream: about how many entries it keeps, the newest ones. None: all.
    remembers_s  Of a stream: seconds for which an output is known. 0: it is not, and a replay may add it twice.
    body     Of streams and channels: a function that makes the body of a record, as bytes or str. None: a JSON object.
    wait_replicas  Of streams and hashes: an ack waits until so many replicas have the record.
    tls      Certificates; None: those of the system if the URL begins with rediss://.
    batch, within_ms  As in `SqliteSink`.
    """

    durability: ClassVar[str] = "Redis's answer: on its disk only with appendonly yes"

    def __init__(
        self,
        url: str | Secret,
        target: str,
        *,
        kind: Kind = "stream",
        key: Sequence[str] = (),
        revision: str | None = None,
        max_length: int | None = None,
        remembers_s: float = REMEMBERS_S,
        body: Body | None = None,
        wait_replicas: int = 0,
        tls: Tls | None = None,
        batch: int = BATCH,
        within_ms: float = 2.0,
    ) -> None:
        super().__init__(body=body, batch=batch, within_ms=within_ms)
        self.url = checked_url("RedisSink", url, tls)
        if not isinstance(target, str) or not target:
            raise invalid(f"RedisSink: target is a text that is not empty, not {target!r:.80}")
        if kind not in get_args(Kind):
            raise invalid(f'RedisSink: kind is "stream", "hash" or "channel", not {kind!r:.80}')
        if not isinstance(remembers_s, int | float) or not 0 <= remembers_s <= REMEMBERS_MAX_S:
            raise invalid(f"RedisSink: remembers_s is a number of seconds, or 0, not {remembers_s!r:.80}")
        if max_length is not None and (type(max_length) is not int or max_length < 1):
            raise invalid(f"RedisSink: max_length is a number of entries of at least 1, not {max_length!r:.80}")
        if type(wait_replicas) is not int or wait_replicas < 0:
            raise invalid(f"RedisSink: wait_replicas is a number of replicas, or 0, not {wait_replicas!r:.80}")
        if kind != "stream" and remembers_s != REMEMBERS_S:
            raise invalid('RedisSink: remembers_s belongs to kind="stream"')
        self._check_kind(kind, bool(key or revision), max_length, body, wait_replicas)
        self.target, self.kind, self.max_length = target, kind, max_length
        self.wait_replicas, self.tls = wait_replicas, tls
        if kind == "hash":
            self.upsert = upsert_of("RedisSink", "upsert", key, revision)
        self.remembers_s = (remembers_s or None) if kind == "stream" else None
        self.drops_replays = kind == "hash" or self.remembers_s is not None
        self._hashes: RedisHashes | None = None

    @staticmethod
    def _check_kind(kind: Kind, keyed: bool, max_length: int | None, body: Body | None, wait_replicas: int) -> None:
        """Raise ConfigurationError for arguments of another kind."""
        if kind != "hash" and keyed:
            raise invalid('RedisSink: key and revision belong to kind="hash"')
        if kind != "stream" and max_length is not None:
            raise invalid('RedisSink: max_length belongs to kind="stream"')
        if kind == "hash" and body is not None:
            raise invalid('RedisSink: a hash has the fields of its record; body belongs to kind="stream" and "channel"')
        if kind == "channel" and wait_replicas:
            raise invalid("RedisSink: a channel stores nothing, so wait_replicas does not belong to it")

    def _make_publisher(self) -> Publisher:
        return RedisPublisher(self._calls(), Target(self.kind, self.target, self.max_length, self.remembers_s))

    def _make_store(self) -> AsyncSinkStore:
        if self.upsert is None:
            return super()._make_store()
        self._hashes = RedisHashes(self._calls(), self.target, self.upsert)
        return self._hashes

    def _calls(self) -> RedisCalls:
        return RedisCalls(self.url, self.target, self.tls, self.wait_replicas)

    def summary(self) -> Iterable[str]:
        """Yield the number of records, and where they went."""
        if self._hashes is not None:
            yield f"{self.stored:,} stored, {self.duplicates:,} known already, in {self._hashes.where}"
        else:
            yield from super().summary()
