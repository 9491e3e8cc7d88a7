"""From a topic of Kafka through a count by key to another topic, or to a file, for runs whose workers are killed.

Run by `test_kafka_runs`."""

from collections.abc import Iterator
from typing import Any

from bolts import SqliteSink
from bolts.sinks.kafka.sink import KafkaSink
from spouts import Paced
from spouts.kafka.source import KafkaSource
from topology import Bolt, Record, State, Topology
from topology.testing.sources import SourceItem


class KafkaCounted(Record):
    number: int
    times: int


class CountKafka(Bolt):
    """Counts each number: what is processed twice would be a second message with another count."""

    def process(self, item: SourceItem, state: State[int]) -> Iterator[KafkaCounted]:
        times = state.get(0) + 1
        state.set(times)
        yield KafkaCounted(item.number, times)


def topology(
    brokers: str,
    topic: str,
    target: str = "",
    store: str = "",
    follow: bool = True,
    rate: int = 0,
    begin: str = "earliest",
) -> Topology:
    topology = Topology("kafka-runs")
    made: Any = KafkaSource(brokers, topic, value=SourceItem, follow=follow, begin=begin)  # type: ignore[arg-type]
    source = topology.spout("items", Paced(made, rate) if rate else made, tasks=2)
    counted = topology.bolt("count", CountKafka(), source.fields("number"), tasks=2)
    if target:
        topology.bolt("send", KafkaSink(brokers, target, key="number"), counted.shuffle())
    if store:
        topology.bolt("store", SqliteSink(store), counted.shuffle())
    return topology
