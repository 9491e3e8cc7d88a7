"""Frames of RabbitMQ come to aiormq without what pamqp refuses to read, and otherwise as they are."""

import asyncio
import random
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pamqp.decode
import pamqp.frame
import pytest
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from topology.clients.amqp_frames import ReadableFrames

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECONDS = struct.pack(">Q", int(AT.timestamp()))
NANOSECONDS = struct.pack(">Q", int(AT.timestamp()) * 10**9)
MESSAGE: dict[str, Any] = {
    "content_type": "text/csv",
    "content_encoding": "gzip",
    "headers": {"origin": "test", "weight": 3, "list": [1, "two", {"three": 3.5}], "when": AT, "no": None, "yes": True},
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "expiration": "60000",
    "message_id": "m-1",
    "timestamp": AT,
    "message_type": "login",
    "user_id": "guest",
    "app_id": "app",
}


def header(**properties: Any) -> bytes:
    """The frame of a content header, of channel 1."""
    return pamqp.frame.marshal(ContentHeader(properties=Basic.Properties(**properties), body_size=3), 1)


def delivery(exchange: str = "", key: str = "queue") -> bytes:
    return pamqp.frame.marshal(Basic.Deliver("ctag1.0", 3, True, exchange, key), 1)


def changed(frame: bytes, old: bytes, new: bytes) -> bytes:
    assert frame.count(old) == 1
    assert len(old) == len(new)
    return frame.replace(old, new)


async def through(data: bytes) -> tuple[bytes, list[str]]:
    """The bytes that aiormq gets, and the names that are left out."""
    reader, left_out = asyncio.StreamReader(), list[str]()
    reader.feed_data(data)
    reader.feed_eof()
    frames, found = ReadableFrames(reader, pamqp.decode, left_out.append), b""
    while not frames.at_eof():
        found += await frames.readexactly(1)
    return found, left_out


def properties_of(frame: bytes) -> dict[str, Any]:
    size, channel, found = pamqp.frame.unmarshal(frame)
    assert (size, channel) == (len(frame), 1)
    assert isinstance(found, ContentHeader)
    assert found.body_size == 3
    return {name: value for name, value in found.properties if value is not None}


async def test_frames_that_can_be_read_stay_as_they_are() -> None:
    frames = (delivery(), header(**MESSAGE), pamqp.frame.marshal(ContentBody(b"\xff\x00\xce"), 1), header())
    data = b"".join(frames)
    assert await through(data) == (data, [])


ODD = {
    "timestamp": (SECONDS, NANOSECONDS, {"timestamp": AT}),
    "message-id": (b"\x03m-1", b"\x03m\xff1", {}),
    "correlation-id": (b"c-1", b"c\x801", {}),
    "type": (b"\x05login", b"\x05l\xf6gin", {}),
    "content-type": (b"text/csv", b"text\xe9csv", {}),
    "app-id": (b"app", b"\xc3pp", {}),
}
NAMES = {"type": "message_type"}


@pytest.mark.parametrize("name", ODD)
async def test_a_property_that_cannot_be_read_is_left_out_alone(name: str) -> None:
    old, new, _ = ODD[name]
    message = {**MESSAGE, "headers": {"origin": "test"}}  # without another time
    frame = changed(header(**message), old, new)
    with pytest.raises(Exception, match=r".*"):
        pamqp.frame.unmarshal(frame)
    found, left_out = await through(frame)
    assert left_out == [name]
    wanted = properties_of(header(**message))
    del wanted[NAMES.get(name, name.replace("-", "_"))]
    assert properties_of(found) == wanted


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        (b"\x04whenT" + SECONDS, b"\x04whenT" + NANOSECONDS, "when"),
        (b"\x04whenT" + SECONDS, b"\xffwhenT" + SECONDS, None),
        (b"\x06origin", b"\x06ori\xffin", "ori\ufffdin"),
        (b"\x05three", b"\x05th\xffee", "list"),
        (b"\x06originS", b"\x06origin?", "origin"),
    ],
)
async def test_a_header_that_cannot_be_read_is_left_out_and_the_other_properties_stay(
    old: bytes, new: bytes, name: str | None
) -> None:
    message = {**MESSAGE, "timestamp": datetime(2026, 1, 1, tzinfo=UTC)}  # another time than the header's
    frame = changed(header(**message), old, new)
    found, left_out = await through(frame)
    seen, wanted = properties_of(found), properties_of(header(**message))
    headers = seen.pop("headers", {})
    assert headers.items() <= wanted.pop("headers").items()
    assert seen == wanted
    assert left_out
    if name is not None:
        assert left_out[0] == f"header {name!r}"
        assert name not in headers


async def test_headers_of_all_types_of_rabbitmq_stay_beside_one_that_is_left_out() -> None:
    headers: dict[str, Any] = {
        **{"text": "a", "bytes": bytearray(b"b"), "true": True, "byte": -1, "short": 300, "int": 70_000, "long": 2**40},
        **{
            "float": 0.5,
            "decimal": Decimal("1.25"),
            "list": [1, "a"],
            "table": {"a": {"b": 1}},
            "time": datetime(2026, 1, 1, tzinfo=UTC),
            "no": None,
        },
    }
    frame = changed(header(headers={**headers, "last": AT}, message_id="m"), SECONDS, NANOSECONDS)
    found, left_out = await through(frame)
    assert left_out == ["header 'last'"]
    assert properties_of(found) == properties_of(header(headers=headers, message_id="m"))


async def test_a_routing_key_or_an_exchange_that_is_not_utf_8_has_question_marks() -> None:
    frame = changed(changed(delivery("orders", "key.one"), b"orders", b"\xf6rders"), b"key.one", b"key.\xff\xfee")
    found, left_out = await through(frame)
    _, _, given = pamqp.frame.unmarshal(found)
    assert isinstance(given, Basic.Deliver)
    assert (given.exchange, given.routing_key, given.delivery_tag, given.redelivered) == ("?rders", "key.??e", 3, True)
    assert left_out == ["routing-key"]


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_byte_of_a_headers_properties_differs_no_frame_is_one_that_ends_the_connection(
    seed: int,
) -> None:
    chance = random.Random(seed)
    plain = header(**{name: value for name, value in MESSAGE.items() if name != "headers"})
    refused = 0
    for _ in range(400):
        data = bytearray(plain)
        for at in chance.sample(range(24, len(plain) - 1), chance.randint(1, 3)):  # after the flags
            data[at] = chance.randrange(256)
        found, _ = await through(bytes(data) + delivery())
        assert found.endswith(delivery())
        frame = found.removesuffix(delivery())
        try:
            pamqp.frame.unmarshal(frame)
        except Exception:
            refused += 1  # only if the parts do not fit in the frame, which RabbitMQ does not send
            assert frame == bytes(data), f"seed {seed}"
    assert refused < 400


async def test_a_connection_that_ends_within_a_frame_is_said_to_be_incomplete() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(header(**MESSAGE)[:30])
    reader.feed_eof()
    frames = ReadableFrames(reader, pamqp.decode, lambda _: None)
    with pytest.raises(asyncio.IncompleteReadError):
        await frames.readexactly(1)
    assert frames.at_eof()


async def test_a_server_of_another_version_is_heard() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"AMQP\x00\x01\x00\x00")
    frames = ReadableFrames(reader, pamqp.decode, lambda _: None)
    assert await frames.readexactly(1) + await frames.readexactly(6) == b"AMQP\x00\x01\x00"
