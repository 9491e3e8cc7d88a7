"""`KafkaSource` on a cluster of librdkafka's mock brokers."""

import asyncio
import logging
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka_kit import (
    KafkaCluster,
    KafkaSourceSubject,
    NoMock,
    all_messages,
    commit,
    committed,
    lines,
    numbered,
    opened,
    put,
    taken,
    task,
    texts,
)

from spouts.kafka import source
from spouts.kafka.source import KafkaSource
from spouts.payload.formats import Json, Payload
from topology import ConfigurationError, Malformed, Positions, Record
from topology.testing.sources import SOURCE_CHECKS, SourceItem, check_source
from topology.testing.sources.driver import Memory, within

pytestmark = pytest.mark.service("kafka")

COME_S = 30.0  # until messages have come, on a busy machine
METADATA = 3  # the number of this request in Kafka's protocol


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


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract(check: str, cluster: KafkaCluster, topic: str) -> None:
    assert not check_source(check, KafkaSourceSubject(cluster.brokers, topic, cluster))


# -- what it gives


class KafkaSeen(Record):
    number: int
    user: str
    where: str
    offset: int
    trace: str | None = None


async def test_facts_beside_the_payload_fill_fields(cluster: KafkaCluster, topic: str) -> None:
    headers = [("trace", b"first"), ("trace", b"second")]
    put(
        cluster.brokers, topic, [b'{"number": 1}'], partition=3, key="ann", headers=headers, timestamp=1_700_000_000_123
    )
    fields = {"user": "key", "where": "topic", "offset": "offset", "trace": "header:trace"}
    (message,) = await taken(KafkaSource(cluster.brokers, topic, value=Json(KafkaSeen, fields=fields)), 1)
    assert message.record == KafkaSeen(1, "ann", topic, 0, "second")
    assert (message.id, message.partition) == (0, f"{topic}/3")
    assert message.at == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


async def test_a_function_sees_keys_as_bytes_and_deletions(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, [None, b"x"], partition=0, key=b"\xff")

    def read(payload: Payload) -> KafkaSeen:
        facts = payload.attributes
        assert {*facts} == {*source.FACTS}
        return KafkaSeen(len(payload.data), facts["key_bytes"].hex(), str(facts["tombstone"]), facts["partition"])

    messages = await taken(KafkaSource(cluster.brokers, topic, value=read), 2)
    assert [message.record for message in messages] == [KafkaSeen(0, "ff", "True", 0), KafkaSeen(1, "ff", "False", 0)]


async def test_a_time_outside_of_the_calendar_is_none(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, [b"x"], timestamp=253_402_300_800_000_000)
    (message,) = await taken(KafkaSource(cluster.brokers, topic), 1)
    assert message.at is None


async def test_a_deletion_is_malformed_for_a_record_class(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, [None], key="ann")
    (message,) = await taken(KafkaSource(cluster.brokers, topic, value=SourceItem), 1)
    assert isinstance(message.record, Malformed)
    assert ("tombstone", "True") in message.record.attributes


async def test_several_topics_are_read_by_one_source(cluster: KafkaCluster, topic: str) -> None:
    other = cluster.make_topic(f"{topic}-b", 1)
    put(cluster.brokers, topic, lines(10))
    put(cluster.brokers, other, lines(10, 10))
    messages = await taken(KafkaSource(cluster.brokers, [topic, other]), 20)
    assert texts(messages) == numbered(0, 20)
    assert {message.partition.rpartition("/")[0] for message in messages} == {topic, other}


async def test_each_task_reads_its_own_partitions(cluster: KafkaCluster, topic: str) -> None:
    for number in range(4):
        put(cluster.brokers, topic, lines(10, 10 * number), partition=number)
    driven = [await opened(KafkaSource(cluster.brokers, topic), None, 3, index) for index in range(3)]
    try:
        await driven[0].take(20, COME_S)
        await driven[1].take(10, COME_S)
        await driven[2].take(10, COME_S)
        for one in driven:
            await one.rest(0.2)
        read = [{message.partition for message in one.messages} for one in driven]
    finally:
        for one in driven:
            await one.close()
    assert read == [{f"{topic}/0", f"{topic}/3"}, {f"{topic}/1"}, {f"{topic}/2"}]


async def test_a_task_without_a_partition_waits_or_ends(cluster: KafkaCluster, topic: str) -> None:
    idle = await opened(KafkaSource(cluster.brokers, topic), None, 9, 8)
    assert await idle.rest(0.3) == []
    assert not idle.ended
    await idle.close()
    ends = await opened(KafkaSource(cluster.brokers, topic, follow=False), None, 9, 8)
    assert await ends.poll() == []
    await ends.close()


async def test_a_bounded_source_ends_at_what_was_there(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, lines(1_000))
    driven = await opened(KafkaSource(cluster.brokers, topic, follow=False))
    put(cluster.brokers, topic, lines(500, 1_000))
    await driven.take(5_000, COME_S)
    await driven.close()
    assert driven.ended
    assert texts(driven.messages) == numbered(0, 1_000)


async def test_a_bounded_source_of_empty_topics_ends_at_once(cluster: KafkaCluster, topic: str) -> None:
    driven = await opened(KafkaSource(cluster.brokers, topic, follow=False))
    assert await driven.poll() == []
    await driven.close()


# -- where it begins


async def test_latest_gives_what_comes_later(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, lines(10))
    driven = await opened(KafkaSource(cluster.brokers, topic, begin="latest"))
    put(cluster.brokers, topic, lines(10, 10))
    await driven.take(10, COME_S)
    await driven.rest(0.2)
    await driven.close()
    assert texts(driven.messages) == numbered(10, 20)


@pytest.mark.parametrize("tasks_then", [1, 3])
async def test_latest_counts_once_although_nothing_was_emitted(
    cluster: KafkaCluster, topic: str, tasks_then: int
) -> None:
    put(cluster.brokers, topic, lines(10))
    memory = Memory()
    first = await opened(KafkaSource(cluster.brokers, topic, begin="latest"), memory)
    await first.close()
    put(cluster.brokers, topic, lines(10, 10))
    found: list[Any] = []
    for index in range(tasks_then):
        driven = await opened(KafkaSource(cluster.brokers, topic, begin="latest"), memory, tasks_then, index)
        found += await driven.rest(1.0)
        await driven.close()
    assert texts(found) == numbered(10, 20)


async def test_committed_begins_where_the_group_has_left(cluster: KafkaCluster, topic: str) -> None:
    for number in range(4):
        put(cluster.brokers, topic, lines(10, 10 * number), partition=number)
    commit(cluster.brokers, topic, topic, [10, 7])  # the group has the topic's name
    made = KafkaSource(cluster.brokers, topic, group=topic, begin="committed", follow=False)
    assert texts(await taken(made, 1_000)) == [*numbered(17, 20), *numbered(20, 40)]


async def test_what_is_settled_is_committed_and_no_more(cluster: KafkaCluster, topic: str) -> None:
    for number in range(2):
        put(cluster.brokers, topic, lines(10, 10 * number), partition=number)
    driven = await opened(KafkaSource(cluster.brokers, topic, group=f"{topic}-g"))
    await driven.take(20, COME_S)
    by_name = {(message.partition, message.id): message for message in driven.messages}
    first, second = f"{topic}/0", f"{topic}/1"
    await driven.settle([by_name[first, offset] for offset in (0, 1, 2, 5, 6)])
    await driven.settle([by_name[second, offset] for offset in (3, 4)])

    def now() -> list[int]:
        return committed(cluster.brokers, f"{topic}-g", topic, 2)

    assert await within(COME_S, lambda: now() == [3, 0]), now()
    await driven.settle([by_name[first, offset] for offset in (3, 4)])
    await driven.settle([by_name[second, offset] for offset in (0, 1, 2, 5, 6, 7, 8, 9)])
    await driven.close()  # commits at once
    assert now() == [7, 10]


async def test_a_group_that_refuses_commits_stops_nothing(
    cluster: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    group_authorization_failed, offset_commit = 30, 8
    cluster.tell("refuse", offset_commit, [group_authorization_failed])
    put(cluster.brokers, topic, lines(10))
    driven = await opened(KafkaSource(cluster.brokers, topic))
    await driven.take(10, COME_S)
    await driven.settle(driven.messages)
    with caplog.at_level(logging.WARNING, "kedge.spouts"):
        assert await within(COME_S, lambda: "tools see no progress" in caplog.text)
    put(cluster.brokers, topic, lines(10, 10))
    await driven.take(20, COME_S)
    await driven.close()
    assert len(driven.messages) == 20


# -- what the cluster does not have any more


async def read_to_the_end(cluster: KafkaCluster, topic: str, memory: Memory, count: int) -> None:
    driven = await opened(KafkaSource(cluster.brokers, topic), memory)
    await driven.take(count, COME_S)
    await driven.settle(driven.messages)
    await driven.close()


async def test_messages_that_retention_has_deleted_are_counted(
    cluster: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory()
    put(cluster.brokers, topic, lines(10), partition=0)
    await read_to_the_end(cluster, topic, memory, 10)
    put(cluster.brokers, topic, lines(50, 10), partition=0)
    cluster.tell("delete_before", topic, 0, 30)
    messages = await taken(KafkaSource(cluster.brokers, topic), 30, memory)
    assert texts(messages) == numbered(30, 60)
    assert "up to 20 messages" in caplog.text


async def test_retention_that_has_deleted_only_what_was_done_is_no_loss(
    cluster: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory()
    put(cluster.brokers, topic, lines(10), partition=0)
    await read_to_the_end(cluster, topic, memory, 10)
    put(cluster.brokers, topic, lines(1, 10), partition=0)
    cluster.tell("delete_before", topic, 0, 10)
    assert texts(await taken(KafkaSource(cluster.brokers, topic), 1, memory)) == ["line 10"]
    assert "lost" not in caplog.text


async def test_retention_that_overtakes_the_source_is_a_warning(
    cluster: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    for begin in range(0, 2_000, 100):
        put(cluster.brokers, topic, lines(100, begin), partition=0)
    small = {
        "queued.min.messages": 1,
        "fetch.message.max.bytes": 1_000,
        "fetch.max.bytes": 1_000,
        "queued.max.messages.kbytes": 1,
    }
    driven = await opened(
        KafkaSource(cluster.brokers, topic, prefetch=5, settings={**small, "message.max.bytes": 1_000})
    )
    await driven.take(5, COME_S)
    cluster.tell("delete_before", topic, 0, 1_900)
    await driven.rest(2.0)
    await driven.close()
    ids = [message.id for message in driven.messages]
    assert ids[:5] == [0, 1, 2, 3, 4]
    assert ids[-100:] == [*range(1_900, 2_000)]
    assert len(ids) < 1_000
    assert "messages of" in caplog.text
    assert "are lost" in caplog.text


def known_at(topic: str, epoch: str, offset: int) -> Positions:
    return Positions({f"{topic}/0": offset}, {f"{topic}/0": epoch})


async def epoch_of(cluster: KafkaCluster, topic: str) -> str:
    made = KafkaSource(cluster.brokers, topic)
    await made.open(task(), Positions())
    epoch = made.partitions()[f"{topic}/0"]
    await made.close()
    return epoch


async def test_a_partition_that_ends_before_the_position_is_refused(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, lines(10), partition=0)
    made = KafkaSource(cluster.brokers, topic)
    with pytest.raises(ConfigurationError, match="ends before offset 10, and offset 50 was read") as raised:
        await made.open(task(), known_at(topic, await epoch_of(cluster, topic), 50))
    assert str(raised.value).startswith("KafkaSource: ")


async def test_a_topic_that_was_made_again_is_read_from_its_begin(
    cluster: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory()
    put(cluster.brokers, topic, lines(10), partition=0)
    await read_to_the_end(cluster, topic, memory, 10)
    former = dict(memory.epochs)
    cluster.tell("delete_topic", topic)
    cluster.make_topic(topic)
    put(cluster.brokers, topic, lines(20, 10), partition=0)
    memory.done = set()  # of another epoch: it has to give them
    messages = await taken(KafkaSource(cluster.brokers, topic), 20, Memory())
    made = KafkaSource(cluster.brokers, topic)
    await made.open(task(), Positions(memory.positions(), former))
    assert made.partitions()[f"{topic}/0"] != former[f"{topic}/0"]
    assert [message.id for message in await made.poll(100)] == [message.id for message in messages]
    await made.close()
    assert "was deleted and made again" in caplog.text


@pytest.mark.usefixtures("looks_often")
async def test_a_topic_that_is_made_again_meanwhile_is_read_too(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, lines(10), partition=0)
    driven = await opened(KafkaSource(cluster.brokers, topic))
    await driven.take(10, COME_S)
    former = dict(driven.spout.partitions())
    cluster.tell("delete_topic", topic)
    polling = asyncio.ensure_future(driven.poll())
    assert await within(COME_S, lambda: "there is no topic" in driven.spout.away)
    cluster.make_topic(topic)
    put(cluster.brokers, topic, lines(30, 10), partition=0)
    await asyncio.wait((polling,), timeout=COME_S)
    found: list[Any] = [*polling.result()]
    # `DrivenSource` knows messages by partition and id, and these have the ids of the former topic
    while len(found) < 20:
        async with asyncio.timeout(COME_S):
            found += await driven.spout.poll(100)
    assert driven.spout.partitions()[f"{topic}/0"] != former[f"{topic}/0"]
    await driven.close()


async def test_a_cluster_without_ids_of_topics_has_one_epoch(topic: str) -> None:
    with KafkaCluster(1) as old:
        old.tell("knows", METADATA, 0, 9)
        old.make_topic(topic)
        put(old.brokers, topic, lines(10))
        driven = await opened(KafkaSource(old.brokers, topic))
        await driven.take(10, COME_S)
        await driven.close()
        assert {*driven.memory.epochs.values()} == {""}


async def test_a_position_of_a_cluster_without_ids_stays_valid(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, lines(10), partition=0)
    made = KafkaSource(cluster.brokers, topic)
    await made.open(task(), known_at(topic, "", 7))
    assert [message.id for message in await made.poll(100)] == [7, 8, 9]
    assert made.partitions()[f"{topic}/0"] == ""
    await made.close()


def test_the_kit_reads_all_that_it_has_put(cluster: KafkaCluster, topic: str) -> None:
    put(cluster.brokers, topic, lines(100))
    assert sorted(message.value() for message in all_messages(cluster.brokers, topic)) == sorted(lines(100))
