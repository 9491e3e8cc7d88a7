"""Records as columns of Parquet: each type, what is refused, and that equal contents have equal keys."""

import enum
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_kit import files_of, rows_of, stored

from bolts.sinks.keys import KEY_BYTES
from bolts.sinks.parquet.sink import ParquetSink
from bolts.sinks.parquet.table import ParquetTable
from bolts.sinks.values import BadValue
from topology.records import Record
from topology.testing.sinks.driver import delivery


class Verdict(enum.Enum):
    GUILTY = "guilty"
    FREE = "free"


class Level(enum.IntEnum):
    LOW = 1


class Inner(Record):
    name: str
    at: datetime
    data: bytes
    price: Decimal | None


class Leaf(Record):
    value: int
    next: "Leaf | None"


class All(Record):
    number: int
    real: float
    yes: bool
    text: str
    data: bytes
    at: datetime
    money: Decimal
    verdict: Verdict
    level: Level
    mode: Literal["a", "b", None]
    maybe: Annotated[int | None, msgspec.Meta(title="may be missing")]
    pair: tuple[int, str]
    parts: tuple[int | None, ...]
    names: frozenset[str]
    inner: Inner
    perhaps: Inner | None
    many: tuple[Inner, ...]
    either: int | str
    chain: Leaf
    deep: tuple[tuple[tuple[int, ...], ...], ...]


AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
INNER = Inner("x", AT, b"\x00\xff", Decimal("1.50"))


def record(**changed: Any) -> All:
    given: dict[str, Any] = {
        "number": -(2**63),
        "real": 0.1,
        "yes": True,
        "text": "ä\0",
        "data": b"\x00\xff",
        "at": AT,
        "money": Decimal("-12345678901234567890.123456789012345678"),
        "verdict": Verdict.GUILTY,
        "level": Level.LOW,
        "mode": None,
        "maybe": None,
        "pair": (1, "one"),
        "parts": (1, None, 3),
        "names": frozenset({"b", "a"}),
        "inner": INNER,
        "perhaps": None,
        "many": (INNER, Inner("y", AT, b"", None)),
        "either": "7",
        "chain": Leaf(1, Leaf(2, None)),
        "deep": (((1, 2), ()), ()),
    }
    return All(**{**given, **changed})


def put(*records: Any) -> list[Any]:
    return [delivery(each, message=place) for place, each in enumerate(records, start=1)]


async def test_each_type_has_its_column_and_comes_back_as_it_was(tmp_path: Path) -> None:
    out = await stored(ParquetSink(tmp_path), put(record(), record(perhaps=INNER, mode="b", maybe=3, either=7)))
    assert not out.failed
    first, second = rows_of(tmp_path)
    inner = {"name": "x", "at": AT, "data": b"\x00\xff", "price": Decimal("1.500000000000000000")}
    assert {name: value for name, value in first.items() if name != "kedge_key"} == {
        "number": -(2**63),
        "real": 0.1,
        "yes": True,
        "text": "ä\0",
        "data": b"\x00\xff",
        "at": AT,
        "money": Decimal("-12345678901234567890.123456789012345678"),
        "verdict": "guilty",
        "level": 1,
        "mode": None,
        "maybe": None,
        "pair": {"_1": 1, "_2": "one"},
        "parts": [1, None, 3],
        "names": ["a", "b"],
        "inner": inner,
        "perhaps": None,
        "many": [inner, {"name": "y", "at": AT, "data": b"", "price": None}],
        "either": '"7"',
        "chain": {"value": 1, "next": '{"value":2,"next":null}'},
        "deep": [[[1, 2], []], []],
    }
    assert (second["perhaps"], second["mode"], second["maybe"], second["either"]) == (inner, "b", 3, "7")
    schema = pq.ParquetFile(files_of(tmp_path)[0]).schema_arrow
    assert {field.name for field in schema if field.nullable} == {"mode", "maybe", "perhaps"}
    assert schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert schema.field("money").type == pa.decimal128(38, 18)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"number": 2**63}, "All.number: 9223372036854775808 does not fit in 64 bits"),
        ({"real": float("inf")}, "All.real: inf can't be stored"),
        ({"text": "\udc80"}, "All.text: '\\udc80' has a lone surrogate"),
        ({"at": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"at": "now"}, "All.at: 'now' is of type str, and a datetime is declared"),
        ({"money": Decimal("100000000000000000000")}, "All.money: Decimal('100000000000000000000') does not fit"),
        ({"money": Decimal("1E-19")}, "All.money: Decimal('1E-19') does not fit"),
        ({"money": Decimal("NaN")}, "All.money: NaN can't be stored"),
        ({"maybe": "x"}, "All.maybe: 'x' is of type str"),
        ({"pair": (1,)}, "All.pair: (1,) is of type tuple, and a tuple of 2 is declared"),
        ({"parts": [1]}, "All.parts: [1] is of type list, and a tuple is declared"),
        ({"names": ("a",)}, "a frozenset is declared"),
        ({"inner": 5}, "All.inner: 5 is of type int, and a Inner is declared"),
        ({"inner": Inner("x", AT, b"", 1.5)}, "1.5 is of type float, and a Decimal is declared"),  # type: ignore[arg-type]
        ({"verdict": "guilty"}, "'guilty' is of type str, and a Verdict is declared"),
        ({"mode": "c"}, "'c' is of type str, and 'a' or 'b' is declared"),
    ],
)
async def test_a_value_that_a_column_would_change_fails_alone(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    out = await stored(ParquetSink(tmp_path), put(record(), record(**changed), record(number=3)))
    ((_, why),) = out.failed
    assert words in why
    assert [row["number"] for row in rows_of(tmp_path)] == [-(2**63), 3]


async def test_times_of_other_zones_are_the_same_moment_and_so_the_same_row(tmp_path: Path) -> None:
    oslo = AT.astimezone(timezone(timedelta(hours=1)))
    out = await stored(ParquetSink(tmp_path), [delivery(record(at=at), message=1) for at in (AT, oslo)])
    assert len(out.acked) == 2
    assert [row["at"] for row in rows_of(tmp_path)] == [AT]


async def test_a_field_with_the_name_of_the_key_keeps_it(tmp_path: Path) -> None:
    class Own(Record):
        Kedge_Key: str

    for _ in range(2):
        await stored(ParquetSink(tmp_path), put(Own("mine")))
    (row,) = rows_of(tmp_path)
    assert [*row] == ["Kedge_Key", "_kedge_key"]
    assert (row["Kedge_Key"], len(row["_kedge_key"])) == ("mine", KEY_BYTES)


async def test_a_record_without_fields_is_a_key(tmp_path: Path) -> None:
    class Empty(Record):
        pass

    await stored(ParquetSink(tmp_path), put(Empty(), Empty()))
    assert [[*row] for row in rows_of(tmp_path)] == [["kedge_key"]] * 2


class Some(Record):
    money: Decimal
    at: datetime | None
    names: frozenset[int]


decimals = st.decimals(allow_nan=False, allow_infinity=False)
moments = st.none() | st.datetimes(timezones=st.just(UTC))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.builds(Some, decimals, moments, st.frozensets(st.integers(-(2**63), 2**63 - 1))), max_size=5))
def test_values_come_back_equal_or_are_refused(records: list[Some]) -> None:
    table = ParquetTable(pa, Some, ())
    kept = []
    for each in records:
        try:
            kept.append((each, table.rows([delivery(each, message=1)])[0]))  # type: ignore[arg-type]
        except BadValue:
            whole, _, fraction = format(each.money, "f").lstrip("-").partition(".")
            assert len(whole) > 20 or len(fraction.rstrip("0")) > 18
    found = table.batch([row for _, row in kept]).to_pylist() if kept else []
    for (each, _), row in zip(kept, found, strict=True):
        assert (row["money"], row["at"], row["names"]) == (each.money, each.at, row["names"])
        assert frozenset(row["names"]) == each.names
