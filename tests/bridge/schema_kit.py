"""Record classes of any fields, and records of them, drawn for tests of how they become columns."""

import enum
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

from topology.records import Record


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Place(Record):
    name: str
    height: float | None
    tags: frozenset[str] = frozenset()


WHOLE = 10**20 - 1
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    str: st.text(),
    bytes: st.binary(),
    datetime: st.datetimes(timezones=st.just(UTC))
    | st.datetimes(
        datetime(2, 1, 1),  # noqa: DTZ001 - the zone is drawn
        datetime(9998, 1, 1),  # noqa: DTZ001
        timezones=st.just(timezone(timedelta(hours=-7, minutes=30))),
    ),
    Decimal: st.decimals(-WHOLE, WHOLE, allow_nan=False, allow_infinity=False, places=18),
    Colour: st.sampled_from(Colour),
    Level: st.sampled_from(Level),
    Literal["a", "b"]: st.sampled_from(["a", "b"]),
    Place: st.builds(Place, st.text(), st.none() | st.floats(allow_nan=False), st.frozensets(st.text(), max_size=3)),
}
Typed = tuple[Any, st.SearchStrategy[Any]]


def optional(inner: Typed) -> Typed:
    return inner[0] | None, st.none() | inner[1]


def several(inner: Typed) -> Typed:
    return tuple[inner[0], ...], st.lists(inner[1], max_size=4).map(tuple)  # type: ignore[name-defined]


def unordered(inner: Typed) -> Typed:
    return frozenset[inner[0]], st.frozensets(inner[1], max_size=4)  # type: ignore[name-defined]


def pair(inner: Typed) -> Typed:
    return tuple[inner[0], int], st.tuples(inner[1], SCALARS[int])  # type: ignore[name-defined]


def nested(inner: Typed) -> Typed:
    made: Any = msgspec.defstruct("Inner", [("one", inner[0]), ("other", str)], bases=(Record,))
    return made, st.builds(made, inner[1], st.text())


TYPES = st.recursive(
    st.sampled_from([*SCALARS.items()]),
    lambda inner: st.builds(
        lambda wrap, one: wrap(one), st.sampled_from([optional, several, unordered, pair, nested]), inner
    ),
    max_leaves=3,
)


@st.composite
def classes_with_records(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    fields = draw(st.lists(TYPES, min_size=1, max_size=4))
    made: Any = msgspec.defstruct("Drawn", [(f"f{at}", kind) for at, (kind, _) in enumerate(fields)], bases=(Record,))
    rows = st.builds(made, *(values for _, values in fields))
    return made, draw(st.lists(rows, max_size=6))
