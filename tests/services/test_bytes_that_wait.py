"""Sources on servers hold so many bytes of payloads that wait, and no more, though bolts take none for a while."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import amqp_kit
import mqtt_kit
import pytest
import redis_kit

from spouts.servers.amqp import AmqpSource, ConsumerWindow
from spouts.servers.mqtt import MqttSource
from spouts.servers.redis import RedisStreamSource
from topology.testing.sources.driver import DrivenSource, Memory, within

COME_S = 30.0
BOUND = 1024 * 1024  # in place of 64 MiB
SIZE, COUNT = 100_000, 100
Fill = Callable[[], object]
BODIES = [b"%04d" % number + b"x" * (SIZE - 4) for number in range(COUNT)]


@pytest.fixture(autouse=True)
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spouts.broker.payload_room.WAITING_BYTES_MAX", BOUND)


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def amqp_source(ends: ExitStack) -> tuple[AmqpSource[Any], Fill]:
    amqp_kit.asked(amqp_kit.reached())
    queue = ends.enter_context(amqp_kit.Queue(f"kedge-{secrets.token_hex(6)}").there())
    names = [f"id-{number}" for number in range(COUNT)]
    return AmqpSource(amqp_kit.URL, queue.name), lambda: amqp_kit.asked(queue.publish(BODIES, names))


def mqtt_source(ends: ExitStack) -> tuple[MqttSource[Any], Fill]:
    mqtt_kit.reached()
    topic = f"kedge-{secrets.token_hex(6)}"
    ends.enter_context(mqtt_kit.MqttSourceSubject(topic).there())
    source: MqttSource[Any] = MqttSource(mqtt_kit.at(mqtt_kit.PORT), topic, client_id=topic, session_expiry_s=600)
    return source, lambda: mqtt_kit.publish(topic, BODIES)


def redis_source(ends: ExitStack) -> tuple[RedisStreamSource[Any], Fill]:
    name = f"kedge-{secrets.token_hex(6)}"
    client = ends.enter_context(redis_kit.client())
    ends.callback(client.delete, name)

    def fill() -> None:
        for body in BODIES:
            client.xadd(name, {"data": body})

    return RedisStreamSource(f"redis://127.0.0.1:{redis_kit.PORT}", name), fill


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(amqp_source, marks=pytest.mark.service("amqp")),
        pytest.param(mqtt_source, marks=pytest.mark.service("mqtt")),
        pytest.param(redis_source, marks=pytest.mark.service("redis")),
    ],
)
def test_a_source_holds_a_bounded_number_of_bytes_and_all_come_in_the_end(make: Any, ends: ExitStack) -> None:
    try:
        source, fill = make(ends)
    except Exception as error:
        pytest.skip(f"its server is not there ({error}); CONTRIBUTING.md says how to start one")
    asyncio.run(held_and_taken(source, fill))


async def held_and_taken(source: Any, fill: Fill) -> None:
    driven = DrivenSource(source, Memory())
    await driven.open()
    await asyncio.to_thread(fill)

    def held() -> int:
        there = getattr(driven.spout._connection, "_held", None)
        return int(driven.spout._waiting.bytes + (there.bytes if there is not None else 0))

    most = 0
    for _ in range(3):
        assert await within(COME_S, lambda: driven.spout._waiting.is_full)
        await asyncio.sleep(0.5)  # time for what must not come
        most = max(most, held())
        await driven.take(len(driven.messages) + 5, COME_S)
    assert most <= 3 * BOUND, "in the source, at the connection, and what was on its way"
    assert driven.spout._retries.retries == 0, "its connection stays"
    await driven.take(COUNT, COME_S)
    await driven.settle(driven.messages)
    await driven.close()
    assert sorted(message.record.text[:4] for message in driven.messages) == [f"{number:04}" for number in range(COUNT)]


# -- RabbitMQ sends without being asked, so a consumer has a number of messages


@pytest.fixture
def filled(ends: ExitStack) -> amqp_kit.Queue:
    try:
        source, fill = amqp_source(ends)
    except Exception as error:
        pytest.skip(f"no RabbitMQ ({error}); CONTRIBUTING.md says how to start one")
    fill()
    return amqp_kit.Queue(source.queue)


@pytest.mark.service("amqp")
async def test_bolts_may_hold_up_to_prefetch_large_messages_of_rabbitmq(filled: amqp_kit.Queue) -> None:
    """Many more than fit the bytes that may wait: those are for what no bolt has."""
    driven = DrivenSource(AmqpSource(amqp_kit.URL, filled.name, prefetch=70), Memory())
    await driven.open()
    await driven.take(70, COME_S)
    await driven.rest(2.5)
    held = len(driven.messages)
    await driven.settle(driven.messages)
    await driven.take(COUNT, COME_S)
    retries = driven.spout._retries.retries
    await driven.settle(driven.messages[70:])
    await driven.close()
    assert held == 70
    assert sorted(message.record.text[:4] for message in driven.messages) == [f"{number:04}" for number in range(COUNT)]
    assert retries == 0
    assert await filled.waiting() == 0, "each was acknowledged"


@pytest.mark.service("amqp")
async def test_an_amqp_source_that_is_closed_keeps_nothing_of_what_comes_then(
    filled: amqp_kit.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory()
    driven = DrivenSource(AmqpSource(amqp_kit.URL, filled.name), memory)
    await driven.open()
    connection = driven.spout._connection
    assert await within(COME_S, lambda: driven.spout._waiting.is_full)
    channel, come = connection._channel, len(connection._come)
    given_back = asyncio.ensure_future(connection.give_back([]))
    await asyncio.sleep(0)
    connection._taken(channel, connection._window.number, None)  # one that was on its way
    await given_back
    assert len(connection._come) <= come
    await driven.close()
    assert await filled.waiting() == COUNT


QUORUM = {"x-queue-type": "quorum"}
SINGLE = {"x-single-active-consumer": True}


@pytest.mark.service("amqp")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"auto_delete": True}, id="goes with its last consumer"),
        pytest.param({"arguments": SINGLE}, id="single active consumer"),
        pytest.param({"arguments": QUORUM}, id="quorum"),
        pytest.param({"arguments": QUORUM | SINGLE}, id="quorum with a single active consumer"),
    ],
)
async def test_messages_of_queues_of_all_kinds_come_though_the_number_changes(
    options: dict[str, Any], ends: ExitStack
) -> None:
    try:
        amqp_kit.asked(amqp_kit.reached())
    except Exception as error:
        pytest.skip(f"no RabbitMQ ({error}); CONTRIBUTING.md says how to start one")
    queue = ends.enter_context(amqp_kit.Queue(f"kedge-{secrets.token_hex(6)}").there(**options))
    driven = DrivenSource(AmqpSource(amqp_kit.URL, queue.name), Memory())
    await driven.open()
    connection = driven.spout._connection
    window, first = connection._window, connection._window.number
    for size, count in ((10, 400), (SIZE, 100), (10, 100)):
        await queue.publish([b"%06d" % number + b"x" * size for number in range(count)], [None] * count)
        await driven.take(len(driven.messages) + count, COME_S)
        await driven.settle(driven.messages[-count:])
    assert await within(COME_S, lambda: len(connection._channel.raw.consumers) == 1)
    await driven.close()
    assert len(driven.messages) == 600
    assert window.number - first >= 3, "it has grown, and become smaller"
    assert driven.spout._retries.retries == 0
    if "auto_delete" not in options:
        assert await queue.waiting() == 0


def test_a_consumer_has_as_many_messages_as_fit_and_a_new_one_comes_when_it_may_give_no_more() -> None:
    window, tags = ConsumerWindow(2_000), iter(range(1, 10**6))

    def come(count: int, size: int) -> list[int]:
        some = [next(tags) for _ in range(count)]
        for tag in some:
            window.came(window.number, tag, size)
        return some

    assert window.count == 16
    first = come(15, 100)
    assert window.wanted(is_idle=True) is None, "it may give one more"
    first += come(1, 100)
    assert window.wanted(is_idle=False) == 16 * 8
    window.renewed(16 * 8)
    come(128, 100)
    assert window.wanted(is_idle=False) == 144 * 8
    window.renewed(1_152)
    come(1_152, 100)
    window.held.leave(1_296)
    assert window.wanted(is_idle=False) == 2_000 - 1_296
    window.renewed(704)
    last = come(704, 100)
    assert window.wanted(is_idle=True) is None, "prefetch messages are under way"
    window.acknowledged(first)
    assert window.wanted(is_idle=False) is None, "too few to be worth it"
    assert window.wanted(is_idle=True) == 16
    window.acknowledged(last)
    assert window.wanted(is_idle=True) is None, "the present consumer goes on"
    come(4, BOUND // 4)
    assert window.wanted(is_idle=False) is None, "what has come is enough"
    window.held.leave(708)
    assert window.wanted(is_idle=False) == 16, "a smaller number, as payloads are larger"
    window.connected()
    assert window.count == 16, "sizes are remembered"
