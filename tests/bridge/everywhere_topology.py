"""What runs wherever Spark does: numbered records, counted by a query and by `windowed`, into a table each. And a batch
join of them, where that is wanted: it does not run over Spark Connect."""

from datetime import datetime
from typing import Any

from batch_topology import Matched, owners
from spark_topology import Counted, Numbered, by_window, numbered

from bolts import SqliteSink
from bridge import batch_joined, count, spark_query, sum_of, windowed
from spouts import Items
from topology import Record, Topology


class Windowed(Record):
    start: datetime
    key: str
    number: int
    total: int


def topology(store: str, records: int = 5_000, ready: bool = True, batch: bool = False) -> Topology:
    """`ready`: whether `windowed` counts, beside the query; `batch`: whether there is a batch join."""
    topology = Topology("everywhere")
    stream: Any = topology.spout("numbered", Items(numbered(records)))
    counted = spark_query(topology, "query", {"numbered": stream[Numbered]}, by_window, output=Counted)
    topology.bolt("store", SqliteSink(store, records=[Counted]), counted.global_())
    if ready:
        found = windowed(
            topology,
            "windowed",
            stream,
            at="at",
            by="key",
            every="10 minutes",
            watermark="1 hour",
            aggregates={"number": count(), "total": sum_of("number")},
            output=Windowed,
        )
        topology.bolt("store-windowed", SqliteSink(store + "-windowed", records=[Windowed]), found.global_())
    if batch:
        other = topology.spout("owners", Items(owners()))
        matched = batch_joined(
            topology, "matched", stream, other=other, on="key", how="left", output=Matched, revision="job"
        )
        topology.bolt("store-matched", SqliteSink(store + "-matched", records=[Matched]), matched.global_())
    return topology
