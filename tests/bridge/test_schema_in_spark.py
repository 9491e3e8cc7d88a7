"""Records of every type through Spark itself, there and back: Arrow to its rows, a shuffle, and Arrow again."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from schema_kit import Colour, Level, Place, classes_with_records
from spark_kit import needs_spark

from bridge.arrow.schema import arrow_schema, fits, from_table, to_table
from topology.records import Record

pytestmark = [needs_spark, pytest.mark.timeout(300)]


class Inner(Record):
    name: str
    at: datetime | None
    places: tuple[Place, ...]


class All(Record):
    number: int
    value: float
    flag: bool
    text: str
    data: bytes
    at: datetime
    price: Decimal
    colour: Colour
    level: Level
    choice: Literal["a", "b"]
    inner: Inner
    pair: tuple[int, str]
    words: tuple[str, ...]
    tags: frozenset[int]
    maybe: int | None
    maybe_at: datetime | None
    maybe_inner: Inner | None
    maybe_words: tuple[str | None, ...] | None


LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
FULL = All(
    *(2**63 - 1, -0.5, True, "ünï\0cödé 🜂", b"\x00\xff", LAST, Decimal("-99999999999999999999.999999999999999999")),
    *(Colour.BLUE, Level.HIGH, "b", Inner("x", LAST, (Place("p", 1.5, frozenset("ab")), Place("q", None)))),
    *((-(2**63), "y"), ("a", ""), frozenset([1, 2, 3]), 7, LAST, Inner("z", None, ()), ("a", None)),
)
BARE = All(
    *(-(2**63), 1e308, False, "", b"", datetime(1, 1, 1, tzinfo=UTC), Decimal("0.000000000000000001")),
    *(Colour.RED, Level.LOW, "a", Inner("", None, ()), (0, ""), (), frozenset[int](), None, None, None, None),
)


def through(spark: Any, cls: Any, records: list[Any]) -> list[Any]:
    """Through Spark, and a shuffle in it; in the order of the numbers that they are given here."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    table = pa.Table.from_batches([to_table(cls, records)])
    numbered = table.append_column("_order", pa.array(range(len(records)), pa.int64()))
    frame = spark.createDataFrame(numbered, from_arrow_schema(numbered.schema))
    given = frame.repartition(2, "_order").toArrow().sort_by("_order").drop_columns("_order")
    return from_table(cls, given)


def test_each_type_comes_back_from_spark_as_it_was(session: Any) -> None:
    assert through(session, All, [FULL, BARE, FULL]) == [FULL, BARE, FULL]


def test_records_of_any_types_come_back_from_spark_as_they_were(session: Any) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(classes_with_records())
    def check(drawn: tuple[Any, list[Any]]) -> None:
        cls, records = drawn
        assert through(session, cls, records) == records

    check()


@settings(max_examples=100, deadline=None)
@given(classes_with_records())
def test_what_spark_makes_of_a_schema_is_read_as_the_same_class(drawn: tuple[Any, list[Any]]) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    ours = arrow_schema(drawn[0])
    theirs = to_arrow_schema(from_arrow_schema(ours), timezone="UTC")
    assert all(fits(theirs.field(field.name).type, field.type) for field in ours)


def test_what_spark_computes_is_read_in_its_own_widths(session: Any) -> None:
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    class Given(Record):
        at: datetime
        name: str
        size: int
        price: Decimal

    class Made(Record):
        start: datetime
        name: str
        count: int
        total: int
        mean: float
        first: datetime
        most: Decimal
        names: tuple[str, ...]

    import pyarrow as pa

    rows = [Given(datetime(2026, 1, 1, 1, minute, tzinfo=UTC), "a", minute, Decimal(minute)) for minute in range(3)]
    table = pa.Table.from_batches([to_table(Given, rows)])
    frame = session.createDataFrame(table, from_arrow_schema(table.schema))
    made = frame.groupBy(f.window("at", "1 hour").alias("w"), "name").agg(
        *(f.count("*").alias("count"), f.sum("size").alias("total"), f.avg("size").alias("mean")),
        *(f.min("at").alias("first"), f.max("price").alias("most"), f.collect_set("name").alias("names")),
    )
    given = made.select(f.col("w.start").alias("start"), "name", "count", "total", "mean", "first", "most", "names")
    start = datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert from_table(Made, given.toArrow()) == [Made(start, "a", 3, 3, 1.0, start, Decimal(2), ("a",))]
