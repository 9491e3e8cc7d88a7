"""A batch is made plain column by column: the same values, bytes and refusals as value by value (C9)."""

# tests look at files on the loop: nothing else runs on it

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_kit import KINDS, Alert, Kind, Level, Sample, Verdict, feed, json_rows, opened, stored, tup

from bolts import JsonLinesSink
from bolts.sinks.jsonlines import _line_encoder
from bolts.sinks.postgres.table import _column as postgres_column
from bolts.sinks.sqlite.table import _column as sqlite_column
from bolts.sinks.values import BadValue, Convert, converted, encode_json, plain
from topology.records import Record, field_types

TYPES: list[Any] = [int, float, bool, str, bytes, datetime, Decimal, Verdict, Level, Literal["a", 1], tuple[int, ...]]
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TIMES = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001  # Hypothesis gives it one
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=2)), timezone(timedelta(0))]),
)
VALUES = st.one_of(
    *(st.none(), st.integers(), st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**400])),
    *(st.floats(), st.booleans(), st.text(), st.sampled_from(["\ud800", "\ud83d", "\ude00", "\0", "größe"])),
    *(st.binary(max_size=4), TIMES, st.just(datetime(2026, 1, 2, tzinfo=UTC)), st.just(MOMENT.replace(tzinfo=None))),
    *(st.decimals(), st.sampled_from([*Verdict, *Level, "a", 1]), st.tuples(st.integers(0, 9))),
)


def converts() -> list[Convert]:
    """Every conversion of every sink, with None and without."""
    kinds = [*TYPES, *(kind | None for kind in TYPES if not isinstance(kind, str) and kind != Literal["a", 1])]
    made = [plain(kind) for kind in kinds]
    made += [sqlite_column(Sample, "field", kind)[2] for kind in kinds]
    return made + [postgres_column(Sample, "field", kind)[1] for kind in kinds]


def one_by_one(convert: Convert, column: Sequence[Any]) -> Any:
    try:
        return [convert(value) for value in column]
    except BadValue:
        return BadValue


def at_once(convert: Convert, column: Sequence[Any]) -> Any:
    try:
        return [*converted(convert, column)]
    except BadValue:
        return BadValue


CONVERTS = converts()


@given(st.sampled_from(CONVERTS), st.one_of(st.lists(VALUES, max_size=3), VALUES.map(lambda value: [value] * 2)))
def test_c9_any_column_is_what_its_values_are_one_by_one(convert: Convert, column: list[Any]) -> None:
    same(at_once(convert, column), one_by_one(convert, column))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 2**63, -(2**63) - 1, "\ud800", True, 1, 1.0, None, b"", "é"])
@pytest.mark.parametrize("good", [[], [7], [0.5], ["text"], ["é"], [True], [b"x"], [datetime(2026, 1, 2, tzinfo=UTC)]])
def test_c9_a_column_is_what_its_values_are_one_by_one(bad: Any, good: list[Any]) -> None:
    """Usual values with one among them that is not: it is refused, or changed, as it would be by itself."""
    for convert in CONVERTS:
        for column in (good, [*good, bad], [bad, *good]):
            same(at_once(convert, column), one_by_one(convert, column))


def same(found: Any, wanted: Any) -> None:
    assert found == wanted
    if wanted is not BadValue:
        assert [type(value) for value in found] == [type(value) for value in wanted]


class Größe(Record):
    """Names that JSON has to write with care, and members of ours among them."""

    key: str
    record: int
    größe: float | None
    at: datetime
    parts: frozenset[str]


class Nothing(Record):
    """No field at all."""


class Mode(Enum):
    ON = "on"


class Rank(IntEnum):
    ONE = 1


class Rare(Record):
    mode: Mode
    rank: Rank
    money: Decimal | None
    nested: Sample


@pytest.mark.parametrize(
    "records",
    [
        [Größe('a"\\\r\n\u2028é', 1, None, MOMENT, frozenset({"b", "a"}))],
        [Größe("", n, 1e300 * n, MOMENT + timedelta(microseconds=n), frozenset()) for n in range(3)],
        [Nothing(), Nothing()],
        [Rare(Mode.ON, Rank.ONE, None, Sample("x", 0.5)), Rare(Mode.ON, Rank.ONE, Decimal("1.50"), Sample("", 1))],
    ],
    ids=lambda records: type(records[0]).__name__,
)
def test_a_line_has_the_bytes_of_its_fields_one_by_one(records: list[Record]) -> None:
    """They are hashed into the key, so they stay as they were in every version."""
    tuples = [tup(record, number) for number, record in enumerate(records, 1)]
    made = _line_encoder(type(records[0]))(range(len(tuples)), tuples)
    assert b"".join(line for _, _, line in made.each()) == made.joined()
    for record, (_, key, line) in zip(records, made.each(), strict=True):
        fields = field_types(type(record))
        member = "_record" if "record" in fields else "record"
        values = zip(fields.items(), msgspec.structs.astuple(record), strict=True)
        content = {member: type(record).__name__} | {name: plain(kind)(value) for (name, kind), value in values}
        head = "_key" if "key" in fields else "key"
        assert line == b'{"%s":"%s",%s\n' % (head.encode(), key.hex().encode(), encode_json(content)[1:])


async def test_lines_of_several_classes_with_a_bad_row_among_them_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    records = [Alert("192.0.2.1", 1), Sample("a", 2), Alert("192.0.2.1", 3), Sample("b", math.nan), Alert("x", 5)]
    async with opened(JsonLinesSink(path)) as sink:
        out = await feed(sink, [tup(record, number) for number, record in enumerate(records)])
    assert (len(out.acked), len(out.failed)) == (4, 1)
    assert [row.get("failures", row.get("value")) for row in json_rows(path)] == [1, 2, 3, 5]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_c9_in_a_batch_of_a_thousand_each_bad_row_fails_alone(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    bad = {0, 499, 500, 999}
    tuples = [tup(Sample(f"{n}", math.inf if n in bad else float(n)), n) for n in range(1000)]
    out = await stored(kind.make(path, batch=1000), tuples)
    assert {n for n in range(1000) if id(tuples[n]) in out.failed} == bad
    assert all("Sample.value: inf" in why for why in out.failed.values())
    assert [row["value"] for row in kind.rows(path)] == [float(n) for n in range(1000) if n not in bad]
