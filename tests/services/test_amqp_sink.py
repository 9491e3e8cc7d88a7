"""`AmqpSink` on a real server: its options, what it refuses, and servers that are full or slow."""

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from amqp_kit import PORT, URL, Queue, at, channel, reached
from tcp_proxy import TcpProxy

import bolts.sinks.servers.amqp as module
from bolts.sinks.servers.amqp import AmqpSink
from topology import ConfigurationError, NotYet, Secret
from topology.clients.tls import Tls
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, give, item, opened, within

pytestmark = pytest.mark.service("amqp")

COME_S = 30.0


@pytest.fixture
async def queue() -> Any:
    try:
        await reached()
    except Exception as error:
        pytest.skip(f"no RabbitMQ to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")
    one = Queue(f"kedge-{secrets.token_hex(6)}")
    await one.make()
    yield one
    await one.delete()


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    one = TcpProxy(PORT)
    yield one
    one.close()


def sink_to(queue: Queue, **options: Any) -> AmqpSink:
    return AmqpSink(URL, routing_key=queue.name, **options)


def numbers(messages: list[Any]) -> list[int]:
    return [json.loads(message.body)["number"] for message in messages]


def some(count: int, begin: int = 1) -> list[Any]:
    return [delivery(item(number)) for number in range(begin, begin + count)]


async def test_a_message_is_persistent_and_has_its_key_and_class(queue: Queue) -> None:
    async with opened(sink_to(queue)) as sink:
        await feed(sink, some(2))
        assert [*sink.summary()] == [f"2 sent to queue {queue.name} of amqp://127.0.0.1:{PORT}, 0 known already"]
    first, second = await queue.take_all()
    properties = first.header.properties
    assert (properties.delivery_mode, properties.message_type) == (2, "SinkItem")
    assert properties.content_type == "application/json"
    assert len(properties.message_id) == 48
    assert properties.message_id != second.header.properties.message_id


async def test_a_body_may_be_made_by_a_function(queue: Queue) -> None:
    async with opened(sink_to(queue, body=lambda record: f"<{record.number}>")) as sink:
        await feed(sink, some(1))
    (message,) = await queue.take_all()
    assert message.body == b"<1>"
    assert message.header.properties.content_type is None


async def test_a_routing_key_may_depend_on_the_record_and_a_bad_one_fails_alone(queue: Queue) -> None:
    def key(record: Any) -> str:
        return {2: "x" * 256, 3: 3, 4: f"{queue.name}-other"}.get(record.number, queue.name)  # type: ignore[return-value]

    async with opened(AmqpSink(URL, "", key)) as sink:
        out = await feed(sink, some(5))
    assert sorted(out.numbers) == [1, 5]
    reasons = {tup.record.number: why for tup, why in out.failed}
    assert reasons[2] == reasons[3] == "its routing key is a text of at most 255 bytes"
    assert reasons[4] == f"no queue takes it: NO_ROUTE, {queue.name}-other"
    assert numbers(await queue.take_all()) == [1, 5]


async def test_a_message_that_no_queue_takes_is_dropped_if_it_is_not_mandatory(queue: Queue) -> None:
    async with opened(AmqpSink(URL, routing_key=f"{queue.name}-other", mandatory=False)) as sink:
        out = await feed(sink, some(3))
    assert len(out.acked) == 3


async def test_an_exchange_gets_the_messages_with_their_routing_key(queue: Queue) -> None:
    exchange = f"{queue.name}-exchange"
    async with channel() as one:
        await one.exchange_declare(exchange, exchange_type="topic")
        await one.queue_bind(queue.name, exchange, "alerts.*")
        try:
            async with opened(AmqpSink(URL, exchange, lambda record: f"alerts.{record.number}")) as sink:
                await feed(sink, some(3))
            messages = await queue.take_all()
        finally:
            await one.exchange_delete(exchange)
    assert [message.delivery.routing_key for message in messages] == ["alerts.1", "alerts.2", "alerts.3"]
    with pytest.raises(ConfigurationError, match=f"AmqpSink: there is no exchange {exchange} of amqp://127"):
        async with opened(AmqpSink(URL, exchange, "alerts.1")):
            pass


async def test_a_missing_queue_and_a_wrong_password_are_said(queue: Queue) -> None:
    with pytest.raises(ConfigurationError, match=f"AmqpSink: there is no queue {queue.name}-x of amqp://127"):
        async with opened(AmqpSink(URL, routing_key=f"{queue.name}-x")):
            pass
    wrong = Secret(f"amqp://guest:wrong-secret@127.0.0.1:{PORT}")
    with pytest.raises(ConfigurationError, match=r"AmqpSink: .* refuses this user or password") as raised:
        async with opened(AmqpSink(wrong, routing_key="q")):
            pass
    assert "wrong-secret" not in str(raised.value)
    with pytest.raises(NotYet, match=r"AmqpSink: amqp://127\.0\.0\.1:9 can't be used: .*Connect call failed"):
        async with opened(AmqpSink(at(9), routing_key="q")):
            pass


async def test_a_full_queue_makes_the_sink_wait_and_nothing_is_sent_twice() -> None:
    one = Queue(f"kedge-{secrets.token_hex(6)}")
    await one.make(arguments={"x-max-length": 20, "x-overflow": "reject-publish"})
    taken: list[int] = []
    try:
        async with opened(sink_to(one, batch=50)) as sink:
            feeding = asyncio.ensure_future(feed(sink, some(100)))
            assert await within(COME_S, lambda: "a queue is full" in sink.away), sink.away
            for _ in range(1_000):
                taken += numbers(await one.take_all())
                if feeding.done():
                    break
                await asyncio.sleep(0.05)
            out = await feeding
            taken += numbers(await one.take_all())
            assert sink.away == ""
    finally:
        await one.delete()
    assert not out.failed
    assert Counter(taken) == Counter(range(1, 101))


async def test_what_a_slow_server_has_not_confirmed_yet_is_not_sent_twice(
    queue: Queue, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    async with opened(AmqpSink(at(proxy.port), routing_key=queue.name, batch=50)) as sink:
        await feed(sink, some(10))
        proxy.swallows = True
        feeding = asyncio.ensure_future(feed(sink, some(100, 11)))
        assert await within(COME_S, lambda: "retry 3" in sink.away)
        assert "has not confirmed 50 messages yet" in sink.away
        proxy.swallows = False
        out = await feeding
    assert not out.failed
    assert numbers(await queue.take_all()) == [*range(1, 111)]
    assert proxy.connections == 1


async def test_a_connection_without_any_confirmation_is_given_up_in_the_end(
    queue: Queue, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.1)
    monkeypatch.setattr(module, "STUCK_S", 0.5)
    async with opened(AmqpSink(at(proxy.port), routing_key=queue.name)) as sink:
        await feed(sink, some(1))
        proxy.swallows = True
        out = RecordedAnswers()
        await give(sink, some(20, 2), out)
        assert await within(COME_S, lambda: "can't be used" in sink.away), sink.away
        proxy.swallows = False
        await feed(sink, [], out)
        assert await within(COME_S, lambda: len(out.acked) == 20)
    assert proxy.connections >= 2
    assert {*numbers(await queue.take_all())} == {*range(1, 22)}


async def test_large_messages_do_not_keep_close_from_ending_while_nothing_is_taken(
    queue: Queue, proxy: TcpProxy
) -> None:
    loop = asyncio.get_running_loop()
    out = RecordedAnswers()
    async with opened(AmqpSink(at(proxy.port), routing_key=queue.name, body=lambda _: b"x" * 1_000_000)) as sink:
        proxy.swallows = True
        await give(sink, some(50), out)
        await asyncio.sleep(0.5)  # the sockets' buffers are full by then
        begun = loop.time()
    assert loop.time() - begun < 8.5
    assert len(out.failed) == 50


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"url": "mqtt://127.0.0.1"}, "url is amqp://"),
        ({"tls": Tls()}, "tls needs a url"),
        ({"exchange": "x" * 256}, "exchange is a name of at most 255 bytes"),
        ({"routing_key": ""}, "without an exchange, routing_key is the name of a queue"),
        ({"routing_key": 3}, "routing_key is a text"),
        ({"batch": 0}, "batch is a number"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        AmqpSink(**{"url": "amqp://127.0.0.1", "routing_key": "items", **options})
    assert str(raised.value).startswith("AmqpSink: ")
    assert why in str(raised.value)
