"""Record classes as Arrow columns: every type there and back, and what has no column refused by class and field."""

import enum
import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolts.sinks.values import BadValue
from topology.errors import ConfigurationError, RecordError
from topology.records import Record

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

import pyarrow as pa
from schema_kit import SCALARS, Colour, Level, Place, classes_with_records

from bridge.arrow.schema import arrow_schema, columns_of, from_table, to_table


def through_a_file(table: Any) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write(table)
    return pa.ipc.open_file(sink.getvalue()).read_all()


def is_valid(array: Any, field: Any) -> bool:
    """Whether nothing is null that can't be, below a null either: Arrow's casts and Spark look there."""
    if not field.nullable and array.null_count:
        return False
    if pa.types.is_struct(field.type):
        return all(is_valid(array.field(at), one) for at, one in enumerate(field.type))
    return not pa.types.is_list(field.type) or is_valid(array.values, field.type.value_field)


@settings(max_examples=300, deadline=None)
@given(classes_with_records())
def test_records_of_any_types_come_back_as_they_were(drawn: tuple[Any, list[Any]]) -> None:
    cls, records = drawn
    table = to_table(cls, records)
    assert table.schema == arrow_schema(cls)
    table.validate(full=True)
    assert all(is_valid(array, field) for array, field in zip(table.columns, table.schema, strict=True))
    assert from_table(cls, through_a_file(table)) == records
    assert from_table(cls, table.slice(1)) == records[1:], "a slice is read from where it begins"
    assert from_table(cls, pa.concat_tables([pa.table(table)] * 2)) == records * 2, "several chunks are one column"


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_each_type_of_a_field_can_be_handed_over_and_come_back(kind: Any) -> None:
    cls: Any = msgspec.defstruct("One", [("value", kind), ("maybe", kind | None)], bases=(Record,))

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.builds(cls, SCALARS[kind], st.none() | SCALARS[kind]), min_size=1, max_size=5))
    def check(records: list[Any]) -> None:
        table = to_table(cls, records)
        assert from_table(cls, table) == records
        assert not table.schema.field("value").nullable
        assert table.schema.field("maybe").nullable

    check()


def test_columns_have_the_types_that_are_promised() -> None:
    class Named(Record):
        a: int
        b: float
        c: str
        d: bytes
        e: bool
        f: datetime
        g: Decimal
        h: Colour
        i: Level
        j: int | None
        k: tuple[str, ...]
        m: frozenset[int]
        n: tuple[str, int]
        p: Annotated[int, msgspec.Meta(ge=0)]

    kinds = [str(field.type) for field in arrow_schema(Named)]
    assert kinds[:7] == ["int64", "double", "string", "binary", "bool", "timestamp[us, tz=UTC]", "decimal128(38, 18)"]
    assert kinds[7:10] == ["string", "int64", "int64"]
    assert kinds[10].startswith("list<item: string")
    assert kinds[11].startswith("list<item: int64")
    assert kinds[12] == "struct<_1: string not null, _2: int64 not null>"
    assert kinds[13] == "int64"


def test_numbers_that_are_none_reach_spark_which_knows_them() -> None:
    class One(Record):
        value: float

    found = [one.value for one in from_table(One, to_table(One, [One(math.nan), One(math.inf), One(-math.inf)]))]
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, -math.inf]


# -- refused when it is declared


class Empty(Record):
    pass


class Tree(Record):
    left: "Tree | None"


class Mixed(enum.Enum):
    ONE = 1
    A = "a"


REFUSED = {
    "int | str": (int | str, "several types"),
    "int | float | None": (int | float | None, "several types"),
    "None": (None, "always None"),
    "Literal[None]": (Literal[None], "always None"),
    "Literal of two types": (Literal[1, "a"], "values of several types"),
    "an enum of two types": (Mixed, "either all str or all int"),
    "a record without fields": (Empty, "Empty has no fields"),
    "an empty tuple": (tuple[()], "name its item type"),
    "within a tuple": (tuple[int | str, ...], "several types"),
    "a list": (list[int], "not a type that a record can carry"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_type_without_a_column_is_refused_by_class_and_field(name: str) -> None:
    kind, why = REFUSED[name]
    cls: Any = msgspec.defstruct("Wrong", [("good", int), ("bad", kind)], bases=(Record,))
    with pytest.raises(ConfigurationError, match=rf"Wrong\.bad: .*{why}"):
        columns_of(cls)


def test_a_record_that_holds_itself_is_refused() -> None:
    class Own(Record):
        tree: Tree

    with pytest.raises(ConfigurationError, match=r"Own\.tree: a Tree within a Tree has no depth limit"):
        columns_of(Own)


def test_a_record_without_fields_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Empty has no fields"):
        columns_of(Empty)


def test_names_that_spark_would_take_for_one_are_refused_within_records_too() -> None:
    class Twice(Record):
        at: int
        At: int

    class Around(Record):
        inner: Twice

    with pytest.raises(ConfigurationError, match="Twice: Spark cannot distinguish at from At"):
        columns_of(Twice)
    with pytest.raises(ConfigurationError, match=r"Around\.inner: of Twice, Spark cannot distinguish at from At"):
        columns_of(Around)


def test_the_names_of_our_own_columns_are_refused() -> None:
    cls: Any = msgspec.defstruct("Taken", [("_id", bytes)], bases=(Record,))
    with pytest.raises(ConfigurationError, match=r"Taken\._id: a hand-over has a column of this name"):
        columns_of(cls)


# -- values that have no place


class Reading(Record):
    number: int = 0
    value: float = 0.0
    text: str = ""
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    price: Decimal = Decimal(0)
    colour: Colour = Colour.RED
    choice: Literal["a", "b"] = "a"
    places: tuple[Place, ...] = ()
    pair: tuple[int, str] = (0, "")


class Unfit(Record):
    name: str
    height: str
    more: int


BAD: list[tuple[str, Any, str]] = [
    ("number", 2**63, "does not fit in 64 bits"),
    ("number", -(2**63) - 1, "does not fit in 64 bits"),
    ("number", True, "of type bool, and an int is declared"),
    ("number", 1.0, "of type float, and an int is declared"),
    ("number", None, "None is of type NoneType"),
    ("value", "1", "of type str, and a float is declared"),
    ("value", 10**400, "does not fit in a float"),
    ("text", b"x", "of type bytes, and a str is declared"),
    ("text", "\udc80", "lone surrogate"),
    ("at", datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001
    ("at", datetime.min.replace(tzinfo=timezone(timedelta(hours=3))), "outside the years 1 to 9999"),
    ("price", Decimal("NaN"), "it is not a finite number"),
    ("price", Decimal("1E-19"), "does not fit"),
    ("price", Decimal("1E20"), "does not fit"),
    ("price", Decimal("1E1000000"), "does not fit"),
    ("price", 1.5, "of type float, and a Decimal is declared"),
    ("colour", "red", "of type str, and a Colour is declared"),
    ("choice", "c", "'a' or 'b' is declared"),
    ("places", [Place("x", None)], "of type list, and a tuple is declared"),
    ("places", (Unfit("x", "y", 1),), "a Place is declared"),
    ("places", (Place("\udc80", None),), r"Place\.name: .*lone surrogate"),
    ("pair", (1, "a", 2), "a tuple of 2 is declared"),
]


@pytest.mark.parametrize(("field", "value", "why"), BAD, ids=lambda one: repr(one)[:20])
def test_a_value_without_a_place_is_told_by_class_and_field_C9(field: str, value: Any, why: str) -> None:
    bad = msgspec.structs.replace(Reading(), **{field: value})
    with pytest.raises(BadValue, match=rf"Reading\.{field}: .*{why}"):
        to_table(Reading, [Reading(), bad, Reading()])


def test_decimals_are_exact_however_many_digits_they_have() -> None:
    class Price(Record):
        value: Decimal

    texts = (
        "99999999999999999999.999999999999999999",
        "-0.000000000000000001",
        "1E+19",
        "0E+50",
        "1.5000000000000000000000",
    )
    prices = [Price(Decimal(text)) for text in texts]
    found = from_table(Price, to_table(Price, prices))
    assert found == prices
    assert str(found[-1].value) == "1.5", "without the zeros that Spark's form has"


# -- contents


def test_the_content_of_a_set_is_the_same_in_whatever_order_it_has_come_B5() -> None:
    class Tagged(Record):
        tags: frozenset[str]
        pairs: tuple[frozenset[int], ...]

    words = [f"word {number}" for number in range(50)]
    one, other = (
        Tagged(frozenset(words), (frozenset(range(50)),)),
        Tagged(frozenset(words[::-1]), (frozenset(range(50)),)),
    )
    content = columns_of(Tagged).content
    assert content(one) == content(other) == b"\x92\xdc\x00" + content(one)[3:]
    assert content(one) != content(Tagged(frozenset(words[1:]), one.pairs))
    decoded = msgspec.msgpack.decode(content(one))
    assert decoded[0] == sorted(words, key=msgspec.msgpack.encode)


# -- what comes from elsewhere


def table_of(columns: dict[str, Iterable[Any]]) -> Any:
    return pa.table(columns)


class Count(Record):
    at: datetime
    name: str
    count: int
    mean: float
    best: tuple[str, ...] = ()


def spark_like() -> dict[str, Any]:
    """As Spark gives them: in another order, narrower or wider, all nullable."""
    return {
        "name": pa.array(["a"], pa.large_string()),
        "mean": pa.array([0.5], pa.float32()),
        "count": pa.array([7], pa.int32()),
        "at": pa.array([1_000], pa.timestamp("ms", tz="Europe/Berlin")),
        "best": pa.array([["x"]], pa.large_list(pa.string())),
    }


def test_columns_in_another_order_and_of_other_widths_are_the_same_records() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert from_table(Count, table_of(spark_like())) == [Count(at, "a", 7, 0.5, ("x",))]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"name": None}, "there is no column 'name'"),
    "another": ({"extra": pa.array([1])}, "the column 'extra' is no field of the class"),
    "a text for a number": ({"count": pa.array(["7"])}, "the column 'count' is string, not int64"),
    "an unsigned": ({"count": pa.array([7], pa.uint64())}, "the column 'count' is uint64"),
    "an int for a float": ({"mean": pa.array([7])}, "the column 'mean' is int64, not double"),
    "without a zone": ({"at": pa.array([1], pa.timestamp("us"))}, r"the column 'at' is timestamp\[us\]"),
    "a date": ({"at": pa.array([1], pa.date32())}, "the column 'at' is date32"),
    "a null": ({"name": pa.array([None], pa.string())}, "1 nulls in 'name', which is never None"),
    "a null within": ({"best": pa.array([["x", None]])}, "Expected `str`, got `null`"),
}


@pytest.mark.parametrize("name", WRONG)
def test_columns_that_are_no_records_are_told_by_name(name: str) -> None:
    changed, why = WRONG[name]
    columns = {key: value for key, value in {**spark_like(), **changed}.items() if value is not None}
    with pytest.raises(RecordError, match=f"these columns do not fit Count: .*{why}"):
        from_table(Count, table_of(columns))


def test_values_that_an_enum_does_not_have_are_refused() -> None:
    class Painted(Record):
        colour: Colour

    with pytest.raises(RecordError, match="do not fit Painted: Invalid enum value 'green'"):
        from_table(Painted, table_of({"colour": ["green"]}))
