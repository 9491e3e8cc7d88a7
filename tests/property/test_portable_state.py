"""Keys and values of state as JSON: whatever their bytes are, they are the same again; and which keys a word means."""

import json
from collections import deque
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import Record
from topology.cli.state_keys import keys_meant, shown
from topology.errors import ConfigurationError
from topology.groupings import key_bytes, slot_of
from topology.records import encoded
from topology.storage.encoding.json_values import due_of, key_form, key_json, time_text, value_bytes, value_json
from topology.storage.offline.export import Header, Reading, header_line, row_line
from topology.storage.rescale.partition import KeptKey

times = st.integers(-(10**15), 10**16).map(lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us))
integers = st.integers(-(2**63), 2**64 - 1)
plain = (
    st.none() | st.booleans() | integers | st.floats() | st.text() | st.binary() | times | st.decimals(allow_nan=False)
)
values = st.recursive(
    plain, lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner), max_leaves=12
)


class Colour(Enum):
    RED = "red"
    SEVEN = 7


class Point(Record):
    x: int
    name: str


scalar_keys = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None))
    | st.binary()
    | times
    | st.decimals(allow_nan=False)
    | st.sampled_from(Colour)
    | st.builds(Point, st.integers(), st.text())
)
keys = st.recursive(
    scalar_keys, lambda inner: st.lists(inner).map(tuple) | st.frozensets(inner, max_size=3), max_leaves=8
)


def through_json(told: Any) -> Any:
    return json.loads(json.dumps(told, allow_nan=False))


@given(values)
def test_a_value_is_the_same_bytes_again(value: Any) -> None:
    data = encoded(value)
    assert value_bytes(through_json(value_json(data))) == data


@given(st.binary(min_size=1))
def test_bytes_that_are_no_value_are_the_same_again_too(data: bytes) -> None:
    assert value_bytes(through_json(value_json(data))) == data


@given(keys)
def test_a_key_is_the_same_bytes_again_whatever_its_type(key: Any) -> None:
    form = key_bytes(key)
    assert key_form(through_json(key_json(form))) == form


@given(st.binary())
def test_bytes_that_are_no_key_are_the_same_again_too(form: bytes) -> None:
    assert key_form(through_json(key_json(form))) == form


@given(st.integers(-(10**15), 10**15))
def test_a_timer_is_due_at_the_same_microsecond_again(due: int) -> None:
    assert due_of(time_text(due)) == due


SCHEMA: Any = {"kind": "bolt", "how": "state", "tasks": 1, "state": "int", "streams": {}, "reads": {}, "kept": True}


@given(
    st.lists(
        st.tuples(
            keys.map(key_bytes),
            st.none() | values.map(encoded),
            st.dictionaries(st.text(), st.integers(0, 10**15)),
            st.integers(0, 10**15),
            st.integers(0, 3),
        ),
        max_size=5,
    )
)
def test_lines_are_the_same_state_again(rows: list[tuple[bytes, bytes | None, dict[str, int], int, int]]) -> None:
    kept = [KeptKey(slot_of(row[0]), *row) for row in rows if row[1] is not None or any(row[2:])]
    header = Header("t", "r", "count", len(kept), SCHEMA)
    lines = [header_line(header), *map(row_line, kept)]
    assert all(line.isascii() and line.isprintable() for line in lines)
    ((found, again),) = ((one, list(rows)) for one, rows in Reading([line.encode() for line in lines], "f").sections())
    assert (found, again) == (header, kept)


@pytest.mark.parametrize(
    ("outputs", "timer_outputs", "line"),
    [
        (0, 0, None),
        (1, 0, "1 output"),
        (4, 1, "4 outputs, and 1 output of timers"),
        (0, 2, "0 outputs, and 2 outputs of timers"),
    ],
)
def test_a_key_says_how_many_outputs_it_has_had(outputs: int, timer_outputs: int, line: str | None) -> None:
    kept = KeptKey(slot_of(key_bytes("a")), key_bytes("a"), encoded(1), {}, outputs, timer_outputs)
    had = [text.split(maxsplit=1)[1] for text in shown("count", kept, 0, "int", None) if text.startswith("  had ")]
    assert had == ([line] if line else [])


def test_a_value_says_of_what_kind_it_is() -> None:
    value = (1, 1.0, "1", b"1", None, True, datetime(2026, 1, 1, tzinfo=UTC), float("inf"), Decimal("1.10"))
    told = value_json(encoded(value))
    assert json.dumps(told) == (
        '[1, 1.0, "1", {"bytes": "MQ=="}, null, true, {"datetime": "2026-01-01T00:00:00+00:00"}, '
        '{"float": "inf"}, "1.10"]'
    )
    assert key_json(key_bytes((1, Decimal("1.10"), Colour.RED, frozenset({2})))) == [
        1,
        {"decimal": "1.1"},
        {"enum": "red"},
        {"set": [2]},
    ]
    assert (key_json(b""), key_json(key_bytes(Point(1, "a")))) == ({"whole": True}, {"record": [1, "a"]})


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("42", 42),
        ("42", "42"),
        ('"42"', "42"),
        ("42", 42.0),
        ("42", Decimal(42)),
        ("1.10", Decimal("1.1")),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ("null", "null"),
        ("red", Colour.RED),
        ("7", Colour.SEVEN),
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ('["a", 1]', ("a", 1)),
        ('["red", 7]', (Colour.RED, Colour.SEVEN)),
        ('["2026-01-01T00:00:00+00:00", 1.5]', (datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.5"))),
        ('[1, "a"]', Point(1, "a")),
        ('{"bytes": "AAE="}', b"\0\1"),
        ('{"set": [1, 2]}', frozenset({1, 2})),
        ("", ""),
    ],
)
def test_a_word_means_the_keys_that_are_written_so(word: str, key: Any) -> None:
    assert key_bytes(key) in keys_meant(word)


def test_the_likeliest_key_comes_first() -> None:
    assert keys_meant("42")[0] == key_bytes(42)
    assert keys_meant("10.0.0.1")[0] == key_bytes("10.0.0.1")
    assert b"" in keys_meant("")


@given(st.text())
def test_any_word_means_its_own_text_and_not_too_many_keys(word: str) -> None:
    meant = keys_meant(word)
    assert key_bytes(word) in meant
    assert len(meant) < 300


HEADER = header_line(Header("t", "", "count", 1, SCHEMA))
GOOD = row_line(KeptKey(slot_of(key_bytes("a")), key_bytes("a"), encoded(1), {}))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "f:1: the file is empty"),
        (["{"], "f:1: no JSON"),
        (["[]"], "f:1: not an object"),
        ([GOOD], "f:1: a header is expected here"),
        ([HEADER.replace('"keys": 1', '"keys": -1')], "f:1: a header that does not say how many"),
        ([HEADER.replace('"state": "int"', '"state": 7')], "f:1: a header whose fields"),
        ([HEADER.replace('"format": 1', '"format": 2')], "f:1: format 2; this Kedge reads format 1"),
        ([HEADER], "f ends after 0 of 1 keys of 'count'"),
        ([HEADER, ""], "f:2: no JSON"),
        ([HEADER, GOOD.replace('"value": 1', '"value": NaN')], "f:2: no JSON: NaN is no number"),
        ([HEADER, GOOD.replace('"value": 1', '"value": {"bytes": "!"}')], "f:2: '!' is no base64"),
        ([HEADER, GOOD.replace('"value": 1', '"value": {"byte": "MQ=="}')], "f:2: 'byte' is not a known mark"),
        ([HEADER, GOOD.replace('"value": 1', '"value": {"a": 1, "b": 2}')], "f:2: .* is not an object with one name"),
        ([HEADER, GOOD.replace('"value": 1', '"value": null')], "f:2: neither a value nor a timer"),
        ([HEADER, GOOD.replace('"value": 1', f'"value": {2**64}')], "f:2: .*can't be encoded"),
        ([HEADER, GOOD.replace('"key": "a"', '"key": "b"')], "f:2: the key's slot is"),
        ([HEADER, GOOD.replace('"timers": {}', '"timers": {"a": "2026-01-01"}')], "f:2: .* is no time with a zone"),
        ([HEADER, GOOD.replace('"timers": {}', '"timer": {}')], "f:2: a key is expected here"),
        ([HEADER, GOOD.replace("}}", '}, "outputs": -1}')], "f:2: a number of outputs is expected"),
        ([HEADER, GOOD.replace("}}", '}, "outputs": true}')], "f:2: a number of outputs is expected"),
        ([HEADER, GOOD, GOOD], "f:3: a header is expected here"),
        ([HEADER, GOOD, HEADER], "f:3: a second header of 'count'"),
        ([HEADER, "[" * 100_000], "f:2: no JSON"),
    ],
)
def test_garbage_is_refused_with_its_line(lines: list[str], why: str) -> None:
    reading = Reading([line.encode() for line in lines], "f")
    with pytest.raises(ConfigurationError, match=why):
        deque(list(rows) for _, rows in reading.sections())


def test_what_no_key_can_be_is_refused() -> None:
    for told in (
        {"whole": False},
        {"decimal": "x"},
        {"decimal": "NaN"},
        {"enum": {"a": 1, "b": 2}},
        {"set": 1},
        {"x": 1},
    ):
        with pytest.raises(ValueError, match=r".+"):
            key_form(told)


def test_an_int_that_is_too_long_for_json_stands_as_its_bytes() -> None:
    form = key_bytes((10**5_000, 1))
    assert key_json(form).keys() == {"form"}
    assert key_form(through_json(key_json(form))) == form


def test_long_times_are_exact() -> None:
    assert time_text(1) == "1970-01-01T00:00:00.000001+00:00"
    assert due_of("1970-01-01T01:00:00+01:00") == 0
    assert due_of(time_text(int(timedelta(days=20_000) / timedelta(microseconds=1)) + 7)) % 1_000_000 == 7
