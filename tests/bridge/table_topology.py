"""Numbered records joined with a table at rest, whichever is named."""

from pathlib import Path

from spark_topology import Numbers, numbered

from bolts import SqliteSink
from bridge import Table, joined
from topology import Record, Topology


class Owned(Record):
    number: int
    key: str
    owner: str | None


def topology(store: str, table: str, count: int = 100) -> Topology:
    topology = Topology("owned")
    stream = topology.spout("numbered", Numbers(numbered(count), 0.0, Path(store).with_name("hurry")))
    owned = joined(topology, "owned", stream, table=Table(table), on="key", output=Owned)
    topology.bolt("store", SqliteSink(store), owned.global_())
    return topology
