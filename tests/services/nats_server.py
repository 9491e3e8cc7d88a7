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
    """Keeps its streams in a folder, so that they outlive the process. `settings`: lines of its configuration file."""

    def __init__(self, folder: Path, options: tuple[str, ...], jetstream: bool = True, settings: str = "") -> None:
        self.folder, self.options = folder, options
        if jetstream:
            self.options += ("-js", "-sd", str(folder / "streams"))
        if settings:
            (folder / "server.conf").write_text(settings)
            self.options += ("-c", str(folder / "server.conf"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = ["nats-server", "-a", "127.0.0.1", "-p", str(self.port)]
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

    def freeze(self) -> None:
        """Stops all its threads, and returns when they stand still: until then it may answer."""
        assert self._process is not None, "start"
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(20)
            self._process = None


@contextmanager
def own_server(folder: Path, *options: str, jetstream: bool = True, settings: str = "") -> Iterator[NatsServer]:
    if shutil.which("nats-server") is None:
        pytest.skip("no nats-server to start: apt install nats-server")
    server = NatsServer(folder, options, jetstream, settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()
