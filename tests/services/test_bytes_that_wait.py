"""Sources on servers hold so many bytes of payloads that wait, and no more, though bolts take none for a while."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import mqtt_kit
import pytest
import redis_kit

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
