"""`Syslog`: messages of real senders (`logger`, Python's handler, sockets) over UDP, TCP and TLS."""

import asyncio
import logging
import logging.handlers
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
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
    send_udp,
    sent,
    texts,
)

from spouts.listeners.syslog import Syslog
from topology.clients.tls import Tls
from topology.dead_letters import Malformed
from topology.errors import ConfigurationError, NotYet
from topology.testing.sources import SOURCE_CHECKS, SourceSubject, check_source
from topology.testing.sources.driver import DrivenSource, Memory

LOGGER = shutil.which("logger")
LOGHUB = Path(__file__).parents[4] / "shared/data/loghub"


class SyslogSubject(SourceSubject):
    begins_where_it_left = False

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.port = free_port(socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM)

    def make(self) -> Syslog:
        return Syslog(f"{self.scheme}://127.0.0.1:{self.port}", max_message_bytes=1_000)

    def put(self, numbers: Sequence[int]) -> None:
        messages = [b"<13>1 - host app - - - %d" % number for number in numbers]
        if self.scheme == "udp":
            send_udp(self.port, *messages)
        else:
            send_tcp(self.port, *(message + b"\n" for message in messages))

    def number(self, record: Any) -> int:
        return int(record.text)

    def put_bad(self) -> bytes:
        message = b"<13>" + b"x" * 996
        if self.scheme == "udp":
            send_udp(self.port, message + b"yz")
            return message + b"yz"
        send_tcp(self.port, message + b"yz\n")
        return message

    def missing(self) -> Syslog:
        return Syslog(f"{self.scheme}://192.0.2.1:{self.port}")  # no address of this machine


@pytest.mark.parametrize("check", SOURCE_CHECKS)
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
def test_the_source_keeps_the_contract(check: str, scheme: str) -> None:
    if left_out := check_source(check, SyslogSubject(scheme)):
        pytest.skip(left_out)


@pytest.mark.skipif(LOGGER is None, reason="no logger of util-linux")
@pytest.mark.parametrize("framing", [[], ["--octet-count"]], ids=["newline", "counted"])
@pytest.mark.parametrize("form", ["--rfc5424", "--rfc3164"])
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_logger_of_util_linux_is_understood(scheme: str, form: str, framing: list[str]) -> None:
    if scheme == "udp" and framing:
        pytest.skip("a datagram is not framed")
    assert LOGGER is not None
    async with listening(Syslog(f"{scheme}://127.0.0.1:0")) as source:
        command = [LOGGER, "--server", "127.0.0.1", "--port", str(source.spout.port), f"--{scheme}", form, *framing]
        command += ["--tag", "mytag", "--id=4711", "--priority", "auth.err", "Hello,\twörld: [x] 'y'"]
        if form == "--rfc5424":
            command[1:1] = ["--msgid", "ID7", "--sd-id", "zoo@123", "--sd-param", 'tiger="hungry"']
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=WAIT_S)
        await source.take(1, WAIT_S)
    (record,) = records(source)
    assert (record.facility, record.severity, record.app, record.pid) == (4, 3, "mytag", "4711")
    assert record.text == "Hello,\twörld: [x] 'y'"
    assert record.host.split(".")[0] == socket.gethostname().split(".")[0]
    assert record.peer == "127.0.0.1"
    assert record.at is not None
    assert abs(record.at - datetime.now(UTC)) < timedelta(hours=15), "logger's time is local, if it has no zone"
    if form == "--rfc5424":
        assert record.message_id == "ID7"
        assert ("zoo@123", (("tiger", "hungry"),)) in record.structured


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_the_handler_of_pythons_logging_is_understood(scheme: str) -> None:
    kind = socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM
    async with listening(Syslog(f"{scheme}://127.0.0.1:0")) as source:
        handler = logging.handlers.SysLogHandler(("127.0.0.1", source.spout.port), "daemon", kind)
        for level, text in ((logging.WARNING, "wärn %"), (logging.CRITICAL, "two")):
            handler.handle(logging.LogRecord("x", level, "", 0, text, (), None))
        await source.take(2, WAIT_S)
        handler.close()
    assert [(record.facility, record.severity, record.text) for record in records(source)] == [
        (3, 4, "wärn %"),
        (3, 2, "two"),
    ]


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_real_log_lines_come_whole_and_in_order(scheme: str) -> None:
    path = LOGHUB / "OpenSSH_2k.log"
    if not path.exists():
        pytest.skip(f"no {path}")
    lines = path.read_text().splitlines()
    async with listening(Syslog(f"{scheme}://127.0.0.1:0")) as source:
        if scheme == "tcp":
            await sent(send_tcp, source.spout.port, lines_of(lines))
        else:
            for begin in range(0, len(lines), 100):  # no more than the system's buffer has room for
                some = [line.encode() for line in lines[begin : begin + 100]]
                await sent(send_udp, source.spout.port, *some)
                await source.take(begin + len(some), WAIT_S)
        await source.take(len(lines), WAIT_S)
    assert [f"{one.at:%b %d %H:%M:%S} {one.host} {one.app}[{one.pid}]: {one.text}" for one in records(source)] == lines


async def test_the_event_time_is_the_messages_own_or_that_of_its_arrival() -> None:
    async with listening(Syslog("udp://127.0.0.1:0")) as source:
        before = datetime.now(UTC)
        await sent(send_udp, source.spout.port, b"<13>1 2003-10-11T22:14:15Z h a - - - own", b"<13>none")
        own, none = await source.take(2, WAIT_S)
    assert own.at == own.record.at == datetime(2003, 10, 11, 22, 14, 15, tzinfo=UTC)
    assert none.record.at is None
    assert none.at is not None
    assert before <= none.at <= datetime.now(UTC)


async def test_the_zone_of_times_without_one_can_be_set() -> None:
    async with listening(Syslog("udp://127.0.0.1:0", time_zone="Asia/Tokyo")) as source:
        await sent(send_udp, source.spout.port, b"<13>Dec 10 2025 09:00:00 h a: t")
        await source.take(1, WAIT_S)
    assert records(source)[0].at == datetime(2025, 12, 10, 0, 0, tzinfo=UTC)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize(("host", "clients"), [("", ["127.0.0.1", "::1"]), ("[::1]", ["::1"])])
async def test_datagrams_of_ipv6_and_ipv4_come_with_their_senders(host: str, clients: list[str]) -> None:
    async with listening(Syslog(f"udp://{host}:0")) as source:
        for client in clients:
            await sent(send_udp, source.spout.port, b"<13>hello", host=client)
        await source.take(len(clients), WAIT_S)
    assert [record.peer for record in records(source)] == clients


async def test_tls_with_lengths_as_rfc_5425_wants_it(tmp_path: Path) -> None:
    certificate, key = certificate_in(tmp_path)
    async with listening(Syslog("tls://127.0.0.1:0", tls=Tls(certificate=certificate, key=key))) as source:
        context = ssl.create_default_context(cafile=certificate)
        await sent(send_tls, source.spout.port, context, b"13 <13>two\nlines7 <13>end")
        await source.take(2, WAIT_S)
    assert texts(source) == ["two\nlines", "end"]


async def test_a_message_that_ends_with_its_connection_is_malformed_and_a_line_is_not() -> None:
    async with listening(Syslog("tcp://127.0.0.1:0")) as source:
        await sent(send_tcp, source.spout.port, b"<13>a line")
        await sent(send_tcp, source.spout.port, b"99 <13>a part")
        await source.take(2, WAIT_S)
        assert "1 malformed" in "".join(source.spout.summary())
    (bad,) = [record for record in records(source) if type(record) is Malformed]
    assert bad.data == b"<13>a part"
    assert dict(bad.attributes)["peer"] == "127.0.0.1"


async def test_a_full_source_drops_datagrams_in_the_system_and_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    spout = Syslog("udp://127.0.0.1:0", prefetch=10, receive_buffer_bytes=4_096)
    async with listening(spout) as source:
        await sent(send_udp, source.spout.port, *(b"<13>%d" % number for number in range(2_000)))
        await source.rest()
        came, said = len(source.messages), "".join(source.spout.summary())
    assert 10 <= came < 2_000
    numbers = [int(text) for text in texts(source)]
    assert numbers == sorted({*numbers})
    assert f"{came:,} received on udp://127.0.0.1:" in said
    if os.path.exists("/proc/net/udp"):  # noqa: ASYNC240
        assert f"{2_000 - came:,} dropped by the system" in said
    assert "receive_buffer_bytes" not in caplog.text, "the system gives as little as that"


async def test_a_receive_buffer_that_the_system_does_not_give_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(Syslog("udp://127.0.0.1:0", receive_buffer_bytes=1 << 30)):
        assert "not the 1073741824 of receive_buffer_bytes" in caplog.text
    caplog.clear()
    async with listening(Syslog("udp://127.0.0.1:0")):
        assert not caplog.text


@pytest.mark.parametrize(("scheme", "kind"), [("udp", socket.SOCK_DGRAM), ("tcp", socket.SOCK_STREAM)])
async def test_a_busy_port_is_one_sentence_and_a_closed_one_is_free(scheme: str, kind: socket.SocketKind) -> None:
    with busy(kind) as port:
        source = DrivenSource(Syslog(f"{scheme}://127.0.0.1:{port}"), Memory())
        with pytest.raises(NotYet, match=rf"^Syslog: port {port} of 127.0.0.1 is in use by another program\n  next: "):
            await source.open()
    for _ in range(3):
        async with listening(Syslog(f"{scheme}://127.0.0.1:{port}")):
            other = DrivenSource(Syslog(f"{scheme}://127.0.0.1:{port}"), Memory())
            with pytest.raises(NotYet, match="in use"):
                await other.open()


async def test_a_drain_gives_the_datagrams_that_have_come() -> None:
    async with listening(Syslog("udp://127.0.0.1:0")) as source:
        await sent(send_udp, source.spout.port, b"<13>1", b"<13>2", b"<13>3")
        await source.poll(1)
        within = source.spout.polling_within
        await source.rest(0.1)
        within.stop()
        await sent(send_udp, source.spout.port, b"<13>4")
        await source.rest()
    assert texts(source) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Syslog("http://:514"), "address is udp://HOST:PORT or tcp://HOST:PORT or tls://HOST:PORT"),
        (lambda: Syslog("tls://:6514"), "go together"),
        (lambda: Syslog("udp://:514", tls=Tls(certificate="x")), "go together"),
        (lambda: Syslog("udp://:514", max_message_bytes=0), "max_message_bytes is a number"),
        (lambda: Syslog("tcp://:514", max_connections=True), "max_connections is a number"),
        (lambda: Syslog("udp://:514", receive_buffer_bytes=0), "receive_buffer_bytes is a number"),
        (lambda: Syslog("tcp://:514", receive_buffer_bytes=4096), "for udp:// only"),
        (lambda: Syslog("udp://:514", time_zone="Mars/Olympus"), "no zone that this machine knows"),
        (lambda: Syslog("udp://:514", time_zone="../../etc/passwd"), "no zone that this machine knows"),
    ],
)
def test_a_wrong_argument_is_one_sentence(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        make()
    assert str(caught.value).startswith("Syslog: ")
    assert len(str(caught.value).splitlines()) == 1


def test_ports_that_are_left_out_are_those_of_the_protocol() -> None:
    tls = Tls(certificate="x")
    sources = (Syslog("udp://10.0.0.1"), Syslog("tcp://10.0.0.1"), Syslog("tls://10.0.0.1", tls=tls))
    assert [str(source.address) for source in sources] == [
        "udp://10.0.0.1:514",
        "tcp://10.0.0.1:514",
        "tls://10.0.0.1:6514",
    ]
