"""A schema registry for tests: a real HTTP server with the part of the REST protocol that clients use.

    with RegistryServer() as server:
        schema_id = server.add("logins-value", "AVRO", text)

It can ask for a password, fail, be slow, and be away: then nothing listens on its port, until it is back with all that
it had.
"""

import base64
import json
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import unquote, urlsplit

import fastavro

FIRST_ID = 7  # of its schemas
LAST_ID = (1 << 31) - 1  # beyond it, Confluent's registry answers as for a path that it does not have


class RegistryServer:
    """`asked` has the requests, as METHOD PATH. `answer`: (status, body) in place of each answer."""

    def __init__(self, user: str = "", password: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.user, self.password, self._tls = user, password, tls
        self.asked: list[str] = []
        self.answer: tuple[int, bytes] | None = None
        self.slow_s = 0.0
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        self._port = 0
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> "RegistryServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._port}"

    def start(self) -> None:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry._handle(self, None)

            def do_POST(self) -> None:
                registry._handle(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @contextmanager
    def away(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start()

    def add(self, subject: str, kind: str, text: str, references: list[dict[str, Any]] | None = None) -> int:
        """Registers a schema; returns its id."""
        return self._registered(subject, {"schema": text, "schemaType": kind, "references": references or []})

    def schemas(self, subject: str) -> list[dict[str, Any]]:
        """All versions of a subject."""
        return [self._schemas[each] for each in self._subjects.get(subject, [])]

    def fetches(self, schema_id: int) -> int:
        """How often a schema was asked for."""
        return sum(each.partition("?")[0] == f"GET /schemas/ids/{schema_id}" for each in self.asked)

    # -- the protocol

    def _handle(self, request: BaseHTTPRequestHandler, body: Any) -> None:
        self.asked.append(f"{request.command} {request.path}")
        time.sleep(self.slow_s)
        status, answer = self._answered(request, body) if self.answer is None else self.answer
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def _answered(self, request: BaseHTTPRequestHandler, body: Any) -> tuple[int, Any]:
        wanted = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        if self.user and request.headers.get("Authorization") != f"Basic {wanted}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = [unquote(part) for part in urlsplit(request.path).path.split("/")[1:]]
        match request.command, parts:
            case "GET", ["schemas", "ids", number] if int(number) <= LAST_ID:
                if int(number) not in self._schemas:
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                return 200, self._schemas[int(number)]
            case "GET", ["subjects", subject, "versions", version]:
                versions = self._subjects.get(subject, [])
                if not 1 <= int(version) <= len(versions):
                    return 404, {"error_code": 40402, "message": f"Version {version} not found."}
                found = versions[int(version) - 1]
                return 200, {"subject": subject, "version": int(version), "id": found, **self._schemas[found]}
            case "POST", ["subjects", subject, "versions"]:
                return 200, {"id": self._registered(subject, body)}
            case "POST", ["subjects", subject]:
                if subject not in self._subjects:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                for number_of, found in enumerate(self._subjects[subject], 1):
                    if self._schemas[found]["schema"] == body["schema"]:
                        return 200, {"subject": subject, "version": number_of, "id": found, **self._schemas[found]}
                return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _registered(self, subject: str, body: dict[str, Any]) -> int:
        kept: dict[str, Any] = {name: body[name] for name in ("schema", "schemaType", "references") if name in body}
        if kept.get("schemaType") == "AVRO":
            del kept["schemaType"]  # as registries leave it out
        found = next((each for each, schema in self._schemas.items() if schema == kept), None)
        if found is None:
            found = FIRST_ID + len(self._schemas)
            self._schemas[found] = kept
        versions = self._subjects.setdefault(subject, [])
        if found not in versions:
            versions.append(found)
        return found


def framed(schema_id: int, payload: bytes) -> bytes:
    """A message as Confluent's serializers write it."""
    return struct.pack(">bI", 0, schema_id) + payload


def avro_bytes(schema_id: int, text: str, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(text)), value)
    return framed(schema_id, stream.getvalue())


def avro_value(text: str, message: bytes) -> Any:
    return fastavro.schemaless_reader(BytesIO(message[5:]), fastavro.parse_schema(json.loads(text)), None)


def record_schema(name: str, **fields: Any) -> str:
    """An Avro schema. A field is a type, or a type and a default."""
    made = [
        {"name": field, "type": kind[0], "default": kind[1]}
        if isinstance(kind, tuple)
        else {"name": field, "type": kind}
        for field, kind in fields.items()
    ]
    return json.dumps({"type": "record", "name": name, "fields": made})
