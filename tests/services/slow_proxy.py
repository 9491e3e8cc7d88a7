"""A proxy with a slow line: so many bytes a second in each direction of each connection."""

import socket
import time

from tcp_proxy import TcpProxy


class SlowProxy(TcpProxy):
    """A proxy that waits for what a line of `bytes_per_s` takes for each block."""

    def __init__(self, port: int, bytes_per_s: float, host: str = "127.0.0.1") -> None:
        self.bytes_per_s = bytes_per_s
        super().__init__(port, host)

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        super()._pass(SlowReader(here, self.bytes_per_s), there)  # type: ignore[arg-type]


class SlowReader:
    """One direction of a proxy's connection."""

    def __init__(self, read: socket.socket, bytes_per_s: float) -> None:
        self._read, self._bytes_per_s = read, bytes_per_s

    def recv(self, size: int) -> bytes:
        data = self._read.recv(size)
        time.sleep(len(data) / self._bytes_per_s)
        return data

    def shutdown(self, how: int) -> None:
        self._read.shutdown(how)
