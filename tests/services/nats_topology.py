"""From one stream of NATS to another through a count by key: `test_nats_runs` kills its workers."""

from collections.abc import Iterator

from bolts.sinks.servers.nats import NatsSink
from spouts.servers.nats import NatsSource
from topology import Bolt, Record, State, Topology
from topology.testing.sources import SourceItem


class Counted(Record):
    number: int
    times: int


class Count(Bolt):
    """Counts each number: what is processed twice would be a second message with another count."""

    def process(self, item: SourceItem, state: State[int]) -> Iterator[Counted]:
        times = state.get(0) + 1
        state.set(times)
        yield Counted(item.number, times)


def topology(stream: str, target: str) -> Topology:
    url = "nats://127.0.0.1:4222"
    topology = Topology("nats-runs")
    source = NatsSource(url, stream, value=SourceItem)
    counted = topology.bolt("count", Count(), topology.spout("items", source).fields("number"), tasks=2)
    topology.bolt("store", NatsSink(url, f"{target}.counted", remembers_s=900), counted.shuffle())
    return topology
