"""`MqttSink` on a real server: its options, what it refuses, and servers that are slow."""

import asyncio
import contextlib
import json
import secrets
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mqtt_kit import PORT, Listener, at, fact, publish, reached
from tcp_proxy import TcpProxy

import bolts.sinks.servers.mqtt as module
from bolts.sinks.servers.mqtt import MqttSink
from topology import ConfigurationError, NotYet
from topology.clients.tls import Tls
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, give, item, opened, within

pytestmark = pytest.mark.service("mqtt")

COME_S = 30.0


@pytest.fixture
def listener() -> Iterator[Listener]:
    try:
        reached()
    except Exception as error:
        pytest.skip(f"no MQTT server to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")
    with Listener(f"kedge-{secrets.token_hex(6)}").there() as one:
        yield one


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    one = TcpProxy(PORT)
    yield one
    one.close()


class CuttingProxy(TcpProxy):
    """Cuts the connection, in place of passing it on, when a client sends bytes for which `cuts` is True."""

    def __init__(self, port: int, cuts: Callable[[bytes], bool]) -> None:
        self.cuts, self.cut = cuts, 0
        super().__init__(port)

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        with contextlib.suppress(OSError):
            from_server = here.getpeername()[1] == self._to[1]
            while data := here.recv(1 << 20):
                if not from_server and self.cuts(data):
                    self.cut += 1
                    break
                there.sendall(data)
        for each in (here, there):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def cutting() -> Iterator[CuttingProxy]:
    made = CuttingProxy(PORT, lambda data: b"kedge-key" in data)
    yield made
    made.close()


def some(count: int, begin: int = 1) -> list[Any]:
    return [delivery(item(number)) for number in range(begin, begin + count)]


async def came(listener: Listener) -> list[Any]:
    return await asyncio.to_thread(listener.messages)


def numbers(messages: list[Any]) -> list[int]:
    return [json.loads(message.payload)["number"] for message in messages]


async def test_a_message_has_its_key_and_class_and_is_not_retained(listener: Listener) -> None:
    async with opened(MqttSink(at(PORT), listener.topic)) as sink:
        await feed(sink, some(2))
        assert [*sink.summary()] == [f"2 sent to {listener.topic} of mqtt://127.0.0.1:{PORT}, 0 known already"]
    first, second = await came(listener)
    assert (first.qos, first.properties.ContentType) == (1, "application/json")
    assert len(fact(first, "kedge-key")) == 48
    assert fact(first, "kedge-key") != fact(second, "kedge-key")
    assert fact(first, "kedge-record") == "SinkItem"
    with Listener(listener.topic).there() as late:
        assert await came(late) == []


async def test_the_last_message_of_a_topic_may_be_retained(listener: Listener) -> None:
    try:
        async with opened(MqttSink(at(PORT), listener.topic, retain=True)) as sink:
            await feed(sink, some(3))
        with Listener(listener.topic).there() as late:
            assert numbers(await came(late)) == [3]
    finally:
        await asyncio.to_thread(publish, listener.topic, [b""], retain=True)


async def test_a_body_may_be_made_by_a_function(listener: Listener) -> None:
    async with opened(MqttSink(at(PORT), listener.topic, body=lambda record: f"<{record.number}>")) as sink:
        await feed(sink, some(1))
    (message,) = await came(listener)
    assert message.payload == b"<1>"
    assert not hasattr(message.properties, "ContentType")


async def test_a_topic_may_depend_on_the_record_and_a_bad_one_fails_alone(listener: Listener) -> None:
    def topic(record: Any) -> str:
        bad: dict[int, Any] = {2: "a/#", 3: 3, 4: ""}
        if record.number == 5:
            raise KeyError("no topic")
        return str(bad.get(record.number, f"{listener.topic}/{record.number}")) if record.number != 3 else 3  # type: ignore[return-value]

    async with opened(MqttSink(at(PORT), topic)) as sink:
        out = await feed(sink, some(6))
    assert sorted(out.numbers) == [1, 6]
    assert {why for _, why in out.failed} == {"its topic is a text without + and #, of at most 65,535 bytes"}
    assert [message.topic for message in await came(listener)] == [f"{listener.topic}/1", f"{listener.topic}/6"]


async def test_a_message_that_has_no_subscriber_is_acked(listener: Listener) -> None:
    async with opened(MqttSink(at(PORT), f"{listener.topic}-alone")) as sink:
        out = await feed(sink, some(3))
    assert len(out.acked) == 3


async def test_a_server_that_does_not_answer_is_said_at_the_start(listener: Listener) -> None:
    with pytest.raises(NotYet, match=r"MqttSink: mqtt://127\.0\.0\.1:9 can't be used: .*Connect call failed"):
        async with opened(MqttSink(at(9), listener.topic)):
            pass


async def test_what_a_slow_server_has_not_acknowledged_yet_is_not_sent_twice(
    listener: Listener, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    async with opened(MqttSink(at(proxy.port), listener.topic, batch=50)) as sink:
        await feed(sink, some(10))
        proxy.swallows = True
        feeding = asyncio.ensure_future(feed(sink, some(100, 11)))
        assert await within(COME_S, lambda: "retry 3" in sink.away)
        assert "has not acknowledged" in sink.away
        proxy.swallows = False
        out = await feeding
    assert not out.failed
    assert numbers(await came(listener)) == [*range(1, 111)]
    assert proxy.connections == 1


async def test_a_connection_without_any_acknowledgement_is_given_up_in_the_end(
    listener: Listener, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.1)
    monkeypatch.setattr(module, "STUCK_S", 0.5)
    async with opened(MqttSink(at(proxy.port), listener.topic)) as sink:
        await feed(sink, some(1))
        proxy.swallows = True
        out = RecordedAnswers()
        await give(sink, some(20, 2), out)
        assert await within(COME_S, lambda: "can't be used" in sink.away), sink.away
        proxy.swallows = False
        await feed(sink, [], out)
        assert await within(COME_S, lambda: len(out.acked) == 20)
    assert proxy.connections >= 2
    assert {*numbers(await came(listener))} == {*range(1, 22)}


async def test_no_message_is_refused_while_the_server_loses_every_connection(
    listener: Listener, cutting: CuttingProxy
) -> None:
    out = RecordedAnswers()
    async with opened(MqttSink(at(cutting.port), listener.topic)) as sink:
        await give(sink, some(1), out)
        assert await within(COME_S, lambda: cutting.cut > module.BLAMED_AFTER + 2)
        assert not out.failed
        cutting.cuts = lambda _: False
        assert await within(COME_S, lambda: len(out.acked) == 1)
    assert numbers(await came(listener)) == [1]


async def test_a_lone_message_is_refused_if_it_loses_every_connection_for_long(
    listener: Listener, cutting: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLAMED_S", 0.5)
    loop = asyncio.get_running_loop()
    async with opened(MqttSink(at(cutting.port), listener.topic)) as sink:
        begun = loop.time()
        out = await feed(sink, some(1))
        assert loop.time() - begun >= 0.5
    ((_, why),) = out.failed
    assert why.startswith("the server closes the connection each time that it is sent (")


async def test_a_message_that_loses_every_connection_fails_alone_and_the_others_go_first(
    listener: Listener, cutting: CuttingProxy
) -> None:
    cutting.cuts = lambda data: b'item 2"' in data
    async with opened(MqttSink(at(cutting.port), listener.topic)) as sink:
        out = await feed(sink, some(30))
    ((failed, why),) = out.failed
    assert failed.record.number == 2
    assert why.startswith("the server closes the connection each time that it is sent (")
    assert {*numbers(await came(listener))} == {1, *range(3, 31)}


async def test_large_messages_do_not_keep_close_from_ending_while_nothing_is_taken(
    listener: Listener, proxy: TcpProxy
) -> None:
    loop = asyncio.get_running_loop()
    out = RecordedAnswers()
    async with opened(MqttSink(at(proxy.port), listener.topic, body=lambda _: b"x" * 1_000_000)) as sink:
        proxy.swallows = True
        await give(sink, some(50), out)
        await asyncio.sleep(0.5)  # the sockets' buffers are full by then
        begun = loop.time()
    assert loop.time() - begun < 8.5
    assert len(out.failed) == 50


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"url": "amqp://127.0.0.1"}, "url is mqtt://"),
        ({"url": "mqtt://ann:secret-word/1@127.0.0.1"}, "url has an @ after the host"),
        ({"tls": Tls()}, "tls needs a url"),
        ({"topic": "a/+"}, "topic is a text without + and #"),
        ({"topic": ""}, "topic is a text"),
        ({"password": "secret-word"}, "a password needs a user"),
        ({"batch": 0}, "batch is a number"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        MqttSink(**{"url": "mqtt://127.0.0.1", "topic": "items", **options})
    assert str(raised.value).startswith("MqttSink: ")
    assert why in str(raised.value)
    assert "secret-word" not in str(raised.value)
