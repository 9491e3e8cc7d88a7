"""The benchmark of connectors, run short: its rows and its bar. Speed is not judged here."""

import socket

import pytest
from test_benchmarks import results_of, short

from benchmarks import connectors
from benchmarks.rounds import Name
from benchmarks.through_servers import SERVERS

PORTS = {"nats": 4222, "redis": 6379, "amqp": 5672, "postgres": 5432}  # the others are the benchmark's own
NAMES = [name.name for name in connectors.BENCHMARK.names]


@pytest.mark.parametrize(("ours", "said"), [(600.0, ">= 0.6 ×: ok"), (599.0, ">= 0.6 ×: MISSED")])
def test_the_bar_is_a_share_of_the_bare_client(ours: float, said: str) -> None:
    figures = connectors.beside([{"value": ours, "cpu_us": 3.0}, {"value": 1_000.0, "cpu_us": 2.0}])
    assert connectors.row(Name("x", "messages/s"), figures, {})[-1] == said


def test_all_servers_are_measured() -> None:
    assert {name.partition("-")[0] for name in NAMES} == SERVERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_messages_go_through_each_server_by_a_topology_and_by_plain_code(name: str) -> None:
    if port := PORTS.get(name.partition("-")[0]):
        try:
            socket.create_connection(("127.0.0.1", port), 3).close()
        except OSError as error:
            pytest.skip(f"no server on port {port} ({error}); CONTRIBUTING.md says how to start one")
    (result,) = results_of(short("connectors", "--json", name)).values()
    assert result["ratio"] == pytest.approx(result["value"] / result["bare"], rel=0.01)
    assert result["bar"].startswith(">= 0.6 ×: ")
