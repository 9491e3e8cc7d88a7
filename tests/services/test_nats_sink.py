"""`NatsSink` with records that no stream takes, servers that take nothing, and streams that change during a run."""

import asyncio
import copy
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nats
import pytest
from nats_kit import PORT, NatsStream, asked, count, jetstream, numbered, reached
from nats_server import NatsServer, own_server
from tcp_proxy import TcpProxy

from bolts.sinks import batching
from bolts.sinks.servers.nats import NatsPublisher, NatsSink
from spouts.servers.nats import NatsSource
from topology import ConfigurationError, Secret
from topology.clients import nats as clients
from topology.clients.errors import ServerAway
from topology.errors import NotYet
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, give, item, opened, sink_task, within

pytestmark = pytest.mark.service("nats")

SOON_S = 8.0  # less than the time that a server has for its answers
SHORT_S = 0.1  # the shortest duplicate window that a server takes
BAD = 3  # the number of the record with the bad subject

SUBJECTS = {
    "of no stream": "nowhere.at-all",
    "with an empty part": "ITEMS..all",
    "of dots": "..",
    "with a lone surrogate": "ITEMS.\ud800",
    "of 5,000 characters": f"ITEMS.{'x' * 5_000}",
    "of 3,000 letters with 2 bytes each": f"ITEMS.{'é' * 3_000}",
    "with a vertical tab": "ITEMS.\x0ball",
    "with a NUL": "ITEMS.\0all",
    "with a line of its own": "ITEMS.all 0\r\n\r\nPING\r\n",
    "with a wildcard": "ITEMS.*",
    "that is empty": "",
}


@pytest.fixture
def stream() -> Iterator[NatsStream]:
    try:
        asked(reached())
    except Exception as error:
        pytest.skip(f"no NATS to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")
    with NatsStream(f"kedge-{secrets.token_hex(6)}").there() as there:
        yield there


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    made = TcpProxy(PORT)
    yield made
    made.close()


async def with_window(stream: NatsStream, window_s: float) -> None:
    """The stream, made again with another duplicate window."""
    async with jetstream(PORT) as js:
        await js.delete_stream(stream.name)
        await js.add_stream(name=stream.name, subjects=[f"{stream.name}.>"], duplicate_window=window_s)


@pytest.mark.parametrize("bad", SUBJECTS)
async def test_a_record_with_a_bad_subject_fails_alone_and_the_others_are_stored_once(
    stream: NatsStream, bad: str
) -> None:
    subject = SUBJECTS[bad].replace("ITEMS", stream.name)
    await with_window(stream, SHORT_S)
    sink_of = NatsSink(
        f"nats://127.0.0.1:{PORT}", lambda record: subject if record.number == BAD else stream.subject, remembers_s=0
    )
    async with opened(sink_of) as sink:
        out = RecordedAnswers()
        await give(sink, numbered(range(1, 6)), out)
        assert await within(SOON_S, lambda: len(out.acked) + len(out.failed) == 5), sink.away
    assert sorted(out.numbers) == [1, 2, 4, 5]
    ((tup, why),) = out.failed
    assert tup.record.number == BAD
    assert "its subject" in why
    assert await count(stream.name) == 4


@pytest.mark.parametrize(
    "answer",
    [None, b"pong", b'{"type": "of another API"}', b'{"error": "unknown order"}', b'{"seq": 7}', b'{"error": {}}'],
)
async def test_a_subject_with_a_subscriber_and_no_stream_fails_its_record_and_no_other(
    stream: NatsStream, monkeypatch: pytest.MonkeyPatch, answer: bytes | None
) -> None:
    monkeypatch.setattr("bolts.sinks.servers.nats.ANSWER_S", 0.5)
    heard = f"{secrets.token_hex(6)}.heard"
    client = await nats.connect(f"nats://127.0.0.1:{PORT}")

    async def answered(message: Any) -> None:
        if answer is not None:
            await message.respond(answer)

    await client.subscribe(heard, cb=answered)
    try:
        sink_of = NatsSink(
            f"nats://127.0.0.1:{PORT}", lambda record: heard if record.number == BAD else stream.subject, remembers_s=0
        )
        async with opened(sink_of) as sink:
            out = RecordedAnswers()
            await give(sink, numbered(range(1, 6)), out)
            assert await within(SOON_S, lambda: len(out.acked) + len(out.failed) == 5), sink.away
            assert [why for _, why in out.failed] == [f"no stream takes its subject {heard}"]
            await feed(sink, numbered([6]), out)
    finally:
        await client.close()
    assert sorted(out.numbers) == [1, 2, 4, 5, 6]


async def test_a_message_that_its_stream_refuses_fails_alone(stream: NatsStream) -> None:
    async with jetstream(PORT) as js:
        await js.update_stream(
            name=stream.name, subjects=[f"{stream.name}.>"], duplicate_window=1_000.0, max_msg_size=500
        )
    async with opened(NatsSink(f"nats://127.0.0.1:{PORT}", stream.subject)) as sink:
        out = RecordedAnswers()
        await give(sink, [delivery(item(number, text="x" * 600 * (number == BAD))) for number in range(1, 6)], out)
        assert await within(SOON_S, lambda: len(out.acked) + len(out.failed) == 5), sink.away
    assert sorted(out.numbers) == [1, 2, 4, 5]
    assert [why for _, why in out.failed] == ["the server refuses it: message size exceeds maximum allowed"]


async def test_a_fixed_subject_whose_stream_is_gone_waits_until_it_is_there_again(stream: NatsStream) -> None:
    async with opened(NatsSink(f"nats://127.0.0.1:{PORT}", stream.subject)) as sink:
        out = await feed(sink, numbered([1]))
        async with jetstream(PORT) as js:
            await js.delete_stream(stream.name)
            await give(sink, numbered([2]), out)
            assert await within(SOON_S, lambda: "no stream takes them" in sink.away), sink.away
            await js.add_stream(name=stream.name, subjects=[f"{stream.name}.>"], duplicate_window=1_000.0)
        assert await within(SOON_S, lambda: out.numbers == [1, 2]), sink.away
    assert not out.failed


async def test_what_is_confirmed_is_not_sent_again_while_another_message_of_the_batch_waits(
    stream: NatsStream,
) -> None:
    full = f"{stream.name}.full"
    async with jetstream(PORT) as js:
        await js.delete_stream(stream.name)
        config = nats.js.api.StreamConfig(
            name=stream.name,
            subjects=[f"{stream.name}.>"],
            discard=nats.js.api.DiscardPolicy.NEW,
            discard_new_per_subject=True,
            max_msgs_per_subject=3,
            duplicate_window=SHORT_S,
        )
        await js.add_stream(config)
        for _ in range(3):
            await js.publish(full, b"first")
        sink_of = NatsSink(
            f"nats://127.0.0.1:{PORT}",
            lambda record: full if record.number == 2 else f"{stream.name}.{record.number}",
            remembers_s=0,
        )
        async with opened(sink_of) as sink:
            out = RecordedAnswers()
            await give(sink, numbered([1, 2, 3]), out)
            assert await within(30, lambda: "retry 7" in sink.away), sink.away  # longer than the duplicate window
            assert "does not take 1 messages now: maximum messages per subject exceeded" in sink.away
            assert (await js.stream_info(stream.name)).state.messages == 5
            await js.purge_stream(stream.name, subject=full)
            assert await within(30, lambda: len(out.acked) == 3), sink.away
            assert sink.stored == 3
        assert (await js.stream_info(stream.name)).state.messages == 3


async def test_a_subject_to_which_the_user_may_not_publish_fails_its_record_and_no_other(tmp_path: Path) -> None:
    settings = """
    authorization: {users: [
        {user: root, password: all}
        {user: sink, password: some, permissions: {publish: {allow: ["items.*", "$JS.API.>"], deny: "items.secret"}}}
    ]}
    """
    with own_server(tmp_path, settings=settings) as server:
        async with jetstream(server.port, user="root", password="all") as js:
            await js.add_stream(name="ITEMS", subjects=["items.*"], duplicate_window=900)
        sink_of = NatsSink(
            f"nats://sink:some@127.0.0.1:{server.port}",
            lambda record: "items.secret" if record.number == BAD else "items.all",
            stream="ITEMS",
        )
        async with opened(sink_of) as sink:
            out = RecordedAnswers()
            await give(sink, numbered(range(1, 6)), out)
            assert await within(SOON_S, lambda: len(out.acked) + len(out.failed) == 5), sink.away
        assert [why for _, why in out.failed] == ["the server refuses it: no permission to publish to items.secret"]
        assert await count("ITEMS", server.port, user="root", password="all") == 4


async def test_messages_that_are_too_large_leave_nothing_behind_that_counts_as_waiting(tmp_path: Path) -> None:
    with own_server(tmp_path, settings="max_payload: 1000") as server:
        await made_items(server)
        sink_of = NatsSink(
            f"nats://127.0.0.1:{server.port}", "items.all", body=lambda record: "x" * (2_000 * (record.number < 4_100))
        )
        async with opened(sink_of) as sink:
            out = await feed(sink, numbered(range(4_100)))  # more than nats-py lets wait
            assert len(out.failed) == 4_100
            assert out.failed[0][1] == "it is larger than the server takes (1,000 bytes, max_payload)"
            await give(sink, numbered([4_100]), out)
            assert await within(SOON_S, lambda: out.numbers == [4_100]), sink.away


@pytest.mark.parametrize("size", range(800, 1_001, 20))
async def test_a_message_that_is_too_large_with_its_headers_fails_alone(tmp_path: Path, size: int) -> None:
    with own_server(tmp_path, settings="max_payload: 1000") as server:
        await made_items(server)
        sink_of = NatsSink(
            f"nats://127.0.0.1:{server.port}",
            "items.all",
            body=lambda record: "x" * (size if record.number == 2 else 3),
        )
        async with opened(sink_of) as sink:
            out = RecordedAnswers()
            await give(sink, numbered([1, 2, 3]), out)
            assert await within(SOON_S, lambda: len(out.acked) + len(out.failed) == 3), sink.away
        assert {1, 3} <= {*out.numbers}
        assert len(out.failed) == (size > 1_000 - len_of_headers())


def len_of_headers() -> int:
    return len(f"NATS/1.0\r\nNats-Msg-Id: {'0' * 48}\r\nKedge-Record: SinkItem\r\n\r\n")


async def test_a_server_without_jetstream_is_not_there_yet_however_often_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "OPENING_S", 1.0)
    with own_server(tmp_path, jetstream=False) as server, pytest.raises(NotYet, match="it has no JetStream now"):
        async with opened(NatsSink(f"nats://127.0.0.1:{server.port}", "items.all")):
            raise AssertionError("it is open")


async def test_a_check_that_fails_in_passing_is_made_again_before_the_sink_is_open(
    stream: NatsStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, calls = NatsPublisher._check, list[int]()

    async def fails_first(publisher: NatsPublisher) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise TimeoutError("no leader")
        await check(publisher)

    monkeypatch.setattr(NatsPublisher, "_check", fails_first)
    await with_window(stream, SHORT_S)
    with pytest.raises(ConfigurationError, match=r"forgets after 0\.1 s"):
        async with opened(NatsSink(f"nats://127.0.0.1:{PORT}", stream.subject)):
            raise AssertionError("it is open")
    assert len(calls) == 2


async def test_a_refused_or_failed_open_leaves_no_connection(stream: NatsStream, proxy: TcpProxy) -> None:
    await with_window(stream, SHORT_S)
    before = asyncio.all_tasks()
    sink: Any = copy.deepcopy(NatsSink(f"nats://127.0.0.1:{proxy.port}", stream.subject))
    with pytest.raises(ConfigurationError):
        await sink.open(sink_task())
    assert sink._publisher._client is None
    await sink.close()
    assert await within(SOON_S, lambda: asyncio.all_tasks() <= before), asyncio.all_tasks() - before


async def test_a_window_that_became_shorter_during_the_run_is_told_once_for_each_change(
    stream: NatsStream, proxy: TcpProxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(NatsSink(f"nats://127.0.0.1:{proxy.port}", stream.subject)) as sink:
        out = await feed(sink, numbered([0]))
        for number, window_s in enumerate((1.0, 1.0, 900.0, 2.0, 2.0), 1):
            await with_window(stream, window_s)
            proxy.reset()
            await give(sink, numbered([number]), out)
            assert await within(SOON_S, lambda: len(out.acked) == number + 1), sink.away  # noqa: B023  # awaited here
    told = [record.getMessage() for record in caplog.records if "forgets after" in record.getMessage()]
    assert [text.partition(" s what")[0].rpartition(" ")[2] for text in told] == ["1", "2"]
    assert "It was 1000 s before; a replay may now store a message twice" in told[0]


@pytest.mark.parametrize("component", [NatsSink, NatsSource])
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:4222",
        "127.0.0.1:4222",
        "nats://",
        "nats://127.0.0.1:4222,127.0.0.1:4223",
        "nats://bob:SEC/RET@127.0.0.1:4222",
        "nats://bob:SEC,RET@127.0.0.1:4222",
        "nats://127.0.0.1:4222,ws://127.0.0.1:8080",
        "nats://bob:SECRET@127.0.0.1:port",
    ],
)
def test_a_url_that_is_none_of_nats_is_refused_without_its_password(component: Any, url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        component(Secret(url), "ITEMS")
    assert str(raised.value).startswith(f"{component.__name__}: url ")
    assert "SEC" not in str(raised.value)
    assert "RET" not in str(raised.value)


@pytest.mark.parametrize("subject", ["", "two words", "items..all", "items.*", "items.\ud800", "x" * 4_000, None])
def test_a_fixed_subject_that_is_none_is_refused_at_once(subject: Any) -> None:
    with pytest.raises(ConfigurationError, match="NatsSink: subject is a text"):
        NatsSink("nats://127.0.0.1", subject)


async def test_a_password_may_have_any_character_if_it_is_escaped(tmp_path: Path) -> None:
    password = "a/b,c@d:e?f%41#g"
    with own_server(tmp_path, "--user", "ann", "--pass", password) as server:
        async with jetstream(server.port, user="ann", password=password) as js:
            await js.add_stream(name="ITEMS", subjects=["items.*"], duplicate_window=900)
        url = f"nats://ann:{quote(password, safe='')}@127.0.0.1:{server.port}"
        async with opened(NatsSink(Secret(url), "items.all")) as sink:
            out = await feed(sink, numbered([1]))
        assert out.numbers == [1]


async def test_an_address_where_nothing_listens_is_away_soon_and_the_next_one_is_tried(stream: NatsStream) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    async with asyncio.timeout(SOON_S):
        with pytest.raises(ServerAway, match="can't be used"):
            await clients.connected(Secret(f"nats://127.0.0.1:{closed}"), needed_by="NatsSink")
        url = f"nats://127.0.0.1:{closed},nats://127.0.0.1:{PORT}"
        async with opened(NatsSink(url, stream.subject)) as sink:
            out = await feed(sink, numbered([1]))
    assert out.numbers == [1]


async def test_an_address_that_takes_connections_and_says_nothing_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "CONNECT_ALL_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        before = asyncio.all_tasks()
        async with asyncio.timeout(SOON_S):
            with pytest.raises(ServerAway, match="it does not answer"):
                await clients.connected(Secret(f"nats://127.0.0.1:{silent.getsockname()[1]}"), needed_by="NatsSink")
        assert asyncio.all_tasks() == before


@pytest.mark.filterwarnings("ignore:parameter 'timeout' of type 'float' is deprecated")  # nats-py calls aiohttp so
async def test_a_web_socket_carries_messages_too(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = f'websocket: {{listen: "127.0.0.1:{port}", no_tls: true}}'
    with own_server(tmp_path, settings=settings) as server:
        await made_items(server)
        async with opened(NatsSink(f"ws://127.0.0.1:{port}", "items.all")) as sink:
            out = await feed(sink, numbered([1, 2]))
        assert out.numbers == [1, 2]


async def made_items(server: NatsServer) -> None:
    async with jetstream(server.port) as js:
        await js.add_stream(name="ITEMS", subjects=["items.*"], duplicate_window=900)
