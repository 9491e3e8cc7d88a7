"""A TCP proxy that knows no protocol: it passes bytes on, or refuses connections, or swallows all that is sent."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a closed socket answers by RST, and forgets what it held


class TcpProxy:
    """Listens on a free port of 127.0.0.1. While `refuses`, no connection is taken; while `swallows`, nothing passes
    and no connection is closed."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.refuses = self.swallows = False
        self.connections = 0
        self._to = (host, port)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._closing = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @contextmanager
    def away(self) -> Iterator[None]:
        """No connection is there, and none can be made."""
        self.refuses = True
        self.reset()
        try:
            yield
        finally:
            self.refuses = False

    def reset(self) -> None:
        """Cuts all connections, by RST."""
        with self._lock:
            connections, self._open = self._open, set()
        for one in connections:
            _reset(one)

    def close(self) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._to, 5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            self.connections += 1
            with self._lock:
                self._open |= {client, server}
            for here, there in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(here, there), daemon=True).start()

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        try:
            while data := here.recv(65536):
                while self.swallows and not self._closing.wait(0.01):
                    pass
                there.sendall(data)
        except OSError:
            pass
        for one in (here, there):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _reset(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
