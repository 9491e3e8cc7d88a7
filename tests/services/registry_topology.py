"""From Avro messages of Kafka through a count by key to Avro messages, for runs whose workers are killed.

Run by `test_kafka_registry_runs`."""

from kafka_topology import CountKafka, KafkaCounted

from bolts.sinks.kafka.sink import KafkaSink
from spouts.kafka.source import KafkaSource
from topology import Secret, Topology
from topology.clients.registry.registry import SchemaRegistry
from topology.testing.sources import SourceItem


def topology(brokers: str, topic: str, target: str, url: str, password: Secret) -> Topology:
    registry = SchemaRegistry(url, user="ann", password=password)
    topology = Topology("registry-runs")
    source = topology.spout("items", KafkaSource(brokers, topic, value=registry.avro(SourceItem)), tasks=2)
    counted = topology.bolt("count", CountKafka(), source.fields("number"), tasks=2)
    body = registry.avro_body(KafkaCounted, subject=f"{target}-value")
    topology.bolt("send", KafkaSink(brokers, target, body=body, key="number"), counted.shuffle())
    return topology
