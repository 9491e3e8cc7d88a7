"""A TCP proxy that reads PostgreSQL's messages along, and does to the line what networks do to it: cut, reset or delay
it, swallow what is sent. What happens when is scripted as a function of what passes.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

import psycopg
from postgres_kit import through

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a closed socket answers by RST, and forgets what it held


class Do(Enum):
    """What becomes of the line at a message."""

    PASS = "it goes on"
    CUT_BEFORE = "the message is lost, and the line with it"
    CUT_AFTER = "the message arrives, and then the line is cut"


@dataclass(frozen=True)
class Passing:
    """One message. `number`: of all messages of all connections, from 1; `text`: the statement of a Query, of a Parse
    or of the Bind that runs it, or what a CommandComplete says."""

    number: int
    to_server: bool
    kind: str
    text: str


class PostgresProxy:
    """Listens on a free port of 127.0.0.1. `script` decides on each message; `delay_s` is slept before each; while
    `swallows` is true nothing passes, and no line is closed; while `refuses`, no connection is taken."""

    def __init__(self, host: str, port: int) -> None:
        self.script: Callable[[Passing], Do] = lambda _: Do.PASS
        self.delay_s = 0.0
        self.swallows = False
        self.refuses = False
        self.cuts = 0
        self.messages = 0  # that have passed, or were cut
        self.read = 0  # those that it swallows, too
        self.connections = 0
        self.dsn = ""
        self._to = (host, port)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._closing = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    @classmethod
    @contextmanager
    def to(cls, dsn: str) -> Iterator["PostgresProxy"]:
        parameters = psycopg.conninfo.conninfo_to_dict(dsn)
        proxy = cls(str(parameters.get("host", "127.0.0.1")), int(parameters.get("port", 5432)))
        proxy.dsn = through(dsn, "127.0.0.1", proxy.port)
        try:
            yield proxy
        finally:
            proxy.close()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        self._closing.set()
        self._listener.close()
        self.reset()

    def reset(self) -> None:
        """Cuts all lines, by RST."""
        with self._lock:
            lines, self._open = self._open, set()
        for line in lines:
            _reset(line)

    def cut_once(self, when: Callable[[Passing], bool], how: Do) -> None:
        """The line is cut at the first message for which `when` holds, and no more after that."""

        def script(passing: Passing) -> Do:
            if not when(passing):
                return Do.PASS
            self.script = lambda _: Do.PASS
            return how

        self.script = script

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
                server = socket.create_connection(self._to, timeout=5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            with self._lock:
                self._open |= {client, server}
            line = _Line(self, client, server)
            for to_server in (True, False):
                threading.Thread(target=line.pump, args=(to_server,), daemon=True).start()

    def _passes(self, to_server: bool, kind: str, text: str) -> Do:
        with self._lock:
            self.messages += 1
            return self.script(Passing(self.messages, to_server, kind, text))


class _Line:
    """One connection, and what each end has said so far."""

    def __init__(self, proxy: PostgresProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        self._statements: dict[bytes, str] = {}  # name of a prepared statement → its text

    def pump(self, to_server: bool) -> None:
        source, target = (self._client, self._server) if to_server else (self._server, self._client)
        try:
            if to_server:
                start = _exactly(source, 4)
                target.sendall(start + _exactly(source, struct.unpack("!i", start)[0] - 4))
            while True:
                head = _exactly(source, 5)
                body = _exactly(source, struct.unpack("!i", head[1:])[0] - 4)
                self._proxy.read += 1
                while self._proxy.swallows:
                    time.sleep(0.01)
                if self._proxy.delay_s:
                    time.sleep(self._proxy.delay_s)
                kind = head[:1].decode()
                do = self._proxy._passes(to_server, kind, self._text(to_server, kind, body))
                if do is not Do.CUT_BEFORE:
                    target.sendall(head + body)
                if do is not Do.PASS:
                    self._proxy.cuts += 1
                    if do is Do.CUT_AFTER:
                        self._let_arrive(to_server)
                    return
        except (OSError, EOFError):
            return
        finally:
            _reset(self._client)
            _reset(self._server)

    def _let_arrive(self, to_server: bool) -> None:
        """A reset would overtake what was sent last: the other end is told of the end in order, and has time for it."""
        target = self._server if to_server else self._client
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
            time.sleep(0.05)

    def _text(self, to_server: bool, kind: str, body: bytes) -> str:
        if to_server and kind == "P":
            name, text, _ = body.split(b"\0", 2)
            self._statements[name] = text.decode()
            return self._statements[name]
        if to_server and kind == "B":
            _, name, _ = body.split(b"\0", 2)
            return self._statements.get(name, "")
        said = kind == ("Q" if to_server else "C")
        return body.rstrip(b"\0").decode("utf-8", "replace") if said else ""


def _exactly(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = line.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _reset(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()
