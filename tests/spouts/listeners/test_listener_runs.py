"""Listeners in whole runs: a drain loses nothing that has come, and after a crash the port is there again."""

import os
import re
import signal
import socket
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from listener_kit import Run, free_port, is_listening, running, send_tcp, send_udp, until_closed, until_free

FILE = Path(__file__).with_name("listener_topology.py")


def items(first: int, last: int) -> list[bytes]:
    return [msgspec.json.encode({"number": number, "text": ""}) + b"\n" for number in range(first, last + 1)]


def stored(run: Run) -> Counter[object]:
    """How often each number is stored."""
    rows = run.rows("select number, times from counted")
    assert {times for _, times in rows} <= {1}, "none was counted twice"
    return Counter(number for number, _ in rows)


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one process", "two workers"])
def test_all_lines_are_stored_once(tmp_path: Path, workers: tuple[str, ...]) -> None:
    port = free_port()
    with running(FILE, tmp_path, *workers, port=port) as run:
        run.wait(lambda: is_listening(port), "the port")
        send_tcp(port, *items(1, 3_000))
        send_tcp(port, *items(3_001, 5_000))
        run.wait(lambda: len(stored(run)) >= 5_000, "all lines")
        said = run.stop()
    assert stored(run) == Counter(range(1, 5_001))
    assert "5,000 received from 3 connections" in said  # and the one that has looked for the port


def test_a_drain_stores_all_lines_that_have_come(tmp_path: Path) -> None:
    port = free_port()
    with running(FILE, tmp_path, port=port, pause_s=0.001) as run:
        run.wait(lambda: is_listening(port), "the port")
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"".join(items(1, 6_000)))
            run.wait(lambda: bool(stored(run)), "the first lines")
            said = run.stop()
    found = re.search(r"([\d,]+) received from", said)
    assert found is not None
    assert stored(run) == Counter(range(1, int(found[1].replace(",", "")) + 1))


@pytest.mark.parametrize("killed", ["a worker", "the run"])
def test_after_a_kill_the_port_is_there_again_and_new_lines_have_new_names(tmp_path: Path, killed: str) -> None:
    port = free_port()
    with running(FILE, tmp_path, "--workers", "2", port=port, pause_s=0.001) as run:
        run.wait(lambda: is_listening(port), "the port")
        send_tcp(port, *items(1, 1_000))
        run.wait(lambda: len(stored(run)) >= 200, "the first lines")
        workers = run.workers()
        assert len(workers) == 2
        # the system closes this one first, so the port stays in use by its remains for a minute
        left = socket.create_connection(("127.0.0.1", port))
        run.wait(lambda: is_listening(port), "the connection to be accepted")
        if killed == "the run":
            for pid in (run.process.pid, *workers):
                os.kill(pid, signal.SIGKILL)
            run.process.wait()
            until_free(port)
            left.close()
        else:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            until_closed(left)  # a process that is killed has lost its command line before it closes its port
            left.close()
            run.wait(lambda: is_listening(port), "the port again")
            send_tcp(port, *items(1_001, 1_500))
            run.wait(lambda: set(range(1_001, 1_501)) <= {*stored(run)}, "the lines after the kill")
            run.stop()
    if killed == "the run":
        with running(FILE, tmp_path, "--workers", "2", port=port) as run:
            run.wait(lambda: is_listening(port), "the port again")
            send_tcp(port, *items(1_001, 1_500))
            run.wait(lambda: set(range(1_001, 1_501)) <= {*stored(run)}, "the lines after the kill")
            run.stop()
    found = stored(run)
    assert {*found} <= set(range(1, 1_501))
    assert set(found.values()) == {1}


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
def test_syslog_messages_reach_a_sink(tmp_path: Path, scheme: str) -> None:
    port = free_port()
    with running(FILE, tmp_path, port=port, scheme=scheme) as run:
        if scheme == "tcp":
            run.wait(lambda: is_listening(port), "the port")
            send_tcp(port, *(b"<13>Dec 10 06:55:46 host app: %d\n" % number for number in range(500)))
        else:
            messages = [b"<13>Dec 10 06:55:46 host app: %d" % number for number in range(500)]
            probe = b"<13>Dec 10 06:55:46 host probe: x"

            def probed() -> bool:
                send_udp(port, probe)
                return bool(run.rows("select * from said"))

            run.wait(probed, "the port")
            send_udp(port, *messages)
        query = "select text from said where app = 'app'"
        run.wait(lambda: len(run.rows(query)) >= 500, "all messages")
        run.stop()
    assert sorted(run.rows(query)) == sorted((str(number),) for number in range(500))
