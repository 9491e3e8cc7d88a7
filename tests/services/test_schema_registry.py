"""`SchemaRegistry` without Kafka: its arguments, its schemas, TLS, and what a registry may answer."""

import asyncio
import copy
import json
import threading
from collections import OrderedDict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from kafka_doors import certificate
from registry_kit import RegistryServer, avro_bytes, framed, record_schema

from spouts.servers.nats import NatsSource
from topology import ConfigurationError, Record, Secret
from topology.clients import extras
from topology.clients.errors import ServerAway
from topology.clients.registry import client, schemas
from topology.clients.registry.framing import head, id_of, places_as_bytes, places_of
from topology.clients.registry.registry import SchemaRegistry
from topology.clients.tls import Tls
from topology.errors import Reject


class Inner(Record):
    city: str | None


class Outer(Record):
    user: str
    many: tuple[Inner, ...]
    last: Inner
    tags: frozenset[int] = frozenset()


class Arrival(Record):
    city: str


class Departure(Record):
    user: str
    to: Arrival | None


class Priced(Record):
    price: Decimal


def told(raised: Any) -> str:
    return str(raised.value).partition("\n")[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "127.0.0.1:8081"}, "url is http:// or https://"),
        ({"url": "http://ann:geheim@registry"}, "url is http:// or https://"),
        ({"url": "http://registry?x=geheim"}, "url is http:// or https://"),
        ({"user": "ann"}, "user and password come together"),
        ({"user": "a:b", "password": "geheim"}, "user is a name without a colon"),
        ({"tls": Tls()}, "tls is for a url that begins with https://"),
    ],
)
def test_a_wrong_argument_is_one_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        SchemaRegistry(**{"url": "http://registry", **options})
    assert told(raised).startswith("SchemaRegistry: ")
    assert said in told(raised)
    assert "geheim" not in told(raised)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda registry: registry.avro_body("{", subject="s"), "schema is a JSON text: "),
        (lambda registry: registry.avro_body('"int"', subject=""), "subject is a name, such as TOPIC-value"),
        (
            lambda registry: registry.avro_body(Priced, subject="s"),
            "Priced.price is Decimal, which Avro has in several",
        ),
        (lambda registry: registry.protobuf(Inner, message=Inner), "message is a class that protoc has generated"),
    ],
)
def test_a_wrong_schema_is_one_sentence(make: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        make(SchemaRegistry("http://registry"))
    assert told(raised).startswith(f"SchemaRegistry: {said}")


def test_another_source_does_not_take_such_payloads() -> None:
    value: Any = SchemaRegistry("http://registry").avro(Inner)
    with pytest.raises(ConfigurationError, match="NatsSource: payloads of a schema registry are read by KafkaSource"):
        NatsSource("nats://127.0.0.1", "a", value=value)


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str) -> Any:
        raise ImportError(f"No module named {module!r}")

    registry = SchemaRegistry("http://127.0.0.1:9")
    monkeypatch.setattr(extras, "import_module", absent)
    with pytest.raises(ConfigurationError) as raised:
        await registry.avro(Inner).check()
    assert 'pip install "kedge-streams[kafka-registry]"' in told(raised)


def test_heads_and_places_are_those_of_confluents_serializers() -> None:
    assert head(300) == b"\0\0\0\x01\x2c"
    assert id_of(head(300) + b"x") == 300
    assert id_of(b"\0\x7f\xff\xff\xff") == (1 << 31) - 1
    garbage = (b"", b"\0\0\0\0", b"\x01\0\0\0\x07x", b"\0\x80\0\0\0x", b"\0\xff\xff\xff\xff")
    assert [id_of(data) for data in garbage] == [None] * len(garbage)
    for places, data in (([0], b"\0"), ([1], b"\x02\x02"), ([2, 0, 200], b"\x06\x04\0\x90\x03")):
        assert places_as_bytes(places) == data
        assert places_of(data + b"rest") == (places, b"rest")
    for data in (b"", b"\x02", b"\x80" * 9, b"\x03", b"\x90\x03"):
        with pytest.raises(Reject):
            places_of(data)


async def test_a_record_class_has_a_schema_of_its_own() -> None:
    given = Outer("ann", (Inner("Bern"), Inner(None)), Inner("Ulm"), frozenset({3}))
    with RegistryServer() as server:
        registry = SchemaRegistry(server.url)
        body = registry.avro_body(Outer, subject="outers")
        with pytest.raises(RuntimeError, match="does not take bodies of a schema registry"):
            body(given)
        await body.open()
        made = body(given)
        value = registry.avro(Outer)
        await value.fetch(value.ids([made]))
        fields = json.loads(server.schemas("outers")[0]["schema"])["fields"]
        assert [field["name"] for field in fields] == ["user", "many", "last", "tags"]
        read = value.decode_as(dict)(made)
        assert read == {
            "user": "ann",
            "many": [{"city": "Bern"}, {"city": None}],
            "last": {"city": "Ulm"},
            "tags": [3],
        }


async def test_tasks_share_what_was_fetched_and_fetch_it_once() -> None:
    with RegistryServer() as server:
        text = record_schema("Item", n="int")
        data = avro_bytes(server.add("s", "AVRO", text), text, {"n": 3})
        value = SchemaRegistry(server.url).avro(Inner)
        copies = [copy.deepcopy(value) for _ in range(2)]
        for each in copies:
            ids = each.ids([data, None, b"x", data])
            if each.missing(ids):
                await each.fetch(ids)
            assert each.decode_as(dict)(data) == {"n": 3}
        assert server.fetches(7) == 1
        server.slow_s, other = 0.2, server.add("s", "AVRO", record_schema("Other", n="int"))
        await asyncio.gather(*(each.fetch([other]) for each in copies))
        assert server.fetches(other) == 1, "also at the same time"


async def test_schemas_may_refer_to_others_or_to_themselves() -> None:
    with RegistryServer() as server:
        kinds = '{"type": "enum", "name": "Kind", "namespace": "ns", "symbols": ["A", "B"]}'
        server.add("kinds", "AVRO", kinds)
        inner = '{"type": "record", "name": "Inner", "namespace": "ns", "fields": [{"name": "kind", "type": "Kind"}]}'
        server.add("inner", "AVRO", inner, [{"name": "ns.Kind", "subject": "kinds", "version": 1}])
        references = [{"name": "ns.Inner", "subject": "inner", "version": 1}]
        outer = record_schema("Outer", inner="ns.Inner", n="int")
        good = framed(server.add("outer", "AVRO", outer, references), b"\x02\x06")
        circle = [{"name": "ring", "subject": "ring", "version": 1}]
        ring = framed(server.add("ring", "AVRO", record_schema("Ring", n="int"), circle), b"\x02")
        lost = framed(server.add("lost", "AVRO", outer, [{"name": "x", "subject": "gone", "version": 1}]), b"\x02")
        value = SchemaRegistry(server.url).avro(Inner)
        await value.fetch(value.ids([good, ring, lost]))
        read = value.decode_as(dict)
        assert read(good) == {"inner": {"kind": "B"}, "n": 3}
        assert read(ring) == {"n": 1}
        with pytest.raises(Reject, match="has no schema 11: Version 1 not found"):
            read(lost)


async def test_a_user_who_may_not_see_the_first_schema_is_a_user() -> None:
    with RegistryServer() as server:
        value = SchemaRegistry(server.url, user="ann", password="x").avro(Inner)
        server.answer = 403, b'{"error_code": 40301, "message": "User is denied operation Read"}'
        await value.check()
        await value.fetch([7])
        assert value.missing([7]) == [7], "it is asked for again"
        with pytest.raises(Reject, match=r"schema 7 can't be used: .* 'ann' \(403\): User is denied operation Read"):
            value.decode_as(dict)(framed(7, b"x"))
        body = SchemaRegistry(server.url).avro_body(Inner, subject="s")
        with pytest.raises(ConfigurationError, match=r"refuses requests without a user \(403\)"):
            await body.open()
        server.answer = 409, b'{"error_code": 409, "message": "Schema being registered is incompatible"}'
        with pytest.raises(ConfigurationError, match=r"refuses it \(409\): Schema being registered is incompatible"):
            await body.open()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}', r"not answer as a schema registry \(404\)"),
        (422, b'{"error_code": 42202, "message": "Invalid"}', r"refuses it \(422\): Invalid"),
        (404, b"<html>", ""),
        (422, b"<html>", ""),
        (409, b'{"error_code": 409, "message": "Not now"}', ""),
    ],
)
async def test_a_schema_is_refused_alone_or_the_registry_is_away(status: int, body: bytes, said: str) -> None:
    with RegistryServer() as server:
        text = record_schema("Item", n="int")
        data = avro_bytes(server.add("s", "AVRO", text), text, {"n": 3})
        value = SchemaRegistry(server.url).avro(Inner)
        await value.check()
        server.answer = status, body
        if said:
            await value.fetch([7])
            with pytest.raises(Reject, match=f"^its schema 7 can't be used: {server.url} .*{said}"):
                value.decode_as(dict)(data)
        else:
            with pytest.raises(ServerAway):
                await value.fetch([7])
        with pytest.raises(ConfigurationError):
            await SchemaRegistry(server.url).avro(Inner).check()
        server.answer = None
        await value.fetch(value.missing([7]))
        assert value.decode_as(dict)(data) == {"n": 3}


async def test_an_id_that_no_registry_has_is_refused_alone() -> None:
    with RegistryServer() as server:
        value = SchemaRegistry(server.url).avro(Inner)
        await value.check()
        assert value.ids([b"\0\xff\xff\xff\xffabc"]) == []
        await value.fetch([4_000_000_000])
        assert value.missing([4_000_000_000])


async def test_several_kinds_of_events_have_one_subject_of_references() -> None:
    with RegistryServer() as server:
        arrival = server.add("arrival", "AVRO", record_schema("Arrival", city="string"))
        tree = {"type": "record", "name": "ns.Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}
        server.add("tree", "AVRO", json.dumps(tree))
        places = {"Arrival": "arrival", "ns.Tree": "tree"}
        references = [{"name": name, "subject": subject, "version": 1} for name, subject in places.items()]
        texts = ['["Arrival", "ns.Tree"]', '{"type": "array", "items": "Arrival"}', '"ns.Tree"']
        union, many, name = (server.add("events", "AVRO", text, references) for text in texts)
        enum = server.add("e", "AVRO", '{"type": "enum", "name": "E", "symbols": ["A", "B"]}')
        value = SchemaRegistry(server.url).avro(Inner)
        await value.fetch([arrival, union, many, name, enum])
        read = value.decode_as(Any)
        assert read(framed(union, b"\x00\x08Bern")) == {"city": "Bern"}
        assert read(framed(union, b"\x02\x02\x02\x00")) == {"left": {"left": {"left": None}}}
        assert read(framed(many, b"\x04\x08Bern\x06Ulm\x00")) == [{"city": "Bern"}, {"city": "Ulm"}]
        assert read(framed(name, b"\x02\x00")) == {"left": {"left": None}}
        assert read(framed(enum, b"\x02")) == "B"
        for schema_id in (union, name):
            with pytest.raises(RecursionError):
                read(framed(schema_id, b"\x02" * 1_000_000 + b"\0"))
        with pytest.raises(Reject, match="its schema ends 1 bytes before it does"):
            read(framed(enum, b"\x02\0"))


async def test_a_sink_writes_by_a_schema_of_several_records() -> None:
    with RegistryServer() as server:
        arrival = json.loads(record_schema("Arrival", city="string"))
        departure = json.loads(record_schema("Departure", user="string", to=["null", "Arrival"]))
        registry = SchemaRegistry(server.url)
        body = registry.avro_body(json.dumps([arrival, departure]), subject="events")
        await body.open()
        assert body(Arrival("Bern"))[5:] == b"\x00\x08Bern"
        made = body(Departure("ann", Arrival("Ulm")))
        value = registry.avro(Departure)
        await value.fetch(value.ids([made]))
        assert value.decode_as(dict)(made) == {"user": "ann", "to": {"city": "Ulm"}}


async def test_a_registry_that_hangs_is_away_and_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "REQUEST_S", 0.2)
    with RegistryServer() as server:
        value = SchemaRegistry(server.url).avro(Inner)
        server.slow_s = 1.0
        with pytest.raises(ServerAway, match=r"can't be used: .*(timed out|Timeout)"):
            await value.check()
        server.slow_s = 0.0
        await value.check()


@pytest.mark.parametrize("tls", ["trusted", "system", "unchecked", "missing"])
async def test_certificates_are_checked(tmp_path: Path, tls: str) -> None:
    made, context = certificate(tmp_path)
    given = {
        "trusted": Tls(ca=str(made)),
        "system": None,
        "unchecked": Tls(check=False),
        "missing": Tls(ca=str(tmp_path / "no.pem")),
    }[tls]
    with RegistryServer("ann", "geheim", context) as server:
        value = SchemaRegistry(server.url, user="ann", password=Secret("geheim"), tls=given).avro(Inner)
        if tls == "system":
            with pytest.raises(ServerAway, match="certificate verify failed"):
                await value.check()
        elif tls == "missing":
            with pytest.raises(ConfigurationError, match=r"Tls: .*no\.pem can't be used"):
                await value.check()
        else:
            await value.check()
            assert server.asked == ["GET /schemas/ids/1"]


async def test_a_call_that_is_cancelled_leaves_the_next_one_alone() -> None:
    with RegistryServer() as server:
        server.add("s", "AVRO", record_schema("Item", n="int"))
        value = SchemaRegistry(server.url).avro(Inner)
        server.slow_s = 0.5
        fetching = asyncio.create_task(value.fetch([7]))
        await asyncio.sleep(0.1)
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
        assert value.missing([7]) == [7]
        await value.fetch([7])
        assert value.missing([7]) == []


async def test_a_message_that_would_overflow_the_stack_or_never_end_is_malformed() -> None:
    with RegistryServer() as server:
        kinds = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
        node = server.add("nodes", "AVRO", json.dumps(kinds))
        endless = server.add("n", "AVRO", record_schema("N", many={"type": "array", "items": "null"}))
        empty = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}
        also = server.add("e", "AVRO", record_schema("N", first=empty, many={"type": "array", "items": "E"}))
        nulls: dict[str, Any] = {"name": "many", "type": {"type": "array", "items": "null"}}
        kinds["fields"] = [*kinds["fields"], nulls]
        after = server.add("a", "AVRO", json.dumps(kinds))
        kinds["fields"] = [{"name": "next", "type": "Node"}]
        itself = server.add("i", "AVRO", record_schema("N", many={"type": "array", "items": kinds}))
        kinds["fields"] = [{"name": "many", "type": {"type": "array", "items": "Node"}}]
        tree = server.add("t", "AVRO", json.dumps(kinds))
        value = SchemaRegistry(server.url).avro(Inner)
        await value.fetch([node, endless, also, after, itself, tree])
        read = value.decode_as(dict)
        assert read(framed(node, b"\x02\x02\0")) == {"next": {"next": {"next": None}}}
        with pytest.raises(RecursionError):
            read(framed(node, b"\x02" * 1_000_000 + b"\0"))
        with pytest.raises(RecursionError):
            read(framed(itself, b"\x02\0"))
        assert read(framed(tree, b"\x02\0\0")) == {"many": [{"many": []}]}
        for schema_id in (endless, also, after):
            with pytest.raises(
                Reject, match=f"its schema {schema_id} can't be used: it has an array of values without"
            ):
                read(framed(schema_id, b"\xfe" * 8 + b"\x01\0"))


async def test_an_address_in_a_json_schema_is_not_asked() -> None:
    with RegistryServer() as server:
        text = json.dumps({"properties": {"city": {"$ref": f"{server.url}/city.json"}}})
        data = framed(server.add("s", "JSON", text), b'{"city": "Bern"}')
        value = SchemaRegistry(server.url).json(Inner)
        await value.fetch(value.ids([data]))
        with pytest.raises(Exception, match="Unresolvable"):
            value.decode_as(dict)(data)
        assert len(server.asked) == 1
        with pytest.raises(ValueError, match="truncated"):
            value.decode_as(dict)(data[:5] + b"[" * 5)
        with pytest.raises(RecursionError):
            value.decode_as(dict)(data[:5] + b"[" * 100_000)


async def test_a_protobuf_schema_may_be_text_beyond_ascii() -> None:
    with RegistryServer() as server:
        text = 'syntax = "proto3"; package google.protobuf; // größe\nmessage Timestamp {}'
        data = framed(server.add("s", "PROTOBUF", text), b"\0\x08\x07")
        value = SchemaRegistry(server.url).protobuf(Inner, message=Timestamp)
        await value.fetch(value.ids([data]))
        assert value.decode_as(Any)(data).second == 7


async def test_a_schema_may_be_dropped_while_the_thread_looks_for_it() -> None:
    class Dropping(OrderedDict[Any, Any]):
        """Drops an entry as soon as the thread has seen it, as the loop may."""

        dropped = 0

        def get(self, key: Any, default: Any = None) -> Any:
            found = super().get(key, default)
            if found is not None and not self.dropped and threading.current_thread() is not threading.main_thread():
                self.dropped += 1
                del self[key]
            return found

    with RegistryServer() as server:
        text = record_schema("Item", n="int")
        data = avro_bytes(server.add("s", "AVRO", text), text, {"n": 3})
        value = SchemaRegistry(server.url).avro(Inner)
        kept = value.schemas._known = Dropping()
        await asyncio.gather(value.fetch([7]), value.fetch([7]))
        assert kept.dropped == 1
        assert value.decode_as(dict)(data) == {"n": 3}


async def test_a_schema_that_is_needed_now_keeps_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "SCHEMAS_MAX", 1)
    with RegistryServer() as server:
        texts = [record_schema(name, n="int") for name in "ABC"]
        ids = [server.add("s", "AVRO", text) for text in texts]
        payloads = [avro_bytes(each, text, {"n": each}) for each, text in zip(ids, texts, strict=True)]
        value = SchemaRegistry(server.url).avro(Inner)
        await value.fetch(ids[:1])
        await value.fetch(ids)
        assert [value.decode_as(dict)(data)["n"] for data in payloads] == ids
        await value.fetch(ids[:1])
        assert value.missing(ids[1:]) == ids[1:], "more than one is kept only as long as it is needed"
