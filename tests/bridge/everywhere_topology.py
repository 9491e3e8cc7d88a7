"""What runs wherever Spark does: numbered records, counted by a query and by `windowed`, into a table each."""

from datetime import datetime
from typing import Any

from spark_topology import Counted, Numbered, by_window, numbered

from bolts import SqliteSink
from bridge import count, spark_query, sum_of, windowed
from spouts import Items
from topology import Record, Topology


class Windowed(Record):
    start: datetime
    key: str
    number: int
    total: int


def topology(store: str, records: int = 5_000) -> Topology:
    topology = Topology("everywhere")
    stream: Any = topology.spout("numbered", Items(numbered(records)))
    counted = spark_query(topology, "query", {"numbered": stream[Numbered]}, by_window, output=Counted)
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
    topology.bolt("store", SqliteSink(store, records=[Counted]), counted.global_())
    topology.bolt("store-windowed", SqliteSink(store + "-windowed", records=[Windowed]), found.global_())
    return topology
