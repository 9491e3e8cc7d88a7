"""`KafkaSource` and `KafkaSink` with a schema registry: real HTTP, and librdkafka's mock brokers."""

import asyncio
import json
import logging
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from kafka_kit import WAIT_S, KafkaCluster, NoMock, all_messages, opened, put, taken, task
from registry_kit import RegistryServer, avro_bytes, avro_value, framed, record_schema

from bolts.sinks.kafka.sink import KafkaSink
from spouts.kafka.source import KafkaSource
from topology import ConfigurationError, Malformed, Positions, Record, Secret
from topology.clients.registry import schemas
from topology.clients.registry.registry import SchemaRegistry
from topology.errors import NotYet
from topology.testing.sinks.driver import SinkItem, feed, item
from topology.testing.sinks.driver import delivery as delivery_of
from topology.testing.sinks.driver import opened as opened_sink
from topology.testing.sources.driver import within

pytestmark = pytest.mark.service("kafka")

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
FIRST = record_schema("Login", user="string", ok="boolean", at=MILLIS)
EVOLVED = record_schema("Login", user="string", ok="boolean", at=MILLIS, source=("string", "web"))
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class AvroLogin(Record):
    user: str
    ok: bool
    at: datetime
    source: str = "unknown"


class JsonLogin(Record):
    user: str
    at: datetime


class ProtoPlace(Record):
    city: str


class ProtoLogin(Record):
    user: str
    number: int
    at: datetime
    places: tuple[ProtoPlace, ...]
    kind: str
    raw: bytes
    note: str | None = None


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


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as made:
        yield made


def delivery(record: Any, message: int | None = None) -> Any:
    """A tuple of any record."""
    return delivery_of(record, message)


def records(messages: list[Any]) -> list[Any]:
    return [message.record for message in messages]


def reason(message: Any) -> str:
    assert isinstance(message.record, Malformed), message.record
    return message.record.error


# -- Avro


async def test_avro_is_read_by_the_schema_it_was_written_with(
    cluster: KafkaCluster, topic: str, server: RegistryServer
) -> None:
    old, new = (server.add(f"{topic}-value", "AVRO", text) for text in (FIRST, EVOLVED))
    login = {"user": "ann", "ok": True, "at": AT}
    given = [avro_bytes(old, FIRST, login), avro_bytes(new, EVOLVED, login | {"source": "app"})]
    put(cluster.brokers, topic, given * 50)
    value = SchemaRegistry(server.url).avro(AvroLogin, at="at", fields={"source": "header:from"})
    plain = SchemaRegistry(server.url).avro(AvroLogin)
    found = await taken(KafkaSource(cluster.brokers, topic, value=plain), 100)
    assert records(found) == [AvroLogin("ann", True, AT), AvroLogin("ann", True, AT, "app")] * 50
    assert [server.fetches(each) for each in (old, new)] == [1, 1], "a schema is fetched once"
    found = await taken(KafkaSource(cluster.brokers, topic, value=value), 100)
    assert {(message.record.source, message.at) for message in found} == {("unknown", AT)}


async def test_avro_goes_round_by_a_schema_of_the_record_class(
    cluster: KafkaCluster, topic: str, server: RegistryServer
) -> None:
    registry = SchemaRegistry(server.url)
    body = registry.avro_body(SinkItem, subject=f"{topic}-value")
    async with opened_sink(KafkaSink(cluster.brokers, topic, body=body)) as sink:
        await feed(sink, [delivery(item(number)) for number in range(20)])
    assert len(server.schemas(f"{topic}-value")) == 1
    found = await taken(KafkaSource(cluster.brokers, topic, value=registry.avro(SinkItem)), 20)
    assert records(found) == [item(number) for number in range(20)]


async def test_a_schema_that_is_only_looked_up_is_not_registered(
    cluster: KafkaCluster, topic: str, server: RegistryServer
) -> None:
    text = record_schema("Item", number="int", text=["null", "string"])
    body = SchemaRegistry(server.url).avro_body(text, subject="items", register=False)
    with pytest.raises(ConfigurationError, match=r"SchemaRegistry: .*Subject 'items' not found"):
        async with opened_sink(KafkaSink(cluster.brokers, topic, body=body)):
            pass
    assert not server.schemas("items")
    server.add("items", "AVRO", EVOLVED)
    schema_id = server.add("items", "AVRO", text)
    async with opened_sink(KafkaSink(cluster.brokers, topic, body=body)) as sink:
        await feed(sink, [delivery(item(3))])
    (message,) = all_messages(cluster.brokers, topic)
    assert message.value()[:5] == framed(schema_id, b"")
    assert avro_value(text, message.value()) == {"number": 3, "text": "item 3"}


async def test_a_record_that_does_not_fit_the_schema_is_refused_alone(
    cluster: KafkaCluster, topic: str, server: RegistryServer
) -> None:
    text = record_schema("Item", number={"type": "enum", "name": "E", "symbols": ["A"]})
    body = SchemaRegistry(server.url).avro_body(text, subject="items")
    async with opened_sink(KafkaSink(cluster.brokers, topic, body=body)) as sink:
        tried = delivery(item(3))
        await feed(sink, [tried])
        assert sink.refused == 1
    assert not all_messages(cluster.brokers, topic)


# -- JSON Schema and Protobuf

JSON_LOGIN = json.dumps(
    {
        "type": "object",
        "properties": {"user": {"type": "string", "maxLength": 5}, "at": {"$ref": "time.json"}},
        "required": ["user"],
    }
)


async def test_json_is_checked_by_its_schema_and_what_that_refers_to(
    cluster: KafkaCluster, topic: str, server: RegistryServer
) -> None:
    server.add("times", "JSON", '{"type": "string", "minLength": 20}')
    schema_id = server.add("j", "JSON", JSON_LOGIN, [{"name": "time.json", "subject": "times", "version": 1}])
    bodies = ['{"user": "ann", "at": "2026-01-02T03:04:05Z"}', '{"user": "too long", "at": "2026-01-02T03:04:05Z"}']
    bodies += ['{"user": "ann", "at": "2026-01-02"}', "{", '{"user": "bob"}']
    put(cluster.brokers, topic, [framed(schema_id, body.encode()) for body in bodies])
    registry = SchemaRegistry(server.url)
    found = await taken(KafkaSource(cluster.brokers, topic, value=registry.json(JsonLogin)), 5)
    assert found[0].record == JsonLogin("ann", AT)
    assert reason(found[1]) == "its schema refuses it: 'too long' is too long - at $.user"
    assert "'2026-01-02' is too short - at $.at" in reason(found[2])
    assert "truncated" in reason(found[3])
    assert reason(found[4]) == "Object missing required field `at`"
    found = await taken(KafkaSource(cluster.brokers, topic, value=registry.json(JsonLogin, check=False)), 5)
    assert found[1].record == JsonLogin("too long", AT)


async def test_json_goes_round(cluster: KafkaCluster, topic: str, server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    text = '{"type": "object", "properties": {"number": {"maximum": 3}}}'
    body = registry.json_body(text, subject="items")
    async with opened_sink(KafkaSink(cluster.brokers, topic, body=body)) as sink:
        await feed(sink, [delivery(item(number)) for number in range(6)])
        assert (sink.stored, sink.refused) == (4, 2)
    found = await taken(KafkaSource(cluster.brokers, topic, value=registry.json(SinkItem)), 4)
    assert records(found) == [item(number) for number in range(4)]


@pytest.fixture(scope="module")
def logins() -> dict[str, Any]:
    """The classes of messages of a file, as protoc would generate them."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="kedge_login.proto", package="kedge.test", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    file.message_type.add(name="Logout").field.add(name="user", number=1, type=kinds.TYPE_STRING, label=1)
    login = file.message_type.add(name="Login")
    login.field.add(name="user", number=1, type=kinds.TYPE_STRING, label=1)
    login.field.add(name="number", number=2, type=kinds.TYPE_INT64, label=1)
    stamp = {"type": kinds.TYPE_MESSAGE, "type_name": ".google.protobuf.Timestamp"}
    login.field.add(name="at", number=3, label=1, **stamp)
    login.nested_type.add(name="Place").field.add(name="city", number=1, type=kinds.TYPE_STRING, label=1)
    login.field.add(name="places", number=4, label=3, type=kinds.TYPE_MESSAGE, type_name=".kedge.test.Login.Place")
    login.enum_type.add(name="Kind").value.extend(
        [descriptor_pb2.EnumValueDescriptorProto(name=name, number=at) for at, name in enumerate(("WEB", "APP"))]
    )
    login.field.add(name="kind", number=5, label=1, type=kinds.TYPE_ENUM, type_name=".kedge.test.Login.Kind")
    login.field.add(name="raw", number=6, label=1, type=kinds.TYPE_BYTES)
    wrapped = {"type": kinds.TYPE_MESSAGE, "type_name": ".google.protobuf.StringValue"}
    login.field.add(name="note", number=7, label=1, **wrapped)
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    names = ("Login", "Logout", "Login.Place")
    found = {name: pool.FindMessageTypeByName(f"kedge.test.{name}") for name in names}
    return {name: message_factory.GetMessageClass(each) for name, each in found.items()}


async def test_protobuf_goes_round(
    cluster: KafkaCluster, topic: str, server: RegistryServer, logins: dict[str, Any]
) -> None:
    registry = SchemaRegistry(server.url)
    value = registry.protobuf(ProtoLogin, message=logins["Login"], at="at")
    given = ProtoLogin("ann", 1 << 40, AT, (ProtoPlace("Bern"), ProtoPlace("Ulm")), "APP", b"\xff", "hello")
    bare = ProtoLogin("", 0, AT, (), "WEB", b"")
    body = registry.protobuf_body(logins["Login"], subject="logins")
    async with opened_sink(KafkaSink(cluster.brokers, topic, body=body)) as sink:
        await feed(sink, [delivery(given, 1), delivery(bare, 2), delivery(item(1), 3)])
        assert (sink.stored, sink.refused) == (2, 1)
    first = all_messages(cluster.brokers, topic)[0].value()
    assert first[5:7] == b"\x02\x02", "one place, which is the second message"
    put(cluster.brokers, topic, [first[:5] + b"\0" + b"\x0a\x03bob", first[:5] + b"\x02\x02\x0f", first[:5] + b"\x80"])
    found = await taken(KafkaSource(cluster.brokers, topic, value=value), 5)
    assert records(found)[:2] == [given, bare]
    assert [message.at for message in found[:2]] == [AT, AT]
    assert reason(found[2]) == "it is a message kedge.test.Logout, not kedge.test.Login"
    assert reason(found[3]).startswith("it cannot be read as kedge.test.Login")
    assert reason(found[4]) == "it ends before it says which message of its file it is"


async def test_a_message_within_a_message_and_a_registry_that_gives_text(
    cluster: KafkaCluster, topic: str, server: RegistryServer, logins: dict[str, Any]
) -> None:
    registry = SchemaRegistry(server.url)
    text = 'syntax = "proto3"; package kedge.test; message Login { message Place { string city = 1; } }'
    body = registry.protobuf_body(logins["Login.Place"], subject="places", schema=text)
    async with opened_sink(KafkaSink(cluster.brokers, topic, body=body)) as sink:
        await feed(sink, [delivery(ProtoPlace("Bern"), 1)])
    assert server.schemas("places")[0]["schema"] == text
    (message,) = all_messages(cluster.brokers, topic)
    assert message.value()[5:8] == b"\x04\x02\x00"
    value = registry.protobuf(ProtoPlace, message=logins["Login.Place"])
    assert records(await taken(KafkaSource(cluster.brokers, topic, value=value), 1)) == [ProtoPlace("Bern")]


# -- what does not fit


async def test_what_does_not_fit_is_malformed_with_the_reason(
    cluster: KafkaCluster, topic: str, server: RegistryServer
) -> None:
    avro, other = server.add("a", "AVRO", FIRST), server.add("b", "JSON", "{}")
    broken = server.add("c", "AVRO", '{"type": "nothing"}')
    wrong = record_schema("Login", user="string", ok="string", at=MILLIS)
    wrong_id = server.add("d", "AVRO", wrong)
    good = avro_bytes(avro, FIRST, {"user": "ann", "ok": True, "at": AT})
    given = [
        good,
        b"",
        b'{"user": "ann"}',
        b"\0\0\0",
        framed(4_000_000_000, b"x"),
        framed(2_000_000_000, b"x"),
        good[:-1],
        good + b"more",
        framed(avro, b"\xff" * 20),
        framed(other, b"{}"),
        framed(broken, b"x"),
        avro_bytes(wrong_id, wrong, {"user": "ann", "ok": "yes", "at": AT}),
        good,
    ]
    put(cluster.brokers, topic, given)
    value = SchemaRegistry(server.url).avro(AvroLogin)
    found = await taken(KafkaSource(cluster.brokers, topic, value=value), len(given))
    assert found[0].record == found[-1].record == AvroLogin("ann", True, AT)
    no_id = "it has no schema id: it does not begin with a zero byte and four bytes of the id"
    assert [reason(each) for each in found[1:5]] == [no_id] * 4
    assert reason(found[5]) == "the schema registry has no schema 2000000000: Schema 2000000000 not found"
    assert reason(found[6]) == "it ends before its schema does, or is of another schema"
    assert reason(found[7]) == "its schema ends 4 bytes before it does"
    assert reason(found[8]) == reason(found[6])
    assert reason(found[9]) == f"its schema {other} is JSON, not AVRO"
    assert f"its schema {broken} can't be used: UnknownType" in reason(found[10])
    assert reason(found[11]) == "Expected `bool`, got `str` - at `$.ok`"
    assert [each.record.data for each in found[1:-1]] == given[1:-1]


@pytest.mark.parametrize(("answer", "said"), [(None, "has no schema 7"), ((403, b"{}"), "its schema 7 can't be used")])
async def test_an_unknown_or_refused_schema_is_asked_for_again_for_the_next_messages(
    cluster: KafkaCluster, topic: str, server: RegistryServer, answer: tuple[int, bytes] | None, said: str
) -> None:
    put(cluster.brokers, topic, [avro_bytes(7, FIRST, {"user": "ann", "ok": True, "at": AT})] * 3)
    driven = await opened(KafkaSource(cluster.brokers, topic, value=SchemaRegistry(server.url).avro(AvroLogin)))
    try:
        server.answer = answer
        await driven.poll(2)
        assert said in reason(driven.messages[1])
        assert server.fetches(7) == 1
        server.answer = None
        assert server.add("late", "AVRO", FIRST) == 7
        await driven.poll(2)
        assert driven.messages[2].record == AvroLogin("ann", True, AT)
    finally:
        await driven.close()


async def test_no_more_schemas_are_kept_than_there_is_room_for(
    cluster: KafkaCluster, topic: str, server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "SCHEMAS_MAX", 3)
    texts = [record_schema("Login", user="string", ok="boolean", at=MILLIS, **{f"f{n}": "int"}) for n in range(8)]
    ids = [server.add("many", "AVRO", text) for text in texts]
    login = {"user": "ann", "ok": True, "at": AT}
    given = [
        avro_bytes(each, text, login | {f"f{n}": n}) for n, (each, text) in enumerate(zip(ids, texts, strict=True))
    ]
    put(cluster.brokers, topic, given * 2)
    value = SchemaRegistry(server.url).avro(AvroLogin)
    driven = await opened(KafkaSource(cluster.brokers, topic, value=value))
    try:
        while len(driven.messages) < 16:
            await driven.poll(2)
            assert len(value.schemas._known) <= 3
        assert records(driven.messages) == [AvroLogin("ann", True, AT)] * 16
        await driven.close()
        await driven.open()
        assert len(await driven.spout.poll(16)) == 16  # in one batch, more schemas than are kept
    finally:
        await driven.close()


# -- a registry that is away


async def test_messages_wait_for_a_registry_that_goes_away(
    cluster: KafkaCluster, topic: str, server: RegistryServer, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = (server.add("logins", "AVRO", text) for text in (FIRST, EVOLVED))
    login = {"user": "ann", "ok": True, "at": AT}
    put(cluster.brokers, topic, [avro_bytes(old, FIRST, login)] * 3)
    driven = await opened(KafkaSource(cluster.brokers, topic, value=SchemaRegistry(server.url).avro(AvroLogin)))
    try:
        await driven.take(2, WAIT_S)
        with caplog.at_level(logging.WARNING, "kedge.spouts"), server.away():
            put(cluster.brokers, topic, [avro_bytes(new, EVOLVED, login | {"source": "app"})] * 3)
            await driven.take(3, WAIT_S)  # its schema is known
            polling = asyncio.create_task(driven.take(6, WAIT_S))
            assert await within(WAIT_S, lambda: "retry 5" in driven.spout.away)
            assert f"the schema registry {server.url} can't be used: " in driven.spout.away
            polling.cancel()  # as a run does that ends; nothing is lost
            await asyncio.gather(polling, return_exceptions=True)
            assert len(driven.messages) == 3
            assert not driven.spout.away
            put(cluster.brokers, topic, [avro_bytes(old, FIRST, login)])  # news do not hide it
            polling = asyncio.create_task(driven.take(7, WAIT_S))
            assert await within(WAIT_S, lambda: "its messages wait (K" in caplog.text)
            assert await within(WAIT_S, lambda: "schema registry" in driven.spout.away)  # the first wait may be logged
        await polling
        assert not driven.spout.away
        assert [message.id for message in driven.messages] == [*range(7)]
        assert [message.record.source for message in driven.messages] == ["unknown"] * 3 + ["app"] * 3 + ["unknown"]
    finally:
        await driven.close()


@pytest.mark.parametrize(
    ("status", "body"), [(503, b"later"), (429, b"{}"), (401, b"{}"), (500, b'{"error_code": 50001, "message": "m"}')]
)
async def test_messages_wait_for_a_registry_that_fails(
    cluster: KafkaCluster, topic: str, server: RegistryServer, status: int, body: bytes
) -> None:
    put(
        cluster.brokers, topic, [avro_bytes(server.add("l", "AVRO", FIRST), FIRST, {"user": "a", "ok": True, "at": AT})]
    )
    driven = await opened(KafkaSource(cluster.brokers, topic, value=SchemaRegistry(server.url).avro(AvroLogin)))
    try:
        server.answer = status, body
        polling = asyncio.create_task(driven.take(1, WAIT_S))
        assert await within(WAIT_S, lambda: "retry 2" in driven.spout.away)
        assert str(status) in driven.spout.away
        server.answer = None
        await polling
        assert records(driven.messages) == [AvroLogin("a", True, AT)]
    finally:
        await driven.close()


async def test_a_slow_registry_does_not_hold_the_loop(
    cluster: KafkaCluster, topic: str, server: RegistryServer
) -> None:
    put(
        cluster.brokers, topic, [avro_bytes(server.add("l", "AVRO", FIRST), FIRST, {"user": "a", "ok": True, "at": AT})]
    )
    driven = await opened(KafkaSource(cluster.brokers, topic, value=SchemaRegistry(server.url).avro(AvroLogin)))
    try:
        server.slow_s = 2.0
        polling = asyncio.create_task(driven.take(1, WAIT_S))
        assert await within(WAIT_S, lambda: server.fetches(7) == 1)
        turns = 0
        while not polling.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert turns > 20
        assert records(driven.messages) == [AvroLogin("a", True, AT)]
    finally:
        await driven.close()


async def test_a_registry_that_does_not_answer_is_away(
    cluster: KafkaCluster, topic: str, server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "ANSWER_S", 0.3)
    server.slow_s = 1.0
    made = KafkaSource(cluster.brokers, topic, value=SchemaRegistry(server.url).avro(AvroLogin))
    with pytest.raises(NotYet, match=r"KafkaSource: the schema registry .* has not answered within 0.3 s"):
        await made.open(task(), Positions())


async def test_a_registry_that_is_away_at_the_start_is_not_yet(
    cluster: KafkaCluster, topic: str, server: RegistryServer
) -> None:
    registry = SchemaRegistry(server.url)
    source = KafkaSource(cluster.brokers, topic, value=registry.avro(AvroLogin))
    sink = KafkaSink(cluster.brokers, topic, body=registry.avro_body(AvroLogin, subject="logins"))
    with server.away():
        with pytest.raises(NotYet, match=rf"KafkaSource: the schema registry {server.url} can't be used: .*refused"):
            await source.open(task(), Positions())
        with pytest.raises(NotYet, match=rf"KafkaSink: the schema registry {server.url} can't be used: .*refused"):
            async with opened_sink(sink):
                pass
    await source.open(task(), Positions())
    await source.close()
    async with opened_sink(sink) as open_sink:
        await feed(open_sink, [delivery(AvroLogin("ann", True, AT + timedelta(microseconds=1)), 1)])
    (message,) = all_messages(cluster.brokers, topic)
    assert avro_value(server.schemas("logins")[0]["schema"], message.value())["at"].microsecond == 1


# -- what the user has to fix


@pytest.mark.parametrize("right", [True, False])
async def test_a_password_is_given_to_the_registry(
    cluster: KafkaCluster, topic: str, right: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with RegistryServer("ann", "geheim:x") as server, caplog.at_level(logging.DEBUG):
        login = {"user": "a", "ok": True, "at": AT}
        put(cluster.brokers, topic, [avro_bytes(server.add("l", "AVRO", FIRST), FIRST, login)])
        registry = SchemaRegistry(server.url, user="ann", password=Secret("geheim:x" if right else "falsch"))
        source = KafkaSource(cluster.brokers, topic, value=registry.avro(AvroLogin))
        sink = KafkaSink(cluster.brokers, topic, body=registry.avro_body(AvroLogin, subject="l"))
        if right:
            assert records(await taken(source, 1)) == [AvroLogin("a", True, AT)]
        else:
            said = rf"^SchemaRegistry: {server.url} refuses user 'ann' \(401\): Unauthorized\n  next:"
            with pytest.raises(ConfigurationError, match=said):
                await source.open(task(), Positions())
            with pytest.raises(ConfigurationError, match=said):
                async with opened_sink(sink):
                    pass
    assert "HTTP Request" not in caplog.text
    assert "geheim" not in caplog.text
    assert "falsch" not in caplog.text
    assert "falsch" not in repr(registry.avro(AvroLogin))


async def test_a_page_of_something_else_is_one_sentence(
    cluster: KafkaCluster, topic: str, server: RegistryServer
) -> None:
    for answer in ((200, b"<html>"), (404, b"<html>"), (200, b"[]"), (301, b""), (200, b"{}")):
        server.answer = answer
        made = KafkaSource(cluster.brokers, topic, value=SchemaRegistry(server.url).avro(AvroLogin))
        with pytest.raises(ConfigurationError, match=rf"^SchemaRegistry: {server.url} does not answer as a schema reg"):
            await made.open(task(), Positions())
    server.answer = 422, b'{"error_code": 42201, "message": "Input schema is an invalid Avro schema"}'
    body = SchemaRegistry(server.url).avro_body(AvroLogin, subject="l")
    with pytest.raises(ConfigurationError, match=r"refuses it \(422\): Input schema is an invalid Avro schema"):
        async with opened_sink(KafkaSink(cluster.brokers, topic, body=body)):
            pass
