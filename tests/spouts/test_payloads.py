"""Payloads become records by their class; what does not fit is malformed, with the bytes and the reason."""

import enum
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from spouts import Line
from spouts.payload.decoder import Decoded, PayloadDecoder
from spouts.payload.formats import Json, Msgpack, Payload
from topology.dead_letters import Malformed
from topology.errors import ConfigurationError, Reject
from topology.records import Record

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Kind(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Place(Record):
    lat: float
    lon: float = 0.0


class Login(Record):
    user: str
    count: int = 1
    kind: Kind = Kind.GOOD
    place: Place | None = None
    places: tuple[Place, ...] = ()
    tags: frozenset[str] = frozenset()
    at: datetime | None = None
    cents: Decimal = Decimal(0)
    host: str = msgspec.field(default="", name="hostName")


class Reading(Record):
    sensor: str
    value: float
    number: int


class Tree(Record):
    name: str
    child: "Tree | None" = None


def decoded(value: Any, data: bytes, attributes: dict[str, Any] | None = None, at: datetime | None = None) -> Any:
    offered = frozenset({"topic", "sequence"})
    found: Decoded[Any] = PayloadDecoder("Source", value, offered).decode(Payload(data, attributes or {}, at))
    return found


def reason(value: Any, data: bytes, **attributes: Any) -> str:
    record = decoded(value, data, attributes).record
    assert isinstance(record, Malformed), record
    assert record.data == data
    return record.error


def test_a_json_object_becomes_the_record_with_its_defaults_and_other_keys_are_ignored() -> None:
    assert decoded(Login, b'{"user": "ann", "extra": [1]}').record == Login("ann")


def test_nested_records_tuples_sets_enums_decimals_and_renamed_fields_are_read() -> None:
    data = {
        "user": "ann",
        "kind": "bad",
        "place": {"lat": 1.5},
        "places": [{"lat": 1, "lon": 2}],
        "tags": ["a", "b"],
        "cents": "12.50",
        "hostName": "h1",
    }
    wanted = Login(
        "ann",
        kind=Kind.BAD,
        place=Place(1.5),
        places=(Place(1.0, 2.0),),
        tags=frozenset({"a", "b"}),
        cents=Decimal("12.50"),
        host="h1",
    )
    assert decoded(Login, json.dumps(data).encode()).record == wanted
    assert decoded(Msgpack(Login), msgspec.msgpack.encode(data)).record == wanted


def test_times_become_utc_and_a_time_without_a_zone_does_not_fit() -> None:
    found = decoded(Login, b'{"user": "ann", "at": "2026-03-01T14:00:00+02:00"}').record
    assert found.at == AT
    assert found.at.tzinfo is UTC
    assert "no zone" in reason(Login, b'{"user": "ann", "at": "2026-03-01T14:00:00"}')


def test_the_event_time_is_that_of_the_named_field_or_the_servers() -> None:
    there = AT.astimezone(timezone(timedelta(hours=2))).isoformat()
    data = json.dumps({"user": "ann", "at": there}).encode()
    assert decoded(Login, data, at=AT + timedelta(hours=1)).at == AT + timedelta(hours=1)
    assert decoded(Json(Login, at="at"), data, at=AT + timedelta(hours=1)).at == AT
    assert decoded(Json(Login, at="at"), b'{"user": "ann"}', at=AT).at is None


def test_fields_may_be_facts_beside_the_payload_and_are_converted() -> None:
    value = Json(Reading, fields={"sensor": "topic", "number": "header:n"})
    found = decoded(value, b'{"value": 2}', {"topic": "s/1", "header:n": "7"}).record
    assert found == Reading("s/1", 2.0, 7)
    assert "`int`" in reason(value, b'{"value": 2}', topic="s/1", **{"header:n": "seven"})


class Beside(Record):
    value: int
    sender: str
    label: str | None
    room: str = "lobby"
    weight: int | None = 5
    tags: tuple[str, ...] = msgspec.field(default_factory=tuple)


BESIDE = Json(
    Beside,
    fields={
        **{"sender": "header:sender", "room": "header:room", "weight": "header:weight", "label": "header:label"},
        "tags": "header:tags",
    },
)


@pytest.mark.parametrize("absent", [{}, dict.fromkeys(BESIDE.fields or {})], ids=["left-out", "none"])
def test_a_fact_that_is_absent_leaves_the_default_or_none_and_never_the_text_none(absent: dict[str, None]) -> None:
    attributes = {f"header:{name}": None for name in absent} | {"header:sender": "ann"}
    found = decoded(BESIDE, b'{"value": 2}', attributes).record
    assert found == Beside(2, "ann", None, "lobby", 5, ())


def test_a_fact_that_is_absent_and_has_no_default_makes_the_message_malformed() -> None:
    assert reason(BESIDE, b'{"value": 2}') == "it has no header sender for the field 'sender'"
    assert reason(Json(Reading, fields={"sensor": "topic"}), b'{"value": 2, "number": 1}') == (
        "it has no topic for the field 'sensor'"
    )


@pytest.mark.parametrize(
    ("fact", "text"),
    [("ann", "ann"), ("", ""), (7, "7"), (True, "True"), (1.5, "1.5"), ("ünï".encode(), "ünï"), (AT, str(AT))],
)
def test_facts_of_other_types_become_texts(fact: Any, text: str) -> None:
    attributes = {"header:sender": "ann", "header:room": fact, "header:label": fact}
    found = decoded(BESIDE, b'{"value": 2}', attributes).record
    assert (found.room, found.label) == (text, text)


@pytest.mark.parametrize("fact", [b"\xff", [1], {"a": 1}])
def test_facts_that_are_no_text_do_not_fit_a_text(fact: Any) -> None:
    assert reason(BESIDE, b'{"value": 2}', **{"header:sender": fact})


def test_a_fact_of_a_field_that_may_be_none_is_converted() -> None:
    found = decoded(BESIDE, b'{"value": 2}', {"header:sender": "ann", "header:weight": "7", "header:label": "x"}).record
    assert (found.weight, found.label) == (7, "x")


def test_a_field_may_name_the_message() -> None:
    assert decoded(Json(Login, id="user"), b'{"user": "ann"}').id == "ann"
    assert decoded(Login, b'{"user": "ann"}').id is None
    assert decoded(Json(Login, id="user"), b"{").id is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"user": 3}', "Expected `str`, got `int` - at `$.user`"),
        (b'{"count": 3}', "Object missing required field `user`"),
        (b'["ann"]', "Expected `object`, got `array`"),
        (b'{"user": "ann"', "Input data was truncated"),
        (b"", "Input data was truncated"),
        (b'{"user": "\xff"}', "utf-8"),
        (b'{"user": "ann", "count": 3.5}', "Expected `int`, got `float` - at `$.count`"),
    ],
)
def test_a_payload_that_does_not_fit_is_malformed_with_the_reason(data: bytes, why: str) -> None:
    assert why.lower() in reason(Login, data).lower()


@pytest.mark.parametrize("field", ["number", "made"])
@pytest.mark.parametrize("form", [Json, Msgpack])
def test_a_field_with_a_default_cannot_name_messages(form: Any, field: str) -> None:
    class Order(Record):
        text: str
        number: str = ""
        made: str = msgspec.field(default_factory=str)

    with pytest.raises(ConfigurationError) as raised:
        PayloadDecoder("Source", form(Order, id=field))
    wanted = f"id names a field without a default, as messages that leave out {field!r} would be one message"
    assert wanted in str(raised.value)


def test_a_message_without_the_field_that_names_it_is_malformed() -> None:
    assert "missing required field `user`" in reason(Json(Login, id="user"), b'{"count": 2}')


def test_malformed_messages_have_the_facts_beside_the_payload_as_text() -> None:
    record = decoded(Login, b"x", {"topic": "a", "sequence": 7}).record
    assert record.attributes == (("topic", "a"), ("sequence", "7"))


def test_lines_are_text_and_never_malformed() -> None:
    assert decoded(Line, b"a b\r").record == Line("a b\r")
    assert decoded(Line, b"\xff").record == Line("�", b"\xff")


def test_a_function_makes_the_record_and_its_exception_makes_it_malformed() -> None:
    def parsed(payload: Payload) -> Login:
        user, _, count = payload.data.decode().partition(",")
        if user == "nobody":
            raise Reject("no user")
        return Login(user, int(count))

    assert decoded(parsed, b"ann,3").record == Login("ann", 3)
    assert reason(parsed, b"nobody,3") == "no user"
    assert reason(parsed, b"ann,x").startswith("ValueError: invalid literal")

    def wrong(payload: Payload) -> Login:
        return "text"  # type: ignore[return-value]

    assert "returned a str, not a Login" in reason(wrong, b"")


def test_the_streams_are_the_record_class_and_malformed() -> None:
    assert PayloadDecoder("Source", Json(Login)).emits() == (Login, Malformed)


def not_annotated(payload: Payload):  # type: ignore[no-untyped-def]
    return None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (dict, "value is a record class, Json(…), Msgpack(…) or a function, not dict"),
        (Json(dict), "not dict"),
        (7, "not 7"),
        (not_annotated, "names the record class that it returns"),
        (Json(Login, at="user"), "at names a field of type datetime"),
        (Json(Login, at="nope"), "Login has no field 'nope' for at"),
        (Json(Login, id="place"), "id names a field of type str or int or bytes"),
        (Json(Login, fields={"nope": "topic"}), "Login has no field 'nope'"),
        (
            Json(Login, fields={"user": "subject"}),
            "there is no 'subject' beside its payloads; there is sequence, topic",
        ),
        (Tree, "contains itself"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_one_sentence(value: Any, why: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        PayloadDecoder("Source", value, frozenset({"topic", "sequence"}))
    assert why in str(raised.value)
    assert str(raised.value).startswith(("Source: ", "value: "))
