"""`NatsSink` with servers that stand still, end or are cut off while megabytes wait to be sent."""

import asyncio
import copy
import signal
from pathlib import Path
from typing import Any

import nats
import pytest
from nats_server import NatsServer, own_server
from tcp_proxy import TcpProxy

from bolts.sinks import retry
from bolts.sinks.servers import nats as sinks
from bolts.sinks.servers.nats import NatsSink
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, give, item, opened, sink_task, within

pytestmark = pytest.mark.service("nats")

SMALL, LARGE = 10, 900_000  # bytes of a body; thirty large ones are more than the sockets and nats-py take
COUNT = 30
COME_S = 30.0


async def made(server: NatsServer) -> None:
    """A stream ITEMS on the disk of the server."""
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    try:
        await client.jetstream().add_stream(name="ITEMS", subjects=["items.*"], duplicate_window=900)
    finally:
        await client.close()


async def stored(server: NatsServer) -> int:
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    try:
        return int((await client.jetstream().stream_info("ITEMS")).state.messages)
    finally:
        await client.close()


def sink_of(port: int, size: int) -> NatsSink:
    return NatsSink(f"nats://127.0.0.1:{port}", "items.all", body=lambda record: f"{record.number} ".ljust(size))


async def given(sink: Any, out: RecordedAnswers) -> None:
    """One that is stored, and more to a server that takes nothing."""
    await give(sink, [delivery(item(number)) for number in range(1, COUNT)], out)
    assert await within(COME_S, lambda: sink.waiting == 0), "the call has not begun"


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("then", ["goes on", "is another one"])
async def test_a_frozen_server_is_said_to_be_away_and_gets_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, then: str
) -> None:
    monkeypatch.setattr(sinks, "ANSWER_S", 0.5)
    monkeypatch.setattr(sinks, "STUCK_S", 60.0 if then == "goes on" else 0.8)
    with own_server(tmp_path) as server:
        await made(server)
        async with opened(sink_of(server.port, size)) as sink:
            out = await feed(sink, [delivery(item(0))])
            server.freeze()
            await given(sink, out)
            assert await within(COME_S, lambda: "has not confirmed" in sink.away), "nothing says that it waits"
            if then == "is another one":
                assert await within(COME_S, lambda: sink._publisher._client is None), "the connection is not given up"
                server.stop()
                server.start()
            else:
                server.tell(signal.SIGCONT)
            assert await within(COME_S, lambda: len(out.acked) == COUNT), sink.away
            assert sink.away == ""
            assert (sink.stored + sink.duplicates, out.failed) == (COUNT, [])
        assert await stored(server) == COUNT


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_server_that_dies_in_the_middle_of_a_call_is_away_long_before_its_answers_are_late(
    tmp_path: Path, size: int
) -> None:
    with own_server(tmp_path) as server:
        await made(server)
        async with opened(sink_of(server.port, size)) as sink:
            out = await feed(sink, [delivery(item(0))])
            server.freeze()
            await given(sink, out)
            server.stop()
            assert await within(sinks.ANSWER_S / 2, lambda: sink.away), "the loss is not noticed"
            server.start()
            assert await within(COME_S, lambda: len(out.acked) == COUNT), sink.away
        assert await stored(server) == COUNT


async def test_messages_over_a_slow_line_are_confirmed_bit_by_bit_and_none_is_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "ANSWER_S", 0.3)
    with own_server(tmp_path) as server:
        await made(server)
        sent = 0
        writers: list[asyncio.StreamWriter] = []

        async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bytes_per_s: float | None) -> None:
            nonlocal sent
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
                if bytes_per_s is not None:
                    sent += len(data)
                    await asyncio.sleep(len(data) / bytes_per_s)
            writer.close()

        async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await asyncio.open_connection("127.0.0.1", server.port)
            writers.extend((writer, there[1]))
            await asyncio.gather(slowly(reader, there[1], 20e6), slowly(there[0], writer, None), return_exceptions=True)

        line = await asyncio.start_server(passed, "127.0.0.1", 0)
        async with opened(sink_of(line.sockets[0].getsockname()[1], LARGE)) as sink:
            out = RecordedAnswers()
            await given(sink, out)
            assert await within(COME_S, lambda: "has not confirmed" in sink.away)
            assert await within(COME_S, lambda: len(out.acked) == COUNT - 1), sink.away
            assert sink.duplicates == 0
        line.close()
        for each in writers:
            each.transport.abort()
        assert await within(COME_S, lambda: all(each.transport._sock is None for each in writers))  # type: ignore[attr-defined]
        assert sent < LARGE * COUNT


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_sink_with_a_server_that_takes_nothing_closes_in_time_and_sends_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(retry, "CLOSING_S", 0.5)
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    with own_server(tmp_path) as server:
        await made(server)
        proxy = TcpProxy(server.port)
        before = asyncio.all_tasks()
        sink: Any = copy.deepcopy(sink_of(proxy.port, size))
        await sink.open(sink_task())
        out = await feed(sink, [delivery(item(0))])
        proxy.swallows = True
        await given(sink, out)
        async with asyncio.timeout(4 * retry.CLOSING_S):
            await sink.close()
        assert len(out.failed) == COUNT - 1
        assert sink._store is None
        assert await within(COME_S, lambda: asyncio.all_tasks() <= before), asyncio.all_tasks() - before
        proxy.close()
    assert not complaints
