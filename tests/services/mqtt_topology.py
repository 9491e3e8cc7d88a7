"""From an MQTT topic to another through a count by key, for runs whose workers are killed.

Run by `test_mqtt_runs`."""

from collections.abc import Iterator

from bolts import SqliteSink
from bolts.sinks.servers.mqtt import MqttSink
from spouts.payload.formats import Json
from spouts.servers.mqtt import MqttSource
from topology import Bolt, Record, State, Topology
from topology.testing.sources import SourceItem


class MqttCounted(Record):
    number: int
    times: int


class CountMqtt(Bolt):
    """Counts each number: what is processed twice would be a second message with another count."""

    def process(self, item: SourceItem, state: State[int]) -> Iterator[MqttCounted]:
        times = state.get(0) + 1
        state.set(times)
        yield MqttCounted(item.number, times)


def topology(url: str, topic: str, target: str, store: str) -> Topology:
    topology = Topology("mqtt-runs")
    source = MqttSource(url, topic, value=Json(SourceItem, id="number"))
    counted = topology.bolt("count", CountMqtt(), topology.spout("items", source).fields("number"), tasks=2)
    topology.bolt("send", MqttSink(url, target), counted.shuffle())
    topology.bolt("store", SqliteSink(store), counted.shuffle())
    return topology
