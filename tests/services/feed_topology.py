"""From a `FeedServer` through a count by key to a table, for runs whose workers are killed: see `test_sse_source`."""

import json
from collections.abc import Iterator

from bolts import SqliteSink
from spouts.http.sse import SseSource
from spouts.http.websocket import WebSocketSource
from spouts.payload.formats import Json
from topology import Bolt, Record, State, Topology
from topology.testing.sources import SourceItem


class IngestCount(Record):
    number: int
    times: int


class CountFed(Bolt):
    """Counts each number: what is processed twice would be a second row with another count."""

    def process(self, item: SourceItem, state: State[int]) -> Iterator[IngestCount]:
        times = state.get(0) + 1
        state.set(times)
        yield IngestCount(item.number, times)


def begin_at(last: str | None) -> str:
    return json.dumps({"from": last})


def topology(url: str, path: str) -> Topology:
    topology = Topology("feed-runs")
    source: SseSource[SourceItem] | WebSocketSource[SourceItem]
    if url.startswith("ws"):
        source = WebSocketSource(url, value=Json(SourceItem, id="number"), resume=begin_at)
    else:
        source = SseSource(url, value=SourceItem)
    counted = topology.bolt("count", CountFed(), topology.spout("items", source).fields("number"), tasks=2)
    topology.bolt("store", SqliteSink(path), counted.shuffle())
    return topology
