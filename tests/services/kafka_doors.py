"""A door in front of a mock broker, which has neither passwords nor certificates: TLS, or SASL PLAIN, ends here.

Speaks so much of Kafka's protocol as comes before the first request of a client that has given its password.
"""

import contextlib
import socket
import ssl
import struct
import subprocess
import threading
from pathlib import Path

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
UNSUPPORTED_VERSION, AUTHENTICATION_FAILED = 35, 58


class KafkaDoor:
    """Listens on a free port of 127.0.0.1, and passes on to the broker what it lets in."""

    def __init__(self, broker: str, *, tls: ssl.SSLContext | None = None, user: str = "", password: str = "") -> None:
        host, _, port = broker.rpartition(":")
        self._to, self._tls = (host, int(port)), tls
        self._wanted = f"\0{user}\0{password}".encode() if user else b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._let_in, args=(client,), daemon=True).start()

    def _let_in(self, client: socket.socket) -> None:
        broker = socket.create_connection(self._to)
        self._open += [client, broker]
        try:
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
                self._open.append(client)
            while self._wanted and not self._is_known(client, broker):
                pass
            threading.Thread(target=_pass, args=(broker, client), daemon=True).start()
            _pass(client, broker)
        except OSError:
            client.close()
            broker.close()

    def _is_known(self, client: socket.socket, broker: socket.socket) -> bool:
        """Answers one request. Whether the client has given its password now."""
        request = _frame(client)
        kind, version, number = struct.unpack_from(">hhi", request)
        name_size = struct.unpack_from(">h", request, 8)[0]
        body = request[10 + max(0, name_size) :]
        answer = struct.pack(">i", number)
        if kind == API_VERSIONS and version:
            answer += struct.pack(">hi", UNSUPPORTED_VERSION, 0)
        elif kind == API_VERSIONS:
            broker.sendall(struct.pack(">i", len(request)) + request)
            known = _frame(broker)
            count = struct.unpack_from(">i", known, 6)[0]
            answer = known[:6] + struct.pack(">i", count + 2) + known[10:]
            answer += struct.pack(">hhhhhh", SASL_HANDSHAKE, 0, 1, SASL_AUTHENTICATE, 0, 0)
        elif kind == SASL_HANDSHAKE:
            answer += struct.pack(">hih5s", 0, 1, 5, b"PLAIN")
        else:
            assert kind == SASL_AUTHENTICATE, f"request {kind} before a password"
            is_right = body[4:] == self._wanted
            why = b"" if is_right else b"no such user"
            answer += struct.pack(">hh", 0 if is_right else AUTHENTICATION_FAILED, len(why)) + why
            answer += struct.pack(">i", 0)
            client.sendall(struct.pack(">i", len(answer)) + answer)
            return is_right
        client.sendall(struct.pack(">i", len(answer)) + answer)
        return False


def _frame(connection: socket.socket) -> bytes:
    size = struct.unpack(">i", _exactly(connection, 4))[0]
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionError("the connection is closed")
        found += more
    return found


def _pass(here: socket.socket, there: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := here.recv(65_536):
            there.sendall(data)
    for one in (here, there):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that has signed itself, and the context of a server with it."""
    key, made = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return made, context
