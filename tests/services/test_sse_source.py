"""`SseSource` on a real server: the contract of sources, resuming, and what a server may answer."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from feed_kit import check_run
from http_kit import FeedServer, SseSubject, certificate_in, item_json, until
from live_run import cases
from tcp_proxy import TcpProxy

from spouts.http.sessions import HttpSession
from spouts.http.sse import SseSource
from spouts.lines import Line
from spouts.payload.formats import Json
from topology import ConfigurationError, NotYet, Record, Secret
from topology.clients.tls import Tls
from topology.testing.sources import SOURCE_CHECKS, SourceItem, check_source
from topology.testing.sources.driver import DrivenSource, Memory


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
def test_the_source_keeps_the_contract(check: str, server: FeedServer, proxy: TcpProxy) -> None:
    left_out = check_source(check, SseSubject(server.port, server, proxy))
    assert bool(left_out) == (check == "two_tasks_share_the_messages"), left_out


def url(server: FeedServer) -> str:
    return f"http://127.0.0.1:{server.port}/sse"


def put(server: FeedServer, *numbers: int) -> None:
    server.put([*map(item_json, numbers)])


def found(source: DrivenSource) -> list[int]:
    return [message.record.number for message in source.messages]


async def opened(memory: Memory, address: str, **options: Any) -> DrivenSource:
    source = DrivenSource(SseSource(address, **{"value": SourceItem, **options}), memory)
    await source.open()
    return source


# -- resuming


async def test_a_later_run_begins_after_the_events_that_are_all_settled(server: FeedServer) -> None:
    memory = Memory()
    put(server, 1, 2, 3, 4, 5)
    source = await opened(memory, url(server))
    await source.take(5, 5)
    by_number = {message.record.number: message for message in source.messages}
    await source.settle([by_number[number] for number in (1, 2, 4)])
    await source.close()
    source = await opened(memory, url(server))
    assert server.seen[-1]["Last-Event-ID"] == "2"
    await source.take(2, 5)
    assert found(source) == [3, 5]
    assert [message.id for message in source.messages] == ["3", "5"]
    await source.close()


async def test_it_connects_again_after_the_last_event_that_came_done_or_not(server: FeedServer) -> None:
    server.ends_after = 2
    put(server, *range(1, 8))
    source = await opened(Memory(), url(server))
    await source.take(7, 10)
    assert found(source) == [*range(1, 8)]
    assert [seen.get("Last-Event-ID") for seen in server.seen[:4]] == [None, "2", "4", "6"]
    await source.close()


async def test_the_first_run_begins_after_a_given_id(server: FeedServer) -> None:
    put(server, 1, 2, 3)
    memory = Memory()
    source = await opened(memory, url(server), last_event_id="2")
    await source.take(1, 5)
    await source.settle(source.messages)
    await source.close()
    assert found(source) == [3]
    source = await opened(memory, url(server), last_event_id="2")
    assert server.seen[-1]["Last-Event-ID"] == "3", "the note is newer"
    await source.close()


async def test_without_resuming_no_id_is_sent_and_events_have_names_of_their_own(server: FeedServer) -> None:
    put(server, 1, 2)
    memory = Memory()
    names = set()
    for _ in range(2):
        source = await opened(memory, url(server), resumes=False)
        await source.take(2, 5)
        names |= {message.id for message in source.messages}
        await source.settle(source.messages)
        await source.close()
        assert "Last-Event-ID" not in server.seen[-1]
        assert found(source) == [1, 2]
    assert len(names) == 4
    assert SseSource(url(server), resumes=False).given_again == "never"
    assert SseSource(url(server)).given_again == "same"


async def test_events_without_ids_are_said_once_and_have_names_of_their_own(
    server: FeedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.has_ids = False
    put(server, 1, 2)
    source = await opened(Memory(), url(server))
    await source.take(2, 5)
    assert [str(message.id)[0] for message in source.messages] == ["/", "/"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{url(server)} gives events without ids: those that are under way when the worker dies are lost"
    ]
    await source.close()


async def test_a_field_may_name_the_message_and_the_place_is_that_of_the_event(server: FeedServer) -> None:
    memory = Memory()
    put(server, 50, 40, 50)
    source = await opened(memory, url(server), value=Json(SourceItem, id="number"))
    await source.take(2, 5)
    await source.rest(0.2)
    assert [message.id for message in source.messages] == ["50", "40"], "50 came again under the same name"
    await source.settle(source.messages)
    await source.close()
    source = await opened(memory, url(server), value=Json(SourceItem, id="number"))
    assert server.seen[-1]["Last-Event-ID"] in ("2", "3")
    await source.close()


# -- what events have beside their payload


class Edit(Record):
    number: int
    kind: str
    at: str


async def test_the_type_and_the_id_of_an_event_fill_fields(server: FeedServer) -> None:
    server.extra = b'\xef\xbb\xbf: hello\r\n\r\nid: 7\r\nevent: edit\r\ndata: {"number":\r\ndata: 1}\r\n\r\n'
    server.extra += b'data: {"number": 2}\n\n'
    source = await opened(Memory(), url(server), value=Json(Edit, fields={"kind": "event", "at": "id"}))
    await source.take(2, 5)
    assert [message.record for message in source.messages] == [Edit(1, "edit", "7"), Edit(2, "message", "7")]
    await source.close()


async def test_headers_are_sent_and_never_shown(server: FeedServer, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"X-Token": Secret("open-sesame"), "X-Client": "kedge"}
    address = f"http://user:open-sesame@127.0.0.1:{server.port}/sse?t=open-sesame"
    source = await opened(Memory(), address, headers=headers)
    seen = server.seen[-1]
    assert (seen["X-Client"], seen["Accept"], seen["X-Token"]) == ("kedge", "text/event-stream", "open-sesame")
    assert seen["Authorization"].startswith("Basic ")
    shown = [*source.spout.summary(), repr(vars(source.spout)), caplog.text]
    server.stop()
    await until(lambda: bool(source.spout.away), "the end of the connection")
    assert "open-sesame" not in str([*shown, source.spout.away])
    await source.close()
    server.start()


# -- what a server may answer


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (401, ConfigurationError, "answers 401: it refuses these headers"),
        (403, ConfigurationError, "answers 403"),
        (404, ConfigurationError, "there is nothing at this path"),
        (400, ConfigurationError, "answers 400"),
        (301, ConfigurationError, "it has moved to http://elsewhere.example/x; give that address"),
        (429, NotYet, "answers 429"),
        (500, NotYet, "answers 500"),
        (503, NotYet, "answers 503"),
    ],
)
async def test_an_error_at_the_start_is_one_sentence(server: FeedServer, status: int, kind: Any, said: str) -> None:
    server.status, server.headers = status, {"Location": "http://user:pw@elsewhere.example/x?token=1"}
    with pytest.raises(kind) as raised:
        await opened(Memory(), url(server))
    text = str(raised.value).partition("\n  next:")[0]
    assert text.startswith(f"SseSource: {url(server)} ")
    assert said in text
    assert "\n" not in text
    assert "token" not in text.replace("check the token in them", "")


@pytest.mark.parametrize("status", [401, 404, 500, 301])
async def test_an_error_later_is_away_and_may_be_repaired(server: FeedServer, status: int) -> None:
    put(server, 1)
    source = await opened(Memory(), url(server))
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


async def test_status_204_ends_the_source(server: FeedServer) -> None:
    put(server, 1, 2)
    server.ends_after = 2
    source = await opened(Memory(), url(server))
    await source.take(2, 5)
    server.status = 204
    await asyncio.wait_for(source.rest(10), 20)
    assert source.ended
    await source.close()
    source = await opened(Memory(), url(server))
    await asyncio.wait_for(source.rest(10), 20)
    assert (source.ended, found(source)) == (True, [])
    await source.close()


async def test_something_else_than_events_is_refused(server: FeedServer) -> None:
    server.headers = {"Content-Type": "text/html"}
    with pytest.raises(ConfigurationError, match=r"^SseSource: .* gives text/html, not text/event-stream"):
        await opened(Memory(), url(server))


async def test_it_connects_no_sooner_than_the_server_has_asked(server: FeedServer) -> None:
    server.extra = b"retry: 1500\n\n"
    server.ends_after = 1
    put(server, 1, 2)
    source = await opened(Memory(), url(server))
    await source.take(1, 5)
    started_at = time.monotonic()
    await source.take(2, 15)
    assert 1.4 < time.monotonic() - started_at < 12
    assert len(server.seen) == 2, "nothing was asked in between"
    await source.close()


async def test_retry_after_is_kept(server: FeedServer) -> None:
    put(server, 1, 2)
    server.ends_after = 1
    source = await opened(Memory(), url(server))
    await source.take(1, 5)
    server.status, server.headers = 503, {"Retry-After": "2"}
    await until(lambda: len(server.seen) >= 2, "the next request")
    server.status, server.headers = 200, {}
    started_at = time.monotonic()
    await source.take(2, 15)
    assert 1.5 < time.monotonic() - started_at < 12
    assert len(server.seen) == 3
    await source.close()


async def test_a_silent_server_is_lost_after_silence_s(server: FeedServer, proxy: TcpProxy) -> None:
    put(server, 1)
    source = await opened(Memory(), f"http://127.0.0.1:{proxy.port}/sse", silence_s=0.5)
    await source.take(1, 5)
    proxy.swallows = True
    put(server, 2)
    await until(lambda: bool(source.spout.away), "the end of the connection")
    proxy.swallows = False
    await source.take(2, 15)
    assert found(source) == [1, 2]
    await source.close()


async def test_an_event_that_is_too_long_is_said_and_nothing_is_lost(server: FeedServer) -> None:
    source = await opened(Memory(), url(server), max_event_bytes=1_000)
    put(server, 1)
    server.put([b'{"number": 2, "text": "%s"}' % (b"x" * 2_000)])
    await source.take(1, 5)
    await until(lambda: "more than 1,000 bytes; raise max_event_bytes" in source.spout.away, "the reason")
    source.spout.max_event_bytes = 10_000
    await source.take(2, 15)
    assert found(source) == [1, 2]
    await source.close()


async def test_without_resuming_whole_events_before_one_that_is_too_long_come_too(server: FeedServer) -> None:
    server.extra = b"data: a\n\ndata: b\n\ndata: " + b"x" * 2_000 + b"\n\n"
    source = await opened(Memory(), url(server), value=Line, max_event_bytes=1_000, resumes=False)
    await source.take(2, 5)
    assert [message.record.text for message in source.messages] == ["a", "b"]
    await until(lambda: "more than 1,000 bytes; raise max_event_bytes" in source.spout.away, "the reason")
    await source.rest(1.0)
    assert len(server.seen) == 1, "it does not connect again at once"
    await source.close()


async def test_an_error_of_the_server_does_not_show_the_address(server: FeedServer) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"no answer of HTTP\r\n\r\n")
        writer.close()

    garbled = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = garbled.sockets[0].getsockname()[1]
    with pytest.raises(NotYet) as caught:
        await opened(Memory(), f"http://127.0.0.1:{port}/sse?token=geheim")
    garbled.close()
    said = str(caught.value).partition("\n")[0]
    assert said.startswith(f"SseSource: http://127.0.0.1:{port}/sse can't be used: 400 ")
    assert "geheim" not in str(caught.value)


def test_an_error_that_names_the_address_is_shown_without_it() -> None:
    session = HttpSession("SseSource", Secret("https://ann:x@host.example/sse?token=geheim"), {}, None)
    error = TimeoutError("Connection timeout to host https://host.example/sse?token=geheim")
    assert str(session.of_error(error)) == ("https://host.example/sse can't be used: Connection timeout to host …")


def test_an_address_that_cannot_be_read_is_shown_without_its_password() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SseSource("https://user:hun/ter2@host/x")
    assert "hun" not in str(caught.value)
    assert "ter2" not in str(caught.value)


async def test_tls_needs_a_certificate_that_is_trusted(tmp_path: Path, server: FeedServer) -> None:
    certificate, key = certificate_in(tmp_path)
    port = server.run(server.also_tls(certificate, key))
    put(server, 1)
    address = f"https://localhost:{port}/sse"
    with pytest.raises(
        ConfigurationError, match=f"^SseSource: TLS with https://localhost:{port}/sse fails: .*certificate"
    ):
        await opened(Memory(), address)
    source = await opened(Memory(), address, tls=Tls(ca=certificate))
    await source.take(1, 5)
    assert found(source) == [1]
    await source.close()


@pytest.mark.parametrize(
    ("address", "options", "said"),
    [
        ("ftp://feed.example/x", {}, "url is http://HOST/PATH or https://HOST/PATH, not 'ftp://feed.example/x'"),
        ("feed.example", {}, "url is http://"),
        ("http://user:pw@:80/", {}, "url is http://"),
        ("http://h/", {"headers": {"a b": "c"}}, "'a b' is no name of a header"),
        ("http://h/", {"headers": {"a": "pw\r\nb: c"}}, "the header a is a text of one line"),
        ("http://a:pw@h/", {"headers": {"authorization": "c"}}, "and not in both"),
        ("http://h/", {"last_event_id": "a\n"}, "last_event_id is an id"),
        ("http://h/", {"last_event_id": "a", "resumes": False}, "leave one of both out"),
        ("http://h/", {"silence_s": 0}, "silence_s is a number of seconds above 0"),
        ("http://h/", {"max_event_bytes": 0}, "max_event_bytes is from 1 to"),
        ("http://h/", {"prefetch": 0}, "prefetch is a number of messages"),
        ("http://h/", {"value": Json(SourceItem, fields={"text": "topic"})}, "there is event, id"),
    ],
)
def test_wrong_arguments_are_one_sentence(address: str, options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        SseSource(address, **options)
    text = str(raised.value).partition("\n  next:")[0]
    assert text.startswith("SseSource: ")
    assert said in text
    assert "\n" not in text
    assert "pw" not in text


async def test_it_has_one_task(server: FeedServer) -> None:
    with pytest.raises(ConfigurationError, match="is one stream, so it has one task, not 2"):
        await DrivenSource(SseSource(url(server)), Memory(), 2, 0).open()


# -- real runs


@pytest.mark.parametrize(("count", "killed"), cases("nothing", "each worker", "the whole run", "the server"))
def test_each_event_counts_once_whatever_is_killed(server: FeedServer, tmp_path: Path, count: int, killed: str) -> None:
    path = tmp_path / "items.db"
    check_run(server, tmp_path, path, {"url": url(server), "path": path}, count, killed)
