"""`MqttSource` on a real server: its options, its session, and what it says of what is wrong."""

import asyncio
import json
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from mqtt_kit import PORT, at, connected, forget, kept, publish, reached, subscribe
from tcp_proxy import TcpProxy

import topology.clients.mqtt as client_module
from spouts.payload.formats import Json
from spouts.servers.mqtt import MqttSource
from topology import ConfigurationError, NotYet, Record, Secret
from topology.clients.mqtt import is_topic
from topology.clients.tls import Tls
from topology.testing.sources import SourceItem
from topology.testing.sources.driver import DrivenSource, Memory, is_malformed, within

pytestmark = pytest.mark.service("mqtt")

COME_S = 30.0


@pytest.fixture
def topic() -> Iterator[str]:
    """A topic of the test's own; sessions of that name, of -0 and of -1 are ended."""
    try:
        reached()
    except Exception as error:
        pytest.skip(f"no MQTT server to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")
    name = f"kedge-{secrets.token_hex(6)}"
    yield name
    for session in (name, f"{name}-0", f"{name}-1"):
        forget(session)


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    one = TcpProxy(PORT)
    yield one
    one.close()


class Defaulted(Record):
    text: str
    number: int = 0


def body(number: int) -> bytes:
    return b'{"number": %d, "text": "item %d"}' % (number, number)


def bodies(*numbers: int) -> list[bytes]:
    return [body(number) for number in numbers]


def source(topic: str, port: int = PORT, **options: Any) -> MqttSource[Any]:
    given = {"topics": topic, "value": SourceItem, "client_id": topic, "session_expiry_s": 600, **options}
    return MqttSource(at(port), **given)


async def sent(topic: str, *numbers: int, **options: Any) -> None:
    await asyncio.to_thread(publish, topic, bodies(*numbers), **options)


def numbers(driven: DrivenSource) -> list[int]:
    return [message.record.number for message in driven.messages]


async def refusal(spout: MqttSource[Any]) -> str:
    """What `open` says."""
    driven = DrivenSource(spout, Memory())
    with pytest.raises(ConfigurationError) as raised:
        await driven.open()
    await driven.close()
    return str(raised.value)


async def test_fields_and_the_event_time_come_from_payload_and_from_what_is_beside_it(topic: str) -> None:
    class BesideMqtt(Record):
        number: int
        measured_at: datetime
        topic: str
        qos: int
        retain: bool
        origin: str

    fields = {"topic": "topic", "qos": "qos", "retain": "retain", "origin": "header:origin"}
    value = Json(BesideMqtt, fields=fields, at="measured_at")
    driven = DrivenSource(source(topic, topics=f"{topic}/+", value=value), Memory())
    await driven.open()
    payload = b'{"number": 7, "measured_at": "2026-03-01T12:00:00Z"}'
    await asyncio.to_thread(publish, f"{topic}/a", [payload], facts=[("origin", "test")])
    (message,) = await driven.take(1, COME_S)
    await driven.close()
    when = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    assert message.record == BesideMqtt(7, when, f"{topic}/a", 1, False, "test")
    assert message.at == when


async def test_several_filters_are_read(topic: str) -> None:
    driven = DrivenSource(source(topic, topics=[f"{topic}/a/+", f"{topic}/b/#"]), Memory())
    await driven.open()
    for number, place in enumerate(("a/x", "a/x/y", "b", "b/x/y", "c")):
        await sent(f"{topic}/{place}", number)
    await driven.take(3, COME_S)
    await driven.rest()
    await driven.close()
    assert sorted(numbers(driven)) == [0, 2, 3]


async def test_retained_messages_come_once_to_a_new_subscription(topic: str) -> None:
    await sent(f"{topic}/state", 1, retain=True)
    try:
        memory = Memory()
        for wanted in ([1], []):
            driven = DrivenSource(source(topic, topics=f"{topic}/#"), memory)
            await driven.open()
            await driven.take(len(wanted), COME_S)
            await driven.rest()
            await driven.settle(driven.messages)
            await driven.close()
            assert numbers(driven) == wanted
        without = DrivenSource(source(topic, topics=f"{topic}/#", client_id=f"{topic}-0", retained=False), Memory())
        await without.open()
        await sent(f"{topic}/state", 2)
        await without.take(1, COME_S)
        await without.rest()
        await without.close()
        assert numbers(without) == [2]
    finally:
        await asyncio.to_thread(publish, f"{topic}/state", [b""], retain=True)


async def test_messages_without_ids_keep_their_names_over_a_lost_connection(topic: str, proxy: TcpProxy) -> None:
    spout = source(topic, proxy.port)
    assert spout.given_again == "other ids"
    driven = DrivenSource(spout, Memory())
    await driven.open()
    await sent(topic, 1, 1, 2)
    await driven.take(3, COME_S)
    proxy.reset()
    await sent(topic, 3)
    await driven.take(4, COME_S)
    await driven.rest()
    await driven.settle(driven.messages)
    again = "".join(driven.spout.summary())
    await driven.close()
    assert sorted(numbers(driven)) == [1, 1, 2, 3]
    assert "3 given again" in again
    assert await asyncio.to_thread(kept, topic, 0) == []


async def test_a_field_names_the_messages_and_one_that_was_sent_twice_is_one(topic: str) -> None:
    spout = source(topic, value=Json(SourceItem, id="number"))
    assert spout.given_again == "same"
    driven = DrivenSource(spout, Memory())
    await driven.open()
    await sent(topic, 1, 1, 2)
    await driven.take(2, COME_S)
    await driven.rest()
    await driven.settle(driven.messages)
    await sent(topic, 1)
    await driven.rest()
    await driven.close()
    assert [message.id for message in driven.messages] == ["1", "2"]
    assert await asyncio.to_thread(kept, topic, 0) == [], "all four are acknowledged"


async def test_another_content_or_topic_under_the_id_of_a_field_is_malformed(topic: str) -> None:
    driven = DrivenSource(source(topic, topics=f"{topic}/+", value=Json(SourceItem, id="number")), Memory())
    await driven.open()
    other, late = b'{"number": 1, "text": "other"}', b'{"number": 2, "text": "late"}'
    await asyncio.to_thread(publish, f"{topic}/a", [body(1), other, body(1), body(2)])
    await asyncio.to_thread(publish, f"{topic}/b", [body(1)])
    await driven.take(4, COME_S)
    await driven.rest()
    await driven.settle(driven.messages)
    await asyncio.to_thread(publish, f"{topic}/a", [late, body(2)])  # when the first 2 is done
    await driven.take(5, COME_S)
    await driven.rest()
    await driven.settle(driven.messages[4:])
    await driven.close()
    assert [getattr(message.record, "data", message.record) for message in driven.messages] == [
        *(SourceItem(1, "item 1"), other, SourceItem(2, "item 2"), body(1), late)
    ]
    assert {message.record.error for message in driven.messages if is_malformed(message)} == {
        "the id '1' was used for other content",
        "the id '2' was used for other content",
    }
    assert len({message.id for message in driven.messages}) == 5
    assert await asyncio.to_thread(kept, topic, 0) == [], "all are acknowledged"


async def test_what_is_settled_in_any_order_is_gone_and_the_rest_comes_again(topic: str) -> None:
    driven = DrivenSource(source(topic), Memory())
    await driven.open()
    await sent(topic, *range(1, 11))
    await driven.take(10, COME_S)
    by_number = {message.record.number: message for message in driven.messages}
    for part in ((5, 9), (2, 1), (3,)):
        await driven.settle([by_number[number] for number in part])
        await driven.rest(0.05)
    await driven.close()
    left = await asyncio.to_thread(kept, topic, 5)
    assert [json.loads(message.payload)["number"] for message in left] == [4, 6, 7, 8, 10]


async def test_the_server_gives_prefetch_messages_and_more_once_some_are_settled(topic: str) -> None:
    driven = DrivenSource(source(topic, prefetch=10), Memory())
    await driven.open()
    await sent(topic, *range(1, 26))
    await driven.take(25, 1.0)
    assert numbers(driven) == [*range(1, 11)]
    await driven.settle(driven.messages[:4])  # Mosquitto 2.0.11 gives all the others then, a newer one four
    await driven.take(14, COME_S)
    await driven.settle(driven.messages)
    await driven.take(24, COME_S)
    await driven.settle(driven.messages)
    await driven.take(25, COME_S)
    await driven.close()
    assert numbers(driven) == [*range(1, 26)]


async def test_what_a_server_gives_beyond_prefetch_is_held_back(topic: str) -> None:
    driven = DrivenSource(source(topic, prefetch=5), Memory())
    await driven.open()
    connection = driven.spout._connection
    await sent(topic, *range(500))
    await driven.take(5, COME_S)
    await driven.settle(driven.messages)
    assert await within(COME_S, lambda: len(driven.spout._ready) == 5)
    await asyncio.sleep(0.5)  # Mosquitto 2.0.11 gives all of them then
    assert len(connection._come) + len(driven.spout._ready) <= 2 * 5 + 1
    while len(driven.messages) < 500:
        before = len(driven.messages)
        await driven.take(before + 1, COME_S)
        await driven.settle(driven.messages[before:])
    await driven.close()
    assert numbers(driven) == [*range(500)]
    assert await asyncio.to_thread(kept, topic, 0) == []


async def test_a_session_with_more_messages_than_prefetch_is_taken_up(topic: str) -> None:
    memory = Memory()
    for prefetch in (1_000, 5):
        driven = DrivenSource(source(topic, value=Json(SourceItem, id="number"), prefetch=prefetch), memory)
        await driven.open()
        if prefetch == 1_000:
            await sent(topic, *range(500))
        before = 0
        while len(driven.messages) < 500:
            await driven.take(before + 1, COME_S)
            if prefetch == 5:
                await driven.settle(driven.messages[before:])
            before = len(driven.messages)
        await driven.close()
        assert sorted(numbers(driven)) == [*range(500)]
    assert await asyncio.to_thread(kept, topic, 0) == []


async def test_a_message_of_qos_0_comes_and_is_not_given_again(topic: str) -> None:
    memory = Memory()
    driven = DrivenSource(source(topic), memory)
    await driven.open()
    await sent(topic, 1, qos=0)
    await sent(topic, 2)
    await driven.take(2, COME_S)
    await driven.close()
    again = DrivenSource(source(topic), memory)
    await again.open()
    await again.take(1, COME_S)
    await again.rest()
    await again.settle(again.messages)
    await again.close()
    assert (numbers(driven), numbers(again)) == ([1, 2], [2])


async def test_a_flood_of_qos_0_is_held_back_and_the_connection_stays(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "KEEPALIVE_S", 1)
    monkeypatch.setattr(client_module, "LOOK_S", 0.2)
    driven = DrivenSource(source(topic, prefetch=5), Memory())
    await driven.open()
    connection = driven.spout._connection
    first = connection._client
    await sent(topic, *range(200), qos=0)
    assert await within(COME_S, lambda: connection._client._is_paused)
    await asyncio.sleep(3)  # three times the keepalive
    assert connection._client is first
    assert not first.lost.is_set()
    assert len(connection._come) + len(driven.spout._ready) <= 2 * 5 + client_module.READ_AT_ONCE
    await driven.take(200, COME_S)
    await driven.close()
    assert numbers(driven) == [*range(200)]


async def test_a_source_that_is_closed_in_a_pause_keeps_nothing_of_what_comes_then_and_it_is_given_again(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spouts.broker.payload_room.WAITING_BYTES_MAX", 100_000)
    memory = Memory()
    driven = DrivenSource(source(topic, value=Json(SourceItem, id="number")), memory)
    await driven.open()
    connection, made = driven.spout._connection, 0
    long = [b'{"number": %d, "text": "%s"}' % (number, b"x" * 20_000) for number in range(300)]
    await asyncio.to_thread(publish, topic, long)
    assert await within(COME_S, lambda: connection._client._is_paused)
    await asyncio.sleep(0.2)
    received = connection._received

    def counted(*given: Any) -> Any:
        nonlocal made
        made += 1
        return received(*given)

    monkeypatch.setattr(connection, "_received", counted)
    await driven.close()
    assert made == 0
    again = DrivenSource(source(topic, value=Json(SourceItem, id="number")), memory)
    await again.open()
    await again.take(300, COME_S)
    await again.settle(again.messages)
    await again.close()
    assert sorted(numbers(again)) == [*range(300)]


async def test_a_run_with_another_topic_gets_nothing_of_the_former_one(topic: str) -> None:
    memory = Memory()
    for place, number in (("a", 1), ("b", 2)):
        driven = DrivenSource(source(topic, topics=f"{topic}/{place}"), memory)
        await driven.open()
        for other in ("a", "b"):
            await sent(f"{topic}/{other}", number if other == place else 99)
        await driven.take(1, COME_S)
        await driven.rest()
        await driven.settle(driven.messages)
        await driven.close()
        assert numbers(driven) == [number]


async def test_a_session_of_one_task_that_becomes_one_of_two_gives_each_message_once(topic: str) -> None:
    await asyncio.to_thread(subscribe, f"{topic}-0", topic)  # as a run with one task and this client id has left it
    sources = [DrivenSource(source(topic, value=Json(SourceItem, id="number")), Memory(), 2, index) for index in (0, 1)]
    for one in sources:
        await one.open()
    await sent(topic, *range(50))
    for one in sources:
        await one.rest()
        await one.settle(one.messages)
        await one.close()
    assert sorted(numbers(sources[0]) + numbers(sources[1])) == [*range(50)]


async def test_another_client_with_the_same_id_takes_the_session_for_a_while_only(topic: str) -> None:
    driven = DrivenSource(source(topic), Memory())
    await driven.open()
    polling = asyncio.ensure_future(driven.poll())

    def take_over() -> None:
        with connected(PORT, topic, clean=False, expiry_s=600):
            pass

    await asyncio.to_thread(take_over)
    assert await within(COME_S, lambda: driven.spout._retries.retries > 0)
    await sent(topic, 1)
    await asyncio.wait((polling,), timeout=COME_S)
    assert numbers(driven) == [1]
    await driven.close()


async def test_the_reason_that_a_server_gives_for_a_disconnection_is_told() -> None:
    """Mosquitto 2.0.11 closes the connection without one, so these are the bytes of another server."""
    accepted, taken_over = b"\x20\x03\x00\x00\x00", b"\xe0\x02\x8e\x00"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(accepted)
        await reader.read(1_000)  # a subscription
        writer.write(taken_over)
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        driven = DrivenSource(source("items", server.sockets[0].getsockname()[1]), Memory())
        with pytest.raises(NotYet, match="another client has connected with this client id"):
            await driven.open()


async def test_an_acknowledgement_that_a_takeover_could_drop_is_waited_for(topic: str) -> None:
    memory = Memory()
    for _ in range(5):
        driven = DrivenSource(source(topic), memory)
        await driven.open()
        await driven.rest(0.1)
        assert driven.messages == []
        await sent(topic, *range(200))
        await driven.take(200, COME_S)
        await driven.settle(driven.messages)
        await driven.close()


async def test_a_server_that_does_not_answer_is_said_at_the_start(topic: str, proxy: TcpProxy) -> None:
    driven = DrivenSource(source(topic, 9), Memory())
    with pytest.raises(NotYet, match=r"MqttSource: mqtt://127\.0\.0\.1:9 can't be used: .*Connect call failed"):
        await driven.open()
    proxy.swallows = True
    driven = DrivenSource(source(topic, proxy.port), Memory())
    with pytest.raises(NotYet, match=r"can't be used: it has not answered within 3 s"):
        await driven.open()


@pytest.mark.parametrize(
    ("topic", "as_topic", "as_filter"),
    [
        ("a/b", True, True),
        ("a/+/b", False, True),
        ("a/#", False, True),
        ("#", False, True),
        ("+", False, True),
        ("a/#/b", False, False),
        ("a+/b", False, False),
        ("a#", False, False),
        ("", False, False),
        ("a\0b", False, False),
        ("\ud800", False, False),
        ("x" * 65_536, False, False),
        (3, False, False),
    ],
)
def test_topics_and_filters_are_told_from_other_texts(topic: Any, as_topic: bool, as_filter: bool) -> None:
    assert (is_topic(topic), is_topic(topic, is_filter=True)) == (as_topic, as_filter)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"url": "http://127.0.0.1"}, "url is mqtt://"),
        ({"url": "mqtt://"}, "url is mqtt://"),
        ({"url": "mqtt://[half"}, "url is mqtt://"),
        ({"url": "mqtt://127.0.0.1/topic"}, "url is mqtt://"),
        ({"tls": Tls()}, "tls needs a url that begins with mqtts://"),
        ({"topics": []}, "topics has at least one"),
        ({"topics": "a/#/b"}, "topics has topic filters"),
        ({"topics": "$share/group/a"}, "topics has topic filters"),
        ({"client_id": ""}, "client_id is a text"),
        ({"session_expiry_s": 0}, "session_expiry_s is a number of seconds"),
        ({"password": "x"}, "a password needs a user"),
        ({"url": "mqtt://ann:secret-word@127.0.0.1", "user": "bob"}, "in the url, or beside it"),
        ({"prefetch": 0}, "prefetch is a number of messages"),
        ({"prefetch": 65_536}, "prefetch is a number of messages up to 65,535"),
        ({"value": dict}, "not dict"),
        ({"value": Json(Defaulted, id="number")}, "id names a field without a default"),
        ({"value": Json(SourceItem, fields={"text": "subject"})}, "there is qos, retain, topic"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(options: dict[str, Any], why: str) -> None:
    given = {"url": "mqtt://127.0.0.1", "topics": "items", **options}
    with pytest.raises(ConfigurationError) as raised:
        MqttSource(**given)
    assert str(raised.value).startswith("MqttSource: ")
    assert why in str(raised.value)
    assert "secret-word" not in str(raised.value)


def test_a_password_is_not_shown(topic: str) -> None:
    one = MqttSource(Secret("mqtt://ann:secret-word@127.0.0.1:1884"), topic)
    assert (one.access.user, one.access.port) == ("ann", 1884)
    assert one.access.password is not None
    assert one.access.password.reveal() == "secret-word"
    assert "secret-word" not in repr(vars(one))
