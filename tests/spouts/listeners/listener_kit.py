"""Real clients of listeners: TCP, TLS and UDP sockets of 127.0.0.1 and ::1."""

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from topology.testing.sources.driver import DrivenSource, Memory, within

WAIT_S = 30.0  # on a busy machine
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a closed socket answers by RST


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM, host: str = "127.0.0.1") -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as one:
        one.bind((host, 0))
        return int(one.getsockname()[1])


def has_ipv6() -> bool:
    try:
        free_port(host="::1")
    except OSError:
        return False
    return True


def send_tcp(port: int, *blocks: bytes, host: str = "127.0.0.1", reset: bool = False) -> None:
    """Sends blocks over a connection of its own, and ends it."""
    with socket.create_connection((host, port), WAIT_S) as client:
        for block in blocks:
            client.sendall(block)
        if reset:
            time.sleep(0.2)  # so that what was sent has been read: a reset forgets the rest
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def send_udp(port: int, *datagrams: bytes, host: str = "127.0.0.1") -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as client:
        for datagram in datagrams:
            client.sendto(datagram, (host, port))


def send_tls(port: int, context: ssl.SSLContext, *blocks: bytes) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as client,
    ):
        for block in blocks:
            client.sendall(block)
        client.unwrap()


@asynccontextmanager
async def listening(spout: Any) -> AsyncIterator[DrivenSource]:
    """An opened source; `source.spout.port` is its port."""
    source = DrivenSource(spout, Memory())
    await source.open()
    try:
        yield source
    finally:
        await source.close()


async def sent(send: Callable[..., None], *given: Any, **options: Any) -> None:
    await asyncio.to_thread(send, *given, **options)


async def until(condition: Callable[[], bool]) -> None:
    assert await within(WAIT_S, condition)


def records(source: DrivenSource) -> list[Any]:
    return [message.record for message in source.messages]


def texts(source: DrivenSource) -> list[str]:
    return [message.record.text for message in source.messages]


def certificate_in(folder: Path, name: str = "localhost") -> tuple[str, str]:
    """A certificate for `name` that it signs itself, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", f"subjectAltName=DNS:{name}"),
        ],
        check=True,
        capture_output=True,
    )
    return str(certificate), str(key)


@contextlib.contextmanager
def busy(kind: socket.SocketKind) -> Iterator[int]:
    """A port that another program has."""
    with socket.socket(socket.AF_INET, kind) as one:
        one.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            one.listen()
        yield int(one.getsockname()[1])


def lines_of(texts: Iterable[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


# -- whole runs


class Run:
    """`kedge run` of a file; its state directory and its log are in the folder."""

    def __init__(self, file: Path, folder: Path, settings: dict[str, object], options: tuple[str, ...]) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "kedge", "run", str(file), "--state-dir", str(folder / "state"), *options]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=folder
            )

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def workers(self) -> list[int]:
        """The ids of the worker processes."""
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, task.read_text().split())
        return [pid for pid in found if b"topology.runtime.process.main" in _command_of(pid)]

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """What the sink has stored; nothing if there is no table yet."""
        with contextlib.closing(sqlite3.connect(self.folder / "out.db")) as database:
            try:
                return database.execute(query).fetchall()
            except sqlite3.OperationalError:
                return []

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a condition. Fails if it takes longer, or if the run has ended."""
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert self.process.poll() is None, f"the run has ended, before {what}:\n{self.log}"
            assert time.monotonic() < deadline, f"waited {WAIT_S:g} s for {what}:\n{self.log}"
            time.sleep(0.05)

    def stop(self) -> str:
        """Drains the run; returns what it has said. Fails if its status is not 0."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(WAIT_S)
        assert status == 0, self.log
        return self.log


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextlib.contextmanager
def running(file: Path, folder: Path, *options: str, **settings: object) -> Iterator[Run]:
    """A run that is gone at the end of the block."""
    run = Run(file, folder, settings, options)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
        run.process.wait()


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def until_free(port: int) -> None:
    """Waits until no process listens: one that was killed is gone a moment later."""
    deadline = time.monotonic() + WAIT_S
    while is_listening(port):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until_closed(client: socket.socket) -> None:
    """Waits until the other side of a connection has ended it."""
    client.settimeout(WAIT_S)
    with contextlib.suppress(ConnectionError):
        assert client.recv(1) == b""
