"""`NatsSource` with connections that are lost, backlogs of large messages, messages that a client drops, and streams
that were made again or have lost their end."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import nats
import nats.aio.client
import pytest
from nats_server import NatsServer, own_server
from tcp_proxy import TcpProxy

from spouts.broker.payload_room import WAITING_BYTES_MAX
from spouts.servers.nats import NatsSource
from topology import ConfigurationError
from topology.testing.sources.driver import DrivenSource, Memory, within

pytestmark = pytest.mark.service("nats")

COME_S = 30.0
AT_ONCE = 50  # messages that are published before the first answer is waited for
SECOND_S = 1.1  # seconds after which a stream has another time at which it was made
Server = NatsServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with own_server(tmp_path) as found:
        yield found


async def asked(server: Server, work: Callable[[Any], Any]) -> Any:
    """Return the result of a coroutine with a JetStream context of its own."""
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    try:
        return await work(client.jetstream(timeout=10))
    finally:
        await client.close()


async def make(server: Server, count: int = 0, size: int = 10, **options: Any) -> None:
    """A stream ITEMS with so many messages, made again if it is there."""

    async def work(stream: Any) -> None:
        with suppress(nats.js.errors.NotFoundError):
            await stream.delete_stream("ITEMS")
        await stream.add_stream(name="ITEMS", subjects=["items.*"], **options)

    await asked(server, work)
    await publish(server, count, size)


async def publish(server: Server, count: int, size: int = 10, subject: str = "items.a") -> None:
    async def work(stream: Any) -> None:
        for begin in range(0, count, AT_ONCE):
            some = min(AT_ONCE, count - begin)
            await asyncio.gather(*[stream.publish(subject, b"x" * size) for _ in range(some)])

    await asked(server, work)


async def unacknowledged(server: Server) -> int:
    info = await asked(server, lambda stream: stream.consumer_info("ITEMS", "test"))
    return int(info.num_ack_pending + info.num_pending)


def source(port: int, memory: Memory | None = None, **options: Any) -> DrivenSource:
    return DrivenSource(NatsSource(f"nats://127.0.0.1:{port}", "ITEMS", durable="test", **options), memory or Memory())


def is_away(driven: DrivenSource) -> bool:
    return bool(driven.spout.away)


def ids(driven: DrivenSource) -> list[Any]:
    return [message.id for message in driven.messages]


@contextmanager
def proxy_of(server: Server) -> Iterator[TcpProxy]:
    proxy = TcpProxy(server.port)
    try:
        yield proxy
    finally:
        proxy.close()


# -- lost connections


async def test_messages_that_are_settled_while_the_connection_is_lost_do_not_end_the_run(server: NatsServer) -> None:
    await make(server, 20)
    with proxy_of(server) as proxy:
        driven = source(proxy.port)
        await driven.open()
        await driven.take(20, COME_S)
        with proxy.away():
            assert await within(COME_S, lambda: bool(driven.spout.away))
            await driven.settle(driven.messages)
        await publish(server, 5)
        await driven.take(25, COME_S)
        await driven.settle(driven.messages[20:])
        await driven.close()
    assert ids(driven) == [*range(1, 26)]


async def test_a_source_closes_in_time_while_its_connection_is_being_made_again(server: NatsServer) -> None:
    await make(server, 1)
    with proxy_of(server) as proxy:
        for number in range(20):
            driven = source(proxy.port)
            await driven.open()
            await driven.take(1, COME_S)
            proxy.reset()
            assert await within(COME_S, partial(is_away, driven))
            await asyncio.sleep(0.025 + 0.002 * number)  # to cancel it in many of its steps
            async with asyncio.timeout(8.0):
                await driven.close()


# -- large messages


async def test_a_backlog_of_large_messages_comes_in_requests_that_are_limited_in_bytes(server: NatsServer) -> None:
    await make(server, 2_000, 64 * 1024)
    driven = source(server.port)
    await driven.open()
    assert await within(COME_S, lambda: driven.spout._waiting.is_full)
    assert driven.spout._waiting.bytes < 1.5 * WAITING_BYTES_MAX
    await driven.take(2_000, 60.0)
    assert driven.spout._retries.retries == 0, "the server has not cut the connection"
    await driven.close()
    assert ids(driven) == [*range(1, 2_001)]


async def test_requests_become_smaller_until_the_connection_bears_them(tmp_path: Path) -> None:
    options = tmp_path / "server.conf"
    options.write_text("max_pending: 600KB\nmax_payload: 500KB\n")
    with own_server(tmp_path, "-c", str(options)) as server:
        await make(server, 200, 100_000)
        driven = source(server.port)
        await driven.open()
        await driven.take(200, 90.0)
        await driven.close()
    assert sorted(ids(driven)) == [*range(1, 201)]


async def test_a_message_larger_than_a_request_comes(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spouts.servers.nats.REQUEST_BYTES", 10_000)
    await make(server)
    for size in (10, 900_000, 10, 500_000):
        await publish(server, 1, size)
    driven = source(server.port)
    await driven.open()
    await driven.take(4, COME_S)
    assert driven.spout._retries.retries == 0
    await driven.close()
    assert ids(driven) == [1, 2, 3, 4]


# -- messages that do not come through


def with_a_small_buffer(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The client drops messages of a subscription beyond so many bytes."""
    subscribe = nats.aio.client.Client.subscribe

    def limited(self: Any, *arguments: Any, **options: Any) -> Any:
        return subscribe(self, *arguments, **{**options, "pending_bytes_limit": size})

    monkeypatch.setattr(nats.aio.client.Client, "subscribe", limited)


@pytest.mark.parametrize("says_so", [True, False])
async def test_messages_that_the_client_drops_come_again_and_are_not_acknowledged_before(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch, says_so: bool
) -> None:
    with_a_small_buffer(monkeypatch, 100_000)
    if not says_so:
        monkeypatch.setattr("nats.errors.SlowConsumerError", type("OtherError", (Exception,), {"__init__": swallow}))
    await make(server, 1_000, 40_000)
    driven = source(server.port)
    await driven.open()
    while len(driven.messages) < 1_000:
        before = len(driven.messages)
        async with asyncio.timeout(COME_S):
            await driven.poll()
        await driven.settle(driven.messages[before:])
        assert 1_000 - len(driven.messages) <= await unacknowledged(server), "what did not come is kept"
    assert driven.spout._retries.retries > 0, "none was dropped"
    await driven.settle(driven.messages)
    await driven.close()
    assert sorted(ids(driven)) == [*range(1, 1_001)]
    assert await unacknowledged(server) == 0


def swallow(self: Any, *arguments: Any, **options: Any) -> None:
    """Be made of whatever the client gives."""


async def test_after_a_lost_connection_only_what_is_not_settled_is_read_again(server: NatsServer) -> None:
    await make(server)
    for number in range(200):
        await publish(server, 1, subject="items.mine" if number % 2 else "items.other")
    with proxy_of(server) as proxy:
        driven = source(proxy.port, subject="items.mine")
        await driven.open()
        await driven.take(100, COME_S)
        await driven.settle(driven.messages[:90])
        proxy.reset()
        await publish(server, 1, subject="items.mine")
        await driven.take(101, COME_S)
        assert driven.spout._unconfirmed.given_again == 10
        await driven.close()
    assert ids(driven) == [*range(2, 201, 2), 201]


# -- other streams of the same name


async def test_a_stream_that_has_lost_its_end_is_refused(server: NatsServer) -> None:
    memory = Memory()
    await make(server, 10)
    first = source(server.port, memory)
    await first.open()
    await first.take(10, COME_S)
    await first.settle(first.messages)
    await first.close()
    memory.given[first.messages[0].partition][100] = None  # the run had read further when the backup was made
    again = source(server.port, memory)
    with pytest.raises(ConfigurationError, match="ends at message 10, and message 100 was read before") as raised:
        await again.open()
    assert str(raised.value).startswith("NatsSource: stream ITEMS of nats://127.0.0.1:")


async def test_a_stream_whose_messages_were_all_purged_is_read_on(server: NatsServer) -> None:
    memory = Memory()
    await make(server, 10)
    first = source(server.port, memory)
    await first.open()
    await first.take(10, COME_S)
    await first.settle(first.messages)
    await first.close()
    await asked(server, lambda stream: stream.purge_stream("ITEMS"))
    again = source(server.port, memory)
    await again.open()
    await publish(server, 2)
    await again.take(2, COME_S)
    await again.close()
    assert ids(again) == [11, 12]


async def test_a_stream_that_is_made_again_while_the_run_lives_is_read_from_its_start(server: NatsServer) -> None:
    await make(server, 3)
    with proxy_of(server) as proxy:
        driven = source(proxy.port, begin="new")
        await driven.open()
        await publish(server, 1)
        await driven.take(1, COME_S)
        with proxy.away():
            await asyncio.sleep(SECOND_S)
            await make(server, 4)
        await driven.take(5, COME_S)
        await driven.close()
    assert ids(driven) == [4, 1, 2, 3, 4]


@pytest.mark.parametrize("keeps_consumers", [True, False])
async def test_messages_that_come_while_the_connection_is_lost_are_read_though_none_was_before(
    server: NatsServer, keeps_consumers: bool
) -> None:
    await make(server, 3)
    with proxy_of(server) as proxy:
        driven = source(proxy.port, begin="new")
        await driven.open()
        with proxy.away():
            await publish(server, 2)
            if not keeps_consumers:
                await asked(server, lambda stream: stream.delete_consumer("ITEMS", "test"))
        await driven.take(2, COME_S)
        await driven.close()
    assert ids(driven) == [4, 5]
