"""What answers on the socket of a run need not be one: garbage, a flood, silence, other types, lengths that lie. Each
command ends by one sentence and a status, within a bounded time, and without a traceback."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from cli_kit import kedge_here

from topology.cli import run_client
from topology.runtime.run.command_socket import ANSWER_BYTES_MAX, Ended, Going, packed
from topology.storage.dead_questions import DeadAnswer

COMMANDS = [one.split() for one in ("stop", "dead list", "dead show abc", "dead replay --all", "dead drop --all")]
ENCODED = msgspec.msgpack.encode


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


ONCE = {
    "garbage": b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10,
    "a length that no answer has": (ANSWER_BYTES_MAX + 1).to_bytes(4, "little"),
    "a length that lies, and its end": (1000).to_bytes(4, "little") + b"x",
    "half a length": b"\x01",
    "nothing": b"",
    "an empty answer": framed(b""),
    "no msgpack": framed(b"\xc1"),
    "another type": framed(ENCODED({"status": 0})),
    "a tag that nobody has": framed(ENCODED(["Owned", 1])),
    "fields of other types": framed(ENCODED(["Ended", 1, "2", None, [], {}, 7])),
    "depth": framed(b"\x91" * 1_000_000),
    "text that is no UTF-8": framed(b"\x92\xa5Going\xa2\xff\xfe"),
    "a letter that is none": packed(DeadAnswer(1, (b"\xc1",))),
    "an answer to another question": packed(DeadAnswer(2, (), (), 5)),
    "names with escapes": packed(DeadAnswer(1, (), ("\x1b]0;pwn\x07\nkedge: forged",), 1)),
    "escapes": packed(Ended("failed", 1, 1, 1, 1.0, False, "\x1b]0;pwn\x07\nkedge: forged")),
}


@contextlib.contextmanager
def answering(folder: Path, answer: Callable[[socket.socket], None]) -> Iterator[Path]:
    """A state directory with somebody else on its socket, who does this with each connection."""
    state = folder / "state"
    state.mkdir()
    (state / "lock").touch()
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(10)
                    connection.recv(65_536)
                    answer(connection)

    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as listening:
        listening.settimeout(0.1)
        listening.bind("state/socket")
        listening.listen(16)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield state
        finally:
            over.set()
            thread.join()


def refused(state: Path, command: list[str]) -> str:
    """What is said by a command that ends as it has to."""
    result = kedge_here(*command, "--state-dir", state, cwd=state.parent)
    assert result.returncode in (1, 3), (result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    ours = [line for line in result.stderr.split("\n") if line.startswith("kedge: ")]
    assert all(c.isprintable() or c == "\n" for c in result.stdout + result.stderr)
    assert not [line for line in (result.stdout + result.stderr).split("\n") if line.startswith("kedge: forged")]
    assert len(ours) + len(result.stdout.splitlines()) == 1, (result.stdout, result.stderr)
    return result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("what", ONCE)
def test_what_no_run_says_ends_a_command_by_a_sentence(tmp_path: Path, what: str, command: list[str]) -> None:
    with answering(tmp_path, lambda connection: connection.sendall(ONCE[what])) as state:
        refused(state, command)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_answer_that_trickles_is_not_waited_for_without_end(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte came within a second, so that nobody had been silent."""

    def trickle(connection: socket.socket) -> None:
        connection.sendall((1_000_000).to_bytes(4, "little"))
        until = time.monotonic() + 20
        while time.monotonic() < until:
            connection.sendall(b"x")
            time.sleep(0.02)

    monkeypatch.setattr(run_client, "ANSWER_S", 0.3)
    with answering(tmp_path, trickle) as state:
        assert "one answer takes longer than 0.3 s" in refused(state, command)


def test_a_stop_ends_where_accounts_come_in_floods_or_nothing_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flood(connection: socket.socket) -> None:
        while True:
            connection.sendall(packed(Going("soon")))

    with answering(tmp_path, flood) as state:
        assert "does not end" in kedge_here("stop", "--state-dir", state, cwd=tmp_path).stderr


def test_a_stop_does_not_wait_for_ever_for_one_who_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_client, "WORD_S", 0.01)
    monkeypatch.setattr(run_client.RunConnection.heard, "__defaults__", (20,))
    with answering(tmp_path, lambda connection: time.sleep(2)) as state:
        assert "has not answered within 20 s" in kedge_here("stop", "--state-dir", state, cwd=tmp_path).stderr
