"""Keys as `on_timer` sees them: what was made a key comes back as it was, whatever its type."""

import enum
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from topology import Record
from topology.groupings import key_bytes, key_function
from topology.keys import value_of, values_of


class Color(enum.Enum):
    RED = "red"


class Place(Record):
    name: str
    at: tuple[int, int]


@pytest.mark.parametrize(
    "value",
    [
        *(0, 1, -1, 255, 2**63 - 1, -(2**63), 2**63, 2**200, -(2**200)),
        *("", "a", "ä€😀", "1", "\ud800", b"", b"\x00\xff"),
        *(0.0, 1.5, -1e300, float("inf")),
        *(True, False, None, Decimal("1.50"), Decimal("-0.001")),
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        datetime(1960, 1, 2, tzinfo=timezone(timedelta(hours=5))),
        *((), (1, "a", (None, 2.5)), frozenset(), frozenset({1, 2, 3})),
    ],
    ids=repr,
)
def test_a_key_comes_back_as_the_value_that_it_was_made_of(value: Any) -> None:
    back = value_of(key_bytes(value))
    assert back == value
    assert isinstance(back, type(value))


def test_an_enum_comes_back_as_its_value_and_a_record_as_the_tuple_of_its_fields() -> None:
    assert value_of(key_bytes(Color.RED)) == "red"
    assert value_of(key_bytes(Place("here", (1, 2)))) == ("here", (1, 2))


def test_of_several_fields_their_values_come_back_in_their_order_and_of_none_an_empty_tuple() -> None:
    place = Place("here", (1, 2))
    assert values_of(key_function(("at", "name"))(place), 2) == ((1, 2), "here")
    assert values_of(key_function(("at",))(place), 1) == ((1, 2),)
    assert values_of(b"", 0) == ()


@pytest.mark.parametrize(
    "key",
    [
        b"\x00",
        b"\xff1",
        b"\x05123",
        b"\x0b\x05\x00\x00\x00\x01",
        b"\x06\x02",
        b"\x09",
        b"\x09x",
        b"\x08" + b"\xff" * 7 + b"\x7f",
        b"\x0b\x05",
    ],
)
def test_bytes_that_are_no_key_are_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="key"):
        value_of(key)
