"""From `HttpIngest` through a count by key to a table: `test_http_ingest_runs` kills its workers."""

import asyncio
from collections.abc import Iterator

from bolts import SqliteSink
from spouts.http.ingest import HttpIngest
from topology import Bolt, Config, Record, Reject, State, Topology
from topology.testing.sources import SourceItem


class IngestCount(Record):
    number: int
    times: int


class CountItem(Bolt):
    """Counts each number. A bad 13 is rejected, and what is slow takes its time."""

    async def process(self, item: SourceItem, state: State[int]) -> Iterator[IngestCount]:
        if item.number == 13 and item.text == "bad":
            raise Reject("13")
        if item.text == "slow":
            await asyncio.sleep(1.5)
        times = state.get(0) + 1
        state.set(times)
        return iter([IngestCount(item.number, times)])


class Stamp(Bolt):
    """Keeps no state: only the sink knows what it has."""

    def process(self, item: SourceItem) -> Iterator[IngestCount]:
        yield IngestCount(item.number, 1)


def topology(port: int, path: str, tasks: int = 1, durability: str = "disk", counts: bool = True) -> Topology:
    topology = Topology("http-runs", Config(durability=durability))  # type: ignore[arg-type]
    items = topology.spout("items", HttpIngest(port, value=SourceItem), tasks=tasks)
    counted = topology.bolt("count", CountItem() if counts else Stamp(), items.fields("number"), tasks=2)
    topology.bolt("store", SqliteSink(path), counted.shuffle())
    return topology
