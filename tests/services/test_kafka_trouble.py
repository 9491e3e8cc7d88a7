"""`KafkaSource` with wrong arguments, refused passwords, brokers in trouble and slow bolts."""

import asyncio
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kafka_doors import KafkaDoor, certificate
from kafka_kit import KafkaCluster, NoMock, committed, lines, numbered, opened, put, taken, task, texts

from spouts.kafka import reader, source
from spouts.kafka.source import KafkaSource
from spouts.payload.formats import Json
from topology import ConfigurationError, Positions, Secret
from topology.clients.tls import Tls
from topology.errors import NotYet
from topology.testing.sources import SourceItem
from topology.testing.sources.driver import within

pytestmark = pytest.mark.service("kafka")

COME_S = 30.0  # until messages have come, on a busy machine
FETCH, INVALID_MSG = 1, 2  # a request, and an error, by their numbers in Kafka's protocol


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    try:
        made = KafkaCluster()
    except NoMock as error:
        pytest.skip(f"no Kafka to test with: {error}")
    with made:
        yield made


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    return cluster.make_topic(f"kedge-{secrets.token_hex(6)}")


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LOOK_S", 0.3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"brokers": ""}, "brokers is HOST:PORT"),
        ({"brokers": "kafka://ann:geheim@broker"}, "brokers is HOST:PORT"),
        ({"topics": []}, "at least one topic"),
        ({"topics": "a b"}, "a topic's name"),
        ({"topics": ".."}, "a topic's name"),
        ({"begin": "first"}, "begin is"),
        ({"group": ""}, "group is the name"),
        ({"prefetch": 0}, "prefetch is"),
        ({"user": "ann"}, "user and password come together"),
        ({"mechanism": "MD5"}, "mechanism is PLAIN"),
        ({"settings": {"group.id": "g"}}, "settings has group.id"),
        ({"value": Json(SourceItem, id="text")}, "leave out id"),
    ],
)
def test_a_wrong_argument_is_one_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        KafkaSource(**{"brokers": "127.0.0.1:9092", "topics": "t", **options})
    text = str(raised.value).partition("\n  next:")[0]
    assert text.startswith("KafkaSource: ")
    assert said in text
    assert "\n" not in text
    assert "geheim" not in text


async def test_a_missing_topic_is_refused(cluster: KafkaCluster) -> None:
    made = KafkaSource(cluster.brokers, "not-there")
    with pytest.raises(ConfigurationError, match="KafkaSource: there is no topic 'not-there' at"):
        await made.open(task(), Positions())


async def test_a_setting_that_librdkafka_does_not_know_is_one_sentence(cluster: KafkaCluster, topic: str) -> None:
    made = KafkaSource(cluster.brokers, topic, settings={"fetch.minimum": 3, "sasl.password": "fetch.minimum"})
    assert "fetch.minimum" not in repr(made._access.settings["sasl.password"])
    with pytest.raises(ConfigurationError, match=r"KafkaSource: librdkafka refuses its settings: .*property") as raised:
        await made.open(task(), Positions())
    assert "fetch.minimum" not in str(raised.value)  # the secret's own text
    assert not raised.value.__cause__


async def test_brokers_that_are_not_there_are_not_yet() -> None:
    made = KafkaSource("127.0.0.1:9", "t")
    with pytest.raises(NotYet, match=r"KafkaSource: 127.0.0.1:9 can't be used: .*Connection refused"):
        await made.open(task(), Positions())


@pytest.mark.parametrize("right", [True, False])
async def test_a_password_is_given_to_the_broker(topic: str, right: bool) -> None:
    with KafkaCluster(1) as cluster:
        cluster.make_topic(topic, 1)
        put(cluster.brokers, topic, lines(5))
        door = KafkaDoor(cluster.brokers, user="ann", password="geheim")
        cluster.tell("advertise", door.port)
        password = Secret("geheim" if right else "falsch")
        made = KafkaSource(door.address, topic, user="ann", password=password)
        try:
            if right:
                assert texts(await taken(made, 5)) == numbered(0, 5)
            else:
                with pytest.raises(ConfigurationError, match=r"KafkaSource: .* refuses its user") as raised:
                    await made.open(task(), Positions())
                assert "falsch" not in str(raised.value)
        finally:
            door.close()


@pytest.mark.parametrize("trusted", [True, False])
async def test_certificates_are_checked(topic: str, tmp_path: Path, trusted: bool) -> None:
    made, context = certificate(tmp_path)
    with KafkaCluster(1) as cluster:
        cluster.make_topic(topic, 1)
        put(cluster.brokers, topic, lines(5))
        door = KafkaDoor(cluster.brokers, tls=context)
        cluster.tell("advertise", door.port)
        tls = Tls(ca=str(made)) if trusted else Tls()
        reads = KafkaSource(door.address, topic, tls=tls)
        try:
            if trusted:
                assert texts(await taken(reads, 5)) == numbered(0, 5)
            else:
                with pytest.raises(NotYet, match="certificate verify failed"):
                    await reads.open(task(), Positions())
        finally:
            door.close()


# -- brokers with trouble, and slow bolts


@pytest.mark.usefixtures("looks_often")
async def test_brokers_that_stop_answering_are_noticed(topic: str) -> None:
    with KafkaCluster() as cluster:
        cluster.make_topic(topic)
        driven = await opened(KafkaSource(cluster.brokers, topic))
        os.kill(cluster.pid, signal.SIGSTOP)
        try:
            assert await within(COME_S, lambda: bool(driven.spout.away))
        finally:
            os.kill(cluster.pid, signal.SIGCONT)
        put(cluster.brokers, topic, lines(10))
        await driven.take(10, COME_S)
        assert await within(COME_S, lambda: not driven.spout.away)
        await driven.close()
    assert texts(driven.messages) == numbered(0, 10)


async def test_no_more_waits_than_prefetch_says(
    cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PAUSE_S", 0.1)  # so that it pauses its partitions too
    put(cluster.brokers, topic, lines(3_000))
    driven = await opened(KafkaSource(cluster.brokers, topic, prefetch=100))
    ready = driven.spout._reader.ready
    assert await within(COME_S, lambda: len(ready) >= 100)
    await asyncio.sleep(1.0)  # it must not become more
    assert len(ready) == 100
    put(cluster.brokers, topic, lines(1_000, 3_000))
    await driven.take(4_000, COME_S)
    await driven.rest(0.3)
    await driven.close()
    assert texts(driven.messages) == numbered(0, 4_000)
    assert len({(message.partition, message.id) for message in driven.messages}) == 4_000


async def test_lag_says_what_is_not_emitted(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, lines(30), partition=0)
    put(cluster.brokers, topic, lines(10, 30), partition=2)
    driven = await opened(KafkaSource(cluster.brokers, topic))
    await driven.take(15, COME_S)
    lag = driven.spout.lag
    assert sum(lag.values()) == 25
    assert lag.keys() == {f"{topic}/{number}" for number in range(4)}
    (first, *more) = driven.spout.summary()
    assert first == f"15 received from {topic} of {cluster.brokers}; 25 behind"
    assert len(more) == sum(1 for count in lag.values() if count)
    await driven.take(40, COME_S)
    assert not any(driven.spout.lag.values())
    await driven.close()
    assert [*driven.spout.summary()] == []


async def test_a_partition_that_cannot_be_read_is_tried_again(
    cluster: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(cluster.brokers, topic, lines(10), partition=0)
    cluster.tell("refuse", FETCH, [INVALID_MSG] * 8)
    driven = await opened(KafkaSource(cluster.brokers, topic))
    await driven.take(10, COME_S)
    await driven.close()
    assert [message.id for message in driven.messages] == [*range(10)]
    assert caplog.text.count("can't be read on at offset 0, and is tried again") == 1


async def test_offsets_are_committed_while_bolts_hold_the_source_back(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, lines(1_000), partition=0)
    driven = await opened(KafkaSource(cluster.brokers, topic, group=topic, prefetch=10))
    ready = driven.spout._reader.ready
    await driven.take(5, COME_S)
    assert await within(COME_S, lambda: len(ready) >= 10)
    await driven.settle(driven.messages)
    assert await within(COME_S, lambda: committed(cluster.brokers, topic, topic, 1) == [5])
    assert len(ready) <= 20, "an answer may bring some messages with it"
    await driven.close()


@pytest.mark.usefixtures("looks_often")
async def test_brokers_that_come_and_go_lose_nothing(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "COMMIT_S", 0.02)  # much is asked while they go
    random, settings = Random(1), {"reconnect.backoff.max.ms": 200}
    with KafkaCluster() as cluster:
        cluster.make_topic(topic)
        put(cluster.brokers, topic, lines(4_000))
        driven = await opened(KafkaSource(cluster.brokers, topic, settings=settings))
        for _ in range(10):
            await driven.take(len(driven.messages) + 100, COME_S)
            await driven.settle(driven.messages[-100:])
            await asyncio.to_thread(cluster.tell, "down")
            await asyncio.sleep(random.uniform(0, 0.3))
            await asyncio.to_thread(cluster.tell, "up")
        await driven.take(4_000, COME_S)
        await driven.close()
    assert texts(driven.messages) == numbered(0, 4_000)
