"""`KafkaSink` on a cluster of librdkafka's mock brokers."""

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka_doors import KafkaDoor
from kafka_kit import KafkaCluster, KafkaSinkSubject, NoMock, all_messages, seen_once

from bolts.sinks.kafka import publisher
from bolts.sinks.kafka.sink import KafkaSink
from topology import ConfigurationError, Record, Secret
from topology.errors import NotYet
from topology.testing.sinks import SINK_CHECKS, check_sink
from topology.testing.sinks.driver import SinkItem, delivery, feed, item, opened, within

pytestmark = pytest.mark.service("kafka")

PRODUCE = 0  # the number of this request in Kafka's protocol
MSG_SIZE_TOO_LARGE, NOT_ENOUGH_REPLICAS, TOPIC_AUTHORIZATION_FAILED, INVALID_RECORD = 10, 19, 29, 87
CLUSTER_AUTHORIZATION_FAILED = 31
NOT_HELD = "c6_it_says_for_how_long_it_remembers_and_what_an_ack_stands_for"  # Kafka keeps what a restart sends again


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
    return cluster.make_topic(f"kedge-{secrets.token_hex(6)}", 1)


@pytest.mark.parametrize("check", [check for check in SINK_CHECKS if check != NOT_HELD])
def test_the_sink_keeps_the_contract(check: str, cluster: KafkaCluster, topic: str) -> None:
    subject = KafkaSinkSubject(cluster.brokers, topic, cluster)
    if left_out := check_sink(check, subject):
        pytest.skip(left_out)


async def test_a_restart_may_send_again_under_the_same_key(cluster: KafkaCluster, topic: str) -> None:
    assert not KafkaSink.drops_replays
    for _ in range(2):
        async with opened(KafkaSink(cluster.brokers, topic)) as sink:
            await feed(sink, [delivery(item(number)) for number in range(10)])
    found = all_messages(cluster.brokers, topic)
    assert len(found) == 20
    assert len(seen_once(found)) == 10


async def test_a_message_has_the_record_and_its_names(cluster: KafkaCluster, topic: str) -> None:
    async with opened(KafkaSink(cluster.brokers, topic)) as sink:
        await feed(sink, [delivery(item(7))])
        assert [*sink.summary()] == [f"1 sent to {topic} of {cluster.brokers}, 0 known already"]
    (message,) = all_messages(cluster.brokers, topic)
    assert json.loads(message.value()) == {"number": 7, "revision": 1, "text": "item 7", "value": 0.875}
    headers = dict(message.headers())
    assert headers["kedge-record"] == b"SinkItem"
    assert len(headers["kedge-key"]) == 48
    assert message.key() is None


async def test_body_key_and_topic_may_be_functions(cluster: KafkaCluster, topic: str) -> None:
    other = cluster.make_topic(f"{topic}-odd", 1)

    def where(record: SinkItem) -> str:
        return other if record.number % 2 else topic

    sink = KafkaSink(cluster.brokers, where, body=lambda record: record.text, key=lambda record: bytes([record.number]))
    async with opened(sink) as one:
        await feed(one, [delivery(item(number)) for number in range(4)])
        assert [*one.summary()] == [f"4 sent to {cluster.brokers}, 0 known already"]
    found = [*all_messages(cluster.brokers, topic), *all_messages(cluster.brokers, other)]
    assert [(message.key(), message.value()) for message in found] == [
        (b"\x00", b"item 0"),
        (b"\x02", b"item 2"),
        (b"\x01", b"item 1"),
        (b"\x03", b"item 3"),
    ]


def javas_partition(key: bytes, count: int) -> int:
    """The partition that the Java client chooses: murmur2 of the key, as Kafka's `Utils.murmur2` computes it."""
    mixed, shift, word = 0x5BD1E995, 24, 0xFFFFFFFF
    found = (0x9747B28C ^ len(key)) & word
    for at in range(0, len(key) - len(key) % 4, 4):
        part = int.from_bytes(key[at : at + 4], "little") * mixed & word
        part = (part ^ part >> shift) * mixed & word
        found = (found * mixed & word) ^ part
    rest = key[len(key) - len(key) % 4 :]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * mixed & word
    found = (found ^ found >> 13) * mixed & word
    return ((found ^ found >> 15) & 0x7FFFFFFF) % count


@pytest.mark.parametrize("field", ["text", "number"])
async def test_a_key_chooses_the_partition_that_java_would(cluster: KafkaCluster, topic: str, field: str) -> None:
    several = cluster.make_topic(f"{topic}-8", 8)
    async with opened(KafkaSink(cluster.brokers, several, key=field)) as sink:
        await feed(sink, [delivery(item(number)) for number in range(100)])
    found = all_messages(cluster.brokers, several)
    assert len(found) == 100
    assert {message.partition() for message in found} == {*range(8)}
    for message in found:
        assert message.key().decode() == str(json.loads(message.value())[field])
        assert message.partition() == javas_partition(message.key(), 8)


# -- what is refused


def fails(record: Record) -> Any:
    raise ValueError("no idea")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": "nothing"}, "its key could not be made: AttributeError"),
        ({"key": "value"}, "its key is str, int or bytes, and not float"),
        ({"key": fails}, "its key could not be made: ValueError: no idea"),
        ({"topic": fails}, "its topic could not be made: ValueError: no idea"),
        ({"topic": lambda record: "a b"}, "its topic is a name of letters"),
        ({"body": fails}, "its body could not be made: ValueError: no idea"),
        ({"settings": {"message.max.bytes": 1_000}, "body": lambda record: b"x" * 2_000}, "the server refuses it: "),
    ],
)
async def test_what_cannot_be_sent_fails_with_the_reason(
    cluster: KafkaCluster, topic: str, options: dict[str, Any], said: str
) -> None:
    made: dict[str, Any] = {"brokers": cluster.brokers, "topic": topic, **options}
    async with opened(KafkaSink(**made)) as sink:
        out = await feed(sink, [delivery(item(1))])
    ((_, why),) = out.failed
    assert said in why
    assert not all_messages(cluster.brokers, topic)


async def test_a_message_that_is_too_large_fails_alone(cluster: KafkaCluster, topic: str) -> None:
    def body(record: SinkItem) -> bytes:
        return b"x" * (2_000_000 if record.number == 5 else 10)

    async with opened(KafkaSink(cluster.brokers, topic, body=body)) as sink:
        out = await feed(sink, [delivery(item(number)) for number in range(10)])
    ((failed, why),) = out.failed
    assert failed.record.number == 5
    assert "too large" in why
    assert len(out.acked) == len(all_messages(cluster.brokers, topic)) == 9


async def test_messages_that_are_too_large_together_are_sent_alone(cluster: KafkaCluster, topic: str) -> None:
    async with opened(KafkaSink(cluster.brokers, topic, settings={"linger.ms": 500})) as sink:  # so one request
        await feed(sink, [delivery(item(0))])
        cluster.tell("refuse", PRODUCE, [MSG_SIZE_TOO_LARGE])  # the next request, whatever it has
        out = await feed(sink, [delivery(item(number)) for number in range(1, 10)])
    assert not out.failed
    assert len(out.acked) == 9
    assert len(all_messages(cluster.brokers, topic)) == 10


async def test_a_record_that_the_broker_refuses_fails(cluster: KafkaCluster, topic: str) -> None:
    async with opened(KafkaSink(cluster.brokers, topic)) as sink:
        await feed(sink, [delivery(item(0))])
        cluster.tell("refuse", PRODUCE, [INVALID_RECORD])
        out = await feed(sink, [delivery(item(1))])
        ((_, why),) = out.failed
        assert why.startswith("the server refuses it: ")
        assert not (await feed(sink, [delivery(item(2))])).failed  # the producer is still of use


async def test_a_topic_of_a_function_that_may_not_be_written_fails_its_records(
    cluster: KafkaCluster, topic: str
) -> None:
    async with opened(KafkaSink(cluster.brokers, lambda record: topic)) as sink:
        cluster.tell("refuse", PRODUCE, [TOPIC_AUTHORIZATION_FAILED])
        out = await feed(sink, [delivery(item(1))])
    assert "authorization" in out.failed[0][1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"brokers": "a b"}, "brokers is HOST:PORT"),
        ({"topic": "a/b"}, "a topic's name"),
        ({"key": "not a name"}, "key is the name of a field"),
        ({"password": "geheim"}, "user and password come together"),
        ({"settings": {"acks": "1"}}, "settings has acks"),
        ({"settings": {"transactional.id": "x"}}, "settings has transactional.id"),
        ({"batch": 0}, "batch is a number"),
    ],
)
def test_a_wrong_argument_is_one_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        KafkaSink(**{"brokers": "127.0.0.1:9092", "topic": "t", **options})
    text = str(raised.value).partition("\n  next:")[0]
    assert text.startswith("KafkaSink: ")
    assert said in text
    assert "\n" not in text
    assert "geheim" not in text


async def test_a_missing_topic_is_refused_and_not_made(cluster: KafkaCluster) -> None:
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="KafkaSink: there is no topic 'not-there' at"):
            async with opened(KafkaSink(cluster.brokers, "not-there")):
                pass


async def test_brokers_that_are_not_there_are_not_yet() -> None:
    with pytest.raises(NotYet, match=r"KafkaSink: 127.0.0.1:9 can't be used: .*Connection refused"):
        async with opened(KafkaSink("127.0.0.1:9", lambda record: "t")):
            pass


async def test_a_setting_that_librdkafka_does_not_know_is_one_sentence(cluster: KafkaCluster, topic: str) -> None:
    with pytest.raises(ConfigurationError, match="KafkaSink: librdkafka refuses its settings: "):
        async with opened(KafkaSink(cluster.brokers, topic, settings={"linger": 3})):
            pass


@pytest.mark.parametrize("right", [True, False])
async def test_a_password_is_given_to_the_broker(topic: str, right: bool) -> None:
    with KafkaCluster(1) as cluster:
        cluster.make_topic(topic, 1)
        door = KafkaDoor(cluster.brokers, user="ann", password="geheim")
        cluster.tell("advertise", door.port)
        made = KafkaSink(door.address, topic, user="ann", password=Secret("geheim" if right else "falsch"))
        try:
            if right:
                async with opened(made) as sink:
                    assert not (await feed(sink, [delivery(item(1))])).failed
            else:
                with pytest.raises(ConfigurationError, match=r"KafkaSink: .* refuses its user") as raised:
                    async with opened(made):
                        pass
                assert "falsch" not in str(raised.value)
        finally:
            door.close()


# -- brokers with trouble


async def test_a_full_queue_of_the_client_makes_the_sink_wait(cluster: KafkaCluster, topic: str) -> None:
    async with opened(KafkaSink(cluster.brokers, topic, settings={"queue.buffering.max.messages": 10})) as sink:
        out = await feed(sink, [delivery(item(number)) for number in range(500)])
    assert not out.failed
    assert len(all_messages(cluster.brokers, topic)) == 500


async def test_too_few_replicas_are_waited_for(cluster: KafkaCluster, topic: str) -> None:
    async with opened(KafkaSink(cluster.brokers, topic)) as sink:
        cluster.tell("refuse", PRODUCE, [NOT_ENOUGH_REPLICAS] * 3)
        out = await feed(sink, [delivery(item(number)) for number in range(50)])
    assert not out.failed
    assert len(all_messages(cluster.brokers, topic)) == 50


async def refused_then_stored(cluster: KafkaCluster, topic: str, code: int, wait: Callable[[Any], bool]) -> list[Any]:
    """What is in the topic after a broker has refused a batch once. Its tuples do not fail."""
    async with opened(KafkaSink(cluster.brokers, topic)) as sink:
        await feed(sink, [delivery(item(0))])
        cluster.tell("refuse", PRODUCE, [code])
        out = await feed(sink, [delivery(item(number)) for number in range(1, 50)])
        assert not out.failed
        assert wait(sink)
    return all_messages(cluster.brokers, topic)


async def test_a_right_that_was_taken_away_is_waited_for(cluster: KafkaCluster, topic: str) -> None:
    code = TOPIC_AUTHORIZATION_FAILED
    found = await refused_then_stored(cluster, topic, code, lambda sink: sink._patience.retries >= 1)
    assert len(found) == 50


async def test_a_producer_that_can_send_no_more_is_replaced(cluster: KafkaCluster, topic: str) -> None:
    code = CLUSTER_AUTHORIZATION_FAILED  # fatal for an idempotent producer
    found = await refused_then_stored(cluster, topic, code, lambda sink: sink._patience.retries >= 1)
    assert len(seen_once(found)) == 50


async def test_an_outage_sends_nothing_twice(
    cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "ANSWER_S", 0.3)  # so that calls give up, and are made again
    async with opened(KafkaSink(cluster.brokers, topic)) as sink:
        await feed(sink, [delivery(item(0))])
        with cluster.away():
            for number in range(1, 100):
                sink.take_inputs([delivery(item(number))], _Ignored())
            assert await within(30.0, lambda: sink._patience.retries >= 3)
        await sink.flush(_Ignored())
        assert await within(30.0, lambda: sink.stored == 100)
    assert len(all_messages(cluster.brokers, topic)) == 100


class _Ignored:
    """A collector that keeps nothing."""

    def ack(self, tup: Any) -> None: ...
    def fail(self, tup: Any, reason: str) -> None: ...
