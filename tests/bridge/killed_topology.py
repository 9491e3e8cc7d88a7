"""All that Spark does for a topology at once, for runs whose processes are killed: a query of one's own, `windowed` and
`joined`, of the same numbered records, into one idempotent store."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slow_kit import Slowly

from bolts import SqliteSink
from bridge import Spark, Table, count, joined, max_of, min_of, spark_query, sum_of, windowed
from topology import Bolt, Record, Topology
from topology.graph import Stream

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = 600  # records, one a second, of a window of ten minutes
KEYS = 7
OWNERS = {f"key{one}": f"owner{one}" for one in range(0, KEYS, 2)}


class Numbered(Record):
    at: datetime
    key: str
    number: int


class Members(Record):
    """A window, with the set of its numbers."""

    start: datetime
    count: int
    total: int
    numbers: tuple[int, ...]


class Member(Record):
    """One of them: a table of these has no place for a number that came twice, or did not come."""

    start: datetime
    count: int
    total: int
    number: int


class Bounds(Record):
    start: datetime
    key: str
    count: int
    total: int
    least: int
    most: int


class Known(Record):
    number: int
    key: str
    owner: str | None


class Each(Bolt):
    """The numbers of a window, one by one."""

    def process(self, given: Members) -> Iterator[Member]:
        for number in given.numbers:
            yield Member(given.start, given.count, given.total, number)


def numbered(numbers: range) -> list[Numbered]:
    """The 2,000 that may be under way at once, in any order, are within an hour."""
    return [Numbered(FIRST + timedelta(seconds=one), f"key{one % KEYS}", one) for one in numbers]


def members(given: Any) -> Any:
    from pyspark.sql import functions as f

    windows = given.withWatermark("at", "1 hour").groupBy(f.window("at", "10 minutes").alias("w"))
    found = windows.agg(
        f.count("*").alias("count"), f.sum("number").alias("total"), f.collect_list("number").alias("numbers")
    )
    return found.select(f.col("w.start").alias("start"), "count", "total", "numbers")


def owners(session: Any) -> Any:
    return session.createDataFrame([*OWNERS.items()], "key string, owner string")


def declare(topology: Topology, stream: Stream[Any], tasks: int) -> tuple[Stream[Any], Stream[Any], Stream[Any]]:
    """All three."""
    given = spark_query(topology, "members", {"numbered": stream}, members, output=Members, tasks=tasks)
    bounds = windowed(
        topology,
        "bounds",
        stream,
        at="at",
        by="key",
        every="10 minutes",
        watermark="1 hour",
        aggregates={"count": count(), "total": sum_of("number"), "least": min_of("number"), "most": max_of("number")},
        output=Bounds,
        tasks=tasks,
    )
    known = joined(
        topology, "known", stream, table=Table(owners, refresh="5 seconds"), on="key", output=Known, tasks=tasks
    )
    return given, bounds, known


def topology(store: str, count: int = 200_000, rate: float = 0.0, tasks: int = 2) -> Topology:
    topology, items = Topology("killed"), Slowly(numbered(range(count)), rate, Path(store).with_name("hurry"))
    topology.companion(Spark("local[2]"))
    stream = topology.spout("numbered", items)
    given, bounds, known = declare(topology, stream, tasks)
    each = topology.bolt("each", Each(), given.shuffle())
    root, extension = os.path.splitext(store)
    topology.bolt("store-members", SqliteSink(store, records=[Member]), each.global_())
    topology.bolt("store-bounds", SqliteSink(f"{root}-bounds{extension}", records=[Bounds]), bounds.global_())
    topology.bolt("store-known", SqliteSink(f"{root}-known{extension}", records=[Known]), known.global_())
    return topology
