"""A Redis server of a test's own, on a free port, which the test stops, freezes and starts again."""

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
import redis

BEGINS_S = 20.0


class OwnRedis:
    """Keeps its data in a folder, if its options say so: ("--appendonly", "yes")."""

    def __init__(self, folder: Path, options: tuple[str, ...]) -> None:
        self.folder, self.options = folder, options
        folder.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen([*command, "--save", "", *self.options], stdout=log, stderr=log)
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

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(20)
            self._process = None

    @contextmanager
    def client(self, **options: object) -> Iterator["redis.Redis"]:
        with redis.Redis(port=self.port, **options) as one:  # type: ignore[arg-type]
            yield one


@contextmanager
def own_redis(folder: Path, *options: str) -> Iterator[OwnRedis]:
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server to start: apt install redis-server")
    server = OwnRedis(folder, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
