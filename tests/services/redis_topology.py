"""From one stream of Redis through a count by key to another one, to hashes and to SQLite, for runs whose workers are
killed. Run by `test_redis_runs`."""

from collections.abc import Iterator

from bolts import SqliteSink
from bolts.sinks.redis.sink import RedisSink
from spouts.servers.redis import RedisStreamSource
from topology import Bolt, Record, State, Topology
from topology.testing.sources import SourceItem


class RedisCounted(Record):
    number: int
    times: int


class CountRedis(Bolt):
    """Counts each number: what is processed twice would be a second message with another count."""

    def process(self, item: SourceItem, state: State[int]) -> Iterator[RedisCounted]:
        times = state.get(0) + 1
        state.set(times)
        yield RedisCounted(item.number, times)


def topology(url: str, stream: str, target: str, store: str, tasks: int = 1) -> Topology:
    topology = Topology("redis-runs")
    source = RedisStreamSource(url, stream, value=SourceItem)
    items = topology.spout("items", source, tasks=tasks)
    counted = topology.bolt("count", CountRedis(), items.fields("number"), tasks=2)
    topology.bolt("send", RedisSink(url, target), counted.shuffle(), tasks=2)
    latest = RedisSink(url, f"{target}-latest", kind="hash", key=("number",), revision="times")
    topology.bolt("latest", latest, counted.fields("number"), tasks=2)
    topology.bolt("store", SqliteSink(store), counted.shuffle())
    return topology
