"""Whether a query's columns and rows can be records of the class that it declares. Without Spark."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

import pyarrow as pa

from bridge.arrow.schema import arrow_schema, fitted, mismatches
from bridge.queries.driver_spec import schema_of, schema_text
from topology import Record


class Inner(Record):
    a: int
    b: str | None


class Outer(Record):
    number: int
    inner: Inner | None
    many: tuple[Inner, ...]


class Paired(Record):
    pair: tuple[int, Inner | None] | None


INNER = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())])
GIVEN = pa.schema([("many", pa.list_(INNER)), ("inner", INNER), ("number", pa.int32())])


def table(**columns: list[object]) -> pa.Table:
    return pa.Table.from_pydict(columns, schema=GIVEN)


def test_columns_fit_in_any_order_and_numbers_of_fewer_bits_do() -> None:
    assert mismatches(arrow_schema(Outer), GIVEN) == []


def test_each_column_that_does_not_fit_has_its_clause() -> None:
    given = pa.schema([("number", pa.string()), ("inner", INNER), ("other", pa.int64()), ("inner", INNER)])
    assert mismatches(arrow_schema(Outer), given) == [
        "there is no column 'many'",
        "'other' is not declared",
        "'inner' is there twice",
        "'number' is string, but int64 is declared",
    ]


def test_rows_come_in_the_declared_order_of_columns() -> None:
    given = table(number=[1], inner=[{"a": 1, "b": None}], many=[[{"a": 2, "b": "x"}]])
    assert fitted(given, arrow_schema(Outer)).column_names == ["number", "inner", "many"]


@pytest.mark.parametrize(
    ("number", "inner", "many", "where"),
    [
        (None, None, [], "'number'"),
        (1, None, None, "'many'"),
        (1, None, [None], "'many[]'"),
        (1, None, [{"a": None, "b": None}], "'many[].a'"),
        (1, {"a": None, "b": None}, [], "'inner.a'"),
    ],
)
def test_a_null_that_is_not_declared_is_named_wherever_it_is(
    number: object, inner: object, many: object, where: str
) -> None:
    with pytest.raises(ValueError, match="is NULL in 1 of 2 rows") as caught:
        fitted(table(number=[1, number], inner=[None, inner], many=[[], many]), arrow_schema(Outer))
    assert str(caught.value).startswith(where)


def test_a_null_in_a_part_of_an_optional_tuple_is_named_and_so_it_is_deep_within() -> None:
    pair = pa.struct([pa.field("_1", pa.int64()), pa.field("_2", INNER)])
    for value, where in (({"_1": None, "_2": None}, "'pair._1'"), ({"_1": 1, "_2": {"a": None}}, "'pair._2.a'")):
        given = pa.Table.from_pydict({"pair": [None, value]}, schema=pa.schema([("pair", pair)]))
        with pytest.raises(ValueError, match="is NULL in 1 of 2 rows") as caught:
            fitted(given, arrow_schema(Paired))
        assert str(caught.value).startswith(where)


def test_that_a_part_is_never_none_is_told_to_the_driver_with_the_schema() -> None:
    assert schema_of(schema_text(arrow_schema(Outer))).equals(arrow_schema(Outer), check_metadata=True)


def test_a_null_within_what_is_null_itself_is_none() -> None:
    given = table(number=[1, 2], inner=[None, {"a": 1, "b": None}], many=[[], []])
    assert fitted(given, arrow_schema(Outer)).num_rows == 2
