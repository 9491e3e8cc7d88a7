"""`SchemaRegistry` without Kafka: its arguments, its schemas, TLS, and what a registry may answer."""

import asyncio
import copy
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kafka_doors import certificate
from registry_kit import RegistryServer, avro_bytes, framed, record_schema

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
    assert [id_of(data) for data in (b"", b"\0\0\0\0", b"\x01\0\0\0\x07x")] == [None] * 3
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
        with pytest.raises(ServerAway, match=r"refuses user 'ann' \(403\): User is denied operation Read"):
            await value.fetch([7])
        body = SchemaRegistry(server.url).avro_body(Inner, subject="s")
        with pytest.raises(ConfigurationError, match=r"refuses requests without a user \(403\)"):
            await body.open()
        server.answer = 409, b'{"error_code": 409, "message": "Schema being registered is incompatible"}'
        with pytest.raises(ConfigurationError, match=r"refuses it \(409\): Schema being registered is incompatible"):
            await body.open()


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
        value = SchemaRegistry(server.url).avro(Inner)
        await value.fetch([node, endless, also])
        read = value.decode_as(dict)
        assert read(framed(node, b"\x02\x02\0")) == {"next": {"next": {"next": None}}}
        with pytest.raises(RecursionError):
            read(framed(node, b"\x02" * 1_000_000 + b"\0"))
        for schema_id in (endless, also):
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
