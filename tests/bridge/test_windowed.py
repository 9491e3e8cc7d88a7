"""`windowed`, each aggregate and each kind of window, in Spark against plain Python; and what it refuses."""

import statistics
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import structs

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")
pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

from queries_kit import Queries
from spark_kit import needs_spark

from bridge import (
    Aggregate,
    approx_distinct,
    approx_quantile,
    count,
    distinct,
    earliest,
    latest,
    max_of,
    mean_of,
    min_of,
    sum_of,
    windowed,
)
from bridge.queries.windows import Windows
from spouts import Items
from topology import ConfigurationError, Record, Topology

pytestmark = pytest.mark.timeout(300)

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Sale(Record):
    at: datetime
    shop: str
    user: str | None
    amount: float
    pieces: int
    price: Decimal


class Hour(Record):
    start: datetime
    end: datetime
    shop: str
    sales: int
    pieces: int
    total: float
    least: float
    most: datetime
    mean: float
    first: str | None
    last: str | None
    users: int
    median: float
    paid: Decimal
    revision: int


AGGREGATES: dict[str, Aggregate] = {
    "sales": count(),
    "pieces": sum_of("pieces"),
    "total": sum_of("amount"),
    "least": min_of("amount"),
    "most": max_of("at"),
    "mean": mean_of("amount"),
    "first": earliest("user"),
    "last": latest("user"),
    "users": approx_distinct("user"),
    "median": approx_quantile("amount", 0.5),
    "paid": sum_of("price"),
}
NAMES = tuple(name for name in Hour.__struct_fields__ if name != "revision")


def sales(number: int, seed: int = 7) -> list[Sale]:
    """In order of their times, no two at the same one."""
    random = Random(seed)
    return [
        Sale(
            FIRST + timedelta(seconds=37 * one),
            random.choice("abc"),
            random.choice(["u1", "u2", "u3", "u4"]),
            float(random.randrange(1000)),
            random.randrange(9),
            Decimal(random.randrange(10_000)) / 100,
        )
        for one in range(number)
    ]


def told(start: datetime, end: datetime, shop: str, some: list[Sale], revision: int = 0) -> Hour:
    amounts = sorted(one.amount for one in some)
    return Hour(
        start,
        end,
        shop,
        len(some),
        sum(one.pieces for one in some),
        sum(amounts),
        amounts[0],
        max(one.at for one in some),
        statistics.fmean(amounts),
        some[0].user,
        some[-1].user,
        len({one.user for one in some}),
        amounts[(len(amounts) - 1) // 2],
        sum((one.price for one in some), Decimal(0)),
        revision,
    )


def in_windows(records: list[Sale], length: timedelta, slide: timedelta) -> list[Hour]:
    """The same in plain Python: every window that has a record, of a grid that begins at 1970."""
    windows: dict[tuple[datetime, str], list[Sale]] = {}
    for one in records:
        begin = one.at - (one.at - datetime(1970, 1, 1, tzinfo=UTC)) % slide
        while begin > one.at - length:
            windows.setdefault((begin, one.shop), []).append(one)
            begin -= slide
    return [told(start, start + length, shop, some) for (start, shop), some in windows.items()]


def in_sessions(records: list[Sale], gap: timedelta) -> list[Hour]:
    found = []
    for shop in "abc":
        some: list[Sale] = []
        for one in [*(sale for sale in records if sale.shop == shop), None]:
            if some and (one is None or one.at - some[-1].at >= gap):
                found.append(told(some[0].at, some[-1].at + gap, shop, some))
                some = []
            if one is not None:
                some.append(one)
    return found


def bare(rows: list[Hour]) -> set[tuple[Any, ...]]:
    """Rows without their revisions; no float of ours has more than a rounding's difference."""
    return {
        tuple(
            round(value, 6) if isinstance(value, float) else value for value in (getattr(row, name) for name in NAMES)
        )
        for row in rows
    }


def query(**windows: Any) -> Windows:
    given = {"every": "", "slide": "", "gap": "", "watermark": "10 minutes", **windows}
    return Windows(by=("shop",), at="at", aggregates=AGGREGATES, output=NAMES, **given)


@pytest.fixture
def queries(session: Any, tmp_path: Path) -> Iterator[Queries]:
    made = Queries(session, tmp_path, Sale, Hour)
    yield made
    for one in session.streams.active:
        one.stop()


@needs_spark
@pytest.mark.parametrize(
    ("windows", "oracle"),
    [
        ({"every": "1 hour"}, lambda some: in_windows(some, HOUR, HOUR)),
        ({"every": "1 hour", "slide": "30 minutes"}, lambda some: in_windows(some, HOUR, HOUR / 2)),
        ({"gap": "2 minutes"}, lambda some: in_sessions(some, timedelta(minutes=2))),
    ],
    ids=["tumbling", "sliding", "sessions"],
)
def test_each_aggregate_of_each_window_is_that_of_plain_python(
    queries: Queries, windows: dict[str, str], oracle: Callable[[list[Sale]], list[Hour]]
) -> None:
    records = sales(400)
    queries.input.put(records[:150])
    queries.input.put(records[150:], task=1)
    queries.input.end()
    queries.to_its_end(queries.begin(query(**windows), revision="revision"))
    results = queries.results()
    assert bare(results) == bare(oracle(records))
    assert len(results) == len(bare(results)), "a window has two results"


@needs_spark
def test_in_update_mode_each_change_comes_and_the_one_of_the_greatest_revision_is_right(queries: Queries) -> None:
    """As an upserting sink has it: by the window's key, the highest revision wins."""
    records = sales(200)
    queries.input.put(records[:120])
    running = queries.begin(query(every="1 hour"), mode="update", revision="revision")
    queries.until(running, lambda: bool(queries.folder.batches()))
    queries.input.put(records[120:], task=1)
    queries.input.end()
    queries.to_its_end(running)
    newest: dict[tuple[datetime, str], Hour] = {}
    results = queries.results()
    for row in sorted(results, key=lambda one: one.revision):
        newest[row.start, row.shop] = row
    assert bare([*newest.values()]) == bare(in_windows(records, HOUR, HOUR))
    assert len(results) > len(newest), "nothing was changed: the test shows nothing"
    assert len({(row.start, row.shop, row.revision) for row in results}) == len(results)


@pytest.mark.slow
@needs_spark
@pytest.mark.parametrize(
    "windows",
    [{"every": "1 hour"}, {"every": "1 hour", "slide": "30 minutes"}, {"gap": "2 minutes"}],
    ids=["tumbling", "sliding", "sessions"],
)
def test_what_is_late_is_told_by_the_number_of_records_however_few_keys_they_have(
    queries: Queries, windows: dict[str, str]
) -> None:
    """D16. Spark's own number is that of keys and windows, three here where 300 records are."""
    records = sales(400)
    queries.input.put(records)
    running = queries.begin(query(**windows), revision="revision")
    queries.until(running, lambda: bool(queries.folder.batches()))
    before = len(queries.results())
    at = [FIRST + timedelta(minutes=one) for one in (5, 15, 25)] * 100
    queries.input.put([structs.replace(sales(1)[0], at=one) for one in at], task=1)
    queries.input.put([structs.replace(records[-1], at=records[-1].at + HOUR)])
    queries.input.end()
    queries.to_its_end(running)
    late = [one for one in queries.said if "so far came after" in one]
    assert late, queries.said
    assert late[-1].startswith("hourly: 300 records so far came after the watermark had closed one of their windows")
    assert len(queries.results()) > before, "nothing came after the late ones"


@needs_spark
def test_of_sliding_windows_a_record_is_late_that_has_missed_one_of_them_and_one_is_not_that_has_missed_none(
    queries: Queries,
) -> None:
    """The watermark is at 03:56:03 when the second batch comes: windows to 03:30 are closed, those to 04:00 are not."""
    records = sales(400)
    queries.input.put(records)
    running = queries.begin(query(every="1 hour", slide="30 minutes"), revision="revision")
    queries.until(running, lambda: bool(queries.folder.batches()))
    at = [timedelta(hours=3, minutes=one) for one in (29, 29, 31, 45)]
    queries.input.put([structs.replace(sales(1)[0], at=FIRST + one) for one in at], task=1)
    queries.input.end()
    queries.to_its_end(running)
    late = [one for one in queries.said if "so far came after" in one]
    assert late, queries.said
    assert late[-1].startswith("hourly: 2 records so far came"), late


# -- what is refused, when it is declared


class Ends(Record):
    end: datetime
    sales: int


class Visit(Record):
    at: datetime | None
    shop: str | None
    pieces: int | None


class Shop(Record):
    shop: str
    pieces: int | None


class Pieces(Record):
    shop: str | None
    pieces: int


def declare(**changes: Any) -> None:
    topology = Topology("t")
    stream = topology.spout("sales", Items(sales(1)))
    windowed(topology, "hourly", stream, **{"at": "at", "every": "1 hour", "output": Ends, **changes})


def test_a_window_by_no_key_and_with_the_fields_that_its_output_has_is_declared() -> None:
    declare(aggregates={"sales": count()})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"at": "when"}, "Sale has no field 'when'; it has at, shop"),
        ({"at": "shop"}, "Sale.shop is not a datetime"),
        ({"by": ["shop", "till"]}, "Sale has no field 'till'"),
        ({"every": ""}, 'pass either every="1 hour" or gap="30 minutes"'),
        ({"gap": "5 minutes"}, "pass either every="),
        ({"every": "an hour"}, "every='an hour' is not a span"),
        ({"watermark": "5"}, "watermark='5' is not a span"),
        ({"slide": "2 hours"}, "slide='2 hours' is longer than every='1 hour'"),
        ({"every": "", "gap": "5 minutes", "slide": "1 minute"}, "sessions do not slide"),
        ({"every": "", "gap": "5 minutes", "mode": "update"}, "Spark has sessions only in append mode"),
        ({"aggregates": {"sales": sum_of("shop")}}, r"sum_of\('shop'\) does not work on string"),
        ({"aggregates": {"sales": count(), "end": count()}}, "an aggregate cannot be named 'end'"),
        ({"aggregates": {"sales": count(), "mean": mean_of("amount")}}, "Ends has no field for the aggregate 'mean'"),
        ({"aggregates": {}}, "Ends.sales is neither a key, nor an aggregate"),
        ({"aggregates": {"sales": mean_of("amount")}}, "Ends.sales is int64, but the query gives double"),
        ({"aggregates": {"sales": count}}, r"'sales' is not an aggregate, such as count\(\)"),
        ({"aggregates": [count()]}, r'must map names of fields to aggregates, {"failures": count\(\)}, not \['),
        ({"by": ["shop", "shop"]}, "by has 'shop' twice"),
    ],
    ids=lambda one: None if isinstance(one, dict) else one[:24],
)
def test_what_does_not_fit_or_spark_can_not_do_is_refused_with_the_reason(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        declare(**{"aggregates": {"sales": count()}, **changes})


def test_what_may_have_no_event_time_is_refused_as_it_would_be_in_no_window_and_nobody_would_hear_of_it_d16() -> None:
    topology = Topology("t")
    visits = topology.spout("visits", Items([Visit(None, "a", 1)]))
    with pytest.raises(
        ConfigurationError, match=r"Visit\.at may be None, but a record without event time is in no window"
    ):
        windowed(topology, "w", visits, at="at", every="1 hour", aggregates={"sales": count()}, output=Ends)


class Timed(Record):
    at: datetime
    shop: str | None
    pieces: int | None


@pytest.mark.parametrize(("output", "what"), [(Shop, "Shop.shop"), (Pieces, "Pieces.pieces")])
def test_a_key_or_an_aggregate_that_may_be_none_is_told_when_it_is_declared_and_not_by_the_window_that_has_none(
    output: type[Record], what: str
) -> None:
    topology = Topology("t")
    given = topology.spout("timed", Items([Timed(FIRST, None, None)]))
    with pytest.raises(ConfigurationError, match=f"{what} is None if its field is None"):
        windowed(
            topology, "w", given, at="at", by="shop", every="1 hour", aggregates={"pieces": sum_of("pieces")},
            output=output,
        )  # fmt: skip


def test_an_exact_count_of_distinct_values_is_refused_and_so_is_a_share_above_one() -> None:
    with pytest.raises(ConfigurationError, match="cannot count distinct values exactly on a stream; use approx_d"):
        distinct("user")
    with pytest.raises(ConfigurationError, match="share must be a number from 0 to 1, not 95"):
        approx_quantile("amount", 95)


def test_a_revision_that_is_no_int_of_the_output_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="revision='end' is not an int field of Ends"):
        declare(aggregates={"sales": count()}, revision="end", output=Ends)
