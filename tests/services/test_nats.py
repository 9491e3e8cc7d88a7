"""`NatsSource` and `NatsSink` on a real server, by the suites that all sources and sinks go through."""

import secrets
from collections.abc import Iterator

import pytest
from nats_kit import PORT, NatsSinkSubject, NatsSourceSubject, NatsStream, asked, reached
from tcp_proxy import TcpProxy

from topology.testing.sinks import SINK_CHECKS, check_sink
from topology.testing.sources import SOURCE_CHECKS, check_source

pytestmark = pytest.mark.service("nats")


@pytest.fixture(scope="module")
def server() -> None:
    try:
        asked(reached())
    except Exception as error:
        pytest.skip(f"no NATS to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")


@pytest.fixture
def stream(server: None) -> Iterator[NatsStream]:
    with NatsStream(f"kedge-{secrets.token_hex(6)}").there() as one:
        yield one


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    one = TcpProxy(PORT)
    yield one
    one.close()


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract(check: str, stream: NatsStream, proxy: TcpProxy) -> None:
    subject = NatsSourceSubject(stream.name)
    subject.proxy = proxy
    left_out = check_source(check, subject)
    assert not left_out or check == "two_tasks_share_the_messages", left_out


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_the_sink_keeps_the_contract(check: str, stream: NatsStream, proxy: TcpProxy) -> None:
    subject = NatsSinkSubject(stream.name)
    subject.proxy = proxy
    if left_out := check_sink(check, subject):
        pytest.skip(left_out)
