"""`WebSocketSource` on a real server: the contract of sources, with a server that keeps its messages and one that does
not, and what a server may do."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from feed_kit import check_run
from http_kit import FeedServer, QueueSubject, ReplaySubject, begin_at, certificate_in, item_json, until
from live_run import cases
from tcp_proxy import TcpProxy

from spouts.http.websocket import WebSocketSource
from spouts.payload.formats import Json, Msgpack
from topology import ConfigurationError, NotYet, Record, Secret
from topology.clients.tls import Tls
from topology.testing.sources import SOURCE_CHECKS, SourceItem, check_source
from topology.testing.sources.driver import DrivenSource, Memory, is_malformed

# The checks that need a server which keeps something.
NOT_OF_A_QUEUE = {
    "what_waits_at_the_begin_comes_too",
    "what_is_settled_does_not_come_again",
    "what_is_not_settled_comes_again_under_the_same_id",
    "what_a_killed_process_had_not_settled_comes_again",
    "two_tasks_share_the_messages",
}


@pytest.fixture
def server() -> Iterator[FeedServer]:
    with FeedServer().there() as one:
        yield one


@pytest.fixture
def proxy(server: FeedServer) -> Iterator[TcpProxy]:
    one = TcpProxy(server.port)
    yield one
    one.close()


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract_with_a_server_that_keeps_nothing(
    check: str, server: FeedServer, proxy: TcpProxy
) -> None:
    left_out = check_source(check, QueueSubject(server.port, server, proxy))
    assert bool(left_out) == (check in NOT_OF_A_QUEUE), left_out


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract_with_a_server_that_begins_where_it_is_asked(
    check: str, server: FeedServer, proxy: TcpProxy
) -> None:
    left_out = check_source(check, ReplaySubject(server.port, server, proxy))
    assert bool(left_out) == (check == "two_tasks_share_the_messages"), left_out


def put(server: FeedServer, *numbers: int) -> None:
    server.put([*map(item_json, numbers)])


def found(source: DrivenSource) -> list[int]:
    return [message.record.number for message in source.messages if not is_malformed(message)]


async def opened(memory: Memory, server: FeedServer, path: str = "queue", **options: Any) -> DrivenSource:
    address = f"ws://127.0.0.1:{server.port}/{path}"
    source = DrivenSource(WebSocketSource(address, **{"value": SourceItem, **options}), memory)
    await source.open()
    return source


async def test_subscriptions_are_sent_after_each_connection(server: FeedServer, proxy: TcpProxy) -> None:
    address = f"ws://127.0.0.1:{proxy.port}/queue"
    wanted = ["hello", b"\x01", "token"]
    options: dict[str, Any] = {"subscribe": ["hello", b"\x01", Secret("token")]}
    source = DrivenSource(WebSocketSource(address, value=SourceItem, **options), Memory())
    await source.open()
    await until(lambda: server.heard == wanted, "the subscriptions")
    proxy.reset()
    await until(lambda: server.heard == wanted * 2, "the subscriptions again")
    put(server, 1)
    await source.take(1, 5)
    await source.close()
    source = DrivenSource(WebSocketSource(address, value=SourceItem, subscribe="one"), Memory())
    await source.open()
    await until(lambda: server.heard[6:] == ["one"], "the one subscription")
    await source.close()


async def test_headers_and_protocols_are_sent_and_secrets_never_shown(server: FeedServer) -> None:
    address = f"ws://user:open-sesame@127.0.0.1:{server.port}/queue?t=open-sesame"
    headers = {"X-Token": Secret("open-sesame"), "X-Client": "kedge"}
    source = DrivenSource(
        WebSocketSource(address, headers=headers, subscribe=Secret("open-sesame"), protocols=["kedge.test"]), Memory()
    )
    await source.open()
    seen = server.seen[-1]
    assert (seen["X-Token"], seen["X-Client"]) == ("open-sesame", "kedge")
    assert seen["Sec-WebSocket-Protocol"] == "kedge.test"
    shown = [*source.spout.summary(), repr(vars(source.spout))]
    server.stop()
    await until(lambda: bool(source.spout.away), "the end of the connection")
    assert "open-sesame" not in str([*shown, source.spout.away])
    await source.close()
    server.start()


class Kinded(Record):
    number: int
    text: str
    kind: str


async def test_text_and_binary_messages_are_told_apart(server: FeedServer) -> None:
    source = await opened(Memory(), server, "both", value=Json(Kinded, fields={"kind": "type"}))
    await source.take(2, 5)
    assert [message.record.kind for message in source.messages] == ["text", "binary"]
    await source.close()


async def test_messages_without_a_field_for_it_have_names_of_their_own(server: FeedServer) -> None:
    memory, names = Memory(), set()
    for number in (1, 2):
        source = await opened(memory, server)
        put(server, number, number)
        await source.take(2, 5)
        names |= {message.id for message in source.messages}
        await source.close()
    assert len(names) == 4
    assert WebSocketSource("ws://h/").given_again == "never"


async def test_a_field_names_the_message_and_what_comes_again_is_dropped(server: FeedServer) -> None:
    source = await opened(Memory(), server, value=Json(SourceItem, id="number"))
    put(server, 5, 3, 5)
    await source.take(2, 5)
    await source.settle(source.messages)
    put(server, 3, 4)
    await source.take(3, 5)
    await source.rest(0.2)
    assert [message.id for message in source.messages] == ["5", "3", "4"], "ints need not grow"
    await source.close()


async def test_a_later_run_begins_with_the_oldest_message_that_is_not_done(server: FeedServer) -> None:
    memory = Memory()
    options: dict[str, Any] = {"value": Json(SourceItem, id="number"), "resume": begin_at}
    put(server, 1, 2, 3, 4)
    source = await opened(memory, server, "ws", **options)
    assert WebSocketSource("ws://h/", **options).given_again == "same"
    await source.take(4, 5)
    await source.settle([message for message in source.messages if message.record.number != 3])
    await source.close()
    source = await opened(memory, server, "ws", **options)
    await source.take(1, 5)
    await source.rest(0.2)
    assert found(source) == [3]
    assert [json.loads(heard)["from"] for heard in server.heard] == [None, "3"]
    await source.close()


async def test_a_malformed_message_that_is_not_done_comes_again_after_the_one_before_it(server: FeedServer) -> None:
    memory = Memory()
    options: dict[str, Any] = {"value": Json(SourceItem, id="number"), "resume": begin_at}
    server.put([item_json(1), item_json(2), b"bad", b"worse", item_json(5)])
    source = await opened(memory, server, "ws", **options)
    first = [*await source.take(5, 5)]
    assert [message.id for message in first] == ["1", "2", "2\n1", "2\n2", "5"]
    await source.settle([message for message in first if message.id in ("1", "2", "2\n2")])
    await source.close()
    for before in ("1", "2"):  # a run forgets what is before its position
        del memory.given[""][before]
        memory.done.discard(("", before))
    source = await opened(memory, server, "ws", **options)
    await source.take(2, 5)
    await source.rest(0.2)
    assert json.loads(server.heard[-1])["from"] == "2"
    assert [message.id for message in source.messages] == ["2\n1", "5"]
    await source.close()


# -- what a server may do


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (401, ConfigurationError, "answers 401: it refuses these headers"),
        (403, ConfigurationError, "answers 403"),
        (404, ConfigurationError, "there is nothing at this path"),
        (204, ConfigurationError, "answers 204"),
        (302, ConfigurationError, "it has moved to ws://elsewhere.example/x; give that address"),
        (429, NotYet, "answers 429"),
        (500, NotYet, "answers 500"),
    ],
)
async def test_an_error_at_the_start_is_one_sentence(server: FeedServer, status: int, kind: Any, said: str) -> None:
    server.status, server.headers = status, {"Location": "ws://user:pw@elsewhere.example/x?token=1"}
    with pytest.raises(kind) as raised:
        await opened(Memory(), server)
    text = str(raised.value).partition("\n  next:")[0]
    assert text.startswith(f"WebSocketSource: ws://127.0.0.1:{server.port}/queue ")
    assert said in text
    assert "\n" not in text
    assert "pw" not in text


async def test_a_server_of_another_kind_is_refused(server: FeedServer) -> None:
    with pytest.raises(ConfigurationError, match="is no WebSocket server: it answers 200"):
        await opened(Memory(), server, "sse")


@pytest.mark.parametrize("status", [401, 404, 500])
async def test_an_error_later_is_away_and_may_be_repaired(server: FeedServer, status: int) -> None:
    source = await opened(Memory(), server)
    put(server, 1)
    await source.take(1, 5)
    server.status = status
    server.stop()
    server.start()
    await until(lambda: f"answers {status}" in source.spout.away, "the reason")
    server.status = 200
    put(server, 2)
    await source.take(2, 15)
    assert found(source) == [1, 2]
    assert not source.spout.away
    await source.close()


async def test_a_server_that_answers_no_ping_is_lost(server: FeedServer, proxy: TcpProxy) -> None:
    address = f"ws://127.0.0.1:{proxy.port}/queue"
    source = DrivenSource(WebSocketSource(address, value=SourceItem, heartbeat_s=0.3), Memory())
    await source.open()
    await source.rest(1.0)
    assert proxy.connections == 1, "a server that answers pings is not lost"
    proxy.swallows = True
    await until(lambda: "has not answered a ping for 0.3 s" in source.spout.away, "the reason")
    proxy.swallows = False
    await until(lambda: not source.spout.away and server.open == 1, "a new connection, and the end of the old one")
    put(server, 1)
    await source.take(1, 30)
    assert found(source) == [1]
    await source.close()


async def test_a_slow_reader_is_no_lost_server(server: FeedServer) -> None:
    source = await opened(Memory(), server, heartbeat_s=0.2, prefetch=10)
    padding = "x" * 10_000
    bodies = [json.dumps({"number": number, "text": padding}).encode() for number in range(1, 2_001)]
    server.put(bodies)
    await until(lambda: len(source.spout._ready) >= 10, "full hands")
    await asyncio.sleep(1.5)  # seven heartbeats in which nothing is read
    await source.take(2_000, 30)
    assert found(source) == [*range(1, 2_001)]
    assert source.spout._retries.retries == 0, "it has not connected again"
    await source.close()


async def test_the_servers_pings_are_answered(server: FeedServer) -> None:
    source = await opened(Memory(), server, "pings")
    await source.take(1, 10)
    assert found(source) == [1], "the server gives it once it has a pong"
    await source.close()


async def test_a_message_that_is_too_long_is_said(server: FeedServer) -> None:
    source = await opened(Memory(), server, max_message_bytes=1_000)
    server.put([b'{"number": 1, "text": "%s"}' % (b"x" * 2_000)])
    await until(lambda: "more than 1,000 bytes; raise max_message_bytes" in source.spout.away, "the reason")
    put(server, 2)
    await source.take(1, 15)
    assert found(source) == [2]
    await source.close()


async def test_tls_needs_a_certificate_that_is_trusted(tmp_path: Path, server: FeedServer) -> None:
    certificate, key = certificate_in(tmp_path)
    port = server.run(server.also_tls(certificate, key))
    address = f"wss://localhost:{port}/queue"
    with pytest.raises(ConfigurationError, match=f"^WebSocketSource: TLS with wss://localhost:{port}/queue fails: "):
        await DrivenSource(WebSocketSource(address), Memory()).open()
    source = DrivenSource(WebSocketSource(address, value=SourceItem, tls=Tls(ca=certificate)), Memory())
    await source.open()
    put(server, 1)
    await source.take(1, 5)
    await source.close()


async def test_a_mistake_in_resume_ends_the_run(server: FeedServer) -> None:
    def resume(last: str | None) -> str:
        raise ZeroDivisionError("oops")

    with pytest.raises(ZeroDivisionError):
        await opened(Memory(), server, value=Json(SourceItem, id="number"), resume=resume)


@pytest.mark.parametrize(
    ("address", "options", "said"),
    [
        ("http://feed.example/x", {}, "url is ws://HOST/PATH or wss://HOST/PATH, not 'http://feed.example/x'"),
        ("ws://", {}, "url is ws://"),
        ("ws://h/", {"headers": {"a": 1}}, "the header a is a text of one line"),
        ("ws://h/", {"subscribe": [1]}, "subscribe is a text or bytes"),
        ("ws://h/", {"protocols": "a"}, "protocols is a list of names"),
        ("ws://h/", {"resume": begin_at}, "name their field: value=Json("),
        ("ws://h/", {"heartbeat_s": 0}, "heartbeat_s is a number of seconds above 0"),
        ("ws://h/", {"max_message_bytes": 0}, "max_message_bytes is from 1 to"),
        ("ws://h/", {"value": Msgpack(SourceItem, fields={"text": "topic"})}, "there is type"),
    ],
)
def test_wrong_arguments_are_one_sentence(address: str, options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        WebSocketSource(address, **options)
    text = str(raised.value).partition("\n  next:")[0]
    assert text.startswith("WebSocketSource: ")
    assert said in text
    assert "\n" not in text


async def test_it_has_one_task(server: FeedServer) -> None:
    address = f"ws://127.0.0.1:{server.port}/queue"
    with pytest.raises(ConfigurationError, match="is one connection, so it has one task, not 2"):
        await DrivenSource(WebSocketSource(address), Memory(), 2, 0).open()


# -- real runs


@pytest.mark.parametrize(("count", "killed"), cases("nothing", "each worker", "the whole run", "the server"))
def test_each_message_of_a_server_that_keeps_them_counts_once(
    server: FeedServer, tmp_path: Path, count: int, killed: str
) -> None:
    path = tmp_path / "items.db"
    settings = {"url": f"ws://127.0.0.1:{server.port}/ws", "path": path}
    check_run(server, tmp_path, path, settings, count, killed)
