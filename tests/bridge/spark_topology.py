"""The whole way through Spark, for runs of the command: numbered records, counted by key and window, into a table."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slow_kit import Slowly

from bolts import SqliteSink
from bridge import spark_query
from topology import Bolt, Record, Topology

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


class Numbered(Record):
    at: datetime
    key: str
    number: int


class Numbers(Slowly[Numbered]):
    """There may be none of them, and then they are numbers all the same."""

    def emits(self) -> tuple[type[Numbered], ...]:
        return (Numbered,)


class Counted(Record):
    start: datetime
    key: str
    count: int
    total: int


class Checked(Record):
    start: datetime
    key: str
    count: int
    total: int


class Check(Bolt):
    """A result passes a bolt of the topology, as an alert on it would."""

    def process(self, given: Counted) -> Iterator[Checked]:
        yield Checked(given.start, given.key, given.count, given.total)


def numbered(count: int) -> list[Numbered]:
    """One a second, of seven keys: the 2,000 that may be under way at once, in any order, are within an hour."""
    return [Numbered(FIRST + timedelta(seconds=one), f"key{one % 7}", one) for one in range(count)]


def by_window(given: Any) -> Any:
    from pyspark.sql.functions import col, count, sum, window

    groups = given.withWatermark("at", "1 hour").groupBy(window("at", "10 minutes").alias("w"), "key")
    found = groups.agg(count("*").alias("count"), sum("number").alias("total"))
    return found.select(col("w.start").alias("start"), "key", "count", "total")


def raising(given: Any) -> Any:
    raise ValueError("no such window")


def topology(store: str, count: int = 5_000, rate: float = 0.0, tasks: int = 1, raises: bool = False) -> Topology:
    topology, items = Topology("counted"), Numbers(numbered(count), rate, Path(store).with_name("hurry"))
    stream = topology.spout("numbered", items)
    query = raising if raises else by_window
    counted = spark_query(topology, "windows", {"numbered": stream}, query, output=Counted, tasks=tasks)
    checked = topology.bolt("check", Check(), counted.shuffle())
    topology.bolt("store", SqliteSink(store, records=[Checked]), checked.global_())
    return topology
