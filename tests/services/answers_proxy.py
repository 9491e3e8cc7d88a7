"""A proxy that knows no protocol, and can lose what a server answers."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tcp_proxy import TcpProxy


class AnswersProxy(TcpProxy):
    """A proxy that can lose what the server answers."""

    loses = 0  # answers to lose; the connection is cut with the last one

    @contextmanager
    def answers_lost(self) -> Iterator[None]:
        self.loses = 1
        yield
        assert not self.loses, "nothing was answered"

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        watched = Watched(here, self) if here.getpeername()[1] == self._to[1] else here
        super()._pass(watched, there)  # type: ignore[arg-type]


class Watched:
    """The server's side of a proxy's connection."""

    def __init__(self, server: socket.socket, proxy: AnswersProxy) -> None:
        self._server, self._proxy = server, proxy

    def recv(self, size: int) -> bytes:
        data = self._server.recv(size)
        if data and self._proxy.loses:
            self._proxy.loses -= 1
            self._proxy.reset()
            raise ConnectionResetError
        return data

    def shutdown(self, how: int) -> None:
        self._server.shutdown(how)
