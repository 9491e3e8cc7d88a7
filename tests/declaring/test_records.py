"""Records: values that can't be changed, which types their fields may have, and their byte form."""

import contextlib
import enum
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import Record, RecordError
from topology.records import decoder, encode, is_record, record_problems


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Point(Record):
    x: int
    y: int


class Tree(Record):
    name: str
    children: tuple["Tree", ...] = ()


class Everything(Record):
    number: int
    ratio: float
    yes: bool
    text: str
    raw: bytes
    at: datetime
    price: Decimal
    colour: Colour
    point: Point
    tags: frozenset[str]
    pairs: tuple[tuple[str, int], ...]
    three: tuple[int, str, bool]
    maybe: Point | None
    choice: Literal["a", "b"]
    positive: Annotated[int, msgspec.Meta(gt=0)]
    number_or_ratio: int | float


EVERYTHING = Everything(
    -(2**63),
    0.1,
    True,
    "é\0\n",
    b"\xff\0",
    datetime(2026, 12, 10, 6, 55, 46, 1, tzinfo=UTC),
    Decimal("1.10"),
    Colour.BLUE,
    Point(1, 2),
    frozenset(["a", "b"]),
    (("a", 1), ("b", 2)),
    (1, "x", False),
    None,
    "b",
    1,
    2.5,
)


def made(kind: Any) -> type[Record]:
    """A record class with one field `f` of this type."""
    cls: type[Record] = msgspec.defstruct("Made", [("f", kind)], bases=(Record,))  # type: ignore[assignment]
    return cls


def test_a_records_fields_can_not_be_set() -> None:
    point: Any = Point(1, 2)
    with pytest.raises(AttributeError):
        point.x = 3


def test_records_are_compared_and_hashed_by_value() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(2, 1)
    assert len({Point(1, 2), Point(1, 2), Point(2, 1)}) == 2


def test_records_of_two_classes_are_never_equal() -> None:
    class Other(Record):
        x: int
        y: int

    other: Record = Other(1, 2)
    assert other != Point(1, 2)


@pytest.mark.parametrize("cls", [Everything, Tree, Point])
def test_records_of_the_promised_field_types_have_no_problems(cls: type[Record]) -> None:
    assert record_problems(cls) == []


@pytest.mark.parametrize(
    "record",
    [EVERYTHING, Tree("a", (Tree("b"), Tree("c", (Tree("d"),)))), Point(0, 2**63)],
    ids=lambda one: type(one).__name__,
)
def test_a_record_that_is_encoded_and_decoded_is_equal_to_itself(record: Record) -> None:
    again = decoder(type(record))(encode(record))
    assert again == record
    assert type(again) is type(record)


@given(st.builds(Point, st.integers(-(2**63), 2**64 - 1), st.integers(-(2**63), 2**64 - 1)))
def test_any_point_survives_its_byte_form(point: Point) -> None:
    assert decoder(Point)(encode(point)) == point


def test_the_byte_form_is_an_array_of_the_fields_in_order() -> None:
    assert encode(Point(1, -1)) == b"\x92\x01\xff"
    assert encode(Tree("a")) == b"\x92\xa1a\x90"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (list[int], "a tuple[X, ...] is"),
        (set[str], "a frozenset[X] is"),
        (dict[str, int], "a mapping is a tuple of pairs"),
        (bytearray, "bytes is"),
        (tuple, "name its item type, for example tuple[str, ...]"),
        (frozenset, "name its item type, for example frozenset[str]"),
        (object, "use numbers"),
        (Any, "use numbers"),
        (complex, "use numbers"),
        (NewType("UserId", str), "use numbers"),
        (Record, "name the record's class"),
        (tuple[list[int], ...], "list[int] is not a type"),
        (list[int] | None, "list[int] is not a type"),
        (frozenset[tuple[dict[str, int], ...]], "dict[str, int] is not a type"),
        (Annotated[list[int], "why not"], "list[int] is not a type"),
        (str | bytes, "can't be decoded"),
        (tuple[int, ...] | frozenset[int], "can't be decoded"),
        (Point | Tree, "can't be decoded"),
        (Mixed, "Mixed can't be decoded"),
        (Literal[b"x"], "can't be decoded"),
    ],
    ids=str,
)
def test_a_field_type_that_can_not_travel_is_named_with_what_to_write_instead(kind: Any, said: str) -> None:
    (problem,) = record_problems(made(kind))
    assert problem.startswith("Made.f: ")
    assert said in problem


def test_every_bad_field_of_a_class_is_named() -> None:
    class Bad(Record):
        a: list[int]
        fine: int
        b: dict[str, str]

    assert [problem.partition(":")[0] for problem in record_problems(Bad)] == ["Bad.a", "Bad.b"]


def test_a_bad_field_of_a_record_within_the_record_is_found_by_its_way() -> None:
    inner: Any = made(list[int])
    (problem,) = record_problems(made(tuple[inner, ...]))
    assert problem.startswith("Made.f: f: list[int] is not a type")


def test_annotations_that_can_not_be_resolved_are_a_problem_and_no_exception() -> None:
    class Lost(Record):
        a: "NoSuchClass"  # type: ignore[name-defined]  # noqa: F821 - that is the test

    (problem,) = record_problems(Lost)
    assert "NoSuchClass" in problem
    (problem,) = record_problems(made(Lost))
    assert "NoSuchClass" in problem


@pytest.mark.parametrize("options", [{"frozen": False}, {"array_like": False}])
def test_a_class_that_undoes_what_makes_a_record_is_a_problem(options: dict[str, Any]) -> None:
    undone: Any = msgspec.defstruct("Undone", [("f", int)], bases=(Record,), **options)
    (problem,) = record_problems(undone)
    assert "frozen and array-like" in problem


@pytest.mark.parametrize("value", [2**64, object(), 1j, "\ud800"], ids=["2**64", "object", "1j", "half a pair"])
def test_a_value_that_has_no_byte_form_is_refused_with_its_class(value: Any) -> None:
    cls: Any = made(int)
    with pytest.raises(RecordError, match="a Made can't be encoded"):
        encode(cls(value))


@pytest.mark.parametrize(
    "data", [b"", b"\x91\x01", b"\x92\x01\xa1x", b"\x92\x01\x02\x03", b"\xc1", b"\xde\xff\xff\xff"]
)
def test_bytes_that_are_no_such_record_are_refused_with_its_class(data: bytes) -> None:
    with pytest.raises(RecordError, match="the bytes of a Point can't be decoded"):
        decoder(Point)(data)


@given(st.binary(max_size=64))
def test_any_bytes_are_decoded_or_refused_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(RecordError):
        assert isinstance(decoder(Everything)(data), Everything)


def test_Record_itself_is_no_record_class() -> None:
    assert is_record(Point)
    assert not any(map(is_record, (Record, int, Point(1, 2), "Point", None)))
