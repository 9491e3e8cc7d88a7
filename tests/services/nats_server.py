"""A NATS server of a test's own, on a free port, which the test stops, freezes and starts again."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BEGINS_S = 20.0


class NatsServer:
    """Keeps its streams in a folder, so that they outlive the process."""

    def __init__(self, folder: Path, options: tuple[str, ...]) -> None:
        self.folder, self.options = folder, options
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = ["nats-server", "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder / "streams")]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen([*command, *self.options], stdout=log, stderr=log)
        deadline = time.monotonic() + BEGINS_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self.folder / "server.log").read_text()
                time.sleep(0.02)

    def tell(self, number: int) -> None:
        assert self._process is not None, "start"
        os.kill(self._process.pid, number)

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(20)
            self._process = None


@contextmanager
def own_server(folder: Path, *options: str) -> Iterator[NatsServer]:
    if shutil.which("nats-server") is None:
        pytest.skip("no nats-server to start: apt install nats-server")
    server = NatsServer(folder, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
