"""From a table of PostgreSQL to another through a count by number, for runs whose workers are killed."""

from collections.abc import Iterator

from bolts import PostgresSink
from spouts.postgres.source import PostgresSource
from topology import Bolt, Record, Secret, State, Topology
from topology.testing.sources import SourceItem


class CountedRow(Record):
    number: int
    times: int


class CountRows(Bolt):
    """Counts each number: what is processed twice would be a second row with another count."""

    def process(self, item: SourceItem, state: State[int]) -> Iterator[CountedRow]:
        times = state.get(0) + 1
        state.set(times)
        yield CountedRow(item.number, times)


def topology(dsn: Secret, schema: str, outbox: bool = False, follow: bool = True) -> Topology:
    topology = Topology("postgres-runs")
    source = PostgresSource(dsn, table=f"{schema}.item", value=SourceItem, outbox=outbox, notify="items", follow=follow)
    items = topology.spout("items", source, tasks=2)
    counted = topology.bolt("count", CountRows(), items.fields("number"), tasks=2)
    topology.bolt("store", PostgresSink(dsn, schema=schema, table="counted"), counted.shuffle())
    return topology
