"""`Socket`: lines from real TCP and TLS clients, their ends, bounds, and the port."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from listener_kit import (
    WAIT_S,
    busy,
    certificate_in,
    free_port,
    has_ipv6,
    lines_of,
    listening,
    records,
    send_tcp,
    send_tls,
    sent,
    texts,
    until,
    until_closed,
)

from spouts import Line
from spouts.incoming.cutter import LineCutter
from spouts.listeners.lines import Socket
from spouts.listeners.tcp import TcpServer
from spouts.payload.formats import Json, Msgpack
from topology.clients.tls import Tls
from topology.dead_letters import Malformed
from topology.errors import ConfigurationError, NotYet
from topology.records import Record
from topology.secrets import Secret
from topology.testing.sources import SOURCE_CHECKS, SourceItem, SourceSubject, check_source
from topology.testing.sources.driver import DrivenSource, Memory

FREE = "tcp://127.0.0.1:0"


class From(Record):
    n: int
    host: str
    port: int


class SocketSubject(SourceSubject):
    begins_where_it_left = False

    def __init__(self) -> None:
        self.port = free_port()

    def make(self) -> Socket[SourceItem]:
        return Socket(f"tcp://127.0.0.1:{self.port}", value=SourceItem)

    def put(self, numbers: Sequence[int]) -> None:
        send_tcp(self.port, *(self.payload(number) + b"\n" for number in numbers))

    def put_bad(self) -> bytes:
        send_tcp(self.port, b'{"number": "one"}\n')
        return b'{"number": "one"}'

    def missing(self) -> Socket[SourceItem]:
        return Socket("tcp://192.0.2.1:5140", value=SourceItem)  # no address of this machine


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract(check: str) -> None:
    if left_out := check_source(check, SocketSubject()):
        pytest.skip(left_out)


async def test_lines_of_one_connection_keep_their_order_and_ids_count_all() -> None:
    async with listening(Socket(FREE)) as source:
        await sent(send_tcp, source.spout.port, lines_of(f"line {number}" for number in range(5_000)))
        await source.take(5_000, WAIT_S)
        assert texts(source) == [f"line {number}" for number in range(5_000)]
        assert [message.id for message in source.messages] == [*range(1, 5_001)]


async def test_a_line_that_comes_in_pieces_is_one_line() -> None:
    async with listening(Socket(FREE)) as source:
        with socket.create_connection(("127.0.0.1", source.spout.port)) as client:
            for piece in (b"ca", b"f\xc3", b"\xa9\r", b"\nnext\n"):
                client.sendall(piece)
                await source.rest(0.1)
        assert records(source) == [Line("café"), Line("next")]


async def test_the_last_bytes_of_a_connection_that_ends_are_a_line() -> None:
    async with listening(Socket(FREE)) as source:
        await sent(send_tcp, source.spout.port, b"one\ntwo")
        await source.take(2, WAIT_S)
        assert texts(source) == ["one", "two"]


async def test_the_last_bytes_of_a_connection_that_breaks_are_lost_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening(Socket(FREE)) as source:
        await sent(send_tcp, source.spout.port, b"one\ntwo", reset=True)
        await source.rest()
        assert texts(source) == ["one"]
        assert "first 3 bytes are lost" in caplog.text
        assert "1 broken" in "".join(source.spout.summary())


async def test_records_know_who_has_sent_them_and_the_event_time_is_that_of_the_arrival() -> None:
    value = Json(From, fields={"host": "peer", "port": "port"})
    async with listening(Socket(FREE, value=value)) as source:
        with socket.create_connection(("127.0.0.1", source.spout.port)) as client:
            client.sendall(b'{"n": 7}\n\n')
            await source.take(1, WAIT_S)
            assert records(source) == [From(7, "127.0.0.1", client.getsockname()[1])]
        assert source.messages[0].at is not None


async def test_a_long_line_comes_in_pieces_or_is_malformed() -> None:
    async with listening(Socket(FREE, max_line_bytes=10)) as source:
        await sent(send_tcp, source.spout.port, b"0123456789abcdef\nx\n")
        await source.take(3, WAIT_S)
        assert texts(source) == ["0123456789", "abcdef", "x"]
    async with listening(Socket(FREE, value=SourceItem, max_line_bytes=10)) as source:
        await sent(send_tcp, source.spout.port, b'{"number": 1, "text": "a"}\n')
        await source.take(1, WAIT_S)
        assert records(source)[0].data == b'{"number":'
        assert "max_line_bytes" in records(source)[0].error


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
async def test_a_full_source_makes_its_clients_wait_and_loses_nothing(scheme: str, tmp_path: Path) -> None:
    certificate, key = certificate_in(tmp_path)
    tls = Tls(certificate=certificate, key=key) if scheme == "tls" else None
    content = lines_of(f"{number:>999}" for number in range(5_000))
    async with listening(Socket(f"{scheme}://127.0.0.1:0", prefetch=100, tls=tls)) as source:
        if tls is None:
            sending = asyncio.ensure_future(sent(send_tcp, source.spout.port, content))
        else:
            context = ssl.create_default_context(cafile=certificate)
            sending = asyncio.ensure_future(sent(send_tls, source.spout.port, context, content))
        await until(lambda: source.spout.polling_within.is_full)
        await asyncio.sleep(0.5)
        held = source.spout.polling_within.ahead
        assert held < 1_500, "100, and the rest of what one read has taken"
        assert not sending.done(), "the client waits"
        await source.take(5_000, WAIT_S)
        await sending
        assert [int(text) for text in texts(source)] == [*range(5_000)]


async def test_many_connections_at_once_lose_nothing() -> None:
    async with listening(Socket(FREE)) as source:
        clients = [
            sent(send_tcp, source.spout.port, lines_of(f"{client} {number}" for number in range(100)))
            for client in range(50)
        ]
        sending = asyncio.gather(*clients)
        await source.take(5_000, WAIT_S)
        await sending
        assert sorted(texts(source)) == sorted(f"{client} {number}" for client in range(50) for number in range(100))
        assert "5,000 received from 50 connections on tcp://127.0.0.1:" in "".join(source.spout.summary())


async def test_connections_over_the_limit_are_closed_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(Socket(FREE, max_connections=1)) as source:
        with socket.create_connection(("127.0.0.1", source.spout.port)) as first:
            first.sendall(b"one\n")
            await source.take(1, WAIT_S)
            with socket.create_connection(("127.0.0.1", source.spout.port)) as second:
                second.settimeout(WAIT_S)

                def is_closed() -> bool:
                    try:
                        return second.recv(1) == b""
                    except ConnectionResetError:
                        return True

                assert await asyncio.to_thread(is_closed)
            first.sendall(b"two\n")
            await source.take(2, WAIT_S)
        assert texts(source) == ["one", "two"]
        assert "max_connections" in caplog.text
        assert "1 refused" in "".join(source.spout.summary())


@pytest.mark.parametrize("token", ["word", Secret("word")])
async def test_a_connection_begins_with_the_token_or_is_closed(
    token: str | Secret, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(Socket(FREE, token=token)) as source:
        await sent(send_tcp, source.spout.port, b"word\nlet in\n")
        await sent(send_tcp, source.spout.port, b"guess\nkept out\n")
        await sent(send_tcp, source.spout.port, b"wor")
        await source.rest()
        assert texts(source) == ["let in"]
        assert "without the right token" in caplog.text
        assert "word" not in caplog.text
        assert "2 refused" in "".join(source.spout.summary())
        assert "word" not in repr(vars(source.spout))


async def test_a_connection_without_a_token_gives_its_place_away_after_some_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spouts.listeners.tcp.TOKEN_S", 0.3)
    async with listening(Socket(FREE, token="word", max_connections=2)) as source:
        port = source.spout.port
        with (
            socket.create_connection(("127.0.0.1", port)) as silent,
            socket.create_connection(("127.0.0.1", port)) as slow,
        ):
            slow.sendall(b"wor")
            for client in (silent, slow):
                await asyncio.to_thread(until_closed, client)
        with socket.create_connection(("127.0.0.1", port)) as known:
            known.sendall(b"word\n")
            await source.rest(1.0)
            known.sendall(b"much later\n")
            await source.take(1, WAIT_S)
        assert texts(source) == ["much later"]
        assert "a connection sent no token within 0.3 s" in caplog.text
        assert "3 connections" in "".join(source.spout.summary())
        assert "2 refused" in "".join(source.spout.summary())


async def test_a_token_that_is_not_read_because_bolts_are_slow_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spouts.listeners.tcp.TOKEN_S", 0.3)
    async with listening(Socket(FREE, token="word", prefetch=1)) as source:
        await sent(send_tcp, source.spout.port, b"word\n1\n2\n3\n")
        await until(lambda: source.spout.polling_within.is_full)
        with socket.create_connection(("127.0.0.1", source.spout.port)) as client:
            client.sendall(b"word\n4\n")
            await asyncio.sleep(1.0)  # time in which it must not be closed
            await source.take(4, WAIT_S)
        assert texts(source) == ["1", "2", "3", "4"]
        assert "refused" not in "".join(source.spout.summary())


async def test_a_client_has_the_whole_time_for_its_token_again_once_connections_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spouts.listeners.tcp.TOKEN_S", 0.5)
    came: list[bytes] = []
    server = TcpServer(
        "test",
        lambda cuts, *_: came.extend(cut.data for cut in cuts),
        lambda: LineCutter(100, pieces=False),
        most=5,
        token=Secret("word"),
    )
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    await server.open([listener], None)
    with (
        socket.create_connection(("127.0.0.1", port)) as client,
        socket.create_connection(("127.0.0.1", port)) as silent,
    ):
        await until(lambda: server.connections == 2)
        server.hold(True)
        await asyncio.sleep(0.45)
        server.hold(False)  # just before the first timer fires: what the client sends is not read yet
        await asyncio.sleep(0.2)
        client.sendall(b"word\nlet in\n")
        await until(lambda: bool(came))
        assert server.refused == 0
        await asyncio.to_thread(until_closed, silent)
    await server.close()
    assert came == [b"let in"]
    assert server.refused == 1, "the one that sends none is cut off all the same"


async def test_tls_reads_what_a_client_with_the_authority_sends(tmp_path: Path) -> None:
    certificate, key = certificate_in(tmp_path)
    async with listening(Socket("tls://127.0.0.1:0", tls=Tls(certificate=certificate, key=key))) as source:
        await sent(send_tls, source.spout.port, ssl.create_default_context(cafile=certificate), b"secret\nrest")
        await sent(send_tcp, source.spout.port, b"not encrypted\n")
        await source.take(2, WAIT_S)
        await source.rest()
        assert texts(source) == ["secret", "rest"]


async def test_with_an_authority_clients_need_a_certificate(tmp_path: Path) -> None:
    certificate, key = certificate_in(tmp_path)
    own, own_key = certificate_in(tmp_path, "client")
    async with listening(Socket("tls://127.0.0.1:0", tls=Tls(certificate=certificate, key=key, ca=own))) as source:
        context = ssl.create_default_context(cafile=certificate)
        with pytest.raises(OSError, match=r"(?i)alert|reset|pipe|eof"):  # noqa: PT012  # at the handshake, or later
            for _ in range(200):
                await sent(send_tls, source.spout.port, context, b"without\n")
        context.load_cert_chain(own, own_key)
        await sent(send_tls, source.spout.port, context, b"with\n")
        await source.take(1, WAIT_S)
        assert texts(source) == ["with"]


async def test_a_busy_port_is_waited_for_with_one_sentence() -> None:
    with busy(socket.SOCK_STREAM) as port:
        source = DrivenSource(Socket(f"tcp://127.0.0.1:{port}"), Memory())
        with pytest.raises(NotYet, match=rf"^Socket: port {port} of 127.0.0.1 is in use by another program"):
            await source.open()
    await source.open()  # on the same object, once the port is free
    await sent(send_tcp, port, b"one\n")
    await source.take(1, WAIT_S)
    await source.close()
    assert texts(source) == ["one"]


async def test_the_port_is_free_as_soon_as_the_source_is_closed() -> None:
    port = free_port()
    for _ in range(5):
        async with listening(Socket(f"tcp://127.0.0.1:{port}")) as source:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"one\n")
                await source.take(1, WAIT_S)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize(
    ("host", "clients"),
    [("[::1]", ["::1"]), ("", ["127.0.0.1", "::1"]), ("[::]", ["127.0.0.1", "::1"]), ("0.0.0.0", ["127.0.0.1"])],
)
async def test_ipv6_and_ipv4_clients_are_named_as_they_are(host: str, clients: list[str]) -> None:
    value = Json(From, fields={"host": "peer", "port": "port"})
    async with listening(Socket(f"tcp://{host}:0", value=value)) as source:
        for client in clients:
            await sent(send_tcp, source.spout.port, b'{"n": 1}\n', host=client)
        await source.take(len(clients), WAIT_S)
        assert sorted(record.host for record in records(source)) == clients


async def test_a_drain_gives_what_has_come_and_reads_no_more() -> None:
    async with listening(Socket(FREE)) as source:
        with socket.create_connection(("127.0.0.1", source.spout.port)) as client:
            client.sendall(b"1\n2\n3\n")
            await source.poll(1)
            within = source.spout.polling_within
            within.stop()
            client.sendall(b"4\n")
            await asyncio.sleep(0.2)
            assert not await within.late() or within.ahead == 2
            await source.take(3, WAIT_S)
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.1", source.spout.port))
        assert texts(source) == ["1", "2", "3"]
        assert within.ahead == 0


class Plain(Record):
    text: str


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Socket("udp://127.0.0.1:1"), "address is tcp://HOST:PORT or tls://HOST:PORT"),
        (lambda: Socket("127.0.0.1:5140"), "address is tcp://HOST:PORT"),
        (lambda: Socket("tcp://127.0.0.1"), "has no port"),
        (lambda: Socket("tcp://127.0.0.1:70000"), "address is tcp://HOST:PORT"),
        (lambda: Socket("tcp://[::1:5140"), "address is tcp://HOST:PORT"),
        (lambda: Socket(b"tcp://127.0.0.1:1"), "address is a text"),  # type: ignore[arg-type]
        (lambda: Socket("tcp://user:password@127.0.0.1:1"), "address is tcp://HOST:PORT"),
        (lambda: Socket("tcp://127.0.0.1:1/path"), "address is tcp://HOST:PORT"),
        (lambda: Socket("tls://127.0.0.1:1"), "go together"),
        (lambda: Socket("tcp://127.0.0.1:1", tls=Tls(certificate="a")), "go together"),
        (lambda: Socket(FREE, max_connections=0), "max_connections is a number"),
        (lambda: Socket(FREE, prefetch=0), "prefetch is a number"),
        (lambda: Socket(FREE, max_line_bytes=0), "max_line_bytes is a number"),
        (lambda: Socket(FREE, token="a\nb"), "token is a text of one line"),
        (lambda: Socket(FREE, token=""), "token is a text of one line"),
        (lambda: Socket(FREE, value=Json(Plain, id="text")), "leave out id"),
        (lambda: Socket(FREE, value=Msgpack(Plain)), "use JSON"),
    ],
)
def test_a_wrong_argument_is_one_sentence(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        make()
    assert str(caught.value).startswith("Socket: ")
    assert "\n" not in str(caught.value)
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://192.0.2.1:5140", "'192.0.2.1' is no address of this machine"),
        ("tcp://no-such-host.invalid:5140", "is no address, and no name that is known"),
    ],
)
async def test_an_address_of_another_machine_is_one_sentence(address: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^Socket: .*{why}"):
        await DrivenSource(Socket(address), Memory()).open()


async def test_a_certificate_that_is_missing_and_several_tasks_are_one_sentence(tmp_path: Path) -> None:
    tls = Tls(certificate=str(tmp_path / "none.pem"))
    with pytest.raises(ConfigurationError, match=r"none\.pem can't be used: No such file"):
        await DrivenSource(Socket("tls://127.0.0.1:0", tls=tls), Memory()).open()
    with pytest.raises(ConfigurationError, match="listens on one port, so it has one task"):
        await DrivenSource(Socket(FREE), Memory(), tasks=2).open()


async def test_garbage_becomes_malformed_records_and_nothing_is_logged_as_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening(Socket(FREE, value=SourceItem)) as source:
        await sent(send_tcp, source.spout.port, bytes(range(256)) * 20)
        await source.rest()
        assert {type(record) for record in records(source)} == {Malformed}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
