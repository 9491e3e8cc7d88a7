"""From one queue of RabbitMQ to another through a count by key, for runs whose workers are killed.

Run by `test_amqp_runs`."""

from collections.abc import Iterator

from bolts import SqliteSink
from bolts.sinks.servers.amqp import AmqpSink
from spouts.servers.amqp import AmqpSource
from topology import Bolt, Record, State, Topology
from topology.testing.sources import SourceItem


class AmqpCounted(Record):
    number: int
    times: int


class CountAmqp(Bolt):
    """Counts each number: what is processed twice would be a second message with another count."""

    def process(self, item: SourceItem, state: State[int]) -> Iterator[AmqpCounted]:
        times = state.get(0) + 1
        state.set(times)
        yield AmqpCounted(item.number, times)


def topology(url: str, queue: str, target: str, store: str, prefetch: int = 10_000) -> Topology:
    topology = Topology("amqp-runs")
    source = AmqpSource(url, queue, value=SourceItem, requires_ids=True, prefetch=prefetch)
    counted = topology.bolt("count", CountAmqp(), topology.spout("items", source).fields("number"), tasks=2)
    topology.bolt("send", AmqpSink(url, routing_key=target), counted.shuffle())
    topology.bolt("store", SqliteSink(store), counted.shuffle())
    return topology
