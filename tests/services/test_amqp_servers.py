"""`AmqpSource` and `AmqpSink` with a server of their own: it ends, stands still, is low on memory, asks for TLS."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from amqp_kit import Queue, RabbitServer, at, own_server

import bolts.sinks.servers.amqp as module
from bolts.sinks.servers.amqp import AmqpSink
from spouts.servers.amqp import AmqpSource
from topology import NotYet
from topology.clients.tls import Tls
from topology.testing.sinks.driver import delivery, feed, item, opened
from topology.testing.sources import SourceItem
from topology.testing.sources.driver import DrivenSource, Memory, within

pytestmark = [pytest.mark.service("amqp"), pytest.mark.timeout(240), pytest.mark.xdist_group("rabbitmq")]

COME_S = 60.0
MAX_BYTES = 1_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    folder = tmp_path_factory.mktemp("rabbitmq")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    settings = (
        f"max_message_size = {MAX_BYTES}",
        "listeners.ssl.local = 127.0.0.1:TLS_PORT",
        f"ssl_options.cacertfile = {certificate}",
        f"ssl_options.certfile = {certificate}",
        f"ssl_options.keyfile = {key}",
    )
    with own_server(folder, f"kedge-{os.getpid()}", *settings) as one:
        yield one


@pytest.fixture
async def queue(server: RabbitServer) -> AsyncIterator[Queue]:
    one = Queue(f"kedge-{secrets.token_hex(6)}", server.url)
    await one.make()
    await asyncio.to_thread(server.keep)
    yield one
    await one.delete()


def body(number: int) -> bytes:
    return b'{"number": %d, "text": "item %d"}' % (number, number)


def numbers(driven: DrivenSource) -> list[int]:
    return [message.record.number for message in driven.messages]


def sent(messages: list[Any]) -> list[int]:
    return [json.loads(message.body)["number"] for message in messages]


@pytest.mark.parametrize("how", ["killed", "stopped", "frozen"])
async def test_a_source_reads_on_when_its_server_is_back(server: RabbitServer, queue: Queue, how: str) -> None:
    await queue.publish([body(number) for number in range(1, 51)])
    driven = DrivenSource(AmqpSource(server.url, queue.name, value=SourceItem), Memory())
    await driven.open()
    await driven.take(50, COME_S)
    await driven.settle(driven.messages[:20])
    polling = asyncio.ensure_future(driven.poll())
    if how == "frozen":
        server.tell(signal.SIGSTOP)
        await asyncio.sleep(1)
        server.tell(signal.SIGCONT)
    else:
        await asyncio.to_thread(server.stop, signal.SIGKILL if how == "killed" else signal.SIGTERM)
        assert await within(COME_S, lambda: bool(driven.spout.away))
        await asyncio.to_thread(server.start)
    await queue.publish([body(number) for number in range(51, 101)])
    await asyncio.wait((polling,), timeout=COME_S)
    await driven.take(100, COME_S)
    await driven.rest()
    await driven.settle(driven.messages)
    await driven.close()
    assert sorted(numbers(driven)) == [*range(1, 101)]
    assert await queue.waiting() == 0


async def test_a_sink_stores_each_record_though_its_server_is_killed(server: RabbitServer, queue: Queue) -> None:
    async with opened(AmqpSink(server.url, routing_key=queue.name, batch=50)) as sink:
        await feed(sink, [delivery(item(number)) for number in range(1, 101)])
        await asyncio.to_thread(server.stop)
        feeding = asyncio.ensure_future(feed(sink, [delivery(item(number)) for number in range(101, 201)]))
        assert await within(COME_S, lambda: bool(sink.away))
        await asyncio.to_thread(server.start)
        out = await feeding
    assert len(out.acked) == 100
    found = await queue.take_all()
    by_id = {message.header.properties.message_id: message for message in found}
    assert sorted(sent([*by_id.values()])) == [*range(1, 201)]


async def test_a_server_that_is_low_on_memory_is_waited_for_and_nothing_is_sent_twice(
    server: RabbitServer, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.5)
    async with opened(AmqpSink(server.url, routing_key=queue.name, batch=50)) as sink:
        await feed(sink, [delivery(item(1))])
        await asyncio.to_thread(server.control, "set_vm_memory_high_watermark", "absolute", "1MB")
        try:
            feeding = asyncio.ensure_future(feed(sink, [delivery(item(number)) for number in range(2, 102)]))
            said = await within(COME_S, lambda: "low on memory or disk" in sink.away)
            assert said, sink.away
        finally:
            await asyncio.to_thread(server.control, "set_vm_memory_high_watermark", "0.8")
        out = await feeding
        assert sink.away == ""
    assert len(out.acked) == 100
    assert sent(await queue.take_all()) == [*range(1, 102)]


async def test_a_message_that_is_too_large_for_the_server_fails_alone(server: RabbitServer, queue: Queue) -> None:
    async with opened(AmqpSink(server.url, routing_key=queue.name)) as sink:
        records = [item(1), item(2, text="x" * (MAX_BYTES + 1)), item(3)]
        out = await feed(sink, [delivery(record) for record in records])
    assert sorted(out.numbers) == [1, 3]
    assert out.failed[0][1] == "it is larger than the server takes (1,000,000 bytes)"
    assert {*sent(await queue.take_all())} == {1, 3}


async def test_a_connection_is_encrypted_and_a_server_that_is_not_trusted_is_refused(
    server: RabbitServer, queue: Queue
) -> None:
    url = f"amqps://guest:guest@127.0.0.1:{server.tls_port}"
    tls = Tls(ca=str(server.folder / "certificate.pem"))
    async with opened(AmqpSink(url, routing_key=queue.name, tls=tls)) as sink:
        await feed(sink, [delivery(item(1))])
    driven = DrivenSource(AmqpSource(url, queue.name, tls=tls), Memory())
    await driven.open()
    await driven.take(1, COME_S)
    await driven.close()
    assert '"number":1' in driven.messages[0].record.text
    stranger = DrivenSource(AmqpSource(url, queue.name), Memory())
    with pytest.raises(NotYet, match=r"can't be used: .*certificate"):
        await stranger.open()
    plain = DrivenSource(AmqpSource(at(server.tls_port), queue.name), Memory())
    with pytest.raises(NotYet, match="can't be used"):
        await plain.open()
