"""`MqttSource` and `MqttSink` with a server of their own: it ends, stands still, forgets, asks for a password, TLS."""

import asyncio
import json
import logging
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mqtt_kit import MosquittoServer, at, fact, forget, kept, own_server, publish, subscribe

from bolts.sinks.servers.mqtt import MqttSink
from spouts.payload.formats import Json
from spouts.servers.mqtt import MqttSource
from topology import ConfigurationError, NotYet
from topology.clients.tls import Tls
from topology.testing.sinks.driver import delivery, feed, item, opened
from topology.testing.sources import SourceItem
from topology.testing.sources.driver import DrivenSource, Memory, within

pytestmark = pytest.mark.service("mqtt")

COME_S = 30.0


def source(server: MosquittoServer, topics: str = "items", **options: Any) -> MqttSource[Any]:
    return MqttSource(at(server.port), topics, **{"value": SourceItem, **options})


async def sent(server: MosquittoServer, numbers: Sequence[int]) -> None:
    bodies = [b'{"number": %d, "text": "item %d"}' % (number, number) for number in numbers]
    await asyncio.to_thread(publish, "items", bodies, server.port)


def numbers(driven: DrivenSource) -> list[int]:
    return [message.record.number for message in driven.messages]


def made(*command: str) -> None:
    """Runs a program that makes files."""
    subprocess.run(command, check=True, capture_output=True)


def some(count: int, begin: int = 1) -> list[Any]:
    return [delivery(item(number)) for number in range(begin, begin + count)]


@pytest.mark.parametrize("names", ["field", "nothing"])
@pytest.mark.parametrize("how", ["stopped", "frozen"])
async def test_a_source_reads_on_when_its_server_is_back(tmp_path: Path, how: str, names: str) -> None:
    value: Any = Json(SourceItem, id="number") if names == "field" else SourceItem
    with own_server(tmp_path) as server:
        driven = DrivenSource(source(server, value=value), Memory())
        await driven.open()
        await sent(server, range(1, 51))
        await driven.take(50, COME_S)
        await driven.settle(driven.messages[:20])
        await driven.rest(0.2)
        polling = asyncio.ensure_future(driven.poll())
        if how == "frozen":
            server.tell(signal.SIGSTOP)
            await asyncio.sleep(1)
            server.tell(signal.SIGCONT)
        else:
            await asyncio.to_thread(server.stop)
            assert await within(COME_S, lambda: bool(driven.spout.away))
            await asyncio.to_thread(server.start)
        await sent(server, range(51, 101))
        await asyncio.wait((polling,), timeout=COME_S)
        await driven.take(100, COME_S)
        await driven.rest()
        await driven.settle(driven.messages)
        await driven.close()
        assert sorted(numbers(driven)) == [*range(1, 101)]
        assert await asyncio.to_thread(kept, "kedge-conformance-source", 0, server.port) == []


async def test_what_was_under_way_is_not_lost_though_its_server_is_killed(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        driven = DrivenSource(source(server, value=Json(SourceItem, id="number")), Memory())
        await driven.open()
        await sent(server, range(1, 51))
        await driven.take(50, COME_S)
        await asyncio.sleep(2)  # the server saves each second
        await asyncio.to_thread(server.stop, signal.SIGKILL)
        polling = asyncio.ensure_future(driven.poll())
        assert await within(COME_S, lambda: bool(driven.spout.away))
        await asyncio.to_thread(server.start)
        assert await within(COME_S, lambda: not driven.spout.away)
        await sent(server, range(51, 61))
        await asyncio.wait((polling,), timeout=COME_S)
        await driven.take(60, COME_S)
        await driven.rest()
        await driven.close()
    assert sorted(numbers(driven)) == [*range(1, 61)]


async def test_a_server_that_is_silent_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import topology.clients.mqtt as client_module

    monkeypatch.setattr(client_module, "KEEPALIVE_S", 1)
    monkeypatch.setattr(client_module, "LOOK_S", 0.1)
    with own_server(tmp_path) as server:
        driven = DrivenSource(source(server), Memory())
        await driven.open()
        await asyncio.sleep(3)  # a server that answers is kept
        assert not driven.spout.away
        polling = asyncio.ensure_future(driven.poll())
        server.tell(signal.SIGSTOP)
        assert await within(COME_S, lambda: "silent" in driven.spout.away or "not answered" in driven.spout.away)
        server.tell(signal.SIGCONT)
        await sent(server, [1])
        await asyncio.wait((polling,), timeout=COME_S)
        await driven.close()
    assert numbers(driven) == [1]


async def test_a_session_that_the_server_has_forgotten_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with own_server(tmp_path) as server, caplog.at_level(logging.WARNING, "kedge.spouts"):
        memory = Memory()
        for _ in range(2):
            driven = DrivenSource(source(server), memory)
            await driven.open()
            await driven.close()
        assert not [record for record in caplog.records if "forgotten" in record.getMessage()]
        forget("kedge-conformance-source", server.port)
        driven = DrivenSource(source(server), memory)
        await driven.open()
        await driven.close()
    (told,) = [record.getMessage() for record in caplog.records if "forgotten" in record.getMessage()]
    assert f"{at(server.port)} has forgotten the session of kedge-conformance-source" in told


async def test_a_sink_sends_each_record_though_its_server_ends(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        subscribe("reader", "items", server.port)
        async with opened(MqttSink(at(server.port), "items", batch=50)) as sink:
            await feed(sink, some(100))
            await asyncio.to_thread(server.stop)
            feeding = asyncio.ensure_future(feed(sink, some(100, 101)))
            assert await within(COME_S, lambda: bool(sink.away))
            await asyncio.to_thread(server.start)
            out = await feeding
        assert len(out.acked) == 100
        found = await asyncio.to_thread(kept, "reader", 200, server.port)
    by_key = {fact(message, "kedge-key"): json.loads(message.payload)["number"] for message in found}
    assert sorted(by_key.values()) == [*range(1, 201)]


async def test_a_wrong_password_and_what_a_user_may_not_do_are_refused(tmp_path: Path) -> None:
    passwords, rules = tmp_path / "passwords", tmp_path / "rules"
    await asyncio.to_thread(made, "mosquitto_passwd", "-c", "-b", str(passwords), "ann", "right-word")
    rules.write_text("user ann\ntopic readwrite items\ntopic write other\n")
    settings = ("allow_anonymous false", f"password_file {passwords}", f"acl_file {rules}")
    with own_server(tmp_path, *settings) as server:
        for spout in (
            source(server, user="ann", password="wrong-word"),
            MqttSource(f"mqtt://ann:wrong-word@127.0.0.1:{server.port}", "items"),
            source(server),
        ):
            driven = DrivenSource(spout, Memory())
            with pytest.raises(ConfigurationError) as raised:
                await driven.open()
            await driven.close()
            said = f"MqttSource: {at(server.port)} refuses this user or password: Not authorized"
            assert str(raised.value).startswith(said)
            assert "wrong-word" not in str(raised.value) + repr(vars(spout))
        with pytest.raises(ConfigurationError, match=r"MqttSink: .* refuses this user or password"):
            async with opened(MqttSink(at(server.port), "items", user="ann", password="wrong-word")):
                pass

        def topic(record: Any) -> str:
            return "items" if record.number != 2 else "forbidden"

        driven = DrivenSource(source(server, user="ann", password="right-word"), Memory())
        await driven.open()
        async with opened(MqttSink(at(server.port), topic, user="ann", password="right-word")) as sink:
            out = await feed(sink, some(3))
        assert sorted(out.numbers) == [1, 3]
        assert [why for _, why in out.failed] == ["the server refuses it: Not authorized"]
        await driven.take(2, COME_S)
        await driven.close()
        assert [message.record.number for message in driven.messages] == [1, 3]


@pytest.mark.parametrize("setting", ["max_packet_size 2000", "message_size_limit 2000"])
async def test_a_message_that_is_too_large_for_the_server_fails_alone(tmp_path: Path, setting: str) -> None:
    with own_server(tmp_path, setting) as server:
        subscribe("reader", "items", server.port)
        async with opened(MqttSink(at(server.port), "items")) as sink:
            records = [item(1), item(2, text="x" * 3_000), item(3)]
            out = await feed(sink, [delivery(record) for record in records])
        assert sorted(out.numbers) == [1, 3]
        told = out.failed[0][1]
        if setting.startswith("max_packet_size"):
            assert told == "it is larger than the server takes (2,000 bytes)"
        else:  # Mosquitto 2.0.11 closes the connection
            assert told.startswith("the server closes the connection each time that it is sent (")
        found = await asyncio.to_thread(kept, "reader", 2, server.port)
    assert [json.loads(message.payload)["number"] for message in found] == [1, 3]


async def test_a_server_without_retained_messages_or_qos_1_is_refused(tmp_path: Path) -> None:
    with own_server(tmp_path, "retain_available false") as server:
        with pytest.raises(ConfigurationError, match=r"MqttSink: .* retains no messages; leave out retain"):
            async with opened(MqttSink(at(server.port), "items", retain=True)):
                pass
        async with opened(MqttSink(at(server.port), "items")) as sink:
            assert len((await feed(sink, some(1))).acked) == 1
    with own_server(tmp_path, "max_qos 0") as server:
        with pytest.raises(ConfigurationError, match=r"MqttSink: .* has no QoS 1"):
            async with opened(MqttSink(at(server.port), "items")):
                pass
        driven = DrivenSource(source(server), Memory())
        with pytest.raises(ConfigurationError, match=r"MqttSource: .* has no QoS 1"):
            await driven.open()


@pytest.mark.parametrize("answer", [b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00"])
async def test_a_server_that_speaks_an_older_mqtt_only_is_said(answer: bytes) -> None:
    """No such server can be started here, so these are the bytes of one of MQTT 3.1.1, and of one of MQTT 5."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(answer)
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as served:
        driven = DrivenSource(MqttSource(at(served.sockets[0].getsockname()[1]), "items"), Memory())
        with pytest.raises(ConfigurationError, match=r"refuses the connection: .*rotocol version.*MQTT 5"):
            await driven.open()


async def test_a_connection_is_encrypted_and_a_server_that_is_not_trusted_is_refused(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    await asyncio.to_thread(made, "openssl", *options, *names, "-keyout", str(key), "-out", str(certificate))
    with own_server(tmp_path, f"certfile {certificate}", f"keyfile {key}") as server:
        url, tls = f"mqtts://127.0.0.1:{server.port}", Tls(ca=str(certificate))
        driven = DrivenSource(MqttSource(url, "items", value=Json(SourceItem, id="number"), tls=tls), Memory())
        await driven.open()
        async with opened(
            MqttSink(url, "items", tls=tls, body=lambda one: f'{{"number": {one.number}, "text": ""}}')
        ) as sink:
            out = await feed(sink, some(1_000))
        assert len(out.acked) == 1_000
        await driven.take(1_000, COME_S)
        await driven.settle(driven.messages)
        await driven.close()
        assert numbers(driven) == [*range(1, 1_001)]
        stranger = DrivenSource(MqttSource(url, "items"), Memory())
        with pytest.raises(NotYet, match=r"can't be used: .*certificate"):
            await stranger.open()
        plain = DrivenSource(MqttSource(at(server.port), "items"), Memory())
        with pytest.raises(NotYet, match="can't be used"):
            await plain.open()
